// Networks for chess, evaluated from C. Made by cbindgen from crates/nnue-c/src/lib.rs: change it there.
//
// Every function that can fail returns a TandemStatus. If that is not TANDEM_STATUS_OK, nothing was written through the
// pointers that were handed in, and tandem_last_error says more. Handles belong to the caller, who frees each of them once;
// a board may outlive its network's handle. A network may be used by several threads at a time, a board by one.

#ifndef TANDEM_NNUE_H
#define TANDEM_NNUE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// How a call went.
typedef enum {
  // Well.
  TANDEM_STATUS_OK = 0,
  // A pointer was null.
  TANDEM_STATUS_NULL_POINTER = 1,
  // Text was not UTF-8.
  TANDEM_STATUS_INVALID_TEXT = 2,
  // The network file cannot be read, or is none.
  TANDEM_STATUS_BAD_NETWORK = 3,
  // The text is no FEN, or no position that can be played on.
  TANDEM_STATUS_BAD_POSITION = 4,
  // The move is no move in UCI notation, or not legal here; or the side to move may not pass, being in check.
  TANDEM_STATUS_BAD_MOVE = 5,
  // There is no move to take back.
  TANDEM_STATUS_NOTHING_TO_POP = 6,
  // The library has a bug, which it survived.
  TANDEM_STATUS_INTERNAL_ERROR = 7,
} TandemStatus;

// A position with the moves that led to it, and what the network keeps of it.
typedef struct TandemBoard TandemBoard;

// A network.
typedef struct TandemNetwork TandemNetwork;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What went wrong in this thread's last call that failed. The text is valid until the next one that fails, and as long as
// the thread lives.
const char *tandem_last_error(void);

// Loads a network file of any format that says what it is, and puts a handle into `network`.
//
// # Safety
// `path` is null or a string with a zero at its end; `network` is null or may be written to.
TandemStatus tandem_network_load(const char *path, TandemNetwork **network);

// Frees a network. Boards made from it stay valid. Null is ignored.
//
// # Safety
// `network` is null or came from [`tandem_network_load`] and was not freed before.
void tandem_network_free(TandemNetwork *network);

// Evaluates a position from nothing: centipawns for the side to move.
//
// # Safety
// `network` is null or a live handle; `fen` is null or a string with a zero at its end; `centipawns` is null or may be
// written to.
TandemStatus tandem_evaluate_fen(const TandemNetwork *network,
                                 const char *fen,
                                 int32_t *centipawns);

// Sets up a board that a network evaluates, and puts a handle into `board`.
//
// # Safety
// As for [`tandem_evaluate_fen`]; `board` is null or may be written to.
TandemStatus tandem_board_new(const TandemNetwork *network, const char *fen, TandemBoard **board);

// Sets up another position on a board, which has no moves to take back then. A board that fails stays as it was.
//
// # Safety
// `board` is null or a live handle that no other thread uses; `fen` is null or a string with a zero at its end.
TandemStatus tandem_board_set(TandemBoard *board,
                              const char *fen);

// Frees a board. Null is ignored.
//
// # Safety
// `board` is null or came from [`tandem_board_new`] and was not freed before.
void tandem_board_free(TandemBoard *board);

// Plays a move in UCI notation: `e2e4`, `e7e8q`, castling as `e1g1` or as the king taking the rook.
//
// # Safety
// `board` is null or a live handle that no other thread uses; `uci_move` is null or a string with a zero at its end.
TandemStatus tandem_board_push(TandemBoard *board,
                               const char *uci_move);

// Passes the move, as a search does for its null moves. Not in check.
//
// # Safety
// `board` is null or a live handle that no other thread uses.
TandemStatus tandem_board_push_null(TandemBoard *board);

// Takes the last move back, or the last pass.
//
// # Safety
// `board` is null or a live handle that no other thread uses.
TandemStatus tandem_board_pop(TandemBoard *board);

// Evaluates the board, from what is known of the positions before: centipawns for the side to move.
//
// # Safety
// `board` is null or a live handle that no other thread uses; `centipawns` is null or may be written to.
TandemStatus tandem_board_evaluate(TandemBoard *board, int32_t *centipawns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TANDEM_NNUE_H */
