//! Playing without search: a transformer alone chooses the move (option `SearchMode`).

use crate::options::ensure_room_for_network;
use crate::output::info_string;
use crate::uci_output::{Cost, UciOutput};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tandem_chess::Position;
use tandem_hybrid::Fingerprint;
use tandem_nnue::Format;
use tandem_search::options::Applied;
use tandem_search::{Centipawns, Limits, Score, SearchResult, Searcher, Wdl};
use tandem_transformer::encoding::buckets::centipawns_of_win_probability;
use tandem_transformer::{FileError, Isa, Method, MoveRanker, Network, UnsupportedMethod, ValueEstimate};

/// Value of the option `SearchMode` for the search; the others name a method of a transformer.
pub(crate) const ALPHABETA: &str = "alphabeta";

/// Value of the option `TransformerFile` for no transformer, not even the one built in.
const NONE: &str = "none";

/// The options `SearchMode` and `TransformerFile`.
#[derive(Clone, Debug)]
pub(crate) struct Searchless {
    /// Method by which the network chooses moves; `None` if the search plays.
    method: Option<Method>,
    /// Value of `TransformerFile`; empty for the built-in network.
    file: String,
    /// The network in use with the fingerprint of its file. The one built in is unpacked when it is first
    /// needed.
    network: Option<(Fingerprint, Arc<Network>)>,
    isa: Isa,
    /// Network and method together, with scratch memory that is reused from move to move; `None` unless both
    /// are set.
    ranker: Option<Result<Arc<Mutex<MoveRanker>>, UnsupportedMethod>>,
}

/// The player of the next move.
pub(crate) enum Choice {
    /// Alpha-beta search plays.
    Search,
    /// A transformer plays without search.
    Transformer(Arc<Mutex<MoveRanker>>),
    /// A transformer was asked for, but cannot play, for this reason.
    Unavailable(String),
}

impl Default for Searchless {
    fn default() -> Self {
        Self { method: None, file: String::new(), network: None, isa: Isa::best(), ranker: None }
    }
}

impl Searchless {
    /// Sets the option `SearchMode`: the name of a method, or [`ALPHABETA`].
    pub(crate) fn set_mode(&mut self, mode: &str) {
        self.method = mode.parse().ok();
        if self.method.is_some() {
            self.unpack();
        }
        self.rebuild_ranker();
    }

    /// Sets the option `TransformerFile`; an empty path is the built-in network, `none` is no network.
    ///
    /// # Errors
    /// If the file cannot be read or is not a transformer; the old one stays.
    pub(crate) fn set_file(&mut self, path: &str) -> Applied {
        let network = match path {
            "" | NONE => None,
            path => Some(load(path, self.isa)?),
        };
        self.file = path.into();
        self.install(network);
        if self.method.is_some() {
            self.unpack();
        }
        self.rebuild_ranker();
        Ok(())
    }

    /// Unpacks the built-in network, unless another one or none was asked for.
    pub(crate) fn ensure_network(&mut self) {
        if self.unpack() {
            self.rebuild_ranker();
        }
    }

    /// Unpacks the built-in network, if there is one and none is in use. Returns true if it did.
    fn unpack(&mut self) -> bool {
        let bytes = tandem_nets::built_in_transformer();
        if self.network.is_some() || !self.file.is_empty() || bytes.is_empty() {
            return false;
        }
        if let Err(error) = ensure_room_for_network("the built-in transformer", bytes.len()) {
            info_string(error);
            return false;
        }
        match Network::from_bytes(bytes, self.isa) {
            Ok(network) => self.install(Some((Fingerprint::of(bytes), Arc::new(network)))),
            Err(error) => info_string(format_args!("the built-in transformer: {error}")),
        }
        self.network.is_some()
    }

    fn install(&mut self, network: Option<(Fingerprint, Arc<Network>)>) {
        if let Some((_, network)) = &network {
            info_string(format_args!("strategist: {}", describe(network)));
        }
        self.network = network;
    }

    /// Sets the instruction set, and reloads the network for it.
    ///
    /// # Errors
    /// If the network's file cannot be read again.
    pub(crate) fn set_isa(&mut self, isa: Isa) -> Applied {
        self.isa = isa;
        if self.network.take().is_none() {
            return Ok(());
        }
        let file = self.file.clone();
        self.set_file(&file)?;
        self.ensure_network();
        Ok(())
    }

