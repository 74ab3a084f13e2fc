//! A transformer that is asked for moves.

use crate::error::LabError;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tandem_arena::{Analysis, Analyst, Clock, Fault, GameSoFar, Info, Score};
use tandem_chess::Position;
use tandem_transformer::encoding::buckets::centipawns_of_chance;
use tandem_transformer::{Advice, Adviser, FileError, Isa, Method, Network, Prospect, UnfitMethod};

/// A transformer that plays without search.
pub(crate) struct Strategist {
    name: String,
    adviser: Adviser,
    cancel: Arc<AtomicBool>,
}

impl Strategist {
    /// Reads a network, to be asked by a method or by the best that it can.
    pub(crate) fn load(
        path: &Path,
        method: Option<Method>,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let network = Network::load(path, Isa::best()).map_err(|error| explain(path, error))?;
        let network = Arc::new(network);
        let heads = &network.architecture().heads;
        let best = Method::ALL.into_iter().rfind(|method| method.fits(heads));
        let method = method.or(best).unwrap_or(Method::Policy);
        let unfit = |error| LabError::Usage(format!("{}: {error}", path.display()));
        let adviser = Adviser::new(network, method).map_err(unfit)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, adviser, cancel: Arc::clone(cancel) })
    }

    /// Who plays, and how.
    pub(crate) fn describe(&self) -> String {
        let network = self.adviser.network();
        let parameters = network.architecture().parameters() as f64 / 1e6;
        let (precision, isa) = (network.precision().name(), network.isa().name());
        let (name, method) = (&self.name, self.adviser.method());
        format!(
            "{name}, {parameters:.1} M parameters ({precision}, {isa}), plays by {method}, without search."
        )
    }

    /// How it is asked.
    pub(crate) fn method(&self) -> Method {
        self.adviser.method()
    }

    /// What the network thinks of every move.
    pub(crate) fn weigh(&mut self, position: &mut Position) -> Advice<'_> {
        self.adviser.weigh(position)
    }

    /// Another who asks the same network in the same way, so that several can play at once.
    pub(crate) fn twin(&self) -> Result<Self, UnfitMethod> {
        let adviser = Adviser::new(Arc::clone(self.adviser.network()), self.adviser.method())?;
        Ok(Self { name: self.name.clone(), adviser, cancel: Arc::clone(&self.cancel) })
    }
}

/// Why a file is no transformer. An NNUE has no opinion of moves; who has one is told how to play against it.
fn explain(path: &Path, error: FileError) -> LabError {
    let mut start = [0; 16];
    // What was read once is a file, and no pipe to wait for.
    let read = match &error {
        FileError::Load { .. } => std::fs::File::open(path).and_then(|mut file| file.read(&mut start)),
        FileError::Io { .. } => Ok(0),
    };
    match tandem_nnue::Format::of(&start[..read.unwrap_or(0)]) {
        // Transformers are in safetensors too.
        None | Some(tandem_nnue::Format::Float) => error.into(),
        Some(format) => {
            let (path, format) = (path.display(), format.name());
            LabError::Usage(format!(
                "{path}: an NNUE ({format}), which plays with a search: \
                 tandem-lab play --engine cmd=@tandem,option.EvalFile={path}"
            ))
        }
    }
}

impl Analyst for Strategist {
    fn name(&self) -> &str {
        &self.name
    }

    fn analyse(&mut self, game: &GameSoFar, _: &Clock) -> Result<Analysis, Fault> {
        let start = Instant::now();
        let cancel = &self.cancel;
        let advice =
            self.adviser.weigh_some(&mut game.position.clone(), &[], || cancel.load(Ordering::Relaxed));
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Fault::Cancelled);
        }
        let best = advice.moves.first().ok_or_else(|| Fault::Illegal("(none)".into()))?;
        let score = best.prospect.map(|prospect| match prospect {
            Prospect::Mate => Score::Mate(1),
            other => Score::Cp(centipawns_of_chance(other.chance()).round() as i32),
        });
        let elapsed = start.elapsed();
        let nodes = Some(advice.judged as u64);
        let info = Info { depth: Some(1), score, nodes, ..Info::default() };
        Ok(Analysis { best: best.mv, elapsed, infos: vec![(elapsed, info)] })
    }

    fn forget(&mut self, _: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn is_well(&self) -> bool {
        true
    }
}
