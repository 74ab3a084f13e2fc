//! A test of every key of an NNUE's recipe: each changes something, or is refused with a reason. The keys are
//! derived from the types, so that a new key without a row here fails. Selectors and transformers have such
//! tests with their trainers.

use super::kind::{get_mut, put};
use super::*;
use crate::cpu::CpuTrainer;
use crate::nnue::run;
use crate::run::RunOptions;
use crate::trainer::Job;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use tandem_util::random::SplitMix;
use toml::Value;

/// Paths of all keys of a table. A value with a `kind` is one key, because its own keys have tests beside
/// their declarations. Of an array of tables the first one counts, as `path[]`.
pub(crate) fn leaves(table: &Table, prefix: &str, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match value {
            Value::Table(inner) if !inner.contains_key("kind") => leaves(inner, &format!("{path}."), found),
            Value::Array(items) if items.first().is_some_and(Value::is_table) => {
                let first = items[0].as_table().cloned().unwrap_or_default();
                leaves(&first, &format!("{path}[]."), found);
            }
            _ => drop(found.insert(path)),
        }
    }
}

/// The core of a recipe with a value for every key. The literals have no `..`, so that a new key is a
/// compile error here.
pub(crate) fn full_core() -> RecipeCore {
    let source = SourceRecipe {
        path: "x".into(),
        weight: 1.0,
        filter: String::new(),
        columns: Some(String::new()),
        bag: Some(String::new()),
        wdl: Some(Schedule::Constant { value: 0.5 }),
    };
    RecipeCore {
        name: "x".into(),
        seed: 1,
        lr: default_lr(),
        data: DataRecipe {
            train: vec![source.clone()],
            validation: vec![source],
            validation_fraction: 0.0,
            shuffle_buffer: 1,
            flip: false,
            any_scores: false,
            on_invalid: OnInvalid::Stop,
            cases: 1,
            validation_cases: 1,
        },
        training: TrainingRecipe {
            batch: 1,
            gradient_accumulation_steps: 1,
            positions: 1,
            epochs: 1,
            validate_every: 1,
            validation_positions: 1,
            patience: 0,
            keep: 1,
            max_grad_norm: 0.0,
            clip_weights: true,
            qat: false,
            ema_decay: 0.0,
            ema_every: 1,
            average_checkpoints: 0,
            swa: Some(Swa { from: 0.5, every: 1 }),
            freeze: Vec::new(),
            sparsity: Some(Sparsity::TwoOfFour),
            precision: TrainingPrecision::F32,
            cuda_graph: false,
            dropout: 0.0,
            by_gain: false,
        },
        optimiser: Optimiser::default(),
        logging: LoggingRecipe { every: 1 },
    }
}

/// All keys of a kind of recipe: those of the core, and those of its own tables.
pub(crate) fn keys_with(own: &impl Serialize) -> BTreeSet<String> {
    let mut table = Table::try_from(full_core()).unwrap();
    table.extend(Table::try_from(own).unwrap());
    let mut keys = BTreeSet::new();
    leaves(&table, "", &mut keys);
    keys
}

/// A CSV file of 120 random positions with random results, and with scores below a bound.
pub(crate) fn random_positions(max_score: u32) -> String {
    let mut random = SplitMix::new(3);
    let mut text = "fen,score,result\n".to_owned();
    for _ in 0..120 {
        let mut position = tandem_chess::Position::startpos();
        for _ in 0..random.below(30) {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
        }
        let result = ["1-0", "0-1", "1/2-1/2"][random.below(3) as usize];
        text += &format!("{},{},{result}\n", position.fen(), random.below(max_score));
    }
    text
}

/// Sets a key, in the first table of an array if its path has `[]`. `{FOLDER}` stands for a folder.
pub(crate) fn set(folder: &Path, table: &mut Table, key: &str, value: &str) {
    let text = format!("value = {}", value.replace("{FOLDER}", folder.to_str().unwrap()));
    let value = toml::from_str::<Table>(&text).unwrap().remove("value").unwrap();
    match key.split_once("[].") {
        None => drop(put(table, key, value)),
        Some((array, key)) => {
            let items = get_mut(table, array).and_then(Value::as_array_mut).unwrap();
            put(items[0].as_table_mut().unwrap(), key, value);
        }
    }
}

/// A key and its value.
pub(crate) type Setting = (&'static str, &'static str);

