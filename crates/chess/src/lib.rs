//! Positions, moves and their notations: the rules of the game and its formats of text.
//!
//! The rules themselves (legal moves, Chess960, checkers and pins) come from [`cozy_chess`], whose types are
//! re-exported here. Around them this crate puts what a game needs and a bare board does not know. Use it for
//! anything that plays, reads or writes games; use `cozy_chess` alone if a board without history is enough.
//!
//! - [`Position`]: a board with its history, repetition, the fifty-move rule, and keys for transposition and correction tables; it logs what each move [`Changes`], so that an observer such as an NNUE can follow a game without the board knowing of it;
//! - [`fen`], [`uci`], [`san`], [`epd`], [`pgn`]: positions, moves and games as text, Chess960 and double Chess960 included;
//! - [`move_map`]: the policy indices that networks give to moves; [`history`]: past boards as lc0's networks see them;
//! - [`random_walk`]: random legal moves, for openings and tests;
//! - exchange evaluation ([`Position::see_ge`]) and [`Position::gives_check`].
//!
//! ```
//! use tandem_chess::{Position, uci};
//!
//! let mut position = Position::startpos();
//! let e4 = uci::parse(position.board(), "e2e4")?;
//! position.play(e4);
//! assert_eq!(position.fen(), "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1");
//! assert_eq!(position.changes().added()[0].square, tandem_chess::Square::E4);
//! # Ok::<(), uci::UciMoveError>(())
//! ```

mod attacks;
mod build;
mod changes;
pub mod epd;
pub mod fen;
pub mod history;
mod keys;
pub mod move_map;
mod noisy;
mod packed;
mod perft;
pub mod pgn;
mod position;
mod random_walk;
mod repetition;
pub mod san;
mod see;
mod text;
pub mod uci;

pub use attacks::{attackers_to, attacks_by, attacks_by_kind, checking_squares, pawn_attacks};
pub use build::{BoardError, build};
pub use changes::{BadChanges, Changes, Placed};
pub use keys::{Keys, en_passant_target};
pub use noisy::generate_noisy;
pub use packed::PackedMove;
pub use perft::perft;
pub use position::{IllegalMove, MAX_MOVES, MoveList, Position};
pub use random_walk::random_walk;
pub use see::exchange_value;

pub use cozy_chess::{
    BitBoard, Board, BoardBuilder, CastleRights, Color, File, Move, Piece, PieceMoves, Rank, Square,
    get_between_rays, get_bishop_moves, get_bishop_rays, get_king_moves, get_knight_moves, get_line_rays,
    get_pawn_attacks, get_pawn_quiets, get_rook_moves, get_rook_rays,
};
