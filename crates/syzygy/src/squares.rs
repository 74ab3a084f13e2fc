//! Numbers of the leading squares of a position: those that fix its symmetry.
//!
//! Without pawns a position can be mirrored and rotated until its first piece lies in the triangle a1-d1-d4. With
//! pawns it can only be mirrored from left to right, until the leading pawn is on one of the files a to d.

use crate::combinatorics::{BINOMIAL, bits};

/// Squares of the triangle a1-d1-d4 and their numbers: those below the diagonal first.
const TRIANGLE: [usize; 10] = [1, 2, 3, 10, 11, 19, 0, 9, 18, 27];
/// Number of placements of two kings, the first in the triangle.
pub(crate) const KING_PAIRS: u64 = 462;
/// Number of placements of three different pieces, the first in the triangle.
pub(crate) const TRIPLES: u64 = 31_332;
/// Marks squares and pairs of squares without a number.
const NONE: u16 = u16::MAX;

/// Number of each square in the triangle.
static TRIANGLE_NUMBER: [u16; 64] = triangle_numbers();
/// Number of each placement of two kings: first the square of the first one in the triangle, then of the second.
static KING_PAIR_NUMBER: [[u16; 64]; 10] = king_pair_numbers();
/// Number of each square below the diagonal a1-h8.
static NUMBER_BELOW_DIAGONAL: [u16; 64] = numbers_below_diagonal();

const fn triangle_numbers() -> [u16; 64] {
    let mut numbers = [NONE; 64];
    let mut i = 0;
    while i < TRIANGLE.len() {
        numbers[TRIANGLE[i]] = i as u16;
        i += 1;
    }
    numbers
}

const fn numbers_below_diagonal() -> [u16; 64] {
    let (mut numbers, mut next, mut square) = ([NONE; 64], 0, 0);
    while square < 64 {
        if square % 8 > square / 8 {
            numbers[square] = next;
            next += 1;
        }
        square += 1;
    }
    numbers
}

/// Pairs of which a king lies beside the diagonal come first. Of two mirror images only one has a number.
const fn king_pair_numbers() -> [[u16; 64]; 10] {
    let mut numbers = [[NONE; 64]; 10];
    let mut next = 0;
    let mut on_diagonal = 0;
    while on_diagonal < 2 {
        let mut i = 0;
        while i < TRIANGLE.len() {
            let first = TRIANGLE[i];
            let mut second = 0;
            while second < 64 {
                let side = above_diagonal(second as u8);
                let adjacent = first / 8 <= second / 8 + 1
                    && second / 8 <= first / 8 + 1
                    && first % 8 <= second % 8 + 1
                    && second % 8 <= first % 8 + 1;
                let first_is_on = above_diagonal(first as u8) == 0;
                let has_mirror_image = first_is_on && side > 0;
                let both_are_on = first_is_on && side == 0;
                if !adjacent && !has_mirror_image && both_are_on == (on_diagonal == 1) {
                    numbers[i][second] = next;
                    next += 1;
                }
                second += 1;
            }
            i += 1;
        }
        on_diagonal += 1;
    }
    assert!(next as u64 == KING_PAIRS);
    numbers
}

/// Positive for a square above the diagonal a1-h8, 0 on it, negative below.
const fn above_diagonal(square: u8) -> i8 {
    (square >> 3) as i8 - (square & 7) as i8
}

/// Reflections of the board.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symmetry {
    /// Bits of the square that are inverted: 7 mirrors the files, 56 the ranks.
    inverted: u8,
    /// Exchanges files and ranks, after the inversion.
    transposed: bool,
}

impl Symmetry {
    /// The reflections that bring the first of some squares into the triangle, and the first that is not on the
    /// diagonal below it.
    #[inline]
    pub(crate) fn into_triangle(squares: &[u8]) -> Self {
        let first = squares.first().copied().unwrap_or(0);
        let inverted: u8 = if first & 4 != 0 { 7 } else { 0 } ^ if first & 32 != 0 { 56 } else { 0 };
        let side = squares.iter().map(|square| above_diagonal(square ^ inverted)).find(|&side| side != 0);
        Self { inverted, transposed: side.is_some_and(|side| side > 0) }
    }

    /// The reflection that brings a square to one of the files a to d.
    #[inline]
    pub(crate) fn to_left(square: u8) -> Self {
        Self { inverted: if square & 4 != 0 { 7 } else { 0 }, transposed: false }
    }

