//! The common record that all formats map to and from: a position, a move, a score and a result.
//!
//! Scores and results are always seen by the side to move, whatever the format stores.

use crate::packed::Packed;
use tandem_chess::Move;

/// Evaluation of a position for the side to move, in one of three units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// In hundredths of a pawn, positive if the side to move is better; in the format's own unit where it
    /// does not define one.
    Centipawns(i16),
    /// Mate in this number of moves; negative or zero if the side to move is mated.
    Mate(i16),
    /// Win probability from 0 to 1, with a draw counted as one half.
    WinProbability(f64),
}

/// Score of a mate in zero moves in formats that store only numbers; a mate in `n` moves is this minus `n`.
pub const MATE: i16 = 32_000;

/// Scale of the logistic curve between centipawns and win probability, per centipawn; DeepMind's searchless
/// networks were trained with it.
const WIN_PROBABILITY_SCALE: f64 = 0.003_682_08;

impl Score {
    /// Score as one number from −32,000 to 32,000 for the side to move: mates become [`MATE`] minus the
    /// number of moves (or its negative), and win probabilities are mapped back through the curve of
    /// [`Self::win_probability`].
    pub fn centipawns(self) -> i16 {
        match self {
            Self::Centipawns(value) => value,
            Self::Mate(moves) if moves > 0 => MATE - moves.min(1000),
            Self::Mate(moves) => -MATE - moves.max(-1000),
            Self::WinProbability(probability) => {
                let probability = probability.clamp(1e-9, 1.0 - 1e-9);
                let value = (probability / (1.0 - probability)).ln() / WIN_PROBABILITY_SCALE;
                value.round().clamp(-f64::from(MATE), f64::from(MATE)) as i16
            }
        }
    }

    /// Score as a win probability: 1 / (1 + e^(−0.00368208 · centipawns)); a mate gives exactly 0 or 1.
    pub fn win_probability(self) -> f64 {
        match self {
            Self::Centipawns(value) => 1.0 / (1.0 + (-WIN_PROBABILITY_SCALE * f64::from(value)).exp()),
            Self::Mate(moves) => f64::from(u8::from(moves > 0)),
            Self::WinProbability(probability) => probability,
        }
    }

    /// True for mates, and for centipawn values so large that they stand for a mate in formats that store
    /// only numbers.
    pub fn is_mate(self) -> bool {
        match self {
            Self::Centipawns(value) => value.saturating_abs() >= MATE - 1000,
            Self::Mate(_) => true,
            Self::WinProbability(_) => false,
        }
    }

    /// Score as the opponent sees it: negated, or one minus the win probability.
    pub fn flipped(self) -> Self {
        match self {
            Self::Centipawns(value) => Self::Centipawns(value.saturating_neg()),
            Self::Mate(moves) => Self::Mate(moves.saturating_neg()),
            Self::WinProbability(probability) => Self::WinProbability(1.0 - probability),
        }
    }
}

/// Result of the game for the side to move. The discriminants 0, 1 and 2 are those that bulletformat and
/// viriformat store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// The side to move lost.
    Loss,
    /// The game was drawn.
    Draw,
    /// The side to move won.
    Win,
}

impl Outcome {
    /// Result as the opponent sees it; a draw stays a draw.
    pub fn flipped(self) -> Self {
        match self {
            Self::Loss => Self::Win,
            Self::Draw => Self::Draw,
            Self::Win => Self::Loss,
        }
    }

    /// Result as −1 for a loss, 0 for a draw and 1 for a win of the side to move, as Stockfish's formats
    /// store it.
    pub fn sign(self) -> i8 {
        self as i8 - 1
    }

    /// Result as game points: 0 for a loss, ½ for a draw, 1 for a win.
    pub fn points(self) -> f32 {
        f32::from(self as u8) / 2.0
    }

    /// Result for −1, 0 or 1; `None` for any other number.
    pub fn from_sign(sign: i8) -> Option<Self> {
        match sign {
            -1 => Some(Self::Loss),
            0 => Some(Self::Draw),
            1 => Some(Self::Win),
            _ => None,
        }
    }

    /// Converts White's result to that of `side`, or that of `side` to White's: unchanged if `side` is White,
    /// otherwise with win and loss exchanged.
    pub fn from_view_of(self, side: tandem_chess::Color) -> Self {
        if side == tandem_chess::Color::White { self } else { self.flipped() }
    }
}

/// A position with everything that a training example may hold: move, score, result and place in its game.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Position from which `mv` was played and to which `score` belongs.
    pub position: Packed,
    /// Move that was played, or the best move in labelled data; `None` where the format has none.
    pub mv: Option<Move>,
    /// Score of the position for the side to move; `None` where it was not evaluated.
    pub score: Option<Score>,
    /// Result of the game for the side to move; `None` where the game has none.
    pub result: Option<Outcome>,
    /// Plies since the start of the game; 0 is the first position.
    pub ply: u16,
    /// True for the first record of a game, as far as the format marks it. Records of one game are
    /// consecutive and in order.
    pub starts_game: bool,
}

impl Record {
    /// A record of a position without move, score and result; its ply follows from the move number.
    pub fn new(position: Packed) -> Self {
        Self { position, mv: None, score: None, result: None, ply: position.ply(), starts_game: false }
    }

    /// The same situation with colours swapped and ranks reversed (a1 becomes a8). Move, score and result are
    /// those of the side to move, so that score and result stay, and the move's squares are reversed as well.
    pub fn flipped(&self) -> Self {
        let flip = |mv: Move| Move { from: mv.from.flip_rank(), to: mv.to.flip_rank(), ..mv };
        Self { position: self.position.flipped(), mv: self.mv.map(flip), ..*self }
    }

    /// The record with left and right swapped (a1 becomes h1), its move included; `None` while either side
    /// may still castle, because castling is not symmetric.
    pub fn mirrored(&self) -> Option<Self> {
        let flip = |mv: Move| Move { from: mv.from.flip_file(), to: mv.to.flip_file(), ..mv };
        Some(Self { position: self.position.mirrored()?, mv: self.mv.map(flip), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn win_probabilities_follow_the_logistic_curve_and_round_trip() {
        // Values computed with the searchless networks' own code.
        for (value, probability) in
            [(-1000, 0.02455256365856777), (-100, 0.4089741028083871), (0, 0.5), (300, 0.7511255009383484)]
        {
            assert!((Score::Centipawns(value).win_probability() - probability).abs() < 1e-12);
            assert_eq!(Score::WinProbability(probability).centipawns(), value);
        }
        assert_eq!((Score::Mate(3).centipawns(), Score::Mate(-3).centipawns()), (31_997, -31_997));
        assert_eq!((Score::Mate(0).centipawns(), Score::Mate(1).win_probability()), (-32_000, 1.0));
        assert_eq!(Score::WinProbability(1.0).flipped(), Score::WinProbability(0.0));
        for probability in [f64::NAN, -1.0, 2.0, f64::INFINITY] {
            let _ = Score::WinProbability(probability).centipawns();
        }
    }

    #[test]
    fn outcomes_have_signs() {
        for outcome in [Outcome::Loss, Outcome::Draw, Outcome::Win] {
            assert_eq!(Outcome::from_sign(outcome.sign()), Some(outcome));
            assert_eq!(outcome.flipped().sign(), -outcome.sign());
        }
        assert_eq!(Outcome::from_sign(2), None);
    }
}
