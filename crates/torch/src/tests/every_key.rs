//! A test of every key of a transformer's recipe: each changes something, or is refused with a reason. The
//! keys are those that a full recipe writes out, so that a new key without a row here fails.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use tandem_hybrid::{BridgeForm, Fingerprint};
use tandem_train::BaseNetwork;
use toml::{Table, Value};

type Settings = &'static [(&'static str, &'static str)];

const TEXTUAL: (&str, &str) = ("network.architecture", "\"{FOLDER}/text.toml\"");
const ACTIONS: (&str, &str) = ("network.architecture", "\"{FOLDER}/moves.toml\"");
const SQUARED: (&str, &str) = ("network.architecture", "\"{FOLDER}/squares.toml\"");
const INITIAL: (&str, &str) = ("network", "{ init_from = \"{FOLDER}/start.ttn\" }");
const BRIDGE: (&str, &str) = ("bridge", "{ nnue = { path = \"{FOLDER}/start.tnn\" } }");
const ZEROS: &str = "\"0000000000000000000000000000000000000000000000000000000000000000\"";

/// Every key of a transformer's recipe that is not refused: the key, settings of the recipe that it is
/// compared with, and another value.
const ROWS: &[(&str, Settings, &str)] = &[
    ("name", &[], "\"y\""),
    ("seed", &[], "2"),
    ("lr", &[], "0.002"),
    ("optimiser", &[], "{ kind = \"nadam\" }"),
    ("logging.every", &[], "1"),
    ("data.train[].path", &[], "\"{FOLDER}/zero.csv\""),
    ("data.train[].weight", &[], "3.0"),
    ("data.train[].filter", &[], "\"min-ply=20\""),
    ("data.train[].columns", &[SQUARED], "\"unit=pawns\""),
    ("data.train[].bag", &[], "\"state-value\""),
    ("data.train[].wdl", &[], "0.25"),
    ("data.validation[].path", &[], "\"{FOLDER}/zero.csv\""),
    ("data.validation[].weight", &[], "0.0"),
    ("data.validation[].filter", &[], "\"min-ply=20\""),
    ("data.validation[].columns", &[SQUARED], "\"unit=pawns\""),
    ("data.validation[].bag", &[], "\"state-value\""),
    ("data.validation[].wdl", &[], "0.25"),
    ("data.validation_fraction", &[("data.validation", "[]"), ("data.validation_fraction", "0.2")], "0.4"),
    ("data.shuffle_buffer", &[], "50"),
    ("data.flip", &[], "true"),
    (
        "data.any_scores",
        &[("data.any_scores", "true"), ("data.train", "[{ path = \"{FOLDER}/zero.csv\" }]")],
        "false",
    ),
    (
        "data.on_invalid",
        &[("data.on_invalid", "\"skip\""), ("data.train[].path", "\"{FOLDER}/broken.csv\"")],
        "\"stop\"",
    ),
    ("network.init_from", &[], "\"none.ttn\""),
    ("network.init_sha256", &[INITIAL], ZEROS),
    ("network.preset", &[], "\"byte\""),
    ("network.architecture", &[], "\"{FOLDER}/wide.toml\""),
    ("targets.wdl", &[SQUARED], "0.5"),
    ("targets.value_wdl", &[], "0.5"),
    ("targets.scale", &[SQUARED], "400.0"),
    ("targets.label_smoothing", &[], "0.1"),
    ("targets.buckets", &[], "{ kind = \"cross-entropy\" }"),
    ("targets.weights.action_value", &[ACTIONS], "0.5"),
    ("targets.weights.state_value", &[TEXTUAL], "0.5"),
    ("targets.weights.policy", &[], "0.5"),
    ("targets.weights.soft_policy", &[], "0.5"),
    ("targets.weights.optimistic_policy", &[], "0.5"),
    ("targets.weights.opponent_policy", &[], "0.5"),
    ("targets.weights.value", &[], "0.5"),
    ("targets.weights.search_value", &[], "0.5"),
    ("targets.weights.short_term", &[], "0.5"),
    ("targets.weights.error", &[], "0.5"),
    ("targets.weights.value_buckets", &[], "0.5"),
    ("targets.weights.move_value", &[SQUARED], "0.5"),
    ("targets.weights.load_balance", &[SQUARED], "0.5"),
    ("targets.weights.router_z", &[SQUARED], "0.5"),
    ("training.batch", &[], "16"),
    ("training.gradient_accumulation_steps", &[], "2"),
    ("training.positions", &[], "512"),
    ("training.validate_every", &[], "128"),
    ("training.validation_positions", &[], "30"),
    ("training.patience", &[("lr", "0.5")], "1"),
    ("training.keep", &[], "1"),
    ("training.max_grad_norm", &[], "1e-3"),
    ("training.ema_decay", &[], "0.05"),
    ("training.swa.from", &[("training.swa", "{ from = 0.5, every = 1 }")], "0.75"),
    ("training.swa.every", &[("training.swa", "{ from = 0.5, every = 1 }")], "2"),
    ("training.freeze", &[], "[\"policy*\"]"),
    ("training.sparsity", &[], "\"2:4\""),
    ("training.precision", &[], "\"bf16\""),
    ("training.cuda_graph", &[], "true"),
    ("bridge.nnue.path", &[INITIAL, BRIDGE], "\"none.tnn\""),
    ("bridge.nnue.sha256", &[INITIAL, BRIDGE], ZEROS),
    ("bridge.form", &[INITIAL, BRIDGE], "\"plain\""),
    ("bridge.dropout", &[INITIAL, BRIDGE], "0.5"),
];

