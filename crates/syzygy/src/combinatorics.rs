//! Numbering of sets of squares.

/// Number of subsets with `k` of `n` elements, as `BINOMIAL[k][n]`.
pub(crate) static BINOMIAL: [[u64; 64]; 7] = binomials();

const fn binomials() -> [[u64; 64]; 7] {
    let mut table = [[0; 64]; 7];
    let mut n = 0;
    while n < 64 {
        table[0][n] = 1;
        let mut k = 1;
        while k < 7 && n > 0 {
            table[k][n] = table[k][n - 1] + table[k - 1][n - 1];
            k += 1;
        }
        n += 1;
    }
    table
}

/// Number of subsets with `k` of `n` elements, for `k` up to 6 and `n` up to 63; 0 beyond.
pub(crate) fn binomial(k: usize, n: usize) -> u64 {
    BINOMIAL.get(k).and_then(|row| row.get(n)).copied().unwrap_or(0)
}

/// The squares of a set of bits, lowest first.
#[inline]
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        bit
    })
}

/// Number of a set of squares among all sets of its size (combinatorial number system), where squares in `taken`
/// and the first `skipped` squares do not count.
#[inline]
pub(crate) fn number_of_set(set: u64, taken: u64, skipped: usize) -> u64 {
    let mut number = 0;
    for (square, row) in bits(set).zip(&BINOMIAL[1..]) {
        let below = (taken & ((1 << square) - 1)).count_ones() as usize;
        number += row[square.wrapping_sub(below + skipped) % 64];
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomials_are_those_of_pascals_triangle() {
        assert_eq!(
            [binomial(0, 0), binomial(2, 4), binomial(3, 48), binomial(6, 63)],
            [1, 6, 17_296, 67_945_521]
        );
        assert_eq!([binomial(1, 0), binomial(5, 4), binomial(7, 63), binomial(2, 64)], [0; 4]);
    }

    #[test]
    fn the_numbers_of_all_sets_of_a_size_are_all_numbers_below_their_count() {
        let taken = 1 << 3 | 1 << 17 | 1 << 63;
        let free: Vec<usize> = bits(!taken).collect();
        let mut seen = vec![false; binomial(2, free.len()) as usize];
        for (i, first) in free.iter().enumerate() {
            for second in &free[..i] {
                let number = number_of_set(1 << first | 1 << second, taken, 0) as usize;
                assert!(!std::mem::replace(&mut seen[number], true), "{first}, {second}");
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
