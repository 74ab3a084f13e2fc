//! From a description to a player: a process, or Tandem within this program.

use crate::inside::{SEARCHLESS, Searchless, TANDEM, TandemPlayer};
use crate::{Analyst, EngineSpec, Patience, Player, StartError, UciPlayer};
use std::sync::{Arc, atomic::AtomicBool};

/// Starts someone who plays games.
pub fn start_player(
    spec: &EngineSpec,
    patience: Patience,
    cancel: &Arc<AtomicBool>,
) -> Result<Box<dyn Player>, StartError> {
    Ok(match spec.command.to_str() {
        Some(TANDEM) => Box::new(TandemPlayer::new(spec, Arc::clone(cancel))?),
        Some(SEARCHLESS) => Box::new(Searchless::new(spec)?),
        _ => Box::new(UciPlayer::start(spec, patience, Arc::clone(cancel))?),
    })
}

/// Starts someone who analyses positions.
pub fn start_analyst(
    spec: &EngineSpec,
    patience: Patience,
    cancel: &Arc<AtomicBool>,
) -> Result<Box<dyn Analyst>, StartError> {
    Ok(match spec.command.to_str() {
        Some(TANDEM) => Box::new(TandemPlayer::new(spec, Arc::clone(cancel))?),
        Some(SEARCHLESS) => Box::new(Searchless::new(spec)?),
        _ => Box::new(UciPlayer::start(spec, patience, Arc::clone(cancel))?),
    })
}
