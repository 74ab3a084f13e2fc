//! Playing without search: a transformer alone chooses the move, if the options say so.

use crate::options::{OptionError, clip};
use crate::output::complain;
use crate::speaker::{Cost, Speaker};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tandem_chess::Position;
use tandem_hybrid::Fingerprint;
use tandem_nnue::Format;
use tandem_search::{Centipawns, Limits, Score, SearchResult, Searcher, Wdl};
use tandem_transformer::encoding::buckets::centipawns_of_chance;
use tandem_transformer::{Adviser, FileError, Isa, Method, Network, Prospect, UnfitMethod};

/// The value of the option `Search` with which no transformer plays.
const ALPHABETA: &str = "alphabeta";

/// The value of the option `TransformerFile` with which there is no transformer, not even the one built in.
const NONE: &str = "none";

/// The options `Search` and `TransformerFile`. They may come in any order, so that each is taken for itself, and what
/// they lack together is said when a move is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Searchless {
    /// How the network is asked; if by none, the search plays.
    method: Option<Method>,
    /// The value of `TransformerFile`; nothing is the network built in.
    file: String,
    /// The network in use, and which file it is. The one built in is unpacked when it is first wanted.
    network: Option<(Fingerprint, Arc<Network>)>,
    isa: Isa,
    /// Both together, with the memory that is kept from move to move.
    adviser: Option<Result<Arc<Mutex<Adviser>>, UnfitMethod>>,
}

/// Who is to choose a move.
pub(crate) enum Choice {
    /// The search.
    Search,
    /// A transformer.
    Transformer(Arc<Mutex<Adviser>>),
    /// Who was asked for is not there, for this reason.
    Nobody(String),
}

impl Default for Searchless {
    fn default() -> Self {
        Self { method: None, file: String::new(), network: None, isa: Isa::best(), adviser: None }
    }
}

impl Searchless {
    /// Sets the option `Search`.
    pub(crate) fn set_search(&mut self, value: &str) -> Result<(), OptionError> {
        let value = value.to_ascii_lowercase();
        self.method = match value.as_str() {
            ALPHABETA => None,
            name => Some(name.parse().map_err(|_| OptionError::Search(clip(name)))?),
        };
        if self.method.is_some() {
            self.unpack();
        }
        self.renew();
        Ok(())
    }

    /// Sets the option `TransformerFile`; nothing is the network built in, and the word none is none.
    pub(crate) fn set_file(&mut self, path: &str) -> Result<(), OptionError> {
        let network = match path {
            "" | NONE => None,
            path => Some(load(path, self.isa)?),
        };
        self.file = path.into();
        self.put(network);
        if self.method.is_some() {
            self.unpack();
        }
        self.renew();
        Ok(())
    }

    /// The network built in is wanted, if no other was asked for.
    pub(crate) fn fetch(&mut self) {
        if self.unpack() {
            self.renew();
        }
    }

    /// Unpacks the network built in, if there is one and none is in use; whether it has.
    fn unpack(&mut self) -> bool {
        let bytes = tandem_nets::built_in_transformer();
        if self.network.is_some() || !self.file.is_empty() || bytes.is_empty() {
            return false;
        }
        match Network::from_bytes(bytes, self.isa) {
            Ok(network) => self.put(Some((Fingerprint::of(bytes), Arc::new(network)))),
            Err(error) => complain(format_args!("the transformer built in: {error}")),
        }
        self.network.is_some()
    }

    fn put(&mut self, network: Option<(Fingerprint, Arc<Network>)>) {
        if let Some((_, network)) = &network {
            complain(format_args!("strategist: {}", describe(network)));
        }
        self.network = network;
    }

    /// Sets the instructions to compute with, by the names of the option `Kernels`.
    pub(crate) fn set_kernels(&mut self, name: &str) -> Result<(), OptionError> {
        self.isa = match name {
            "auto" => Isa::best(),
            // Not every instruction set that serves an NNUE serves a transformer.
            name => Isa::ALL.into_iter().find(|isa| isa.name() == name).unwrap_or(Isa::Portable),
        };
        if self.network.take().is_none() {
            return Ok(());
        }
        let file = self.file.clone();
        self.set_file(&file)?;
        self.fetch();
        Ok(())
    }

    /// The network, and which file it is.
    pub(crate) fn network(&self) -> Option<(Fingerprint, &Arc<Network>)> {
        self.network.as_ref().map(|(file, network)| (*file, network))
    }

    fn renew(&mut self) {
        let (Some(method), Some((_, network))) = (self.method, &self.network) else {
            self.adviser = None;
            return;
        };
        let adviser = Adviser::new(Arc::clone(network), method);
        if let Err(error) = &adviser {
            complain(format_args!("Search {method}: {error}"));
        }
        self.adviser = Some(adviser.map(|adviser| Arc::new(Mutex::new(adviser))));
    }

    /// Who is to choose a move.
    pub(crate) fn choice(&self) -> Choice {
        match (self.method, &self.adviser) {
            (None, _) => Choice::Search,
            (Some(_), Some(Ok(adviser))) => Choice::Transformer(Arc::clone(adviser)),
            (Some(method), Some(Err(error))) => Choice::Nobody(format!("no move: Search {method}: {error}")),
            (Some(method), None) => Choice::Nobody(format!(
                "no move: Search {method} needs a transformer; set TransformerFile to one, or Search to {ALPHABETA}"
            )),
        }
    }
}

