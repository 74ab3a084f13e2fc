//! A transformer as a player: it chooses moves with forward passes alone, without search.

use crate::any_network::load_transformer;
use crate::error::LabError;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tandem_arena::{Analysis, Analyst, Fault, GameSoFar, PlayerClock, UciInfo, UciScore};
use tandem_chess::Position;
use tandem_transformer::encoding::buckets::centipawns_of_win_probability;
use tandem_transformer::{FileError, Method, MoveRanker, RankedMoves, UnsupportedMethod, ValueEstimate};

/// A transformer that plays without search in `play` and `puzzles`.
pub(crate) struct Strategist {
    name: String,
    ranker: MoveRanker,
    cancel: Arc<AtomicBool>,
}

impl Strategist {
    /// Loads a network. Without a `method` it uses the strongest one that the heads of the network allow:
    /// action-value, value or policy. `command` is the subcommand and its file, for messages.
    ///
    /// # Errors
    ///
    /// When the file is not a transformer, or lacks the head that the method needs.
    pub(crate) fn load(
        path: &Path,
        method: Option<Method>,
        command: &str,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let network = load_transformer(path).map_err(|error| explain(path, command, error))?;
        let network = Arc::new(network);
        let heads = &network.architecture().heads;
        let best = Method::ALL.into_iter().rfind(|method| method.is_supported_by(heads));
        let method = method.or(best).unwrap_or(Method::Policy);
        let unsupported = |error| LabError::Usage(format!("{}: {error}", path.display()));
        let ranker = MoveRanker::new(network, method).map_err(unsupported)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, ranker, cancel: Arc::clone(cancel) })
    }

    /// One line with the file's name, the number of parameters, the precision and the method.
    pub(crate) fn describe(&self) -> String {
        let network = self.ranker.network();
        let parameters = network.architecture().parameters() as f64 / 1e6;
        let (precision, isa) = (network.precision().name(), network.isa().name());
        let (name, method) = (&self.name, self.ranker.method());
        format!(
            "{name}, {parameters:.1} M parameters ({precision}, {isa}), plays by {method}, without search."
        )
    }

    /// The method by which moves are scored.
    pub(crate) fn method(&self) -> Method {
        self.ranker.method()
    }

    /// Scores every legal move of a position and returns them, the best first.
    pub(crate) fn rank_moves(&mut self, position: &mut Position) -> RankedMoves<'_> {
        self.ranker.rank_moves(position)
    }

    /// Another player that shares the weights of this one, so that several can play at once.
    pub(crate) fn try_clone(&self) -> Result<Self, UnsupportedMethod> {
        let ranker = MoveRanker::new(Arc::clone(self.ranker.network()), self.ranker.method())?;
        Ok(Self { name: self.name.clone(), ranker, cancel: Arc::clone(&self.cancel) })
    }
}

/// Explains why a file is not a transformer. For an NNUE, the message says how to play against it, because it
/// needs a search.
fn explain(path: &Path, command: &str, error: FileError) -> LabError {
    let mut start = [0; 16];
    // A path that was read once is a file, not a pipe that would block.
    let read = match &error {
        FileError::Load { .. } => std::fs::File::open(path).and_then(|mut file| file.read(&mut start)),
        FileError::Io { .. } => Ok(0),
    };
    match tandem_nnue::Format::of(&start[..read.unwrap_or(0)]) {
        // Transformers are stored as safetensors too, so this format does not prove an NNUE.
        None | Some(tandem_nnue::Format::Float) => error.into(),
        Some(format) => {
            let (path, format) = (path.display(), format.name());
            LabError::Usage(format!(
                "{path}: an NNUE ({format}), which plays with a search: \
                 tandem-lab {command} --engine cmd=@tandem,option.EvalFile={path}"
            ))
        }
    }
}

impl Analyst for Strategist {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, _: &PlayerClock) -> Result<Analysis, Fault> {
        let start = Instant::now();
        let cancel = &self.cancel;
        let ranked =
            self.ranker.rank_selected(&mut game.position.clone(), &[], || cancel.load(Ordering::Relaxed));
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Fault::Cancelled);
        }
        let best = ranked.moves.first().ok_or_else(|| Fault::Illegal("(none)".into()))?;
        let score = best.value.map(|value| match value {
            ValueEstimate::Mate => UciScore::Mate(1),
            other => UciScore::Cp(centipawns_of_win_probability(other.win_probability()).round() as i32),
        });
        let elapsed = start.elapsed();
        let nodes = Some(ranked.num_evaluated as u64);
        let info = UciInfo { depth: Some(1), score, nodes, ..UciInfo::default() };
        Ok(Analysis { best: best.mv, elapsed, infos: vec![(elapsed, info)] })
    }

    fn reset(&mut self, _: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn is_usable(&self) -> bool {
        true
    }
}
