//! A recipe of any kind, recognised by its keys, and variants of it in which some keys have other values, as
//! `tandem-lab train --set key=value` asks for.

use super::TransformerRecipe;
use crate::old_keys;
use crate::recipe::{Recipe, RecipeError, RecipeKind, in_words};
use crate::selector::SelectorRecipe;
use std::path::{Path, PathBuf};

/// A recipe of any kind: a network to train, or a list of recipes to run.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRecipe {
    /// An NNUE, trained on the CPU or with CUDA.
    Nnue(Box<Recipe>),
    /// A transformer, or a bridge between a transformer and an NNUE.
    Transformer(Box<TransformerRecipe>),
    /// A selector, which chooses the positions in which the hybrid queries the strategist.
    Selector(Box<SelectorRecipe>),
    /// Paths of other recipes, to be run one after the other. They are relative to the folder of the recipe
    /// that lists them.
    Phases(Vec<PathBuf>),
}

impl AnyRecipe {
    /// Reads a recipe. A table `selector` makes it a selector's, a list `phases` a list of recipes; of the
    /// rest, an NNUE's recipe has `features` in its table `network`, a transformer's has not.
    ///
    /// # Errors
    /// If the file cannot be read, is not TOML, or describes a run that is not possible; the message names
    /// the file and the key.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        Self::load_with(path, &[])
    }

    /// Reads a recipe with some keys set to other values, as a variant that needs no file of its own: for
    /// example `training.batch=256`. Values are written as in the recipe, except that words need no quotes;
    /// an empty value removes the key.
    ///
    /// # Errors
    /// As [`AnyRecipe::load`]; also if a setting has no `=`, goes through a value that is not a table, or
    /// removes a key that is not there.
    pub fn load_with(path: &Path, settings: &[String]) -> Result<Self, RecipeError> {
        Self::load_with_notices(path, settings, &mut Vec::new())
    }

    /// Like [`AnyRecipe::load_with`], and adds a line of text for each key of the file or of the settings
    /// that has another name now; the lab prints these lines.
    ///
    /// # Errors
    /// As [`AnyRecipe::load_with`].
    pub fn load_with_notices(
        path: &Path,
        settings: &[String],
        notices: &mut Vec<String>,
    ) -> Result<Self, RecipeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecipeError::Io { path: path.to_path_buf(), source })?;
        let parsed = Self::parse_with(&text, settings, path, notices);
        // The recipe with the settings is no file, so its line numbers would only confuse.
        let parsed = if settings.is_empty() { parsed } else { parsed.map_err(without_line_numbers) };
        parsed.map_err(|source| RecipeError::In { path: path.to_path_buf(), source: Box::new(source) })
    }

    fn parse_with(
        text: &str,
        settings: &[String],
        path: &Path,
        notices: &mut Vec<String>,
    ) -> Result<Self, RecipeError> {
        let mut table: toml::Table = toml::from_str(text)?;
        if !settings.is_empty() {
            // Otherwise a setting by the new name would stand beside the old one in the file.
            let kind = kind_of(&table);
            old_keys::rewrite(kind, &mut table, notices)?;
            for setting in settings {
                set(&mut table, setting, |key| old_keys::current_path(kind, key, notices))
                    .map_err(|problem| RecipeError::Setting { setting: setting.clone(), problem })?;
            }
        }
        // Without settings the file's own text is parsed, because then messages quote its lines.
        let text = if settings.is_empty() { text.to_owned() } else { table.to_string() };
        if table.contains_key("phases") {
            let phases: Phases = toml::from_str(&text)?;
            if phases.phases.is_empty() {
                return Err(RecipeError::Invalid { key: "phases", problem: "no recipe is named".into() });
            }
            // Paths are relative to the recipe that lists them.
            let folder = path.parent().unwrap_or(Path::new(""));
            return Ok(Self::Phases(phases.phases.iter().map(|name| folder.join(name)).collect()));
        }
        let kind = kind_of(&table);
        let network = network_of(&table).filter(|network| !network.contains_key("features"));
        if let Some(network) = network.filter(|_| kind == RecipeKind::Transformer) {
            // The old name of `init_from` is among them, because without settings it has not been replaced
            // yet.
            let known = ["preset", "architecture", "init_from", "start"];
            if !known.iter().any(|key| network.contains_key(*key)) {
                let keys: Vec<&str> = network.keys().map(String::as_str).collect();
                let found = if keys.is_empty() { "nothing".into() } else { keys.join(", ") };
                let problem = format!(
                    "an NNUE needs features, such as \"halfkp\"; a transformer a preset, such as \"byte\", an architecture, or \
                     a network to start from; this recipe has {found}"
                );
                return Err(RecipeError::Invalid { key: "network", problem });
            }
        }
        Ok(match kind {
            RecipeKind::Nnue => Self::Nnue(Box::new(Recipe::parse_with_notices(&text, notices)?)),
            RecipeKind::Transformer => {
                Self::Transformer(Box::new(TransformerRecipe::parse_with_architecture(&text, notices)?))
            }
            RecipeKind::Selector => {
                Self::Selector(Box::new(SelectorRecipe::parse_with_notices(&text, notices)?))
            }
        })
    }
}

