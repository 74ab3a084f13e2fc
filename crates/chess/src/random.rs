//! The generator behind shuffled books, simulated matches, shuffled data and random openings.
//!
//! What is resumed, or repeated years later, must be the same: the sequence is part of what a seed means, so it is
//! fixed here and does not follow a library's version.

use crate::{Board, Position};

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts from the clock, for choices that need not be repeatable.
    pub fn from_clock() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since.map_or(0, |time| time.as_nanos() as u64))
    }

    /// Where the sequence is: [`Self::new`] goes on from here.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each equally likely to one part in 2^32 for any bound we use.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

/// The position that random moves lead to; none if the game ends on the way, or there.
pub fn walk(start: Board, plies: usize, random: &mut SplitMix) -> Option<Position> {
    let mut position = Position::from(start);
    for _ in 0..plies {
        let moves = position.legal_moves();
        if moves.is_empty() {
            return None;
        }
        position.play(moves[random.below(moves.len() as u32) as usize]);
    }
    position.has_legal_move().then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_as_long_as_it_should_be_or_none() {
        let mut random = SplitMix::new(3);
        let walked = walk(Board::default(), 9, &mut random).unwrap();
        assert_eq!((walked.board().fullmove_number(), walked.has_legal_move()), (5, true));
        let mated = crate::fen::parse("7k/5KQ1/8/8/8/8/8/8 b - - 0 1").unwrap();
        assert!(walk(mated.clone(), 0, &mut random).is_none() && walk(mated, 1, &mut random).is_none());
    }

    #[test]
    fn the_sequence_is_that_of_the_paper() {
        let mut random = SplitMix::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        let mut again = SplitMix::new(random.state());
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(again.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..1000).collect();
        SplitMix::new(7).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..1000));
    }
}
