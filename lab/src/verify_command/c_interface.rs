//! The C interface as a C program calls it, wrapped in handles that free themselves.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::null_mut;
use tandem_nnue_c::*;

/// A network that was loaded through the C interface.
pub(super) struct CNetwork(*mut TandemNetwork);

/// A board of the C interface, with its accumulators.
pub(super) struct CBoard(*mut TandemBoard);

/// Turns the status of the last call into a result, with the message of the interface as the error.
fn check(status: TandemStatus) -> Result<(), String> {
    if status == TandemStatus::Ok {
        return Ok(());
    }
    // SAFETY: the text is never null, ends with a zero, and is valid until the next failing call of this
    // thread.
    let message = unsafe { CStr::from_ptr(tandem_last_error()) };
    Err(format!("{status:?}: {}", message.to_string_lossy()))
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} has a zero in it"))
}

impl CNetwork {
    /// Loads a network file.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let path = text(&path.to_string_lossy())?;
        let mut handle = null_mut();
        // SAFETY: the path ends with a zero, and `handle` can be written to.
        check(unsafe { tandem_network_load(path.as_ptr(), &mut handle) })?;
        Ok(Self(handle))
    }

    /// Evaluates a position given as FEN, in centipawns.
    pub(super) fn evaluate(&self, fen: &str) -> Result<i32, String> {
        let fen = text(fen)?;
        let mut centipawns = 0;
        // SAFETY: the handle is live, the FEN ends with a zero, and `centipawns` can be written to.
        check(unsafe { tandem_evaluate_fen(self.0, fen.as_ptr(), &mut centipawns) })?;
        Ok(centipawns)
    }

    /// A new board with the position of a FEN.
    pub(super) fn board(&self, fen: &str) -> Result<CBoard, String> {
        let fen = text(fen)?;
        let mut handle = null_mut();
        // SAFETY: the handle is live, the FEN ends with a zero, and `handle` can be written to.
        check(unsafe { tandem_board_new(self.0, fen.as_ptr(), &mut handle) })?;
        Ok(CBoard(handle))
    }
}

impl Drop for CNetwork {
    fn drop(&mut self) {
        // SAFETY: made by `tandem_network_load`, and freed only here.
        unsafe { tandem_network_free(self.0) };
    }
}

impl CBoard {
    /// Plays a move in UCI notation and updates the accumulators.
    pub(super) fn push(&mut self, mv: &str) -> Result<(), String> {
        let mv = text(mv)?;
        // SAFETY: the handle is live and belongs to this thread, and the move ends with a zero.
        check(unsafe { tandem_board_push(self.0, mv.as_ptr()) })
    }

    /// Takes the last move back.
    pub(super) fn pop(&mut self) -> Result<(), String> {
        // SAFETY: the handle is live and belongs to this thread.
        check(unsafe { tandem_board_pop(self.0) })
    }

    /// Evaluates the current position, in centipawns.
    pub(super) fn evaluate(&mut self) -> Result<i32, String> {
        let mut centipawns = 0;
        // SAFETY: the handle is live and belongs to this thread, and `centipawns` can be written to.
        check(unsafe { tandem_board_evaluate(self.0, &mut centipawns) })?;
        Ok(centipawns)
    }
}

impl Drop for CBoard {
    fn drop(&mut self) {
        // SAFETY: made by `tandem_board_new`, and freed only here.
        unsafe { tandem_board_free(self.0) };
    }
}