/// Keys without a row, each with the reason.
const EXCEPTIONS: &[(&str, &str)] =
    &[("targets.weights.moves_left", "CSV files have no lengths of games, so that the head has no target")];

/// Paths of all keys of a table. A value with a `kind` is one key, and tables of an array have their keys in common.
fn leaves(table: &Table, prefix: &str, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            Value::Table(inner) if !inner.contains_key("kind") => leaves(inner, &format!("{path}."), found),
            Value::Array(items) if items.first().is_some_and(Value::is_table) => {
                let tables = items.iter().filter_map(Value::as_table);
                tables.for_each(|table| leaves(table, &format!("{path}[]."), found));
            }
            _ => drop(found.insert(path)),
        }
    }
}

/// All keys of a recipe in which every optional key has a value. The literals have no `..`, so that a new key
/// is a compile error here.
fn keys() -> BTreeSet<String> {
    let source = "[{ path = \"x.csv\", filter = \"max-score=9\", columns = \"unit=pawns\", wdl = 0.5 }, \
                  { path = \"x.bag\", bag = \"state-value\" }]";
    let text = format!(
        "name = \"x\"\n[data]\ntrain = {source}\nvalidation = {source}\n[network]\npreset = \"byte\"\n[training]\n\
         swa = {{}}\nsparsity = \"2:4\"\n"
    );
    let mut recipe = TransformerRecipe::parse(&text).unwrap();
    recipe.network = TransformerNetwork {
        init_from: Some("x".into()),
        init_sha256: Some("x".into()),
        preset: Some("x".into()),
        architecture: Some(Description::File("x".into())),
    };
    let nnue = BaseNetwork { path: "x".into(), sha256: Some("x".into()) };
    recipe.bridge = Some(BridgeRecipe { nnue, form: BridgeForm::Gated, dropout: 0.1 });
    let mut found = BTreeSet::new();
    leaves(&toml::from_str(&recipe.explain()).unwrap(), "", &mut found);
    found
}

fn prepare(folder: &Folder) {
    let wide = BOARD.replace(
        "feed_forward = { kind = \"dense\", width = 24",
        "feed_forward = { kind = \"dense\", width = 32",
    );
    for (name, text) in
        [("board", BOARD), ("text", TEXT), ("moves", MOVES), ("squares", SQUARES), ("wide", &wide)]
    {
        std::fs::write(folder.0.join(format!("{name}.toml")), text).unwrap();
    }
    let weights = Weights::random(tandem_transformer::Architecture::from_toml(BOARD).unwrap(), 4);
    std::fs::write(folder.0.join("start.ttn"), weights.to_bytes(tandem_transformer::Storage::F32, ""))
        .unwrap();
    let nnue = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets/tandem.tnn");
    std::fs::copy(nnue, folder.0.join("start.tnn")).unwrap();
    let games = std::fs::read_to_string(folder.0.join("games.csv")).unwrap();
    let header = games.lines().next().unwrap().to_owned();
    let score = header.split(',').position(|column| column == "score").unwrap();
    let without_scores = games.lines().skip(1).map(|line| {
        let mut fields: Vec<&str> = line.split(',').collect();
        fields[score] = "0";
        fields.join(",") + "\n"
    });
    let zero: String = without_scores.collect();
    std::fs::write(folder.0.join("zero.csv"), format!("{header}\n{zero}")).unwrap();
    let broken = games.replacen("\n", "\nnot a position,,,\n", 1);
    std::fs::write(folder.0.join("broken.csv"), broken).unwrap();
}

