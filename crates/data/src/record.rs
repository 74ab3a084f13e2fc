//! What all formats map to and from.

use crate::packed::Packed;
use tandem_chess::Move;

/// How good a position is for the side to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// In hundredths of a pawn, or in whatever unit a format has that leaves it open.
    Centipawns(i16),
    /// Mate in so many moves; negative where the side to move is mated.
    Mate(i16),
    /// The chance to win, from 0 to 1.
    WinChance(f64),
}

/// Mate at once, where a format has only numbers: mate in n moves is this minus n.
pub const MATE: i16 = 32_000;

/// How fast the chance to win grows with the score: the constant that searchless networks were trained with.
const CHANCE_SLOPE: f64 = 0.003_682_08;

impl Score {
    /// As a number: mates are [`MATE`] less the moves, chances are turned back by the curve of [`Self::win_chance`].
    pub fn centipawns(self) -> i16 {
        match self {
            Self::Centipawns(value) => value,
            Self::Mate(moves) if moves > 0 => MATE - moves.min(1000),
            Self::Mate(moves) => -MATE - moves.max(-1000),
            Self::WinChance(chance) => {
                let chance = chance.clamp(1e-9, 1.0 - 1e-9);
                let value = (chance / (1.0 - chance)).ln() / CHANCE_SLOPE;
                value.round().clamp(-f64::from(MATE), f64::from(MATE)) as i16
            }
        }
    }

    /// As a chance to win: 1 / (1 + e^(−0.00368208 · centipawns)); a mate is certain.
    pub fn win_chance(self) -> f64 {
        match self {
            Self::Centipawns(value) => 1.0 / (1.0 + (-CHANCE_SLOPE * f64::from(value)).exp()),
            Self::Mate(moves) => f64::from(u8::from(moves > 0)),
            Self::WinChance(chance) => chance,
        }
    }

    /// Whether it is a mate, or the number that stands for one in formats that have only numbers.
    pub fn is_mate(self) -> bool {
        match self {
            Self::Centipawns(value) => value.saturating_abs() >= MATE - 1000,
            Self::Mate(_) => true,
            Self::WinChance(_) => false,
        }
    }

    /// Seen by the other side.
    pub fn flipped(self) -> Self {
        match self {
            Self::Centipawns(value) => Self::Centipawns(value.saturating_neg()),
            Self::Mate(moves) => Self::Mate(moves.saturating_neg()),
            Self::WinChance(chance) => Self::WinChance(1.0 - chance),
        }
    }
}

/// How the game ended for the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It lost.
    Loss,
    /// Nobody won.
    Draw,
    /// It won.
    Win,
}

impl Outcome {
    /// Seen by the other side.
    pub fn flipped(self) -> Self {
        match self {
            Self::Loss => Self::Win,
            Self::Draw => Self::Draw,
            Self::Win => Self::Loss,
        }
    }

    /// −1, 0 or 1.
    pub fn sign(self) -> i8 {
        self as i8 - 1
    }

    /// 0, ½ or 1.
    pub fn points(self) -> f32 {
        f32::from(self as u8) / 2.0
    }

    /// From −1, 0 or 1.
    pub fn from_sign(sign: i8) -> Option<Self> {
        match sign {
            -1 => Some(Self::Loss),
            0 => Some(Self::Draw),
            1 => Some(Self::Win),
            _ => None,
        }
    }

    /// A result that is seen by White, as the side to move sees it, and back.
    pub fn seen_by(self, side: tandem_chess::Color) -> Self {
        if side == tandem_chess::Color::White { self } else { self.flipped() }
    }
}

/// A position and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The position.
    pub position: Packed,
    /// The move that was played, or that is best.
    pub mv: Option<Move>,
    /// How good the position is for the side to move.
    pub score: Option<Score>,
    /// How the game ended for the side to move.
    pub result: Option<Outcome>,
    /// Plies since the start of the game.
    pub ply: u16,
    /// The first of a game, as far as the format tells. Records of one game stand in their order, one after the other.
    pub starts_game: bool,
}

impl Record {
    /// A position of which nothing else is known.
    pub fn new(position: Packed) -> Self {
        Self { position, mv: None, score: None, result: None, ply: position.ply(), starts_game: false }
    }

    /// Seen by the other side: ranks and colours change places, and what is known of the position stays.
    pub fn flipped(&self) -> Self {
        let flip = |mv: Move| Move { from: mv.from.flip_rank(), to: mv.to.flip_rank(), ..mv };
        Self { position: self.position.flipped(), mv: self.mv.map(flip), ..*self }
    }

    /// Left and right change places, where nobody may castle.
    pub fn mirrored(&self) -> Option<Self> {
        let flip = |mv: Move| Move { from: mv.from.flip_file(), to: mv.to.flip_file(), ..mv };
        Some(Self { position: self.position.mirrored()?, mv: self.mv.map(flip), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_follow_the_curve_and_come_back() {
        // The figures of the searchless networks' own code.
        for (value, chance) in
            [(-1000, 0.02455256365856777), (-100, 0.4089741028083871), (0, 0.5), (300, 0.7511255009383484)]
        {
            assert!((Score::Centipawns(value).win_chance() - chance).abs() < 1e-12);
            assert_eq!(Score::WinChance(chance).centipawns(), value);
        }
        assert_eq!((Score::Mate(3).centipawns(), Score::Mate(-3).centipawns()), (31_997, -31_997));
        assert_eq!((Score::Mate(0).centipawns(), Score::Mate(1).win_chance()), (-32_000, 1.0));
        assert_eq!(Score::WinChance(1.0).flipped(), Score::WinChance(0.0));
        for chance in [f64::NAN, -1.0, 2.0, f64::INFINITY] {
            let _ = Score::WinChance(chance).centipawns();
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