/// The error with the offending line itself instead of its number.
fn without_line_numbers(error: RecipeError) -> RecipeError {
    let RecipeError::Toml(error) = &error else { return error };
    let text = in_words(&error.to_string());
    let line = text.lines().find_map(|line| {
        let (number, content) = line.split_once(" | ")?;
        number.trim().parse::<u32>().is_ok().then_some(content.trim())
    });
    let key = line.unwrap_or("the recipe with --set").to_owned();
    RecipeError::Key { key, problem: in_words(error.message()) }
}

fn network_of(table: &toml::Table) -> Option<&toml::Table> {
    table.get("network").and_then(toml::Value::as_table)
}

/// The kind of a recipe that is not a list of others.
fn kind_of(table: &toml::Table) -> RecipeKind {
    // A preset with features is a transformer's too, whose parser names the key that does not belong there.
    let has_transformer_keys = |network: &toml::Table| {
        !network.contains_key("features")
            || network.contains_key("preset")
            || network.contains_key("architecture")
    };
    match network_of(table) {
        _ if table.contains_key("selector") => RecipeKind::Selector,
        Some(network) if has_transformer_keys(network) => RecipeKind::Transformer,
        _ => RecipeKind::Nnue,
    }
}

/// A recipe that lists others.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Phases {
    phases: Vec<PathBuf>,
}

