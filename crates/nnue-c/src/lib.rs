//! The C interface of `tandem-nnue`: networks, and boards whose evaluation is updated with their moves.
//!
//! Use it from C, C++ or any language with a C foreign-function interface; Rust programs use `tandem-nnue`
//! directly. The header `include/tandem_nnue.h` is generated from this file, `include/tandem_nnue.hpp` wraps
//! it for C++, and `examples/` has a program for each.
//!
//! - [`TandemNetwork`]: a loaded network ([`tandem_network_load`], [`tandem_network_free`], [`tandem_evaluate_fen`]);
//! - [`TandemBoard`]: a position with its accumulators ([`tandem_board_new`], [`tandem_board_push`], [`tandem_board_pop`],
//!   [`tandem_board_evaluate`]);
//! - [`TandemStatus`]: the result of a call, with [`tandem_last_error`] for the message.
//!
//! Every function that can fail returns a [`TandemStatus`]. Handles belong to the caller, who frees each of
//! them once. A network may be used by several threads at a time, a board by one. No panic crosses the
//! boundary.
//!
//! The calls are the same from Rust, C and C++:
//!
//! ```
//! use std::ptr::null_mut;
//! use tandem_nnue_c::*;
//!
//! let (mut network, mut board, mut centipawns) = (null_mut(), null_mut(), 0);
//! let start = c"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
//! // SAFETY: all pointers are valid, the strings end with a zero, and each handle is freed once.
//! unsafe {
//!     assert_eq!(tandem_network_load(c"../../nets/tandem.tnn".as_ptr(), &mut network), TandemStatus::Ok);
//!     assert_eq!(tandem_board_new(network, start.as_ptr(), &mut board), TandemStatus::Ok);
//!     assert_eq!(tandem_board_push(board, c"e2e4".as_ptr()), TandemStatus::Ok);
//!     assert_eq!(tandem_board_evaluate(board, &mut centipawns), TandemStatus::Ok);
//!     tandem_board_free(board);
//!     tandem_network_free(network);
//! }
//! assert!(centipawns.abs() < 100);
//! ```

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tandem_chess::{Position, uci};
use tandem_nnue::{Accumulators, Network};

/// The result of a call. After anything but success, `tandem_last_error` returns a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TandemStatus {
    /// Success.
    Ok = 0,
    /// A pointer that must not be null was null.
    NullPointer = 1,
    /// A string was not UTF-8.
    InvalidText = 2,
    /// The network file cannot be read, or is not a valid network.
    BadNetwork = 3,
    /// The string is not a FEN, or not a position that can be played on.
    BadPosition = 4,
    /// The move is not in UCI notation or not legal here; or a null move was pushed in check.
    BadMove = 5,
    /// There is no move to take back.
    NothingToPop = 6,
    /// The library has a bug. The call failed, but the program may continue; please report it.
    InternalError = 7,
}

/// A loaded network. It is immutable and may be used by several threads at a time.
pub struct TandemNetwork(Arc<Network>);

/// A position, the moves that led to it, and its accumulators. It may be used by one thread at a time.
pub struct TandemBoard {
    network: Arc<Network>,
    position: Position,
    accumulators: Accumulators,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

type Failure = (TandemStatus, String);

/// Runs a call, stores the message of an error, and turns a panic into a status.
fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> TandemStatus {
    let (status, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return TandemStatus::Ok,
        Ok(Err(failure)) => failure,
        Err(_) => (TandemStatus::InternalError, "the library failed; please report this".into()),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending may have destroyed its thread-local storage.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = message);
    status
}

fn null(what: &str) -> Failure {
    (TandemStatus::NullPointer, format!("{what} is null"))
}

/// # Safety
/// `text` is null or a zero-terminated string.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| (TandemStatus::InvalidText, format!("{what} is not UTF-8")))
}

fn position(fen: &str) -> Result<Position, Failure> {
    Position::from_fen(fen).map_err(|error| (TandemStatus::BadPosition, error.to_string()))
}

