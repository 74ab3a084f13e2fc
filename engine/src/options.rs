//! The UCI options: names, types, ranges, and their effect.
//!
//! Names are compared in lower case, as UCI requires. Former names are translated by [`crate::old_options`].

use crate::hybrid_options::{BaseNetworks, HybridOptions};
use crate::old_options;
use crate::output::{info_string, send};
use crate::searcher_thread::DEFAULT_HASH;
use crate::searchless::Searchless;
use std::sync::Arc;
use std::time::Duration;
use tandem_hybrid::{Fingerprint, StrategistClient};
use tandem_nets::{BOOTSTRAP, EvaluatorChoice};
use tandem_nnue::{Isa, Network, NetworkError};
use tandem_search::{Centipawns, Searcher, Strength, SyzygyError};
use thiserror::Error;

/// Largest size of the hash table, one tebibyte, in MiB.
const MAX_HASH: i64 = 1 << 20;
const MAX_THREADS: i64 = 1024;
const MAX_STRATEGIST_THREADS: i64 = 64;

/// Settings of the protocol rather than of the search.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) chess960: bool,
    pub(crate) show_wdl: bool,
    limit_strength: bool,
    elo: u32,
    /// The evaluation in use.
    pub(crate) evaluator: EvaluatorChoice,
    /// Fingerprint of the network file in use; `None` if it is built in.
    eval_file: Option<Fingerprint>,
    /// Instruction set with which networks are computed.
    isa: Isa,
    /// Options of the players without search.
    pub(crate) searchless: Searchless,
    /// Options of the strategist.
    pub(crate) hybrid: HybridOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chess960: false,
            show_wdl: false,
            limit_strength: false,
            elo: Strength::MAX,
            evaluator: EvaluatorChoice::built_in(),
            eval_file: None,
            isa: Isa::best(),
            searchless: Searchless::default(),
            hybrid: HybridOptions::default(),
        }
    }
}