    #[inline]
    pub(crate) fn square(self, square: u8) -> u8 {
        let square = (square ^ self.inverted) & 63;
        if self.transposed { (square >> 3 | square << 3) & 63 } else { square }
    }

    /// The reflected squares of a set.
    #[inline]
    pub(crate) fn set(self, set: u64) -> u64 {
        bits(set).fold(0, |reflected, square| reflected | 1 << self.square(square as u8))
    }
}

/// Number of the squares of two kings, the first in the triangle. It is too large if the kings are adjacent.
#[inline]
pub(crate) fn king_pair_number(first: u8, second: u8) -> u64 {
    let row = KING_PAIR_NUMBER.get(usize::from(TRIANGLE_NUMBER[usize::from(first & 63)]));
    u64::from(row.map_or(NONE, |row| row[usize::from(second & 63)]))
}

/// Number of the different squares of three pieces after [`Symmetry::into_triangle`].
#[inline]
pub(crate) fn triple_number([first, second, third]: [u8; 3]) -> u64 {
    let rank = |square: u8| u64::from(square >> 3);
    let below = |square: u8| u64::from(NUMBER_BELOW_DIAGONAL[usize::from(square & 63)]);
    // Squares that are already taken do not count.
    let before_second = u64::from(second > first);
    let before_third = u64::from(third > first) + u64::from(third > second);
    // In four parts, by the first piece that is not on the diagonal. Below the diagonal are 28 squares, 6 of
    // them in the triangle, and on it are 8, 4 of them in the triangle.
    const FIRST: u64 = 6 * 63 * 62;
    const SECOND: u64 = FIRST + 4 * 28 * 62;
    const THIRD: u64 = SECOND + 4 * 7 * 28;
    if above_diagonal(first) != 0 {
        let first = u64::from(TRIANGLE_NUMBER[usize::from(first & 63)]);
        (first * 63 + u64::from(second) - before_second) * 62 + u64::from(third) - before_third
    } else if above_diagonal(second) != 0 {
        FIRST + (rank(first) * 28 + below(second)) * 62 + u64::from(third) - before_third
    } else if above_diagonal(third) != 0 {
        SECOND + (rank(first) * 7 + rank(second) - before_second) * 28 + below(third)
    } else {
        THIRD + (rank(first) * 7 + rank(second) - before_second) * 6 + rank(third) - before_third
    }
}

/// Place of a pawn in the order in which pawns lead: files from the edge to the centre, then ranks from the second
/// to the seventh. The leading pawn has the smallest.
#[inline]
fn pawn_place(square: u8) -> usize {
    let file = usize::from(square & 7);
    file.min(7 - file) * 6 + usize::from(square >> 3).wrapping_sub(1) % 6
}

/// Number of a pawn among those that follow a leading pawn: two for each place, from the last place to the first,
/// that on the right half first.
#[inline]
const fn follower_number(place: usize, right: bool) -> usize {
    47 - 2 * place - right as usize
}

/// For a number of leading pawns, as `[number - 1][place]`: number of placements on the same file whose leading pawn
/// has an earlier place.
static PAWNS_BEFORE: [[u64; 24]; 6] = pawn_tables().0;
/// Number of placements of leading pawns, as `[number - 1][file]`.
static PAWN_PLACEMENTS: [[u64; 4]; 6] = pawn_tables().1;

const fn pawn_tables() -> ([[u64; 24]; 6], [[u64; 4]; 6]) {
    let (mut before, mut placements) = ([[0; 24]; 6], [[0; 4]; 6]);
    let mut followers = 0;
    while followers < 6 {
        let mut place = 0;
        while place < 24 {
            before[followers][place] = placements[followers][place / 6];
            placements[followers][place / 6] += BINOMIAL[followers][follower_number(place, false)];
            place += 1;
        }
        followers += 1;
    }
    (before, placements)
}

/// Number of placements of leading pawns whose first is on a file, 0 to 3; 0 for more than six pawns.
pub(crate) fn pawn_placements(pawns: usize, file: usize) -> u64 {
    let row = pawns.checked_sub(1).and_then(|followers| PAWN_PLACEMENTS.get(followers));
    row.and_then(|row| row.get(file)).copied().unwrap_or(0)
}

/// The leading one of some pawns.
#[inline]
pub(crate) fn leading_pawn(pawns: u64) -> u8 {
    bits(pawns).min_by_key(|&square| pawn_place(square as u8)).unwrap_or(0) as u8
}

