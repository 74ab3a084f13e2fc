//! The UCI options: their names, kinds and ranges.

use crate::output::say;
use crate::searchless::Searchless;
use crate::second_mind::{Bases, SecondMind};
use std::sync::Arc;
use std::time::Duration;
use tandem_hybrid::{Counsel, Fingerprint};
use tandem_nets::{BOOTSTRAP, Judge};
use tandem_nnue::{Isa, Network, NetworkError};
use tandem_search::{Centipawns, Searcher, Strength, SyzygyError};
use thiserror::Error;

/// Default size of the hash table, in MiB.
pub(crate) const DEFAULT_HASH: usize = 16;
/// A terabyte, in MiB.
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
    pub(crate) hash: usize,
    /// Who judges positions.
    pub(crate) judge: Judge,
    /// Which file its network is from, if that is not the one built in.
    eval_file: Option<Fingerprint>,
    /// The instructions a network is computed with.
    isa: Isa,
    /// Who plays without search, if anyone does.
    pub(crate) searchless: Searchless,
    /// Who is asked by the search, if anyone is.
    pub(crate) second_mind: SecondMind,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chess960: false,
            show_wdl: false,
            limit_strength: false,
            elo: Strength::MAX,
            hash: DEFAULT_HASH,
            judge: Judge::built_in(),
            eval_file: None,
            isa: Isa::best(),
            searchless: Searchless::default(),
            second_mind: SecondMind::default(),
        }
    }
}

