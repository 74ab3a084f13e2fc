//! The UCI options: the table of those that belong to the engine, and the command `setoption`.
//!
//! Options of the search are declared in [`tandem_search::options`], those of the strategist in
//! [`crate::strategist`]. Names are compared without regard to case, as UCI requires. Former names are translated
//! by [`crate::old_options`].

use crate::old_options;
use crate::output::{info_string, send};
use crate::strategist::{self, StrategistOptions};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_nets::{BOOTSTRAP, EvaluatorChoice};
use tandem_nnue::{Isa, Network, NetworkError};
use tandem_search::options::{OptionError, SEARCHER, TUNED, UciOption, find};
use tandem_search::{NoRoom, Searcher, ensure_room};
use thiserror::Error;

/// Settings of the engine rather than of the search.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) chess960: bool,
    pub(crate) show_wdl: bool,
    /// The evaluation in use.
    pub(crate) evaluator: EvaluatorChoice,
    /// Instruction set with which networks are computed.
    isa: Isa,
    /// Options of the strategist.
    pub(crate) strategist: StrategistOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chess960: false,
            show_wdl: false,
            evaluator: EvaluatorChoice::built_in(),
            isa: Isa::best(),
            strategist: StrategistOptions::default(),
        }
    }
}

impl Options {
    /// Combines the networks in use; called after each change of one of them.
    pub(crate) fn rebuild_hybrid(&mut self) {
        self.strategist.rebuild(&self.evaluator);
    }
}

/// The idle engine, to which options are applied.
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) searcher: Box<Searcher>,
    /// Ends slow work, such as clearing a large table, early when it is set.
    pub(crate) cancel: Arc<AtomicBool>,
}

/// Options of the engine.
const ENGINE: &[UciOption<Session>] = &[
    UciOption::check(
        "Ponder",
        false,
        "tells the engine that the GUI may let it think during the opponent's time; the engine searches alike with both values",
        // GUIs let an engine ponder only if it lists this option. The GUI decides when.
        |_, _| Ok(()),
    ),
    UciOption::text(
        "EvalFile",
        "file",
        "NNUE to use instead of the embedded one: `.tnn`, Stockfish's `.nnue` (versions 12 to 17), `.jnn` or \
         `.halfkp16` ([formats](docs/formats.md)). The word `bootstrap` selects the hand-written evaluation",
        |session, path| {
            check_network_file(path)?;
            let (evaluator, file) = load_evaluator(path)?;
            session.options.strategist.set_eval_file(file.as_deref());
            session.use_evaluator(evaluator);
            Ok(())
        },
    ),
    UciOption::combo(
        "SIMD",
        &["auto", "portable", "sse41", "avx2", "avx512", "amx"],
        "instruction set for the networks. An NNUE gives the same values with each, and uses AVX-512 with `amx`. A \
         transformer uses portable code with `sse41`, and gives values that differ by rounding",
        |session, name| {
            session.options.isa = if name == "auto" { Isa::best() } else { name.parse()? };
            session.options.strategist.set_isa(session.options.isa)?;
            session.use_evaluator(session.options.evaluator.clone());
            Ok(())
        },
    ),
    UciOption::text(
        "SyzygyPath",
        "folders",
        "folders of Syzygy tablebases, separated by `:` (by `;` on Windows). A table that turns out to be damaged is \
         reported after the search, and not used any more",
        |session, path| {
            let pieces = session.searcher.set_syzygy(path)?;
            if pieces > 0 {
                info_string(format_args!("Syzygy tables with up to {pieces} pieces"));
            }
            Ok(())
        },
    ),
    UciOption::spin(
        "SyzygyProbeDepth",
        1,
        1..=100,
        "",
        "minimum remaining depth at which the search probes the tablebases with the most pieces",
        |session, depth| {
            session.searcher.settings.syzygy_probe_depth = depth as i32;
            Ok(())
        },
    ),
    UciOption::check("UCI_Chess960", false, "Chess960 and double Fischer random chess", |session, on| {
        session.options.chess960 = on;
        Ok(())
    }),
    UciOption::check(
        "UCI_ShowWDL",
        false,
        "adds win, draw and loss probabilities (in thousandths) to each score",
        |session, on| {
            session.options.show_wdl = on;
            Ok(())
        },
    ),
    UciOption::button("Clear Hash", "clears the transposition table and the history tables", |session| {
        session.searcher.clear(&session.cancel);
        Ok(())
    }),
];