/// A key, settings of the recipe that it is compared with, and another value.
pub(crate) type Row = (&'static str, &'static [Setting], &'static str);

/// Checks that every key has one row or is refused, and that the value of each row has another effect than
/// the recipe without it.
pub(crate) fn check_rows(
    kind: RecipeKind,
    keys: &BTreeSet<String>,
    rows: &[Row],
    folder: &Path,
    base: &dyn Fn(&[Setting]) -> Table,
    effect: &dyn Fn(&Table) -> Result<String, String>,
) {
    for key in keys {
        let is_refused = kind.refused_keys().iter().any(|(refused, _)| key.starts_with(refused));
        let count = rows.iter().filter(|(row, ..)| row == key).count();
        assert_eq!(count, usize::from(!is_refused), "{key} needs one row, or a reason to be refused");
    }
    assert!(rows.iter().all(|(key, ..)| keys.contains(*key)), "a row is about a key that does not exist");
    for (key, settings, value) in rows {
        let base = base(settings);
        let mut changed = base.clone();
        set(folder, &mut changed, key, value);
        let (before, after) = (effect(&base), effect(&changed));
        assert!(before.is_ok(), "{key}: {before:?}");
        assert!(before == effect(&base), "{key}: the same recipe has another effect the second time");
        assert!(before != after, "{key} = {value} changes nothing");
        if let Err(error) = after {
            let last = key.rsplit('.').next().unwrap();
            let expected = ["none.", "0000", "all scores are zero", "no cases", last];
            assert!(expected.iter().any(|part| error.contains(part)), "{key} = {value}: {error}");
        }
    }
}

/// A temporary folder with data, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("tandem-every-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, max_score) in [("a", 300), ("b", 100), ("zero", 1)] {
            std::fs::write(folder.join(format!("{name}.csv")), random_positions(max_score)).unwrap();
        }
        Self(folder)
    }

    /// A run of ten steps with a validation every second step.
    fn base(&self, settings: &[(&str, &str)]) -> Table {
        let path = |name: &str| self.0.join(name).to_str().unwrap().to_owned();
        let (a, b) = (path("a.csv"), path("b.csv"));
        let text = format!(
            "name = \"x\"\nlr = 0.01\n[data]\nshuffle_buffer = 60\ntrain = [{{ path = {a:?} }}, {{ path = {b:?} }}]\n\
             validation = [{{ path = {a:?} }}, {{ path = {b:?} }}]\n[network]\nfeatures = \"768\"\naccumulator = 32\n\
             [target]\nwdl = 0.5\n[training]\nbatch = 10\npositions = 100\nvalidate_every = 20\nvalidation_positions = 50\n"
        );
        let mut table: Table = toml::from_str(&text).unwrap();
        settings.iter().for_each(|(key, value)| set(&self.0, &mut table, key, value));
        table
    }

    /// Everything that a run shows to the outside: its events, its files, and its network, also quantised.
    fn effect(&self, table: &Table) -> Result<String, String> {
        let recipe = Recipe::parse(&table.to_string()).map_err(|error| error.to_string())?;
        let folder = self.0.join("run");
        let _ = std::fs::remove_dir_all(&folder);
        let stop = AtomicBool::new(false);
        let options = RunOptions { folder: &folder, resume: false, threads: 1, stop: &stop };
        let mut events = String::new();
        let trainer = |job: &Job, state| -> Result<Box<crate::NnueTrainer>, crate::TrainError> {
            Ok(Box::new(CpuTrainer::new(job.clone(), state)))
        };
        let outcome = run(&recipe, &options, &trainer, &mut |event| {
            // Speeds differ from run to run.
            events += format!("{event:?}\n").split(", positions_per_second").next().unwrap_or_default();
        });
        let outcome = outcome.map_err(|error| error.to_string())?;
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let files: BTreeSet<_> =
            entries.filter(|name| !name.to_string_lossy().contains("tfevents")).collect();
        let quantised = outcome
            .network
            .quantise(Job::of(&recipe).unwrap().quantisation)
            .map(|(network, _)| network.to_bytes());
        let bytes = (outcome.network.to_safetensors().unwrap(), quantised.map_err(|error| error.to_string()));
        Ok(format!("{events}{files:?}{:?}", tandem_hybrid::Fingerprint::of(format!("{bytes:?}").as_bytes())))
    }
}

const BUCKETS: (&str, &str) = ("network.features", "\"768-kings-mirrored-01234455666666666666666666666666\"");
const STACKS: (&str, &str) = ("network.stacks", "{ hidden = 8, second = 8 }");

