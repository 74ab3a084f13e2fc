//! The C interface as a C program calls it, behind handles that free themselves.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::null_mut;
use tandem_nnue_c::*;

/// A network behind the C interface.
pub(super) struct CNetwork(*mut TandemNetwork);

/// A board behind it.
pub(super) struct CBoard(*mut TandemBoard);

/// What the last call said.
fn check(status: TandemStatus) -> Result<(), String> {
    if status == TandemStatus::Ok {
        return Ok(());
    }
    // SAFETY: the text is never null, ends with a zero, and is valid until the next call of this thread that fails.
    let message = unsafe { CStr::from_ptr(tandem_last_error()) };
    Err(format!("{status:?}: {}", message.to_string_lossy()))
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} has a zero in it"))
}

impl CNetwork {
    /// Loads a file.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let path = text(&path.to_string_lossy())?;
        let mut handle = null_mut();
        // SAFETY: a string with its zero, and a place to write to.
        check(unsafe { tandem_network_load(path.as_ptr(), &mut handle) })?;
        Ok(Self(handle))
    }

    /// Centipawns of a position.
    pub(super) fn evaluate(&self, fen: &str) -> Result<i32, String> {
        let fen = text(fen)?;
        let mut centipawns = 0;
        // SAFETY: a live handle, a string with its zero, and a place to write to.
        check(unsafe { tandem_evaluate_fen(self.0, fen.as_ptr(), &mut centipawns) })?;
        Ok(centipawns)
    }

    /// A board in some position.
    pub(super) fn board(&self, fen: &str) -> Result<CBoard, String> {
        let fen = text(fen)?;
        let mut handle = null_mut();
        // SAFETY: a live handle, a string with its zero, and a place to write to.
        check(unsafe { tandem_board_new(self.0, fen.as_ptr(), &mut handle) })?;
        Ok(CBoard(handle))
    }
}

impl Drop for CNetwork {
    fn drop(&mut self) {
        // SAFETY: made by `tandem_network_load`, and freed here only.
        unsafe { tandem_network_free(self.0) };
    }
}

impl CBoard {
    /// Plays a move in UCI notation.
    pub(super) fn push(&mut self, mv: &str) -> Result<(), String> {
        let mv = text(mv)?;
        // SAFETY: a live handle of this thread, and a string with its zero.
        check(unsafe { tandem_board_push(self.0, mv.as_ptr()) })
    }

    /// Takes the last move back.
    pub(super) fn pop(&mut self) -> Result<(), String> {
        // SAFETY: a live handle of this thread.
        check(unsafe { tandem_board_pop(self.0) })
    }

    /// Centipawns of the position.
    pub(super) fn evaluate(&mut self) -> Result<i32, String> {
        let mut centipawns = 0;
        // SAFETY: a live handle of this thread, and a place to write to.
        check(unsafe { tandem_board_evaluate(self.0, &mut centipawns) })?;
        Ok(centipawns)
    }
}

impl Drop for CBoard {
    fn drop(&mut self) {
        // SAFETY: made by `tandem_board_new`, and freed here only.
        unsafe { tandem_board_free(self.0) };
    }
}