/// File of a leading pawn, counted from the edge: 0 to 3.
#[inline]
pub(crate) fn leading_file(pawn: u8) -> usize {
    pawn_place(pawn) / 6
}

/// Number of the squares of some pawns, the leading one of which is on the files a to d.
#[inline]
pub(crate) fn pawns_number(pawns: u64, leading: u8) -> u64 {
    let followers = pawns & !(1 << (leading & 63));
    let numbers = bits(followers).fold(0u64, |numbers, square| {
        numbers | 1 << follower_number(pawn_place(square as u8), square & 4 != 0)
    });
    let before = PAWNS_BEFORE.get(followers.count_ones() as usize).map_or(0, |row| row[pawn_place(leading)]);
    before + crate::combinatorics::number_of_set(numbers, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reflections_put_squares_into_the_triangle() {
        for first in 0..64 {
            for second in 0..64 {
                let symmetry = Symmetry::into_triangle(&[first, second]);
                let [a, b] = [first, second].map(|square| symmetry.square(square));
                assert!(TRIANGLE.contains(&usize::from(a)), "{first} becomes {a}");
                assert!(
                    above_diagonal(a) != 0 || above_diagonal(b) <= 0,
                    "{first}, {second} become {a}, {b}"
                );
            }
        }
    }

    #[test]
    fn every_number_of_a_king_pair_is_used_and_means_one_placement_up_to_symmetry() {
        let mut numbers = HashSet::new();
        for first in 0..64u8 {
            for second in 0..64u8 {
                let distance = (first >> 3).abs_diff(second >> 3).max((first & 7).abs_diff(second & 7));
                let symmetry = Symmetry::into_triangle(&[first, second]);
                let number = king_pair_number(symmetry.square(first), symmetry.square(second));
                if distance > 1 {
                    assert!(number < KING_PAIRS, "{first}, {second}");
                    numbers.insert(number);
                } else {
                    assert_eq!(number, u64::from(NONE));
                }
            }
        }
        assert_eq!(numbers.len() as u64, KING_PAIRS);
        // The first and the last numbers of both parts.
        assert_eq!(
            [(1, 3), (19, 63), (0, 18), (27, 63)].map(|(a, b)| king_pair_number(a, b)),
            [0, 338, 441, 461]
        );
    }

    #[test]
    fn every_number_of_a_triple_means_one_placement_up_to_symmetry() {
        let mut numbers = HashSet::new();
        let mut placements = HashSet::new();
        for first in 0..64u8 {
            for second in (0..64u8).filter(|&second| second != first) {
                for third in (0..64u8).filter(|&third| third != first && third != second) {
                    let symmetry = Symmetry::into_triangle(&[first, second, third]);
                    let squares = [first, second, third].map(|square| symmetry.square(square));
                    numbers.insert(triple_number(squares));
                    placements.insert(squares);
                }
            }
        }
        assert_eq!((numbers.len() as u64, placements.len() as u64), (TRIPLES, TRIPLES));
        assert_eq!(numbers.iter().max(), Some(&(TRIPLES - 1)));
    }

    #[test]
    fn every_number_of_up_to_three_pawns_means_one_placement_up_to_reflection() {
        for pawns in 1..=3usize {
            let mut numbers = [const { Vec::new() }; 4];
            let squares: Vec<u64> = (8..56).map(|square| 1 << square).collect();
            let mut visit = |set: u64| {
                let leading = leading_pawn(set);
                if leading & 4 == 0 {
                    numbers[leading_file(leading)].push(pawns_number(set, leading));
                }
            };
            for (i, a) in squares.iter().enumerate() {
                match pawns {
                    1 => visit(*a),
                    2 => squares[..i].iter().for_each(|b| visit(a | b)),
                    _ => squares[..i].iter().enumerate().for_each(|(j, b)| {
                        squares[..j].iter().for_each(|c| visit(a | b | c));
                    }),
                }
            }
            for (file, mut numbers) in numbers.into_iter().enumerate() {
                numbers.sort_unstable();
                numbers.dedup();
                assert!(
                    numbers.into_iter().eq(0..pawn_placements(pawns, file)),
                    "{pawns} pawns, file {file}"
                );
            }
        }
    }

    #[test]
    fn the_leading_pawn_is_nearest_to_the_edge_and_to_its_own_side() {
        assert_eq!(leading_pawn(1 << 8 | 1 << 49 | 1 << 11), 8);
        assert_eq!(leading_pawn(1 << 27 | 1 << 47 | 1 << 48), 47);
        assert_eq!(leading_file(52), 3);
    }
}