/// Why an option was not set.
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
    #[error("TransformerFile {0}: an NNUE is no transformer, but EvalFile takes it; what was in use stays")]
    Nnue(String),
    #[error("option Strategist takes off, auto or always, not '{0}'")]
    Strategist(String),
    #[error("HybridFile {0}; what was in use stays")]
    Hybrid(#[from] tandem_hybrid::HybridError),
    #[error("option Search takes alphabeta, policy, value or action-value, not '{0}'")]
    Search(String),
    #[error("Kernels: {0}")]
    Kernels(#[from] tandem_nnue::IsaError),
    #[error("SyzygyPath: {0}; {now}", now = tables_now(.0))]
    Syzygy(#[from] SyzygyError),
    #[error("usage: setoption name <name> [value <value>]")]
    Usage,
}

/// What is left of endgame tables when others cannot be used.
fn tables_now(error: &SyzygyError) -> &'static str {
    match error {
        SyzygyError::NoTables(_) | SyzygyError::Colon(_) | SyzygyError::Cut(_) => "what was in use stays",
        SyzygyError::Unreadable(_) => "endgame tables are off now",
    }
}

/// Lists the options, as `uci` asks.
pub(crate) fn list() {
    say(format_args!("option name Hash type spin default {DEFAULT_HASH} min 1 max {MAX_HASH}"));
    say(format_args!("option name Threads type spin default 1 min 1 max {MAX_THREADS}"));
    say("option name MultiPV type spin default 1 min 1 max 256");
    say("option name Ponder type check default false");
    say("option name Move Overhead type spin default 10 min 0 max 5000");
    say("option name EvalFile type string default <empty>");
    say(
        "option name Search type combo default alphabeta var alphabeta var policy var value var action-value",
    );
    say("option name TransformerFile type string default <empty>");
    say("option name Strategist type combo default off var off var auto var always");
    say(format_args!("option name StrategistThreads type spin default 0 min 0 max {MAX_STRATEGIST_THREADS}"));
    say("option name SelectorThreshold type spin default -1 min -1 max 1000");
    say("option name Blend type spin default -1 min -1 max 100");
    say("option name HybridFile type string default <empty>");
    say("option name Kernels type combo default auto var auto var portable var sse41 var avx2 var avx512");
    say("option name SyzygyPath type string default <empty>");
    say("option name SyzygyProbeDepth type spin default 1 min 1 max 100");
    say("option name Contempt type spin default 0 min -200 max 200");
    say("option name UCI_Chess960 type check default false");
    say("option name UCI_ShowWDL type check default false");
    say("option name UCI_LimitStrength type check default false");
    let (min, max) = (Strength::MIN, Strength::MAX);
    say(format_args!("option name UCI_Elo type spin default {max} min {min} max {max}"));
    say("option name Clear Hash type button");
    #[cfg(feature = "tune")]
    for param in tandem_search::params::TABLE {
        let tandem_search::params::Param { name, default, min, max, .. } = param;
        say(format_args!("option name {name} type spin default {default} min {min} max {max}"));
    }
}

/// Carries out `setoption` with what follows it. `cancel` ends slow work early.
pub(crate) fn set(
    arguments: &str,
    options: &mut Options,
    searcher: &mut Searcher,
    cancel: &std::sync::atomic::AtomicBool,
) -> Result<(), OptionError> {
    let (name, value) = split(arguments).ok_or(OptionError::Usage)?;
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "hash" => {
            let mib = number("Hash", value, 1, MAX_HASH)? as usize;
            searcher.set_hash(mib)?;
            options.hash = mib;
        }
        "threads" => searcher.set_threads(number("Threads", value, 1, MAX_THREADS)? as usize),
        "multipv" => searcher.settings.multipv = number("MultiPV", value, 1, 256)? as usize,
        // Pondering is the GUI's to begin; the engine only needs to know that it may.
        "ponder" => drop(check("Ponder", value)?),
        "move overhead" => {
            let overhead = number("Move Overhead", value, 0, 5000)? as u64;
            searcher.settings.move_overhead = Duration::from_millis(overhead);
        }
        "evalfile" => {
            let (judge, file) = load_judge(path(value))?;
            judge_with(judge, options, searcher, cancel);
            options.eval_file = file;
            options.unite();
        }
        "search" => {
            options.searchless.set_search(value)?;
            options.unite();
        }
        "transformerfile" => {
            options.searchless.set_file(path(value))?;
            options.unite();
        }
        "strategist" => {
            options.second_mind.set_presence(value)?;
            options.unite();
        }
        "strategistthreads" => {
            let threads = number("StrategistThreads", value, 0, MAX_STRATEGIST_THREADS)?;
            options.second_mind.set_threads(threads as usize);
        }
        "selectorthreshold" => {
            let thousandths = number("SelectorThreshold", value, -1, 1000)?;
            options.second_mind.set_threshold(share(thousandths, 1000.0));
        }
        "blend" => options.second_mind.set_blend(share(number("Blend", value, -1, 100)?, 100.0)),
        "hybridfile" => {
            options.second_mind.set_file(path(value))?;
            options.unite();
        }
        "kernels" => {
            let value = value.to_ascii_lowercase();
            options.isa = match value.as_str() {
                "auto" => Isa::best(),
                name => name.parse()?,
            };
            options.searchless.set_kernels(&value)?;
            judge_with(options.judge.clone(), options, searcher, cancel);
            options.unite();
        }
        "syzygypath" => {
            let pieces = searcher.set_syzygy(path(value))?;
            if pieces > 0 {
                crate::output::complain(format_args!("Syzygy tables with up to {pieces} pieces"));
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
    seat(options.second_mind.counsel(), searcher);
    searcher.settings.strength = options.limit_strength.then(|| Strength::new(options.elo));
    Ok(())
}

impl Options {
    /// Brings the networks that are in use now together.
    fn unite(&mut self) {
        if self.second_mind.is_wanted() {
            self.searchless.fetch();
        }
        let bases =
            Bases { judge: &self.judge, eval_file: self.eval_file, transformer: self.searchless.network() };
        self.second_mind.unite(&bases);
    }
}

/// Lets the search ask who is to be asked now. Each of its threads makes ready for that, so that it is not done for nothing.
fn seat(counsel: Option<&Arc<Counsel>>, searcher: &mut Searcher) {
    let same = match (counsel, searcher.counsel()) {
        (Some(new), Some(old)) => Arc::ptr_eq(new, old),
        (new, old) => new.is_none() && old.is_none(),
    };
    if !same {
        searcher.set_counsel(counsel.cloned());
    }
}

/// A part of one; a negative number leaves it to whatever is in use.
fn share(number: i64, one: f32) -> Option<f32> {
    (number >= 0).then_some(number as f32 / one)
}

/// Who judges positions by the value of `EvalFile`, and which file that was if it was one.
fn load_judge(name: &str) -> Result<(Judge, Option<Fingerprint>), NetworkError> {
    if name.is_empty() || name == BOOTSTRAP {
        return Ok((Judge::named(name)?, None));
    }
    let (network, bytes) = Network::load_with_bytes(name)?;
    Ok((Judge::Network(Arc::new(network)), Some(Fingerprint::of(&bytes))))
}

fn judge_with(
    judge: Judge,
    options: &mut Options,
    searcher: &mut Searcher,
    cancel: &std::sync::atomic::AtomicBool,
) {
    options.judge = judge.with_isa(options.isa);
    searcher.set_evaluator(options.judge.factory(), cancel);
    crate::output::complain(format_args!("evaluating by {}", options.judge.describe()));
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
    // The word itself may be the value, so that the first one counts.
    if let Some((name, value)) = rest.split_once(" value ") {
        return Some((name.trim(), value.trim()));
    }
    let name = rest.strip_suffix(" value").unwrap_or(rest).trim();
    (!name.is_empty()).then_some((name, ""))
}

/// A path, of which GUIs write nothing as it was listed.
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
        assert_eq!(split("name Search value value"), Some(("Search", "value")));
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