fn set(folder: &Folder, table: &mut Table, key: &str, value: &str) {
    let text = format!("value = {}", value.replace("{FOLDER}", folder.0.to_str().unwrap()));
    let value = toml::from_str::<Table>(&text).unwrap().remove("value").unwrap();
    let mut inner = table;
    let parts: Vec<&str> = key.split('.').collect();
    for part in &parts[..parts.len() - 1] {
        inner = match part.strip_suffix("[]") {
            Some(array) => inner[array].as_array_mut().unwrap()[0].as_table_mut().unwrap(),
            None => inner.entry(*part).or_insert_with(|| Table::new().into()).as_table_mut().unwrap(),
        };
    }
    inner.insert(parts[parts.len() - 1].into(), value);
}

/// A run of eight steps with a validation every second step.
fn base(folder: &Folder, settings: Settings) -> Table {
    let path = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let sources = format!("[{{ path = {:?} }}, {{ path = {:?} }}]", path("games.csv"), path("more.csv"));
    let text = format!(
        "name = \"x\"\nlr = 0.01\n[data]\nshuffle_buffer = 200\ntrain = {sources}\nvalidation = {sources}\n[network]\n\
         architecture = {:?}\n[training]\nbatch = 32\npositions = 256\nvalidate_every = 64\nvalidation_positions = 60\n",
        path("board.toml")
    );
    let mut table: Table = toml::from_str(&text).unwrap();
    settings.iter().for_each(|(key, value)| set(folder, &mut table, key, value));
    table
}

/// Everything that a run shows to the outside: its events, its files, its network, and the name of them all.
fn effect(folder: &Folder, table: &Table) -> Result<String, String> {
    let recipe = TransformerRecipe::parse(&table.to_string()).map_err(|error| error.to_string())?;
    let run = folder.0.join("run");
    let _ = std::fs::remove_dir_all(&run);
    let stop = AtomicBool::new(false);
    let options = RunOptions { folder: &run, resume: false, threads: 1, stop: &stop };
    let mut events = String::new();
    let outcome = run_transformer(&recipe, ProcessRank::SINGLE, &options, &single_process, &mut |event| {
        // Speeds differ from run to run.
        events += format!("{event:?}\n").split(", positions_per_second").next().unwrap_or_default();
    });
    let outcome = outcome.map_err(|error| error.to_string())?;
    let entries = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<_> = entries.filter(|name| !name.to_string_lossy().contains("tfevents")).collect();
    let weights = Fingerprint::of(&outcome.network.weights.to_bytes(tandem_transformer::Storage::F32, ""));
    let bridge = outcome.network.hybrid.map(|hybrid| Fingerprint::of(format!("{hybrid:?}").as_bytes()));
    Ok(format!("{}{events}{files:?}{weights}{bridge:?}{:?}", recipe.name, outcome.best))
}

#[test]
fn every_key_of_a_transformers_recipe_changes_something_or_is_refused() {
    let keys = keys();
    for key in &keys {
        let count = ROWS.iter().filter(|(row, ..)| row == key).count();
        let is_exception = EXCEPTIONS.iter().any(|(exception, _)| exception == key);
        assert_eq!(count, usize::from(!is_exception), "{key} needs one row, or a reason to have none");
    }
    assert!(ROWS.iter().all(|(key, ..)| keys.contains(*key)), "a row is about a key that does not exist");
    let _generator = lock_generator();
    // A network of this size is faster on one thread.
    tch::set_num_threads(1);
    let folder = Folder::new("every-key", 6);
    std::fs::copy(Folder::new("every-key-more", 9).0.join("games.csv"), folder.0.join("more.csv")).unwrap();
    prepare(&folder);
    let mut known = BTreeMap::new();
    let mut failures = Vec::new();
    for (key, settings, value) in ROWS {
        let base = base(&folder, settings);
        let mut changed = base.clone();
        set(&folder, &mut changed, key, value);
        let before = known.entry(base.to_string()).or_insert_with(|| effect(&folder, &base));
        let after = effect(&folder, &changed);
        let last = key.rsplit('.').next().unwrap();
        let expected = ["none.", "0000", "all scores are zero", "another unit", "broken.csv", last];
        match (&*before, &after) {
            (Err(error), _) => failures.push(format!("{key} with {settings:?}: {error}")),
            (_, Err(error)) if !expected.iter().any(|part| error.contains(part)) => {
                failures.push(format!("{key} = {value}: {error}"));
            }
            _ if *before == after => failures.push(format!("{key} = {value} changes nothing")),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let plain = base(&folder, &[]);
    assert_eq!(effect(&folder, &plain), effect(&folder, &plain), "the same recipe has the same effect");
}
