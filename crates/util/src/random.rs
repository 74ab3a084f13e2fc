//! The random generator behind every seed: shuffled books and data, simulated matches, random openings,
//! initial weights.
//!
//! A run that is resumed, or repeated years later, must give the same result, so the sequence is part of the
//! meaning of a seed. It is fixed here and does not follow the version of a library.

/// SplitMix64 (Steele, Lea and Flood, 2014): a fast generator with 64 bits of state, for everything but
/// cryptography.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator whose sequence is determined by the seed; every seed is as good as any other.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator seeded by the clock, for choices that need not be repeatable.
    pub fn from_clock() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(since.map_or(0, |time| time.as_nanos() as u64))
    }

    /// State of the generator: [`Self::new`] with this value continues the sequence, for example in a resumed
    /// run.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// Next 64 random bits of the sequence.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Random integer from 0 to below `bound`. The bias is below one part in 2^32.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// Random number from 0 to below 1, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles items so that all orders are equally probable (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