    /// The network in use, with the fingerprint of its file.
    pub(crate) fn network(&self) -> Option<(Fingerprint, &Arc<Network>)> {
        self.network.as_ref().map(|(file, network)| (*file, network))
    }

    fn rebuild_ranker(&mut self) {
        let (Some(method), Some((_, network))) = (self.method, &self.network) else {
            self.ranker = None;
            return;
        };
        let ranker = MoveRanker::new(Arc::clone(network), method);
        self.ranker = Some(ranker.map(|ranker| Arc::new(Mutex::new(ranker))));
    }

    /// The player of the next move, by both options.
    pub(crate) fn choice(&self) -> Choice {
        match (self.method, &self.ranker) {
            (None, _) => Choice::Search,
            (Some(_), Some(Ok(ranker))) => Choice::Transformer(Arc::clone(ranker)),
            (Some(method), Some(Err(error))) => Choice::Unavailable(format!("SearchMode {method}: {error}")),
            (Some(method), None) => Choice::Unavailable(format!(
                "SearchMode {method} needs a transformer; set TransformerFile to one, or SearchMode to {ALPHABETA}"
            )),
        }
    }
}

/// Reads a network and the fingerprint of its file.
fn load(path: &str, isa: Isa) -> Result<(Fingerprint, Arc<Network>), Box<dyn Error + Send + Sync>> {
    let (bytes, file) =
        Fingerprint::read(path).map_err(|source| FileError::Io { path: path.into(), source })?;
    match Network::from_bytes(&bytes, isa) {
        Ok(network) => Ok((file, Arc::new(network))),
        Err(_) if Format::of(&bytes).is_some_and(|format| format != Format::Float) => {
            Err(format!("{path}: an NNUE is not a transformer, but EvalFile takes it").into())
        }
        Err(source) => Err(FileError::Load { path: path.into(), source }.into()),
    }
}

/// A network in a few words: size, precision, instruction set and methods.
fn describe(network: &Network) -> String {
    let architecture = network.architecture();
    let methods: Vec<&str> = Method::ALL
        .into_iter()
        .filter(|method| method.is_supported_by(&architecture.heads))
        .map(Method::name)
        .collect();
    format!(
        "{} layers of width {}, {:.1} M parameters ({}, {}); methods: {}",
        architecture.body.layers,
        architecture.body.width,
        architecture.parameters() as f64 / 1e6,
        network.precision().name(),
        network.isa().name(),
        if methods.is_empty() { "none".into() } else { methods.join(", ") }
    )
}

/// Plays a move without search and returns the answer. Waits like a search if it may not answer yet.
pub(crate) fn play(
    ranker: &Mutex<MoveRanker>,
    searcher: &Searcher,
    position: &mut Position,
    limits: &Limits,
    output: &UciOutput,
) -> String {
    let start = Instant::now();
    let signals = searcher.signals();
    let allowed = time_allowed(limits, searcher.settings.move_overhead);
    // Our clock runs once the opponent has played the expected move.
    let mut ours_since = start;
    let may_run = |expected| {
        if signals.is_pondering() {
            ours_since = Instant::now();
            return !signals.is_stopped();
        }
        !signals.is_stopped() && allowed.is_none_or(|allowed| ours_since.elapsed() + expected <= allowed)
    };
    // All state in it is rewritten for each move, so that a panic in one move does not affect the next.
    let mut ranker = ranker.lock().unwrap_or_else(PoisonError::into_inner);
    let method = ranker.method();
    let ranked = ranker.rank_within(position, &limits.search_moves, may_run);
    let cost = Cost { nodes: ranked.num_evaluated as u64, time: start.elapsed() };
    for (index, scored) in ranked.moves.iter().take(searcher.settings.multipv).enumerate() {
        output.ranked_move(index + 1, scored.mv, scored.value.map(score), &cost);
    }
    if method == Method::Policy && !ranked.moves.is_empty() {
        // The score of each line is that of the position; the moves differ by their probabilities.
        let shown = ranked.moves.iter().take(searcher.settings.multipv);
        info_string(output.policy(shown.map(|scored| (scored.mv, scored.score))));
    }
    searcher.wait_until_answer_allowed(limits);
    let best = ranked.moves.first();
    // Without a legal move the rules decide the score, and the network is not run.
    let end = if position.in_check() { Score::Mate(0) } else { Score::Centipawns(Centipawns(0)) };
    let score = best.and_then(|best| best.value).map_or(end, |value| score(value).0);
    let Cost { nodes, time } = cost;
    let best = best.map(|best| best.mv);
    output.best_move(&SearchResult { best, ponder: None, score, depth: 1, nodes, time })
}

