//! How games end.

use serde::{Deserialize, Serialize};
use std::fmt;
use tandem_chess::{Color, Position};

/// The result of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// 1-0.
    #[serde(rename = "1-0")]
    WhiteWins,
    /// 0-1.
    #[serde(rename = "0-1")]
    BlackWins,
    /// 1/2-1/2.
    #[serde(rename = "1/2-1/2")]
    Draw,
}

impl Outcome {
    /// The win of one side.
    pub fn won_by(color: Color) -> Self {
        match color {
            Color::White => Self::WhiteWins,
            Color::Black => Self::BlackWins,
        }
    }

    /// Half points of White: 2 for a win, 1 for a draw.
    pub fn white_half_points(self) -> u8 {
        match self {
            Self::WhiteWins => 2,
            Self::Draw => 1,
            Self::BlackWins => 0,
        }
    }

    /// Half points of one side.
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

/// What the rules of chess say about a position that a game has reached; none if the game goes on.
pub fn verdict(position: &Position) -> Option<(Outcome, Termination)> {
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

/// What ended a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// Mate on the board.
    Checkmate,
    /// No legal move, no check.
    Stalemate,
    /// The same position for the third time.
    Repetition,
    /// Fifty moves without capture or pawn move.
    FiftyMoves,
    /// No mate possible.
    InsufficientMaterial,
    /// Lost by the players' own evaluations.
    Resignation,
    /// Drawn by the players' own evaluations.
    DrawAgreed,
    /// The result stands in the tablebases.
    Tablebase,
    /// Too long.
    MoveLimit,
    /// Time ran out.
    TimeLoss,
    /// A move that is none.
    IllegalMove,
    /// The engine's process ended.
    Crash,
    /// The engine did not answer.
    Hang,
}

impl Termination {
    /// All of them, in the order of tables.
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

    /// Whether the loser's fault, not its chess, ended the game.
    pub fn is_forfeit(self) -> bool {
        matches!(self, Self::TimeLoss | Self::IllegalMove | Self::Crash | Self::Hang)
    }

    /// In a few words.
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

    /// The value of PGN's `Termination` tag.
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