/// Every key of an NNUE's recipe that is not refused: the key, settings of the recipe that it is compared
/// with, and another value.
const ROWS: &[Row] = &[
    ("name", &[], "\"y\""),
    ("seed", &[], "2"),
    ("lr", &[], "0.001"),
    ("optimiser", &[], "{ kind = \"sgd\" }"),
    ("data.train[].path", &[], "\"{FOLDER}/zero.csv\""),
    ("data.train[].weight", &[], "3.0"),
    ("data.train[].filter", &[], "\"max-score=50\""),
    ("data.train[].columns", &[], "\"unit=pawns\""),
    ("data.train[].bag", &[], "\"state-value\""),
    ("data.train[].wdl", &[], "0.0"),
    ("data.validation[].path", &[], "\"{FOLDER}/zero.csv\""),
    ("data.validation[].weight", &[], "0.0"),
    ("data.validation[].filter", &[], "\"max-score=50\""),
    ("data.validation[].columns", &[], "\"unit=pawns\""),
    ("data.validation[].bag", &[], "\"state-value\""),
    ("data.validation[].wdl", &[], "0.0"),
    ("data.shuffle_buffer", &[], "10"),
    (
        "data.any_scores",
        // Scores are checked in a hundred records or more.
        &[
            ("data.any_scores", "true"),
            ("data.shuffle_buffer", "200"),
            ("data.train", "[{ path = \"{FOLDER}/zero.csv\" }]"),
        ],
        "false",
    ),
    ("network.init_from", &[], "\"{FOLDER}/none.safetensors\""),
    ("network.features", &[], BUCKETS.1),
    ("network.accumulator", &[], "64"),
    ("network.tied", &[], "false"),
    ("network.activation", &[], "\"crelu\""),
    ("network.buckets", &[], "2"),
    ("network.stacks.hidden", &[STACKS], "16"),
    ("network.stacks.second", &[STACKS], "16"),
    ("network.stacks.pairwise", &[STACKS], "true"),
    ("network.stacks.squared_clipped", &[STACKS], "true"),
    ("network.stacks.skip", &[STACKS], "true"),
    ("network.psqt", &[STACKS], "true"),
    ("network.factoriser", &[BUCKETS], "true"),
    ("network.scale", &[], "300"),
    ("network.qa", &[], "127"),
    ("network.qb", &[], "128"),
    ("target.loss", &[], "{ kind = \"cross-entropy\" }"),
    ("target.scale", &[], "300.0"),
    ("target.wdl", &[], "0.25"),
    ("training.batch", &[], "20"),
    ("training.positions", &[], "200"),
    ("training.validate_every", &[], "50"),
    ("training.validation_positions", &[], "20"),
    ("training.patience", &[("lr", "10.0")], "1"),
    ("training.keep", &[], "1"),
    ("training.max_grad_norm", &[], "1e-3"),
    ("training.clip_weights", &[("lr", "10.0")], "false"),
    ("training.qat", &[], "true"),
    ("training.ema_decay", &[], "0.5"),
    ("training.ema_every", &[("training.ema_decay", "0.5"), ("training.ema_every", "1")], "3"),
    ("training.average_checkpoints", &[], "2"),
    ("logging.every", &[], "1"),
];

#[test]
fn every_key_of_an_nnues_recipe_changes_something_or_is_refused() {
    let network = NetworkRecipe {
        init_from: Some("x".into()),
        features: "768".into(),
        accumulator: 32,
        tied: true,
        activation: "screlu".into(),
        buckets: 1,
        stacks: Some(StackRecipe {
            hidden: 8,
            second: 8,
            pairwise: false,
            squared_clipped: false,
            skip: false,
        }),
        psqt: false,
        factoriser: false,
        scale: 400,
        qa: 255,
        qb: 64,
    };
    let core = RecipeCore::default();
    let keys = keys_with(&Recipe { core, network, target: TargetRecipe::default() });
    let folder = Folder::new();
    let effect = |table: &Table| folder.effect(table);
    check_rows(RecipeKind::Nnue, &keys, ROWS, &folder.0, &|settings| folder.base(settings), &effect);
    let _ = std::fs::remove_dir_all(&folder.0);
}

/// A refused key is refused whatever its value is, and the message says why.
#[test]
fn keys_of_other_kinds_are_refused_with_the_reason() {
    let network = "[network]\nfeatures = \"768\"\naccumulator = 32\n";
    let preset = "[network]\npreset = \"byte\"\n";
    let selector = "[selector]\nnnue = { path = \"a\" }\ntransformer = { path = \"b\" }\n";
    type Parse = fn(&str) -> Result<String, RecipeError>;
    let kinds: [(RecipeKind, &str, Parse); 3] = [
        (RecipeKind::Nnue, network, |text| Recipe::parse(text).map(|recipe| recipe.explain())),
        (RecipeKind::Transformer, preset, |text| {
            crate::transformer::TransformerRecipe::parse(text).map(|recipe| recipe.explain())
        }),
        (RecipeKind::Selector, selector, |text| {
            crate::selector::SelectorRecipe::parse(text).map(|recipe| recipe.explain())
        }),
    ];
    let full = Table::try_from(full_core()).unwrap();
    for (kind, own, parse) in kinds {
        let text = format!(
            "name = \"x\"\n[data]\ntrain = [{{ path = \"t.csv\" }}]\nvalidation = [{{ path = \"v.csv\" }}]\n{own}"
        );
        let base: Table = toml::from_str(&text).unwrap();
        let explained = parse(&text).unwrap();
        for &(key, reason) in kind.refused_keys() {
            let mut table = base.clone();
            put(&mut table, key, kind::get(&full, key).cloned().unwrap_or_else(|| panic!("no key {key}")));
            let error = parse(&table.to_string()).unwrap_err().to_string();
            assert!(error.starts_with(key) && error.ends_with(reason), "{error}");
            let last = key.rsplit('.').next().unwrap();
            assert!(!explained.contains(&format!("\n{last} = ")), "{last}: {explained}");
        }
    }
}