/// Sets a key to a value, or removes it if the value is empty; the error says why that is not possible.
fn set(
    table: &mut toml::Table,
    setting: &str,
    current_path: impl FnOnce(&str) -> String,
) -> Result<(), String> {
    let (key, value) = setting.split_once('=').ok_or("a key, = and a value are needed")?;
    let key = current_path(key.trim());
    let (path, last) = key.rsplit_once('.').map_or((None, key.as_str()), |(path, last)| (Some(path), last));
    let mut inner = table;
    for part in path.into_iter().flat_map(|path| path.split('.')) {
        let value = inner.entry(part.trim()).or_insert_with(|| toml::Table::new().into());
        inner = value.as_table_mut().ok_or_else(|| format!("{part:?} has no keys"))?;
    }
    let (last, written) = (last.trim(), value.trim());
    if written.is_empty() {
        inner.remove(last).map(drop).ok_or_else(|| format!("there is no {last:?} to remove"))
    } else {
        let read = toml::from_str::<toml::Table>(&format!("value = {written}"));
        let value = read.ok().and_then(|mut read| read.remove("value"));
        let word = (!written.contains(['{', '[', '"', '\''])).then(|| written.into());
        let value = value.or(word).ok_or("this is not a value: texts are quoted as in a recipe")?;
        inner.insert(last.into(), value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const RECIPE: &str = r#"
        name = "first"
        [data]
        train = [{ path = "games.pgn" }]
        [network]
        preset = "byte"
        [training]
        batch = 64
    "#;

    fn with(settings: &[&str]) -> Result<AnyRecipe, RecipeError> {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tandem-set-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, RECIPE).unwrap();
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let loaded = AnyRecipe::load_with(&path, &settings);
        std::fs::remove_file(path).unwrap();
        loaded
    }

    #[test]
    fn errors_of_settings_show_the_line_and_no_number() {
        let error = with(&["training.batch=many"]).unwrap_err().to_string();
        assert!(error.contains("batch = \"many\": invalid type"), "{error}");
        assert!(error.contains("expected a whole number") && !error.contains("line "), "{error}");
    }

    #[test]
    fn a_variant_differs_only_in_the_keys_that_are_set() {
        let Ok(AnyRecipe::Transformer(plain)) = with(&[]) else { panic!("a transformer's recipe") };
        let settings = [
            "name=second",
            "training.batch = 32",
            "training.swa={ from = 0.5 }",
            "targets.weights.policy=2.5",
            "network.preset=\"bt-small\"",
        ];
        let Ok(AnyRecipe::Transformer(other)) = with(&settings) else { panic!("a transformer's recipe") };
        assert_eq!((other.name.as_str(), other.training.batch), ("second", 32));
        assert_eq!((other.training.swa.unwrap().from, other.targets.weights.policy), (0.5, 2.5));
        assert_eq!(other.network.preset.as_deref(), Some("bt-small"));
        assert_eq!(other.data, plain.data);
        let Ok(AnyRecipe::Transformer(default)) = with(&["training.batch="]) else { panic!("a recipe") };
        assert_eq!(default.training.batch, 1024);
    }

    #[test]
    fn settings_name_keys_by_their_old_names_too() {
        let Ok(AnyRecipe::Transformer(recipe)) =
            with(&["rate=1e-3", "training.clip = 2.0", "network.start=x.ttn", "network.start="])
        else {
            panic!("a transformer's recipe")
        };
        assert_eq!(recipe.lr, Schedule::Constant { value: 1e-3 });
        assert_eq!((recipe.training.max_grad_norm, recipe.network.init_from), (2.0, None));
    }

    #[test]
    fn a_misspelt_key_is_reported_by_its_name() {
        let message = |settings: &[&str]| with(settings).unwrap_err().to_string();
        let nnue = ["network.preset=", "network.featuers=halfkp"];
        assert!(
            message(&nnue).contains("network: an NNUE needs features")
                && message(&nnue).ends_with("featuers")
        );
        assert!(message(&["network.preset="]).ends_with("this recipe has nothing"));
        assert!(message(&["network.features=halfkp"]).contains("unknown field"));
        assert!(
            message(&["network.preset=", "network.features=halfkp", "network.acumulator=32"])
                .contains("acumulator")
        );
    }

    /// The recipes in `recipes/`, and the variants of them that docs/training-transformers.md names.
    #[test]
    fn the_recipes_that_ship_are_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        let parameters = |name: &str, settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
            let recipe = match AnyRecipe::load_with(&folder.join(name), &settings) {
                // It starts from a network whose path is relative to the root of the repository.
                Err(error) if error.to_string().contains("network.init_from: nets/strategist.ttn") => {
                    return 0;
                }
                recipe => recipe.unwrap(),
            };
            match recipe {
                AnyRecipe::Transformer(recipe) => recipe.network.architecture().unwrap().parameters(),
                AnyRecipe::Nnue(_) | AnyRecipe::Selector(_) | AnyRecipe::Phases(_) => 0,
            }
        };
        for entry in std::fs::read_dir(&folder).unwrap() {
            let name = entry.unwrap().file_name();
            parameters(name.to_str().unwrap(), &[]);
        }
        let body = |setting: &str| format!("network.architecture.body.{setting}");
        let whole = parameters("strategist.toml", &[]);
        for attention in ["plain", "bias"] {
            let plain = body(&format!("attention={{ kind = \"{attention}\", biases = true }}"));
            assert!(parameters("strategist.toml", &[&plain]) < whole - 3_000_000);
        }
        let positions = "network.architecture.embedding={ kind = \"positions\" }";
        assert!(parameters("strategist.toml", &[positions]) < whole - 500_000);
        assert!(parameters("strategist.toml", &[&body("norm.kind=rms")]) < whole);
        let heads = "network.architecture.heads.";
        let weights = "targets.weights.";
        let bare = [
            (heads, "policy.aux_targets="),
            (heads, "search_value="),
            (heads, "moves_left="),
            (weights, "search_value="),
            (weights, "moves_left="),
        ];
        let bare = bare.map(|(table, key)| format!("{table}{key}"));
        assert!(parameters("strategist.toml", &bare.each_ref().map(String::as_str)) < whole);
        // Experts against dense layers of the same cost, and of the same number of parameters.
        let experts = parameters("byte.toml", &[]);
        let dense = |width: usize| {
            let dense =
                body(&format!("feed_forward={{ kind = \"dense\", width = {width}, biases = false }}"));
            parameters("byte.toml", &[&dense])
        };
        let policy = ["body.mask=", "heads={ policy = { kind = \"actions\" } }"];
        let policy = policy.map(|setting| format!("network.architecture.{setting}"));
        assert!(parameters("byte.toml", &policy.each_ref().map(String::as_str)) > experts);
        assert!(dense(512) < experts / 2 && dense(2048).abs_diff(experts) < experts / 500);
    }

    #[test]
    fn settings_that_are_not_possible_are_reported() {
        let message = |setting: &str| with(&[setting]).unwrap_err().to_string();
        assert!(message("batch").contains("a key, = and a value"), "{}", message("batch"));
        assert!(message("name.x=3").contains("\"name\" has no keys"), "{}", message("name.x=3"));
        assert!(
            message("training.ema_decay=").contains("no \"ema_decay\" to remove"),
            "{}",
            message("training.ema_decay=")
        );
        assert!(message("training.swa={ from").contains("quoted"), "{}", message("training.swa={ from"));
        assert!(message("training.batches=3").contains("batches"), "{}", message("training.batches=3"));
    }
}
