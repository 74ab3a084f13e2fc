//! What a recipe is for.

use super::TransformerRecipe;
use crate::recipe::{Recipe, RecipeError};
use crate::selector::SelectorRecipe;
use std::path::{Path, PathBuf};

/// A recipe of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRecipe {
    /// For an NNUE.
    Nnue(Box<Recipe>),
    /// For a transformer.
    Transformer(Box<TransformerRecipe>),
    /// For a selector between the two.
    Selector(Box<SelectorRecipe>),
    /// Other recipes, one after the other.
    Phases(Vec<PathBuf>),
}

impl AnyRecipe {
    /// Reads a recipe. One with a table `selector` is a selector's, one with a list `phases` names others; of the rest an
    /// NNUE's has features for its network, a transformer's has not.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        Self::load_with(path, &[])
    }

    /// Reads a recipe of which some keys are set to other values, as a variant of it that needs no file of its own:
    /// `training.batch=256`. Values are written as in the recipe, where words need no quotes; a key without a value is
    /// taken out.
    pub fn load_with(path: &Path, settings: &[String]) -> Result<Self, RecipeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecipeError::Io { path: path.to_path_buf(), source })?;
        Self::parse_with(&text, settings, path)
            .map_err(|source| RecipeError::In { path: path.to_path_buf(), source: Box::new(source) })
    }

    fn parse_with(text: &str, settings: &[String], path: &Path) -> Result<Self, RecipeError> {
        let mut table: toml::Table = toml::from_str(text)?;
        for setting in settings {
            set(&mut table, setting)
                .map_err(|problem| RecipeError::Setting { setting: setting.clone(), problem })?;
        }
        // A message about the file itself shows its own lines.
        let text = if settings.is_empty() { text.to_owned() } else { table.to_string() };
        if table.contains_key("phases") {
            let phases: Phases = toml::from_str(&text)?;
            if phases.phases.is_empty() {
                return Err(RecipeError::Wrong { key: "phases", problem: "no recipe is named".into() });
            }
            // Beside the recipe that names them.
            let folder = path.parent().unwrap_or(Path::new(""));
            return Ok(Self::Phases(phases.phases.iter().map(|name| folder.join(name)).collect()));
        }
        if table.contains_key("selector") {
            return Ok(Self::Selector(Box::new(SelectorRecipe::parse(&text)?)));
        }
        let network = table.get("network").and_then(toml::Value::as_table);
        if let Some(network) = network.filter(|network| !network.contains_key("features")) {
            if !["preset", "architecture", "start"].iter().any(|key| network.contains_key(*key)) {
                let keys: Vec<&str> = network.keys().map(String::as_str).collect();
                let found = if keys.is_empty() { "nothing".into() } else { keys.join(", ") };
                let problem = format!(
                    "an NNUE needs features, such as \"halfkp\"; a transformer a preset, such as \"byte\", an architecture, or \
                     a start: here is {found}"
                );
                return Err(RecipeError::Wrong { key: "network", problem });
            }
            return Ok(Self::Transformer(Box::new(TransformerRecipe::parse_whole(&text)?)));
        }
        // With features for a preset too, the transformer's reader tells which key is not its own.
        match network
            .is_some_and(|network| network.contains_key("preset") || network.contains_key("architecture"))
        {
            true => Ok(Self::Transformer(Box::new(TransformerRecipe::parse_whole(&text)?))),
            false => Ok(Self::Nnue(Box::new(Recipe::parse(&text)?))),
        }
    }
}

/// A recipe that names others.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Phases {
    phases: Vec<PathBuf>,
}

/// Sets a key to a value, or takes it out; says why where that cannot be done.
fn set(table: &mut toml::Table, setting: &str) -> Result<(), String> {
    let (key, value) = setting.split_once('=').ok_or("a key, = and a value are needed")?;
    let (path, last) = key.rsplit_once('.').map_or((None, key), |(path, last)| (Some(path), last));
    let mut place = table;
    for part in path.into_iter().flat_map(|path| path.split('.')) {
        let inner = place.entry(part.trim()).or_insert_with(|| toml::Table::new().into());
        place = inner.as_table_mut().ok_or_else(|| format!("{part:?} has no keys"))?;
    }
    let (last, written) = (last.trim(), value.trim());
    if written.is_empty() {
        place.remove(last).map(drop).ok_or_else(|| format!("there is no {last:?} to take out"))
    } else {
        let read = toml::from_str::<toml::Table>(&format!("value = {written}"));
        let value = read.ok().and_then(|mut read| read.remove("value"));
        let word = (!written.contains(['{', '[', '"', '\''])).then(|| written.into());
        let value = value.or(word).ok_or("the value is none: texts are quoted as in a recipe")?;
        place.insert(last.into(), value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_variant_differs_in_what_is_set() {
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
        let Ok(AnyRecipe::Transformer(usual)) = with(&["training.batch="]) else { panic!("a recipe") };
        assert_eq!(usual.training.batch, 1024);
    }

    #[test]
    fn a_key_that_is_misspelt_is_told_by_its_name() {
        let told = |settings: &[&str]| with(settings).unwrap_err().to_string();
        let nnue = ["network.preset=", "network.featuers=halfkp"];
        assert!(told(&nnue).contains("network: an NNUE needs features") && told(&nnue).ends_with("featuers"));
        assert!(told(&["network.preset="]).ends_with("here is nothing"));
        assert!(told(&["network.features=halfkp"]).contains("unknown field"));
        assert!(
            told(&["network.preset=", "network.features=halfkp", "network.acumulator=32"])
                .contains("acumulator")
        );
    }

    /// The recipes that we keep, and the variants of them that docs/training-transformers.md names.
    #[test]
    fn our_own_recipes_can_be_followed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        let parameters = |name: &str, settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
            let recipe = match AnyRecipe::load_with(&folder.join(name), &settings) {
                // It begins with a network that is found from the root of the repository alone.
                Err(error) if error.to_string().contains("network.start: nets/strategist.ttn") => return 0,
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
        let bare = ["policy.beside=", "search_value=", "moves_left="].map(|head| format!("{heads}{head}"));
        assert!(parameters("strategist.toml", &bare.each_ref().map(String::as_str)) < whole);
        // Experts, what they cost, and what they hold.
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
    fn what_cannot_be_set_is_told() {
        let told = |setting: &str| with(&[setting]).unwrap_err().to_string();
        assert!(told("batch").contains("a key, = and a value"), "{}", told("batch"));
        assert!(told("name.x=3").contains("\"name\" has no keys"), "{}", told("name.x=3"));
        assert!(told("training.ema=").contains("no \"ema\" to take out"), "{}", told("training.ema="));
        assert!(told("training.swa={ from").contains("quoted"), "{}", told("training.swa={ from"));
        assert!(told("training.batches=3").contains("batches"), "{}", told("training.batches=3"));
    }
}