/// The reason why an option was not set.
#[derive(Debug, Error)]
pub(crate) enum OptionError {
    #[error("there is no option '{0}'; 'uci' lists the options")]
    Unknown(String),
    #[error("option {name} takes a whole number from {min} to {max}, not '{value}'")]
    Number { name: &'static str, min: i64, max: i64, value: String },
    #[error("option {name} takes true or false, not '{value}'")]
    Check { name: &'static str, value: String },
    #[error("{0}; the old one stays in use")]
    Hash(#[from] tandem_search::OutOfMemory),
    #[error("EvalFile {0}; the evaluation in use stays")]
    Network(#[from] NetworkError),
    #[error("TransformerFile {0}; what was in use stays")]
    Transformer(#[from] tandem_transformer::FileError),
    #[error(
        "TransformerFile {0}: an NNUE is not a transformer, but EvalFile takes it; what was in use stays"
    )]
    Nnue(String),
    #[error("option Strategist takes off, auto or always, not '{0}'")]
    Strategist(String),
    #[error("HybridFile {0}; what was in use stays")]
    Hybrid(#[from] tandem_hybrid::HybridError),
    #[error("option SearchMode takes alphabeta, policy, value or action-value, not '{0}'")]
    SearchMode(String),
    #[error("SIMD: {0}")]
    Simd(#[from] tandem_nnue::IsaError),
    #[error("SyzygyPath: {0}; {now}", now = tables_in_use(.0))]
    Syzygy(#[from] SyzygyError),
    #[error("usage: setoption name <name> [value <value>]")]
    Usage,
}

/// State of the endgame tables after others could not be used.
fn tables_in_use(error: &SyzygyError) -> &'static str {
    match error {
        SyzygyError::NoTables(_) | SyzygyError::ColonInPath(_) | SyzygyError::Truncated(_) => {
            "what was in use stays"
        }
        SyzygyError::Unreadable(_) => "endgame tables are off now",
    }
}

/// Prints the list of options that `uci` asks for.
pub(crate) fn list() {
    send(format_args!("option name Hash type spin default {DEFAULT_HASH} min 1 max {MAX_HASH}"));
    send(format_args!("option name Threads type spin default 1 min 1 max {MAX_THREADS}"));
    send("option name MultiPV type spin default 1 min 1 max 256");
    send("option name Ponder type check default false");
    send("option name Move Overhead type spin default 10 min 0 max 5000");
    send("option name EvalFile type string default <empty>");
    send(
        "option name SearchMode type combo default alphabeta var alphabeta var policy var value var action-value",
    );
    send("option name TransformerFile type string default <empty>");
    send("option name Strategist type combo default off var off var auto var always");
    send(format_args!(
        "option name StrategistThreads type spin default 0 min 0 max {MAX_STRATEGIST_THREADS}"
    ));
    send("option name SelectorThreshold type spin default -1 min -1 max 1000");
    send("option name StrategistBlend type spin default -1 min -1 max 100");
    send("option name HybridFile type string default <empty>");
    send("option name SIMD type combo default auto var auto var portable var sse41 var avx2 var avx512");
    send("option name SyzygyPath type string default <empty>");
    send("option name SyzygyProbeDepth type spin default 1 min 1 max 100");
    send("option name Contempt type spin default 0 min -200 max 200");
    send("option name UCI_Chess960 type check default false");
    send("option name UCI_ShowWDL type check default false");
    send("option name UCI_LimitStrength type check default false");
    let (min, max) = (Strength::MIN, Strength::MAX);
    send(format_args!("option name UCI_Elo type spin default {max} min {min} max {max}"));
    send("option name Clear Hash type button");
    #[cfg(feature = "tune")]
    for param in tandem_search::params::TABLE {
        let tandem_search::params::Param { name, default, min, max, .. } = param;
        send(format_args!("option name {name} type spin default {default} min {min} max {max}"));
    }
}

/// Executes `setoption` with the words after it. Setting `cancel` ends slow work, such as clearing a large
/// table, early.
///
/// # Errors
/// If the option is unknown, its value is not allowed, or a file cannot be used; the message says what stays
/// in use.
pub(crate) fn set(
    arguments: &str,
    options: &mut Options,
    searcher: &mut Searcher,
    cancel: &std::sync::atomic::AtomicBool,
) -> Result<(), OptionError> {
    let (name, value) = split(arguments).ok_or(OptionError::Usage)?;
    let name = old_options::current_name(name);
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "hash" => searcher.set_hash(number("Hash", value, 1, MAX_HASH)? as usize)?,
        "threads" => searcher.set_threads(number("Threads", value, 1, MAX_THREADS)? as usize),
        "multipv" => searcher.settings.multipv = number("MultiPV", value, 1, 256)? as usize,
        // The GUI decides when to ponder; the engine only accepts the option.
        "ponder" => drop(check("Ponder", value)?),
        "move overhead" => {
            let overhead = number("Move Overhead", value, 0, 5000)? as u64;
            searcher.settings.move_overhead = Duration::from_millis(overhead);
        }
        "evalfile" => {
            let (evaluator, file) = load_evaluator(path(value))?;
            use_evaluator(evaluator, options, searcher, cancel);
            options.eval_file = file;
            options.rebuild_hybrid();
        }
        "searchmode" => {
            options.searchless.set_mode(value)?;
            options.rebuild_hybrid();
        }
        "transformerfile" => {
            options.searchless.set_file(path(value))?;
            options.rebuild_hybrid();
        }
        "strategist" => {
            options.hybrid.set_policy(value)?;
            options.rebuild_hybrid();
        }
        "strategistthreads" => {
            let threads = number("StrategistThreads", value, 0, MAX_STRATEGIST_THREADS)?;
            options.hybrid.set_threads(threads as usize);
        }
        "selectorthreshold" => {
            let thousandths = number("SelectorThreshold", value, -1, 1000)?;
            options.hybrid.set_threshold(fraction(thousandths, 1000.0));
        }
        "strategistblend" => {
            options.hybrid.set_blend(fraction(number("StrategistBlend", value, -1, 100)?, 100.0));
        }
        "hybridfile" => {
            options.hybrid.set_file(path(value))?;
            options.rebuild_hybrid();
        }
        "simd" => {
            let value = value.to_ascii_lowercase();
            options.isa = match value.as_str() {
                "auto" => Isa::best(),
                name => name.parse()?,
            };
            options.searchless.set_isa(options.isa)?;
            use_evaluator(options.evaluator.clone(), options, searcher, cancel);
            options.rebuild_hybrid();
        }
        "syzygypath" => {
            let pieces = searcher.set_syzygy(path(value))?;
            if pieces > 0 {
                info_string(format_args!("Syzygy tables with up to {pieces} pieces"));
            }
        }
        "syzygyprobedepth" => {
            searcher.settings.syzygy_probe_depth = number("SyzygyProbeDepth", value, 1, 100)? as i32;
        }
        "contempt" => searcher.settings.contempt = Centipawns(number("Contempt", value, -200, 200)? as i32),
        "uci_chess960" => options.chess960 = check("UCI_Chess960", value)?,
        "uci_showwdl" => options.show_wdl = check("UCI_ShowWDL", value)?,
        "uci_limitstrength" => options.limit_strength = check("UCI_LimitStrength", value)?,
        "uci_elo" => {
            options.elo =
                number("UCI_Elo", value, i64::from(Strength::MIN), i64::from(Strength::MAX))? as u32;
        }
        "clear hash" => searcher.clear(cancel),
        _ => set_tuned(name, value, searcher)?,
    }
    attach_strategist(options.hybrid.client(), searcher);
    searcher.settings.strength = options.limit_strength.then(|| Strength::new(options.elo));
    Ok(())
}

impl Options {
    /// Combines the networks in use; called after each change of one of them.
    fn rebuild_hybrid(&mut self) {
        if self.hybrid.is_enabled() {
            self.searchless.ensure_network();
        }
        let bases = BaseNetworks {
            evaluator: &self.evaluator,
            eval_file: self.eval_file,
            transformer: self.searchless.network(),
        };
        self.hybrid.rebuild(&bases);
    }
}

/// Makes the search query this client from now on. An unchanged client is not set again, because each search
/// thread allocates memory for it.
fn attach_strategist(client: Option<&Arc<StrategistClient>>, searcher: &mut Searcher) {
    let same = match (client, searcher.strategist()) {
        (Some(new), Some(old)) => Arc::ptr_eq(new, old),
        (new, old) => new.is_none() && old.is_none(),
    };
    if !same {
        searcher.set_strategist(client.cloned());
    }
}

/// A fraction from an option in parts of `one`; `None` for a negative number, which selects the default.
fn fraction(number: i64, one: f32) -> Option<f32> {
    (number >= 0).then_some(number as f32 / one)
}

/// Loads the evaluator that `EvalFile` names, with the fingerprint of its file unless it is built in.
///
/// # Errors
/// If the file cannot be read or is not a network.
fn load_evaluator(name: &str) -> Result<(EvaluatorChoice, Option<Fingerprint>), NetworkError> {
    if name.is_empty() || name == BOOTSTRAP {
        return Ok((EvaluatorChoice::named(name)?, None));
    }
    let (network, bytes) = Network::load_with_bytes(name)?;
    Ok((EvaluatorChoice::Network(Arc::new(network)), Some(Fingerprint::of(&bytes))))
}

fn use_evaluator(
    evaluator: EvaluatorChoice,
    options: &mut Options,
    searcher: &mut Searcher,
    cancel: &std::sync::atomic::AtomicBool,
) {
    options.evaluator = evaluator.with_isa(options.isa);
    searcher.set_evaluator(options.evaluator.factory(), cancel);
    info_string(format_args!("evaluating by {}", options.evaluator.describe()));
}

#[cfg(feature = "tune")]
fn set_tuned(name: &str, value: &str, searcher: &mut Searcher) -> Result<(), OptionError> {
    let param = tandem_search::params::TABLE
        .iter()
        .find(|param| param.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| OptionError::Unknown(clip(name)))?;
    let value = number(param.name, value, i64::from(param.min), i64::from(param.max))?;
    searcher.settings.params.set(param.name, value as i32);
    Ok(())
}

#[cfg(not(feature = "tune"))]
fn set_tuned(name: &str, _: &str, _: &mut Searcher) -> Result<(), OptionError> {
    Err(OptionError::Unknown(clip(name)))
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

/// A path; GUIs send `<empty>`, the listed default, for an empty one.
fn path(value: &str) -> &str {
    if value == "<empty>" { "" } else { value }
}

fn number(name: &'static str, value: &str, min: i64, max: i64) -> Result<i64, OptionError> {
    value
        .parse::<i64>()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| OptionError::Number { name, min, max, value: clip(value) })
}

fn check(name: &'static str, value: &str) -> Result<bool, OptionError> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(OptionError::Check { name, value: clip(value) }),
    }
}

pub(crate) fn clip(text: &str) -> String {
    text.chars().take(40).collect()
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
    fn numbers_out_of_range_are_refused() {
        assert!(number("Hash", "0", 1, 10).is_err());
        assert!(number("Hash", "11", 1, 10).is_err());
        assert!(number("Hash", "ten", 1, 10).is_err());
        assert!(number("Hash", "99999999999999999999", 1, 10).is_err());
        assert_eq!(number("Hash", "7", 1, 10).unwrap(), 7);
    }
}