/// Reads a network, and tells which file it is.
fn load(path: &str, isa: Isa) -> Result<(Fingerprint, Arc<Network>), OptionError> {
    let (bytes, file) =
        Fingerprint::read(path).map_err(|source| FileError::Io { path: path.into(), source })?;
    match Network::from_bytes(&bytes, isa) {
        Ok(network) => Ok((file, Arc::new(network))),
        Err(_) if Format::of(&bytes).is_some_and(|format| format != Format::Float) => {
            Err(OptionError::Nnue(path.into()))
        }
        Err(source) => Err(FileError::Load { path: path.into(), source }.into()),
    }
}

/// A network in a few words.
fn describe(network: &Network) -> String {
    let architecture = network.architecture();
    let methods: Vec<&str> =
        Method::ALL.into_iter().filter(|method| method.fits(&architecture.heads)).map(Method::name).collect();
    format!(
        "{} layers of width {}, {:.1} M parameters ({}, {}); it can be asked by {}",
        architecture.body.layers,
        architecture.body.width,
        architecture.parameters() as f64 / 1e6,
        network.precision().name(),
        network.isa().name(),
        if methods.is_empty() { "nothing".into() } else { methods.join(", ") }
    )
}

/// Plays a move without search. The calling thread waits as a search does if it may not answer yet.
pub(crate) fn play(
    adviser: &Mutex<Adviser>,
    searcher: &Searcher,
    position: &mut Position,
    limits: &Limits,
    speaker: &Speaker,
) {
    let start = Instant::now();
    let signals = searcher.signals();
    let allowed = time_allowed(limits, searcher.settings.move_overhead);
    // The clock is ours once the enemy has played the expected move.
    let mut ours_since = start;
    let late = || {
        if signals.is_pondering() {
            ours_since = Instant::now();
            return signals.is_stopped();
        }
        signals.is_stopped() || allowed.is_some_and(|allowed| ours_since.elapsed() >= allowed)
    };
    // What is kept in it is written anew for each move, so that one that failed harms none after it.
    let mut adviser = adviser.lock().unwrap_or_else(PoisonError::into_inner);
    let advice = adviser.weigh_some(position, &limits.search_moves, late);
    let cost = Cost { nodes: advice.judged as u64, time: start.elapsed() };
    for (index, weighed) in advice.moves.iter().take(searcher.settings.multipv).enumerate() {
        speaker.weighed(index + 1, weighed.mv, weighed.prospect.map(score), &cost);
    }
    searcher.wait_for_leave(limits);
    let best = advice.moves.first();
    // Without a legal move the rules say what the position is worth, and nobody else is asked.
    let end = if position.in_check() { Score::Mate(0) } else { Score::Centipawns(Centipawns(0)) };
    let score = best.and_then(|best| best.prospect).map_or(end, |prospect| score(prospect).0);
    let Cost { nodes, time } = cost;
    let best = best.map(|best| best.mv);
    speaker.best_move(&SearchResult { best, ponder: None, score, depth: 1, nodes, time });
}

/// After how long the moves that were weighed by then have to do. A game goes on after this move, so that only a part of the
/// clock is used, and never more than half of what is left: the increment comes when the move is made.
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

/// What a prospect is as an evaluation, and as chances of win, draw and loss if there are any: what a chance alone would be in
/// our own centipawns, nobody has fitted.
pub(crate) fn score(prospect: Prospect) -> (Score, Option<Wdl>) {
    let score = match prospect {
        Prospect::Mate => Score::Mate(1),
        other => Score::Centipawns(Centipawns(centipawns_of_chance(other.chance()).round() as i32)),
    };
    let wdl = match prospect {
        Prospect::Outcomes { win, loss, .. } => {
            let [win, loss] = [win, loss].map(|share| (1000.0 * share).round() as u32);
            // Two halves may both have been rounded up.
            let loss = loss.min(1000 - win);
            Some(Wdl { win, draw: 1000 - win - loss, loss })
        }
        Prospect::Draw => Some(Wdl { win: 0, draw: 1000, loss: 0 }),
        Prospect::Mate => Some(Wdl { win: 1000, draw: 0, loss: 0 }),
        Prospect::Chance(_) => None,
    };
    (score, wdl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prospect_is_a_score() {
        let told = |prospect| {
            let (score, wdl) = score(prospect);
            (score.to_string(), wdl.map(|Wdl { win, draw, loss }| [win, draw, loss]))
        };
        assert_eq!(told(Prospect::Mate), ("mate 1".into(), Some([1000, 0, 0])));
        assert_eq!(told(Prospect::Draw), ("cp 0".into(), Some([0, 1000, 0])));
        let outcomes = Prospect::Outcomes { win: 0.3005, draw: 0.599, loss: 0.1005 };
        assert_eq!(told(outcomes), ("cp 110".into(), Some([301, 598, 101])));
        assert_eq!(told(Prospect::Chance(0.5)), ("cp 0".into(), None));
        assert_eq!(told(Prospect::Chance(0.25)).0, "cp -298");
        assert_eq!(told(Prospect::Chance(1.0)).0, "cp 5000");
        let halves = Prospect::Outcomes { win: 0.0625, draw: 0.0, loss: 0.9375 };
        assert_eq!(told(halves).1, Some([63, 0, 937]));
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
