//! Recipe keys that have been renamed, and the one place that knows their old names.
//!
//! Before a recipe is parsed, its TOML table is rewritten: each old key is replaced by the new one, so that
//! recipes written for earlier versions, and those stored inside checkpoints, go on working and compare equal
//! to their new form. Each replacement gives one line of text, a notice, which the lab prints to stderr; this
//! library prints nothing.
//!
//! To rename a key, rename the field of the recipe and add an entry to the table of its [`RecipeKind`]:
//! `renamed` where the value stays the same, `respelled` where one value of a key has a new spelling,
//! `converted` where the value changes its form.

use crate::kinds::{Field, kinds, table_field};
use crate::recipe::{RecipeError, RecipeKind, get_mut, put, remove};
use toml::{Table, Value};

/// A function from the value of an old key to the paths of new keys and their values; none if the old value
/// was the default. The error says why the old value is not valid.
type Convert = fn(Value) -> Result<Vec<(&'static str, Value)>, String>;

/// A change of a key: of its name, of one of its values, or of both.
#[derive(Clone, Copy)]
enum Change {
    /// The name, given by the full new path; the value stays as it is.
    Name(&'static str),
    /// One value, a text, and its new spelling; the key stays as it is.
    Spelling(&'static str, &'static str),
    /// The name and the value; the text lists the new keys for the notice.
    Form(&'static str, Convert),
}

/// A key that has changed, with the way in which a table is rewritten.
#[derive(Clone, Copy)]
struct OldKey {
    /// The key's path from the root, with dots between its parts. A part that ends with `[]` is an array of
    /// tables, each of which is rewritten.
    path: &'static str,
    change: Change,
}

/// A key that was renamed or moved to another table. Both names are full paths, so that a text search finds
/// them.
const fn renamed(path: &'static str, new: &'static str) -> OldKey {
    OldKey { path, change: Change::Name(new) }
}

/// A text value of a key that keeps its name, with its old and new spelling.
const fn respelled(path: &'static str, old: &'static str, new: &'static str) -> OldKey {
    OldKey { path, change: Change::Spelling(old, new) }
}

/// A key whose value takes another form; `new` lists the full paths of the keys that replace it, for the
/// notice.
const fn converted(path: &'static str, new: &'static str, convert: Convert) -> OldKey {
    OldKey { path, change: Change::Form(new, convert) }
}

const NNUE: &[OldKey] = &[
    renamed("rate", "lr"),
    renamed("network.start", "network.init_from"),
    renamed("network.stacks.dual", "network.stacks.squared_clipped"),
    renamed("target.result_share", "target.wdl"),
    renamed("training.clip_slopes", "training.max_grad_norm"),
    renamed("training.round_weights", "training.qat"),
    converted(
        "training.average",
        "training.ema_decay` and `training.ema_every`, or `training.average_checkpoints",
        average,
    ),
    renamed("optimiser.pull", "optimiser.lookahead_alpha"),
    renamed("optimiser.every", "optimiser.lookahead_steps"),
];

const TRANSFORMER: &[OldKey] = &[
    renamed("rate", "lr"),
    renamed("data.broken", "data.on_invalid"),
    renamed("data.validation_share", "data.validation_fraction"),
    renamed("network.start", "network.init_from"),
    renamed("network.start_sha256", "network.init_sha256"),
    respelled("network.architecture.input", "lone-planes", "planes-single"),
    renamed("network.architecture.heads.policy.beside", "network.architecture.heads.policy.aux_targets"),
    renamed("targets.result_share", "targets.wdl"),
    renamed("targets.value_result_share", "targets.value_wdl"),
    renamed("training.accumulate", "training.gradient_accumulation_steps"),
    renamed("training.clip", "training.max_grad_norm"),
    renamed("training.ema", "training.ema_decay"),
    converted("training.two_of_four", "training.sparsity", sparsity),
    renamed("training.graph", "training.cuda_graph"),
];

const SELECTOR: &[OldKey] = &[
    renamed("data.validation_share", "data.validation_fraction"),
    renamed("training.rate", "lr"),
    renamed("training.lr", "lr"),
    renamed("training.clip", "training.max_grad_norm"),
    renamed("training.decay", "optimiser.weight_decay"),
    renamed("training.weight_decay", "optimiser.weight_decay"),
];

/// Keys that all kinds of recipes share.
const SHARED: &[OldKey] = &[
    renamed("data.train[].result_share", "data.train[].wdl"),
    renamed("data.validation[].result_share", "data.validation[].wdl"),
    renamed("optimizer", "optimiser"),
    respelled("optimiser.kind", "r-adam", "radam"),
    renamed("optimiser.decay", "optimiser.weight_decay"),
];

fn keys(kind: RecipeKind) -> impl Iterator<Item = &'static OldKey> {
    let own = match kind {
        RecipeKind::Nnue => NNUE,
        RecipeKind::Transformer => TRANSFORMER,
        RecipeKind::Selector => SELECTOR,
    };
    SHARED.iter().chain(own)
}

kinds! {
    /// The table `training.average` of NNUE recipes.
    #[derive(Clone, Copy)]
    pub enum Average {
        /// No average.
        None = "none",
        /// Exponential moving average.
        Moving = "moving" {
            /// Fraction of the average that stays at each update.
            share: f64 = 0.99,
            /// Steps between two updates.
            every: u64 = 10,
        },
        /// Mean of the last checkpoints.
        Last = "last" {
            /// Number of checkpoints.
            checkpoints: u64 = 3,
        },
    }
}

table_field!(Average);

fn average(old: Value) -> Result<Vec<(&'static str, Value)>, String> {
    Ok(match Average::from_value(old)? {
        Average::None => vec![],
        Average::Moving { share, every } => {
            // A share of 0 used to mean an average that is replaced at each update, but a decay of 0 now
            // disables the average. The smallest positive decay rounds to 0 in 32 bits and so computes the
            // same as before.
            let decay = if share == 0.0 { f64::MIN_POSITIVE } else { share };
            vec![("training.ema_decay", decay.into()), ("training.ema_every", every.to_value())]
        }
        Average::Last { checkpoints } => vec![("training.average_checkpoints", checkpoints.to_value())],
    })
}

/// The switch `training.two_of_four` of transformers.
fn sparsity(old: Value) -> Result<Vec<(&'static str, Value)>, String> {
    match old.as_bool() {
        Some(true) => Ok(vec![("training.sparsity", "2:4".into())]),
        Some(false) => Ok(vec![]),
        None => Err("true or false is expected".into()),
    }
}

/// Replaces old keys in a recipe's table by the new ones, and adds a notice for each of them.
///
/// # Errors
/// If a key stands in the table under both its names, or if an old value is not valid.
pub fn rewrite(kind: RecipeKind, table: &mut Table, notices: &mut Vec<String>) -> Result<(), RecipeError> {
    for key in keys(kind) {
        let mut found = false;
        match key.path.split_once("[].") {
            None => found = replace(table, key.path, key)?,
            Some((array, path)) => {
                let items = get_mut(table, array).and_then(Value::as_array_mut).into_iter().flatten();
                for item in items.filter_map(Value::as_table_mut) {
                    found |= replace(item, path, key)?;
                }
            }
        }
        let notice = || match key.change {
            Change::Name(new) => format!("`{}` is now called `{new}`", key.path),
            Change::Spelling(old, new) => format!("`{} = \"{old}\"` is now written \"{new}\"", key.path),
            Change::Form(new, _) => format!("`{}` is now written as `{new}`", key.path),
        };
        if found {
            push_new(notices, notice().replace("[]", ""));
        }
    }
    Ok(())
}

/// Adds a notice unless it is there already.
pub(crate) fn push_new(notices: &mut Vec<String>, notice: String) {
    if !notices.contains(&notice) {
        notices.push(notice);
    }
}

/// Replaces the value at a path of a table, and returns whether it was there in its old form.
fn replace(table: &mut Table, path: &str, key: &OldKey) -> Result<bool, RecipeError> {
    let Some(value) = get_mut(table, path) else { return Ok(false) };
    let new = match key.change {
        Change::Spelling(old, new) => {
            let found = value.as_str() == Some(old);
            if found {
                *value = new.into();
            }
            return Ok(found);
        }
        Change::Name(new) => vec![(new.rsplit_once("[].").map_or(new, |(_, new)| new), value.clone())],
        Change::Form(_, convert) => {
            let invalid = |problem| RecipeError::Invalid { key: key.path, problem };
            convert(value.clone()).map_err(invalid)?
        }
    };
    remove(table, path);
    for (new, value) in new {
        if put(table, new, value).is_some() {
            let problem =
                format!("it is the old form of `{new}`, which is there too: leave out one of the two");
            return Err(RecipeError::Invalid { key: key.path, problem });
        }
    }
    Ok(true)
}

/// The present name of a key that a setting such as `training.batch=256` names, with a notice if it had
/// another one. A path into the value of a renamed key is followed as well: `rate.start` is `lr.start`.
pub(crate) fn current_path(kind: RecipeKind, path: &str, notices: &mut Vec<String>) -> String {
    let mut current = path.to_owned();
    for key in keys(kind) {
        let Change::Name(new) = key.change else { continue };
        if let Some(rest) = current.strip_prefix(key.path)
            && (rest.is_empty() || rest.starts_with('.'))
        {
            push_new(notices, format!("`{}` is now called `{new}`", key.path));
            current = format!("{new}{rest}");
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;
    use crate::selector::SelectorRecipe;
    use crate::transformer::TransformerRecipe;

    /// The recipe of an NNUE with some lines of each of its tables.
    fn nnue(top: &str, [sources, network, target, training, optimiser]: [&str; 5]) -> String {
        format!(
            "name = \"x\"\n{top}\n[data]\ntrain = [{{ path = \"a.bf\"{sources} }}, {{ path = \"b.bf\" }}]\n\
             validation = [{{ path = \"c.bf\"{sources} }}]\n[network]\nfeatures = \"768\"\naccumulator = 32\n\
             {network}\n[target]\n{target}\n[training]\n{training}\n[optimiser]\n{optimiser}\n"
        )
    }

    /// Each old form, alone, with its new one, as (where, old, new).
    const CASES: [(usize, &str, &str); 15] = [
        (0, "rate = 0.01", "lr = 0.01"),
        (
            0,
            "rate = { kind = \"linear\", start = 0.01, end = 0.001 }",
            "lr = { kind = \"linear\", start = 0.01, end = 0.001 }",
        ),
        (1, ", result_share = 0.25", ", wdl = 0.25"),
        (2, "start = \"a.safetensors\"", "init_from = \"a.safetensors\""),
        (
            2,
            "stacks = { hidden = 8, second = 8, dual = true }",
            "stacks = { hidden = 8, second = 8, squared_clipped = true }",
        ),
        (
            3,
            "result_share = { kind = \"linear\", start = 0.0, end = 0.5 }",
            "wdl = { kind = \"linear\", start = 0.0, end = 0.5 }",
        ),
        (4, "clip_slopes = 2.0", "max_grad_norm = 2.0"),
        (4, "round_weights = true", "qat = true"),
        (4, "average = { kind = \"none\" }", ""),
        (4, "average = { kind = \"moving\" }", "ema_decay = 0.99"),
        (4, "average = { kind = \"moving\", share = 0.9, every = 3 }", "ema_decay = 0.9\nema_every = 3"),
        (4, "average = { kind = \"last\" }", "average_checkpoints = 3"),
        (5, "kind = \"r-adam\"\ndecay = 0.1", "kind = \"radam\"\nweight_decay = 0.1"),
        (5, "kind = \"adam\"\ndecay = 0.1", "kind = \"adam\"\nweight_decay = 0.1"),
        (
            5,
            "kind = \"ranger\"\npull = 0.25\nevery = 5",
            "kind = \"ranger\"\nlookahead_alpha = 0.25\nlookahead_steps = 5",
        ),
    ];

    /// The recipe of a transformer, and of a selector, with some lines in the place of `{HERE}`.
    const TRANSFORMER_RECIPE: &str = "name = \"x\"\n{TOP}[data]\ntrain = [{ path = \"a.bf\" }]\n{DATA}[network]\n\
         preset = \"byte\"\n{NETWORK}[targets]\n{TARGETS}[training]\n{TRAINING}[optimiser]\nkind = \"adamw\"\n{OPTIMISER}";
    const SELECTOR_RECIPE: &str = "name = \"x\"\n{TOP}[selector]\nnnue = { path = \"a.tnn\" }\n\
         transformer = { path = \"b.ttn\" }\n[data]\ntrain = [{ path = \"x.csv\" }]\n{DATA}[optimiser]\n{OPTIMISER}[training]\n{TRAINING}";

    /// Old and new form of each key of transformers, as (where, old, new).
    const TRANSFORMER_CASES: [(&str, &str, &str); 15] = [
        ("{TOP}", "rate = 0.01", "lr = 0.01"),
        ("{DATA}", "validation_share = 0.1", "validation_fraction = 0.1"),
        ("{DATA}", "broken = \"skip\"", "on_invalid = \"skip\""),
        ("{NETWORK}", "start = \"a.ttn\"", "init_from = \"a.ttn\""),
        ("{NETWORK}", "start_sha256 = \"{SHA256}\"", "init_sha256 = \"{SHA256}\""),
        ("{TARGETS}", "result_share = 0.25", "wdl = 0.25"),
        ("{TARGETS}", "value_result_share = 1.0", "value_wdl = 1.0"),
        ("{TRAINING}", "accumulate = 4", "gradient_accumulation_steps = 4"),
        ("{TRAINING}", "clip = 2.0", "max_grad_norm = 2.0"),
        ("{TRAINING}", "ema = 0.9", "ema_decay = 0.9"),
        ("{TRAINING}", "two_of_four = true", "sparsity = \"2:4\""),
        ("{TRAINING}", "two_of_four = false", ""),
        ("{TRAINING}", "graph = true", "cuda_graph = true"),
        ("{OPTIMISER}", "decay = 0.1", "weight_decay = 0.1"),
        (
            "{DATA}",
            "validation = [{ path = \"v\", result_share = 0.5 }]",
            "validation = [{ path = \"v\", wdl = 0.5 }]",
        ),
    ];

    /// Old and new form of each key of selectors, as (where, old, new).
    const SELECTOR_CASES: [(&str, &str, &str); 6] = [
        ("{DATA}", "validation_share = 0.2", "validation_fraction = 0.2"),
        ("{TRAINING}", "rate = 0.01", "{TOP}lr = 0.01"),
        ("{TRAINING}", "lr = 0.01", "{TOP}lr = 0.01"),
        ("{TRAINING}", "clip = 2.0", "max_grad_norm = 2.0"),
        ("{TRAINING}", "decay = 0.1", "{OPTIMISER}weight_decay = 0.1"),
        ("{TRAINING}", "weight_decay = 0.1", "{OPTIMISER}weight_decay = 0.1"),
    ];

    /// A recipe with some lines, each in a place, and nothing in the others. A line may begin with a place of
    /// its own.
    fn filled(recipe: &str, place: &str, lines: &str) -> String {
        let mut text = recipe.to_owned();
        for line in lines.lines() {
            let (place, line) = line
                .split_inclusive('}')
                .next()
                .filter(|own| recipe.contains(own))
                .map_or((place, line), |own| (own, &line[own.len()..]));
            text = text.replace(place, &format!("{line}\n{place}"));
        }
        if lines.contains("_sha256") {
            // A hash has no effect without a file.
            text = text.replace("{NETWORK}", "init_from = \"a.ttn\"\n");
        }
        if recipe == SELECTOR_RECIPE
            && !text.contains("validation_fraction")
            && !text.contains("validation_share")
        {
            text = text.replace("{DATA}", "validation_fraction = 0.1\n");
        }
        for empty in ["{TOP}", "{DATA}", "{NETWORK}", "{TARGETS}", "{TRAINING}", "{OPTIMISER}"] {
            text = text.replace(empty, "");
        }
        text.replace("{SHA256}", &"0".repeat(64))
    }

    #[test]
    fn old_keys_of_transformers_and_selectors_mean_the_same_as_the_new_ones() {
        for (place, old, new) in TRANSFORMER_CASES {
            let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
            let read = |line: &str, notices: &mut Vec<String>| {
                TransformerRecipe::parse_with_notices(&filled(TRANSFORMER_RECIPE, place, line), notices)
                    .unwrap_or_else(|error| panic!("{line}: {error}"))
            };
            let (left, right) = (read(old, &mut of_old), read(new, &mut of_new));
            assert_eq!((&left, left.explain()), (&right, right.explain()), "{old}");
            assert_eq!((of_old.len(), of_new.len()), (1, 0), "{old}: {of_old:?} {of_new:?}");
        }
        for (place, old, new) in SELECTOR_CASES {
            let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
            let read = |line: &str, notices: &mut Vec<String>| {
                SelectorRecipe::parse_with_notices(&filled(SELECTOR_RECIPE, place, line), notices)
                    .unwrap_or_else(|error| panic!("{line}: {error}"))
            };
            let (left, right) = (read(old, &mut of_old), read(new, &mut of_new));
            assert_eq!((&left, left.explain()), (&right, right.explain()), "{old}");
            assert_eq!((of_old.len(), of_new.len()), (1, 0), "{old}: {of_old:?} {of_new:?}");
        }
        for (key, cases) in TRANSFORMER
            .iter()
            .map(|key| (key, &TRANSFORMER_CASES[..]))
            .chain(SELECTOR.iter().map(|key| (key, &SELECTOR_CASES[..])))
        {
            let start = format!("{} =", last_part(key.path));
            let is_of_architecture = key.path.starts_with("network.architecture.");
            assert!(is_of_architecture || cases.iter().any(|(_, old, _)| old.starts_with(&start)), "{start}");
        }
    }

    #[test]
    fn old_keys_of_an_architecture_mean_the_same_as_the_new_ones() {
        let new = include_str!("../../../recipes/strategist.toml");
        let old = new.replace("\"planes-single\"", "\"lone-planes\"").replace("aux_targets =", "beside =");
        let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
        assert_eq!(
            TransformerRecipe::parse_with_notices(&old, &mut of_old).unwrap(),
            TransformerRecipe::parse_with_notices(new, &mut of_new).unwrap()
        );
        assert_eq!((of_old.len(), of_new), (2, vec![]), "{of_old:?}");
    }

    #[test]
    fn both_names_of_a_transformers_or_selectors_key_are_an_error() {
        for (place, old, new) in
            TRANSFORMER_CASES.into_iter().filter(|(_, old, new)| !new.is_empty() && !old.contains("path"))
        {
            let text = filled(TRANSFORMER_RECIPE, place, &format!("{old}\n{new}"));
            let error = TransformerRecipe::parse(&text).unwrap_err().to_string();
            assert!(error.contains("leave out one of the two"), "{old}: {error}");
        }
        for (place, old, new) in SELECTOR_CASES {
            let text = filled(SELECTOR_RECIPE, place, &format!("{old}\n{new}"));
            let error = SelectorRecipe::parse(&text).unwrap_err().to_string();
            assert!(error.contains("leave out one of the two"), "{old}: {error}");
        }
    }

    fn last_part(path: &str) -> &str {
        path.rsplit_once('.').map_or(path, |(_, last)| last)
    }

    fn with(place: usize, text: &str) -> String {
        let mut parts = ["", "", "", "", "kind = \"adam\""];
        match place {
            0 => nnue(text, parts),
            place => {
                parts[place - 1] = text;
                nnue("", parts)
            }
        }
    }

    #[test]
    fn every_old_key_means_the_same_as_the_new_one_and_gives_a_notice() {
        for (place, old, new) in CASES {
            let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
            let read = |text: &str, notices: &mut Vec<String>| {
                Recipe::parse_with_notices(&with(place, text), notices)
                    .unwrap_or_else(|error| panic!("{text}: {error}"))
            };
            let (left, right) = (read(old, &mut of_old), read(new, &mut of_new));
            assert_eq!(left, right, "{old}");
            assert_eq!(left.explain(), right.explain(), "{old}");
            assert!(of_new.is_empty(), "{new}: {of_new:?}");
            assert!((1..=2).contains(&of_old.len()), "{old}: {of_old:?}");
            assert!(of_old.iter().all(|notice| notice.contains(" is now ")), "{of_old:?}");
        }
    }

    #[test]
    fn each_key_has_one_case_at_least() {
        for key in keys(RecipeKind::Nnue) {
            let name = last_part(key.path);
            if name == "optimizer" {
                continue; // tested below
            }
            assert!(CASES.iter().any(|(_, old, _)| old.contains(name)), "{name}");
        }
    }

    #[test]
    fn the_table_of_the_optimiser_is_read_in_american_spelling() {
        let text = with(5, "kind = \"ranger\"");
        let american = text.replace("[optimiser]", "[optimizer]");
        assert_eq!(Recipe::parse(&american).unwrap(), Recipe::parse(&text).unwrap());
    }

    #[test]
    fn new_names_are_not_old_ones() {
        for kind in [RecipeKind::Nnue, RecipeKind::Transformer, RecipeKind::Selector] {
            for key in keys(kind) {
                let Change::Name(new) = key.change else { continue };
                assert!(keys(kind).all(|other| other.path != new), "{new}");
            }
        }
    }

    #[test]
    fn the_old_and_the_new_name_together_are_an_error() {
        for (place, old, new) in CASES.into_iter().filter(|(_, _, new)| !new.is_empty()) {
            let both = if place == 1 { format!("{old}{new}") } else { format!("{old}\n{new}") };
            let error = Recipe::parse(&with(place, &both)).unwrap_err().to_string();
            // The kind of an optimiser is one key, which TOML itself refuses twice.
            assert!(
                error.contains("leave out one of the two") || error.contains("duplicate key"),
                "{both}: {error}"
            );
        }
        let error = Recipe::parse(&with(4, "clip_slopes = 1.0\nmax_grad_norm = 1.0")).unwrap_err();
        assert!(error.to_string().starts_with("training.clip_slopes: "), "{error}");
    }

    #[test]
    fn an_average_that_keeps_nothing_of_itself_computes_the_same() {
        let recipe =
            Recipe::parse(&with(4, "average = { kind = \"moving\", share = 0.0, every = 2 }")).unwrap();
        assert!(recipe.training.ema_decay > 0.0);
        assert_eq!((recipe.training.ema_decay as f32, recipe.training.ema_every), (0.0, 2));
    }

    #[test]
    fn invalid_old_values_are_reported_under_their_key() {
        for (old, found) in [
            ("average = { kind = \"mean\" }", "training.average: unknown kind"),
            ("average = { kind = \"last\", every = 3 }", "training.average: unknown key"),
            ("average = { kind = \"moving\", share = 1.5 }", "training.ema_decay: "),
            ("average = { kind = \"last\", checkpoints = 9 }", "training.average_checkpoints: "),
            ("clip_slopes = -1.0", "training.max_grad_norm: "),
        ] {
            let error = Recipe::parse(&with(4, old)).unwrap_err().to_string();
            assert!(error.starts_with(found), "{old}: {error}");
        }
    }

    #[test]
    fn settings_name_keys_by_either_name() {
        let mut notices = Vec::new();
        let mut path = |path: &str| current_path(RecipeKind::Nnue, path, &mut notices);
        assert_eq!(path("rate"), "lr");
        assert_eq!(path("rate.start"), "lr.start");
        assert_eq!(path("training.clip_slopes"), "training.max_grad_norm");
        assert_eq!(
            (path("rates"), path("lr"), path("training.batch")),
            ("rates".into(), "lr".into(), "training.batch".into())
        );
        assert_eq!(
            notices,
            ["`rate` is now called `lr`", "`training.clip_slopes` is now called `training.max_grad_norm`"]
        );
    }
}