/// Time for ranking moves; those ranked by then have to suffice. At most a quarter of the clock plus half the
/// increment, and never more than half of what is left, because the increment comes only when the move is
/// made.
fn time_allowed(limits: &Limits, overhead: Duration) -> Option<Duration> {
    if limits.infinite {
        return None;
    }
    let move_time = limits.move_time.map(|time| time.saturating_sub(overhead));
    let clock = limits.clock.map(|clock| {
        let usable = clock.remaining.saturating_sub(overhead);
        (usable / 4 + clock.increment / 2).min(usable / 2)
    });
    [move_time, clock].into_iter().flatten().min()
}

/// A value as a score, and as win, draw and loss if it has them. A plain win probability gives no WDL,
/// because no draw rate was fitted for it.
pub(crate) fn score(estimate: ValueEstimate) -> (Score, Option<Wdl>) {
    let score = match estimate {
        ValueEstimate::Mate => Score::Mate(1),
        other => Score::Centipawns(Centipawns(
            centipawns_of_win_probability(other.win_probability()).round() as i32,
        )),
    };
    let wdl = match estimate {
        ValueEstimate::Wdl { win, loss, .. } => {
            let [win, loss] = [win, loss].map(|probability| (1000.0 * probability).round() as u32);
            // Two halves may both have been rounded up.
            let loss = loss.min(1000 - win);
            Some(Wdl { win, draw: 1000 - win - loss, loss })
        }
        ValueEstimate::Draw => Some(Wdl { win: 0, draw: 1000, loss: 0 }),
        ValueEstimate::Mate => Some(Wdl { win: 1000, draw: 0, loss: 0 }),
        ValueEstimate::WinProbability(_) => None,
    };
    (score, wdl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_estimate_becomes_a_score() {
        let shown = |estimate| {
            let (score, wdl) = score(estimate);
            (score.to_string(), wdl.map(|Wdl { win, draw, loss }| [win, draw, loss]))
        };
        assert_eq!(shown(ValueEstimate::Mate), ("mate 1".into(), Some([1000, 0, 0])));
        assert_eq!(shown(ValueEstimate::Draw), ("cp 0".into(), Some([0, 1000, 0])));
        let outcomes = ValueEstimate::Wdl { win: 0.3005, draw: 0.599, loss: 0.1005 };
        assert_eq!(shown(outcomes), ("cp 110".into(), Some([301, 598, 101])));
        assert_eq!(shown(ValueEstimate::WinProbability(0.5)), ("cp 0".into(), None));
        assert_eq!(shown(ValueEstimate::WinProbability(0.25)).0, "cp -298");
        assert_eq!(shown(ValueEstimate::WinProbability(1.0)).0, "cp 5000");
        let halves = ValueEstimate::Wdl { win: 0.0625, draw: 0.0, loss: 0.9375 };
        assert_eq!(shown(halves).1, Some([63, 0, 937]));
    }

    #[test]
    fn only_a_part_of_the_clock_is_used() {
        let time = |text: &str| {
            let (Some(crate::go::Go::Search(limits)), None) = crate::go::parse(text, &Position::startpos())
            else {
                panic!("{text}")
            };
            time_allowed(&limits, Duration::from_millis(10)).map(|time| time.as_millis())
        };
        assert_eq!(time("movetime 50"), Some(40));
        assert_eq!(time("movetime 5"), Some(0));
        assert_eq!(time("wtime 1010 btime 7 winc 20"), Some(260));
        // An increment larger than what is left comes too late for this move.
        assert_eq!(time("wtime 110 btime 7 winc 5000"), Some(50));
        assert_eq!(time("wtime 1010 movetime 90"), Some(80));
        assert_eq!(time("ponder wtime 1010"), Some(250));
        assert_eq!(time("wtime 1 btime 1"), Some(0));
        assert!(
            ["", "infinite", "infinite wtime 100", "depth 3"].into_iter().all(|text| time(text).is_none())
        );
    }
}
