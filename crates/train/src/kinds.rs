//! Enums that a recipe writes as a table with the key `kind`, such as schedules and optimisers.
//!
//! [`kinds!`] declares the kinds with their keys and defaults once. The reader, the writer and the error
//! messages derive from that. They work on [`toml::Value`] alone, because serde's tagged enums are compiled
//! again for each deserialiser and took half of this crate's compile time.

use toml::{Table, Value};

/// A value of one key of a table with a `kind`.
pub(crate) trait Field: Sized {
    /// Reads the value; the error says what is expected instead.
    fn from_value(value: Value) -> Result<Self, String>;

    /// The value as a recipe writes it.
    fn to_value(&self) -> Value;
}

impl Field for f64 {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Float(number) => Ok(number),
            Value::Integer(number) => Ok(number as Self),
            other => Err(format!("a number is expected, not {other}")),
        }
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl Field for u64 {
    fn from_value(value: Value) -> Result<Self, String> {
        let number = value.as_integer().and_then(|number| Self::try_from(number).ok());
        number.ok_or_else(|| format!("a whole number of zero or more is expected, not {value}"))
    }

    fn to_value(&self) -> Value {
        i64::try_from(*self).unwrap_or(i64::MAX).into()
    }
}

/// Takes a key out of a table. A missing key has its default, or is an error if it has none.
pub(crate) fn take<T: Field>(table: &mut Table, key: &str, default: Option<T>) -> Result<T, String> {
    match (table.remove(key), default) {
        (Some(value), _) => T::from_value(value).map_err(|problem| format!("{key}: {problem}")),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(format!("missing key `{key}`")),
    }
}

/// Takes the key `kind` out of a table.
pub(crate) fn take_kind(table: &mut Table, kinds: &[&str]) -> Result<String, String> {
    match table.remove("kind") {
        Some(Value::String(kind)) => Ok(kind),
        Some(other) => Err(format!("kind: a text is expected, not {other}")),
        None => Err(format!("missing key `kind`, one of {}", kinds.join(", "))),
    }
}

/// Refuses keys that a kind does not have.
pub(crate) fn check_empty(table: &Table, kind: &str, keys: &[&str]) -> Result<(), String> {
    let Some(unknown) = table.keys().next() else { return Ok(()) };
    let known = match keys {
        [] => "none".into(),
        keys => keys.join(", "),
    };
    Err(format!("unknown key `{unknown}`: the keys of `{kind}` are {known}"))
}

/// Declares an enum of kinds: each variant with its name in recipes, and each field, which is a key of that
/// name, with its default if it has one.
macro_rules! kinds {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $kind:literal
            $({ $($(#[$field_meta:meta])* $field:ident: $type:ty $(= $default:expr)?,)+ })?,)+
    }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$variant_meta])* $variant $({ $($(#[$field_meta])* $field: $type,)+ })?,)+
        }

        impl $name {
            /// Names of all kinds in recipes.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];

            /// Name of the kind in recipes.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $kind,)+
                }
            }

            /// Reads a table with the key `kind`; the error names the key.
            pub(crate) fn from_table(mut table: toml::Table) -> Result<Self, String> {
                let kind = crate::kinds::take_kind(&mut table, Self::KINDS)?;
                let made = match kind.as_str() {
                    $($kind => Self::$variant $({
                        $($field: crate::kinds::take(
                            &mut table, stringify!($field), crate::kinds::kinds!(@default $($default)?))?,)+
                    })?,)+
                    other => {
                        let known = Self::KINDS.join(", ");
                        return Err(format!("unknown kind {other:?}, which is not one of {known}"));
                    }
                };
                let keys: &[&str] = match made {
                    $(Self::$variant { .. } => &[$($(stringify!($field)),+)?],)+
                };
                crate::kinds::check_empty(&table, &kind, keys)?;
                Ok(made)
            }

            /// The table that is read as this value, with every key.
            pub(crate) fn table(&self) -> toml::Table {
                let mut table = toml::Table::new();
                table.insert("kind".into(), self.kind().into());
                match self {
                    $(Self::$variant $({ $($field),+ })? => {
                        $($(table.insert(stringify!($field).into(), crate::kinds::Field::to_value($field));)+)?
                    })+
                }
                table
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.table().serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = toml::Value::deserialize(deserializer)?;
                <Self as crate::kinds::Field>::from_value(value).map_err(serde::de::Error::custom)
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
}
pub(crate) use kinds;

/// Makes an enum of [`kinds!`] a [`Field`] that is always written as a table.
macro_rules! table_field {
    ($name:ident) => {
        impl crate::kinds::Field for $name {
            fn from_value(value: toml::Value) -> Result<Self, String> {
                match value {
                    toml::Value::Table(table) => Self::from_table(table),
                    other => Err(format!("a table with the key `kind` is expected, not {other}")),
                }
            }

            fn to_value(&self) -> toml::Value {
                self.table().into()
            }
        }
    };
}
pub(crate) use table_field;
