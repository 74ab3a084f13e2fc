//! A test of every key of a selector's recipe: each changes something, or is refused with a reason.

use super::*;
use crate::base::BaseNetwork;
use crate::recipe::every_key::{Row, check_rows, keys_with, random_positions, set};
use crate::recipe::{RecipeCore, RecipeKind};
use crate::trainer::Job;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tandem_transformer::{Architecture, Storage, Weights};
use toml::Table;

/// A temporary folder with two networks and data, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("tandem-selector-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"none\" }]\n[network]\nfeatures = \"768\"\naccumulator = 32\n";
        let job = Job::of(&crate::Recipe::parse(text).unwrap()).unwrap();
        let float = job.network(&job.layout.random_parameters(5), "x");
        std::fs::write(folder.join("a.tnn"), float.quantise(job.quantisation).unwrap().0.to_bytes()).unwrap();
        let squares = include_str!("../../../transformer/tests/architectures/board.toml");
        let weights = Weights::random(Architecture::from_toml(squares).unwrap(), 4);
        std::fs::write(folder.join("b.ttn"), weights.to_bytes(Storage::F32, "")).unwrap();
        for (name, scale) in [("a", 300), ("b", 100)] {
            std::fs::write(folder.join(format!("{name}.csv")), random_positions(scale)).unwrap();
        }
        Self(folder)
    }

    fn base(&self, settings: &[(&str, &str)]) -> Table {
        let path = |name: &str| self.0.join(name).to_str().unwrap().to_owned();
        let text = format!(
            "name = \"x\"\n[selector]\nnnue = {{ path = {:?} }}\ntransformer = {{ path = {:?} }}\n[data]\ntrain = [{{ path = {:?} }}]\n\
             validation = [{{ path = {:?} }}]\n[training]\nepochs = 3\nbatch = 20\n",
            path("a.tnn"),
            path("b.ttn"),
            path("a.csv"),
            path("b.csv")
        );
        let mut table: Table = toml::from_str(&text).unwrap();
        settings.iter().for_each(|(key, value)| set(&self.0, &mut table, key, value));
        table
    }

    /// The trained selector and everything else in its hybrid file, and its metrics.
    fn effect(&self, table: &Table) -> Result<String, String> {
        let recipe = SelectorRecipe::parse(&table.to_string()).map_err(|error| error.to_string())?;
        let folder = self.0.join("run");
        let _ = std::fs::remove_dir_all(&folder);
        let stop = AtomicBool::new(false);
        let options = RunOptions { folder: &folder, resume: false, threads: 1, stop: &stop };
        let outcome = train_selector(&recipe, &options, &mut |_| {}).map_err(|error| error.to_string())?;
        let TrainedSelector { hybrid, report } = &outcome.network;
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let files: BTreeSet<_> =
            entries.filter(|name| !name.to_string_lossy().contains("tfevents")).collect();
        Ok(format!("{hybrid:?}{report:?}{files:?}{:?}{}", outcome.best, outcome.steps))
    }
}

/// Every key of a selector's recipe that is not refused: the key, settings of the recipe that it is compared
/// with, and another value. The SHA-256 and the hybrid file are checked before training.
const ROWS: &[Row] = &[
    ("name", &[], "\"y\""),
    ("seed", &[], "2"),
    ("lr", &[], "0.01"),
    ("optimiser", &[], "{ kind = \"ranger\" }"),
    ("data.train[].path", &[], "\"{FOLDER}/b.csv\""),
    // With one source a weight matters only if it is zero.
    ("data.train[].weight", &[], "0.0"),
    ("data.train[].filter", &[], "\"max-score=50\""),
    ("data.train[].columns", &[], "\"unit=pawns\""),
    ("data.train[].bag", &[], "\"state-value\""),
    ("data.train[].wdl", &[], "0.5"),
    ("data.validation[].path", &[], "\"{FOLDER}/a.csv\""),
    ("data.validation[].weight", &[], "0.0"),
    ("data.validation[].filter", &[], "\"max-score=50\""),
    ("data.validation[].columns", &[], "\"unit=pawns\""),
    ("data.validation[].bag", &[], "\"state-value\""),
    ("data.validation[].wdl", &[], "0.5"),
    ("data.validation_fraction", &[("data.validation", "[]"), ("data.validation_fraction", "0.2")], "0.5"),
    ("data.cases", &[], "50"),
    ("data.validation_cases", &[], "50"),
    ("selector.nnue.path", &[], "\"none.tnn\""),
    ("selector.nnue.sha256", &[], "\"0000000000000000000000000000000000000000000000000000000000000000\""),
    ("selector.transformer.path", &[], "\"none.ttn\""),
    (
        "selector.transformer.sha256",
        &[],
        "\"0000000000000000000000000000000000000000000000000000000000000000\"",
    ),
    ("selector.hybrid", &[], "\"none.hybrid\""),
    ("selector.margin", &[], "0.2"),
    ("selector.usage", &[], "0.5"),
    ("training.batch", &[], "10"),
    ("training.epochs", &[], "1"),
    ("training.patience", &[("lr", "10.0")], "1"),
    ("training.keep", &[], "2"),
    ("training.max_grad_norm", &[], "1e-3"),
    ("training.dropout", &[], "0.5"),
    ("training.by_gain", &[], "true"),
];

#[test]
fn every_key_of_a_selectors_recipe_changes_something_or_is_refused() {
    let base = || BaseNetwork { path: "x".into(), sha256: Some("x".into()) };
    let selector =
        NetworkPair { nnue: base(), transformer: base(), hybrid: Some("x".into()), margin: 0.05, usage: 0.1 };
    let keys = keys_with(&SelectorRecipe { core: RecipeCore::default(), selector });
    let folder = Folder::new();
    let effect = |table: &Table| folder.effect(table);
    check_rows(RecipeKind::Selector, &keys, ROWS, &folder.0, &|settings| folder.base(settings), &effect);
    let _ = std::fs::remove_dir_all(&folder.0);
}