/// Names of the options in [`strategist::TABLE`], for the message of a build without the cargo feature `strategist`.
const STRATEGIST_NAMES: [&str; 7] = [
    "SearchMode",
    "TransformerFile",
    "Strategist",
    "StrategistThreads",
    "SelectorThreshold",
    "StrategistBlend",
    "HybridFile",
];

/// The reason why `setoption` failed.
#[derive(Debug, Error)]
pub(crate) enum SetOptionError {
    #[error("usage: setoption name <name> [value <value>]")]
    Usage,
    #[error("there is no option '{0}'; 'uci' lists the options")]
    Unknown(String),
    #[error(
        "option {0} needs the strategist, and this engine was built without it; build it with the cargo feature 'strategist'"
    )]
    NoStrategist(&'static str),
    #[error(transparent)]
    Refused(#[from] OptionError),
    #[error("{0}; what was in use stays")]
    NoRoom(#[from] NoRoom),
}

impl SetOptionError {
    /// The reason why no table has an option of this name.
    fn not_found(name: &str) -> Self {
        let left_out = STRATEGIST_NAMES.iter().find(|known| known.eq_ignore_ascii_case(name));
        match left_out {
            Some(known) if !cfg!(feature = "strategist") => Self::NoStrategist(known),
            _ => Self::Unknown(name.chars().take(40).collect()),
        }
    }
}

/// Prints the list of options that `uci` asks for.
pub(crate) fn list() {
    SEARCHER.iter().for_each(send);
    ENGINE.iter().chain(strategist::TABLE).for_each(send);
    TUNED.iter().for_each(send);
}

impl Session {
    /// Executes `setoption` with the words after it.
    ///
    /// # Errors
    /// If the option is unknown, its value is not allowed, or a file cannot be used. The options may have
    /// changed in part then, the searcher has not.
    pub(crate) fn set(&mut self, arguments: &str) -> Result<(), SetOptionError> {
        let (name, value) = split(arguments).ok_or(SetOptionError::Usage)?;
        let name = old_options::current_name(name);
        if let Some(option) = find(SEARCHER, name).or_else(|| find(TUNED, name)) {
            option.set(&mut self.searcher, value)?;
        } else if let Some(option) = find(ENGINE, name).or_else(|| find(strategist::TABLE, name)) {
            option.set(self, value)?;
        } else {
            return Err(SetOptionError::not_found(name));
        }
        Ok(self.options.strategist.attach(&mut self.searcher)?)
    }

    fn use_evaluator(&mut self, evaluator: EvaluatorChoice) {
        self.options.evaluator = evaluator.with_isa(self.options.isa);
        self.searcher.set_evaluator(self.options.evaluator.factory(), &self.cancel);
        info_string(format_args!("evaluating by {}", self.options.evaluator.describe()));
        self.options.rebuild_hybrid();
    }
}

/// Memory that a network needs while it is loaded and afterwards, as a multiple of the size of its file.
const NETWORK_MEMORY: usize = 6;

/// Refuses what cannot be loaded as a network before it is opened: pipes and devices, because their content may
/// never come or never end, and files for which there is not enough memory.
///
/// # Errors
/// If it is one of these. A path that does not exist is reported when it is opened.
pub(crate) fn check_network_file(path: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => ensure_room_for_network(path, metadata.len() as usize),
        Ok(metadata) if !metadata.is_dir() => Err(format!("{path}: this is not a regular file").into()),
        _ => Ok(()),
    }
}

/// Checks that there is memory for a network whose file has this size.
///
/// # Errors
/// If there is not.
pub(crate) fn ensure_room_for_network(
    name: &str,
    file_bytes: usize,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(ensure_room(name, file_bytes.saturating_mul(NETWORK_MEMORY), 0)?)
}

/// Loads the evaluator that `EvalFile` names, with the content of its file unless it is built in.
///
/// # Errors
/// If the file cannot be read or is not a network.
fn load_evaluator(name: &str) -> Result<(EvaluatorChoice, Option<Vec<u8>>), NetworkError> {
    if name.is_empty() || name == BOOTSTRAP {
        return Ok((EvaluatorChoice::named(name)?, None));
    }
    let (network, bytes) = Network::load_with_bytes(name)?;
    Ok((EvaluatorChoice::Network(Arc::new(network)), Some(bytes)))
}

/// Splits `name <name> value <value>`; both may contain spaces, and the value may be missing.
fn split(arguments: &str) -> Option<(&str, &str)> {
    let rest = arguments.trim().strip_prefix("name")?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim_start();
    // The word `value` may itself be the value, so the first one counts.
    if let Some((name, value)) = rest.split_once(" value ") {
        return Some((name.trim(), value.trim()));
    }
    let name = rest.strip_suffix(" value").unwrap_or(rest).trim();
    (!name.is_empty()).then_some((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_may_hold_spaces() {
        assert_eq!(split("name Move Overhead value 30"), Some(("Move Overhead", "30")));
        assert_eq!(split("name SyzygyPath value /a folder/x"), Some(("SyzygyPath", "/a folder/x")));
        assert_eq!(split("name Clear Hash"), Some(("Clear Hash", "")));
        assert_eq!(split("name Hash value"), Some(("Hash", "")));
        assert_eq!(split("name SearchMode value value"), Some(("SearchMode", "value")));
        assert_eq!(split("Hash 3"), None);
        assert_eq!(split("name"), None);
    }

    #[test]
    fn every_instruction_set_can_be_chosen() {
        let simd = find(ENGINE, "SIMD").unwrap().to_string();
        let names = Isa::ALL.map(Isa::name).join(" var ");
        assert!(simd.ends_with(&format!(" default auto var auto var {names}")), "{simd}");
    }

    #[test]
    fn the_options_of_the_strategist_are_named_for_builds_without_it() {
        let names: Vec<&str> = strategist::TABLE.iter().map(UciOption::name).collect();
        assert_eq!(names, if cfg!(feature = "strategist") { &STRATEGIST_NAMES[..] } else { &[] });
    }

    /// The tables in the README are the declarations; `TANDEM_BLESS=1` rewrites them.
    #[test]
    #[cfg(feature = "strategist")]
    fn the_readme_lists_the_options_as_they_are_declared() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let mut readme = std::fs::read_to_string(path).unwrap();
        let search = SEARCHER.iter().map(UciOption::markdown_row);
        let transformer = strategist::TABLE.iter().map(UciOption::markdown_row);
        for (heading, rows) in [
            ("## UCI options", search.chain(ENGINE.iter().map(UciOption::markdown_row)).collect::<Vec<_>>()),
            ("### Options of the transformer", transformer.collect()),
        ] {
            const HEAD: &str = "| option | default | range | effect |\n|---|---|---|---|";
            let section = readme.find(heading).unwrap_or_else(|| panic!("no heading {heading}"));
            let start = section + readme[section..].find(HEAD).unwrap();
            let end = start + readme[start..].find("\n\n").unwrap();
            let declared = format!("{HEAD}\n{}", rows.join("\n"));
            if std::env::var_os("TANDEM_BLESS").is_some() {
                readme.replace_range(start..end, &declared);
                std::fs::write(path, &readme).unwrap();
            }
            assert!(
                readme[start..].starts_with(&format!("{declared}\n\n")),
                "run this test with TANDEM_BLESS=1 to write the tables of UCI options in README.md:\n{declared}"
            );
        }
    }
}