/// Returns the message of this thread's last call that failed, or an empty string. It stays valid until the
/// next call that fails, or the end of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn tandem_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Loads a network file of any format that can be detected, and stores a handle in `network`.
///
/// Returns `TANDEM_STATUS_BAD_NETWORK` if the file cannot be read or is not a valid network.
///
/// # Safety
/// `path` is null or a zero-terminated string; `network` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_network_load(
    path: *const c_char,
    network: *mut *mut TandemNetwork,
) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { text(path, "path") }?;
        if network.is_null() {
            return Err(null("network"));
        }
        let loaded = Network::load(path).map_err(|error| (TandemStatus::BadNetwork, error.to_string()))?;
        let handle = Box::into_raw(Box::new(TandemNetwork(Arc::new(loaded))));
        // SAFETY: not null, and the caller promises the rest.
        unsafe { network.write(handle) };
        Ok(())
    })
}

/// Frees a network. Boards made from it stay valid. Null is ignored.
///
/// # Safety
/// `network` is null or came from [`tandem_network_load`] and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_network_free(network: *mut TandemNetwork) {
    if !network.is_null() {
        // SAFETY: made by `Box::into_raw`, and the caller promises that it is freed once.
        drop(unsafe { Box::from_raw(network) });
    }
}

/// Evaluates a position from scratch, and stores the value for the side to move in `centipawns`. For the positions of
/// a game or a search a board is faster, because it recomputes only what a move changed.
///
/// # Safety
/// `network` is null or a live handle; `fen` is null or a zero-terminated string; `centipawns` is null or may
/// be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_evaluate_fen(
    network: *const TandemNetwork,
    fen: *const c_char,
    centipawns: *mut i32,
) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (network, fen) = unsafe { (network.as_ref().ok_or_else(|| null("network"))?, text(fen, "fen")?) };
        if centipawns.is_null() {
            return Err(null("centipawns"));
        }
        let value = network.0.evaluate(position(fen)?.board()).centipawns();
        // SAFETY: not null, and the caller promises the rest.
        unsafe { centipawns.write(value) };
        Ok(())
    })
}

/// Sets up a board with a position for a network, and stores a handle in `board`.
///
/// # Safety
/// As for [`tandem_evaluate_fen`]; `board` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_new(
    network: *const TandemNetwork,
    fen: *const c_char,
    board: *mut *mut TandemBoard,
) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (network, fen) = unsafe { (network.as_ref().ok_or_else(|| null("network"))?, text(fen, "fen")?) };
        if board.is_null() {
            return Err(null("board"));
        }
        let network = Arc::clone(&network.0);
        let position = position(fen)?;
        let mut accumulators = Accumulators::new(&network);
        accumulators.reset(&network, position.board());
        let handle = Box::into_raw(Box::new(TandemBoard { network, position, accumulators }));
        // SAFETY: not null, and the caller promises the rest.
        unsafe { board.write(handle) };
        Ok(())
    })
}

/// Sets up another position on a board, and forgets the moves before. If the FEN is invalid, the board stays
/// as it was.
///
/// # Safety
/// `board` is null or a live handle that no other thread uses; `fen` is null or a zero-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_set(board: *mut TandemBoard, fen: *const c_char) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (board, fen) = unsafe { (board.as_mut().ok_or_else(|| null("board"))?, text(fen, "fen")?) };
        board.position = position(fen)?;
        board.accumulators.reset(&board.network, board.position.board());
        Ok(())
    })
}

/// Frees a board. Null is ignored.
///
/// # Safety
/// `board` is null or came from [`tandem_board_new`] and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_free(board: *mut TandemBoard) {
    if !board.is_null() {
        // SAFETY: made by `Box::into_raw`, and the caller promises that it is freed once.
        drop(unsafe { Box::from_raw(board) });
    }
}

/// Plays a move in UCI notation, for example `e2e4`, `e7e8q`, or castling as `e1g1` or as the king taking its
/// rook.
///
/// Returns `TANDEM_STATUS_BAD_MOVE` if the move is not legal; the board then stays as it was.
///
/// # Safety
/// `board` is null or a live handle that no other thread uses; `uci_move` is null or a zero-terminated
/// string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_push(board: *mut TandemBoard, uci_move: *const c_char) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (board, notation) =
            unsafe { (board.as_mut().ok_or_else(|| null("board"))?, text(uci_move, "uci_move")?) };
        let mv = uci::parse(board.position.board(), notation)
            .map_err(|error| (TandemStatus::BadMove, error.to_string()))?;
        board.position.play(mv);
        board.accumulators.push(&board.network, board.position.changes());
        Ok(())
    })
}

