//! Starts players and analysts from their descriptions: as a process, or within this one.

use crate::in_process::{SEARCHLESS, Searchless, TANDEM, TandemPlayer};
use crate::{Analyst, EngineSpec, Player, StartError, Timeouts, UciPlayer};
use std::sync::{Arc, atomic::AtomicBool};

/// Starts a player for games. Once `cancel` is set, its searches end with [`crate::Fault::Cancelled`].
///
/// # Errors
///
/// Fails if the program does not run or does not answer as a UCI engine, or if one of its options is not
/// accepted.
pub fn start_player(
    spec: &EngineSpec,
    timeouts: Timeouts,
    cancel: &Arc<AtomicBool>,
) -> Result<Box<dyn Player>, StartError> {
    Ok(match spec.command.to_str() {
        Some(TANDEM) => Box::new(TandemPlayer::new(spec, Arc::clone(cancel))?),
        Some(SEARCHLESS) => Box::new(Searchless::new(spec)?),
        _ => Box::new(UciPlayer::start(spec, timeouts, Arc::clone(cancel))?),
    })
}

/// Starts an analyst for positions. Once `cancel` is set, its searches end with [`crate::Fault::Cancelled`].
///
/// # Errors
///
/// Fails if the program does not run or does not answer as a UCI engine, or if one of its options is not
/// accepted.
pub fn start_analyst(
    spec: &EngineSpec,
    timeouts: Timeouts,
    cancel: &Arc<AtomicBool>,
) -> Result<Box<dyn Analyst>, StartError> {
    Ok(match spec.command.to_str() {
        Some(TANDEM) => Box::new(TandemPlayer::new(spec, Arc::clone(cancel))?),
        Some(SEARCHLESS) => Box::new(Searchless::new(spec)?),
        _ => Box::new(UciPlayer::start(spec, timeouts, Arc::clone(cancel))?),
    })
}
