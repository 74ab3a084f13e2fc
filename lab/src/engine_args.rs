//! An engine that analyses: what `suite`, `puzzles` and `play` share.

use crate::error::LabError;
use std::sync::{Arc, atomic::AtomicBool};
use tandem_arena::{Analyst, EngineSpec, Limits, Patience, StartError, TimeLimit, start_analyst};

/// An engine and how to start copies of it.
pub(crate) struct Engine {
    pub(crate) spec: EngineSpec,
    cancel: Arc<AtomicBool>,
}

impl Engine {
    /// From a description, or our own engine if there is none. `limits` hold where the description sets none.
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
            spec.limits = Limits { time: limits, ..spec.limits };
        }
        Ok(Self { spec, cancel: Arc::clone(cancel) })
    }

    /// Starts a copy.
    pub(crate) fn analyst(&self) -> Result<Box<dyn Analyst>, StartError> {
        start_analyst(&self.spec, Patience::default(), &self.cancel)
    }
}