/// Plays a null move: the side to move passes, as in null-move pruning. Not allowed in check.
///
/// # Safety
/// `board` is null or a live handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_push_null(board: *mut TandemBoard) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let board = unsafe { board.as_mut() }.ok_or_else(|| null("board"))?;
        if !board.position.play_null() {
            return Err((TandemStatus::BadMove, "the side to move is in check and may not pass".into()));
        }
        board.accumulators.push(&board.network, board.position.changes());
        Ok(())
    })
}

/// Takes back the last move or null move.
///
/// Returns `TANDEM_STATUS_NOTHING_TO_POP` at the position that was set up.
///
/// # Safety
/// `board` is null or a live handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_pop(board: *mut TandemBoard) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let board = unsafe { board.as_mut() }.ok_or_else(|| null("board"))?;
        if !board.position.undo() {
            return Err((TandemStatus::NothingToPop, "there is no move to take back".into()));
        }
        board.accumulators.pop();
        Ok(())
    })
}

/// Evaluates the current position, updating the accumulators from the positions before it, and stores the value for
/// the side to move in `centipawns`.
///
/// # Safety
/// `board` is null or a live handle that no other thread uses; `centipawns` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tandem_board_evaluate(
    board: *mut TandemBoard,
    centipawns: *mut i32,
) -> TandemStatus {
    guarded(|| {
        // SAFETY: the caller's promise.
        let board = unsafe { board.as_mut() }.ok_or_else(|| null("board"))?;
        if centipawns.is_null() {
            return Err(null("centipawns"));
        }
        let value = board.accumulators.evaluate(&board.network, board.position.board()).centipawns();
        // SAFETY: not null, and the caller promises the rest.
        unsafe { centipawns.write(value) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;
    use tandem_nnue::*;

    #[test]
    fn null_pointers_and_invalid_text_return_a_status() {
        // SAFETY: null is allowed everywhere, handles live until they are freed, and the strings are
        // zero-terminated.
        unsafe {
            let mut network = null_mut();
            assert_eq!(tandem_network_load(std::ptr::null(), &mut network), TandemStatus::NullPointer);
            assert_eq!(tandem_network_load(c"/no/such/file".as_ptr(), null_mut()), TandemStatus::NullPointer);
            assert_eq!(
                tandem_network_load(c"/no/such/file".as_ptr(), &mut network),
                TandemStatus::BadNetwork
            );
            let message = CStr::from_ptr(tandem_last_error()).to_str().unwrap();
            assert!(message.contains("/no/such/file"), "{message}");
            assert!(network.is_null());
            assert_eq!(tandem_network_load(c"\xFF".as_ptr(), &mut network), TandemStatus::InvalidText);
            assert_eq!(tandem_board_pop(null_mut()), TandemStatus::NullPointer);
            assert_eq!(tandem_board_push_null(null_mut()), TandemStatus::NullPointer);
            tandem_network_free(null_mut());
            tandem_board_free(null_mut());
            let mut own = TandemNetwork(Arc::new(self::network()));
            let network: *mut TandemNetwork = &mut own;
            let fen = c"4k3/8/8/8/8/8/4P3/4K3 w - - 0 1".as_ptr();
            let mut board = null_mut();
            assert_eq!(tandem_board_new(network, fen, &mut board), TandemStatus::Ok);
            let mut untouched = 77;
            for answer in [
                tandem_evaluate_fen(null_mut(), fen, &mut untouched),
                tandem_evaluate_fen(network, std::ptr::null(), &mut untouched),
                tandem_evaluate_fen(network, fen, null_mut()),
                tandem_board_new(null_mut(), fen, &mut null_mut()),
                tandem_board_new(network, std::ptr::null(), &mut null_mut()),
                tandem_board_new(network, fen, null_mut()),
                tandem_board_set(null_mut(), fen),
                tandem_board_set(board, std::ptr::null()),
                tandem_board_push(null_mut(), c"e2e4".as_ptr()),
                tandem_board_push(board, std::ptr::null()),
                tandem_board_evaluate(null_mut(), &mut untouched),
                tandem_board_evaluate(board, null_mut()),
            ] {
                assert_eq!(answer, TandemStatus::NullPointer);
            }
            assert_eq!(untouched, 77);
            tandem_board_free(board);
        }
    }

    /// A small network whose values differ between positions and between sides.
    fn network() -> Network {
        let head = HeadShape::Flat { activation: Activation::Crelu, buckets: OutputBuckets::ONE };
        let features = FeatureSet::plain();
        let mut float = FloatNetwork::zeroed(
            Architecture { features, outputs: 32, tied: true, psqt: false, head },
            400,
            100,
        );
        for (at, weight) in float.weights.iter_mut().enumerate() {
            *weight = (at * 37 % 101) as f32 / 1000.0 - 0.04;
        }
        for (at, weight) in float.stacks[0][0].weights.iter_mut().enumerate() {
            *weight = (at * 29 % 61) as f32 / 30.0 - 1.0;
        }
        float.quantise(Quantisation::default()).unwrap().0
    }

    #[test]
    fn incremental_evaluation_equals_evaluation_from_scratch() {
        const START: &CStr = c"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        const AFTER: &CStr = c"rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1";
        const CHECK: &CStr = c"4k3/8/8/8/8/8/4r3/4K3 w - - 0 1";
        let path = std::env::temp_dir().join(format!("tandem-nnue-c-{}.tnn", std::process::id()));
        std::fs::write(&path, network().to_bytes()).unwrap();
        let file = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: handles are live until they are freed at the end, and the strings are zero-terminated.
        unsafe {
            let (mut network, mut board) = (null_mut(), null_mut());
            assert_eq!(tandem_network_load(file.as_ptr(), &mut network), TandemStatus::Ok);
            std::fs::remove_file(path).unwrap();
            let from_scratch = |fen: &CStr| {
                let mut value = 0;
                assert_eq!(tandem_evaluate_fen(network, fen.as_ptr(), &mut value), TandemStatus::Ok);
                value
            };
            assert_eq!(tandem_board_new(network, START.as_ptr(), &mut board), TandemStatus::Ok);
            let value = || {
                let mut value = 0;
                assert_eq!(tandem_board_evaluate(board, &mut value), TandemStatus::Ok);
                value
            };
            assert_ne!(from_scratch(START), from_scratch(AFTER));
            assert_eq!(value(), from_scratch(START));
            assert_eq!(tandem_board_push(board, c"e2e4".as_ptr()), TandemStatus::Ok);
            assert_eq!(value(), from_scratch(AFTER));
            assert_eq!(tandem_board_push(board, c"e2e4".as_ptr()), TandemStatus::BadMove);
            assert_eq!(tandem_board_push_null(board), TandemStatus::Ok);
            assert_eq!(tandem_board_pop(board), TandemStatus::Ok);
            assert_eq!(value(), from_scratch(AFTER));
            assert_eq!(tandem_board_pop(board), TandemStatus::Ok);
            assert_eq!(value(), from_scratch(START));
            assert_eq!(tandem_board_pop(board), TandemStatus::NothingToPop);

            assert_eq!(tandem_board_set(board, c"no position".as_ptr()), TandemStatus::BadPosition);
            assert_eq!(value(), from_scratch(START));
            assert_eq!(tandem_board_set(board, CHECK.as_ptr()), TandemStatus::Ok);
            assert_eq!(value(), from_scratch(CHECK));
            assert_eq!(tandem_board_push_null(board), TandemStatus::BadMove);
            tandem_network_free(network);
            assert_eq!(tandem_board_push(board, c"e1e2".as_ptr()), TandemStatus::Ok);
            tandem_board_free(board);
        }
    }

    #[test]
    fn panics_do_not_cross_the_boundary() {
        assert_eq!(guarded(|| panic!("on purpose")), TandemStatus::InternalError);
    }
}
