//! The `--engine` option of the commands that analyse positions: `suite`, `puzzles` and `play`.

use crate::error::LabError;
use std::sync::{Arc, atomic::AtomicBool};
use tandem_arena::{Analyst, EngineLimits, EngineSpec, StartError, TimeLimit, Timeouts, start_analyst};

/// The description of an engine, from which any number of copies can be started.
pub(crate) struct Engine {
    pub(crate) spec: EngineSpec,
    cancel: Arc<AtomicBool>,
}

impl Engine {
    /// Parses a description such as `cmd=stockfish,nodes=1000`; without one, our own engine runs inside this
    /// program. `limits` apply if the description sets none.
    ///
    /// # Errors
    ///
    /// When the description has an unknown or repeated key, or a bad value.
    pub(crate) fn new(
        text: Option<&str>,
        limits: TimeLimit,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Self, LabError> {
        let mut spec = match text {
            Some(text) => EngineSpec::parse(text, "")?,
            None => EngineSpec { command: "@tandem".into(), ..EngineSpec::default() },
        };
        if !spec.limits.is_bounded() {
            spec.limits = EngineLimits { time: limits, ..spec.limits };
        }
        Ok(Self { spec, cancel: Arc::clone(cancel) })
    }

    /// Starts a copy of the engine, as a process or inside this program.
    ///
    /// # Errors
    ///
    /// When the engine cannot be started or does not answer in time.
    pub(crate) fn analyst(&self) -> Result<Box<dyn Analyst>, StartError> {
        start_analyst(&self.spec, Timeouts::default(), &self.cancel)
    }
}
