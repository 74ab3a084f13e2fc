//! Results of games and the reasons for their ends, with the words that tables and PGN use for them.

use serde::{Deserialize, Serialize};
use std::fmt;
use tandem_chess::{Color, Position};

/// Result of a finished game. It is stored by its PGN spelling in state files and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// White won, `1-0` in PGN.
    #[serde(rename = "1-0")]
    WhiteWins,
    /// Black won, `0-1` in PGN.
    #[serde(rename = "0-1")]
    BlackWins,
    /// Neither side won, `1/2-1/2` in PGN.
    #[serde(rename = "1/2-1/2")]
    Draw,
}

impl Outcome {
    /// Result of a game that `color` has won.
    pub fn won_by(color: Color) -> Self {
        match color {
            Color::White => Self::WhiteWins,
            Color::Black => Self::BlackWins,
        }
    }

    /// Points of White in halves: 2 for a win, 1 for a draw, 0 for a loss.
    pub fn white_half_points(self) -> u8 {
        match self {
            Self::WhiteWins => 2,
            Self::Draw => 1,
            Self::BlackWins => 0,
        }
    }

    /// Points of one side in halves: 2 for a win, 1 for a draw, 0 for a loss.
    pub fn half_points(self, color: Color) -> u8 {
        match color {
            Color::White => self.white_half_points(),
            Color::Black => 2 - self.white_half_points(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Self::WhiteWins => "1-0",
            Self::BlackWins => "0-1",
            Self::Draw => "1/2-1/2",
        })
    }
}

/// Result by the rules of chess, with the reason; `None` if the game continues. Draws by the third occurrence
/// of a position and by the fifty-move rule count without a claim.
pub fn result_by_rules(position: &Position) -> Option<(Outcome, Termination)> {
    let draw = |termination| Some((Outcome::Draw, termination));
    if !position.has_legal_move() {
        if position.in_check() {
            return Some((Outcome::won_by(!position.side_to_move()), Termination::Checkmate));
        }
        return draw(Termination::Stalemate);
    }
    if position.is_insufficient_material() {
        return draw(Termination::InsufficientMaterial);
    }
    if position.is_fifty_moves() {
        return draw(Termination::FiftyMoves);
    }
    if position.repetitions() >= 2 { draw(Termination::Repetition) } else { None }
}

/// Reason for which a game ended, for example checkmate or a loss on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// The side to move is in check and has no legal move.
    Checkmate,
    /// The side to move has no legal move and is not in check.
    Stalemate,
    /// The position occurred for the third time.
    Repetition,
    /// Fifty moves of each side passed without a capture or a pawn move.
    FiftyMoves,
    /// Neither side has enough material to mate, for example king and knight against king.
    InsufficientMaterial,
    /// Adjudicated as won, because both players' evaluations agreed on it.
    Resignation,
    /// Adjudicated as drawn, because both players' evaluations stayed near zero.
    DrawAgreed,
    /// Adjudicated as won, lost or drawn by the Syzygy tablebases that the match was given.
    Tablebase,
    /// Adjudicated as a draw, because the game reached the limit of moves.
    MoveLimit,
    /// A move came after its time, by more than the tolerance.
    TimeLoss,
    /// An engine answered with something other than a legal move.
    IllegalMove,
    /// An engine's process ended during the game or did not start.
    Crash,
    /// An engine did not answer in time, not even to `stop`.
    Hang,
}

impl Termination {
    /// All reasons, in the order in which tables list them.
    pub const ALL: [Self; 13] = [
        Self::Checkmate,
        Self::Stalemate,
        Self::Repetition,
        Self::FiftyMoves,
        Self::InsufficientMaterial,
        Self::Resignation,
        Self::DrawAgreed,
        Self::Tablebase,
        Self::MoveLimit,
        Self::TimeLoss,
        Self::IllegalMove,
        Self::Crash,
        Self::Hang,
    ];

    /// True if the game was lost by a fault of the engine rather than by its chess: time loss, illegal move,
    /// crash or hang.
    pub fn is_forfeit(self) -> bool {
        matches!(self, Self::TimeLoss | Self::IllegalMove | Self::Crash | Self::Hang)
    }

    /// Short description for tables, for example `threefold repetition`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Checkmate => "checkmate",
            Self::Stalemate => "stalemate",
            Self::Repetition => "threefold repetition",
            Self::FiftyMoves => "fifty-move rule",
            Self::InsufficientMaterial => "insufficient material",
            Self::Resignation => "adjudicated win",
            Self::DrawAgreed => "adjudicated draw",
            Self::Tablebase => "tablebase",
            Self::MoveLimit => "move limit",
            Self::TimeLoss => "time loss",
            Self::IllegalMove => "illegal move",
            Self::Crash => "crash",
            Self::Hang => "hang",
        }
    }

    /// Value of the `Termination` tag in PGN.
    pub fn pgn_tag(self) -> &'static str {
        match self {
            Self::TimeLoss => "time forfeit",
            Self::IllegalMove => "rules infraction",
            Self::Crash | Self::Hang => "abandoned",
            Self::Resignation | Self::DrawAgreed | Self::Tablebase | Self::MoveLimit => "adjudication",
            _ => "normal",
        }
    }
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.words())
    }
}
