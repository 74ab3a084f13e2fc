//! The order in which a table numbers its positions.

use crate::combinatorics::{binomial, number_of_set};
use crate::material::{MAX_PIECES, Material};
use crate::squares::{
    KING_PAIRS, Symmetry, TRIPLES, king_pair_number, leading_pawn, pawn_placements, pawns_number,
    triple_number,
};
use arrayvec::ArrayVec;
use tandem_chess::{Board, Color, Piece};

/// A piece with its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Man {
    pub(crate) color: Color,
    pub(crate) piece: Piece,
}

impl Man {
    /// The man of a code in a file; `None` if there is none.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        let piece = match code & 7 {
            1 => Piece::Pawn,
            2 => Piece::Knight,
            3 => Piece::Bishop,
            4 => Piece::Rook,
            5 => Piece::Queen,
            6 => Piece::King,
            _ => return None,
        };
        let color = match code >> 3 {
            0 => Color::White,
            1 => Color::Black,
            _ => return None,
        };
        Some(Self { color, piece })
    }
}

/// The men of a board as a table sees them: with the colours of the table, which may be exchanged.
#[derive(Clone, Copy)]
pub(crate) struct Men<'a> {
    board: &'a Board,
    swapped: bool,
}

impl<'a> Men<'a> {
    /// The men of a board, with exchanged colours and from the other side if `swapped`.
    #[inline]
    pub(crate) fn new(board: &'a Board, swapped: bool) -> Self {
        Self { board, swapped }
    }

    /// Squares of the men of a kind.
    #[inline]
    pub(crate) fn squares(self, man: Man) -> u64 {
        let pieces = self.board.pieces(man.piece).0;
        if self.swapped {
            (pieces & self.board.colors(!man.color).0).swap_bytes()
        } else {
            pieces & self.board.colors(man.color).0
        }
    }
}

/// The group of men that is numbered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leading {
    /// The two kings: the other pieces without pawns are not alone.
    Kings([Man; 2]),
    /// Three men of which there is one each, kings included.
    Three([Man; 3]),
    /// The pawns of one side.
    Pawns(Man),
}

/// Equal men, and the weight of the number of their squares in the number of a position.
#[derive(Clone, Copy, Debug)]
struct Group {
    man: Man,
    weight: u64,
}

/// The groups of a table with their weights, from which the number of a position follows.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    leading: Leading,
    leading_weight: u64,
    /// The pawns of the other side, if both have pawns.
    other_pawns: Option<Group>,
    groups: ArrayVec<Group, MAX_PIECES>,
    /// Number of positions.
    size: u64,
}

/// The side whose pawns lead: that with fewer, and White if both have equally many.
pub(crate) fn leading_pawns(material: Material) -> Option<Man> {
    let [white, black] = Color::ALL.map(|color| material.count(color, Piece::Pawn));
    let color = match (white, black) {
        (0, 0) => return None,
        (0, _) => Color::Black,
        (_, 0) => Color::White,
        _ if black < white => Color::Black,
        _ => Color::White,
    };
    Some(Man { color, piece: Piece::Pawn })
}

impl Layout {
    /// The layout of a table with these men, of the subtable of a file of the leading pawn if there are pawns.
    /// `places` are the places of the leading group and of the other side's pawns in the order of the groups.
    ///
    /// # Errors
    ///
    /// If the men or places do not fit `material`, with the reason.
    pub(crate) fn new(
        men: &[Man],
        material: Material,
        places: [Option<u8>; 2],
        file: usize,
    ) -> Result<Self, &'static str> {
        const WRONG_MEN: &str = "the pieces are not those of the file's name";
        if material != Material::from_pieces(men.iter().map(|man| (man.color, man.piece))) {
            return Err(WRONG_MEN);
        }
        let (leading, leading_count, leading_size) = match *men {
            _ if material.has_pawns() => {
                let man = leading_pawns(material).ok_or(WRONG_MEN)?;
                let pawns = material.count(man.color, Piece::Pawn);
                (Leading::Pawns(man), pawns, pawn_placements(pawns, file))
            }
            [a, b, c, ..] if material.has_unique_piece() => (Leading::Three([a, b, c]), 3, TRIPLES),
            [a, b, ..] => (Leading::Kings([a, b]), 2, KING_PAIRS),
            _ => return Err(WRONG_MEN),
        };
        let (first, mut rest) = men.split_at_checked(leading_count).ok_or(WRONG_MEN)?;
        let fits = match leading {
            Leading::Kings([a, b]) => a.piece == Piece::King && b.piece == Piece::King && a != b,
            Leading::Three([a, b, c]) => {
                a != b
                    && b != c
                    && a != c
                    && first.iter().all(|man| material.count(man.color, man.piece) == 1)
            }
            Leading::Pawns(pawn) => first.iter().all(|&man| man == pawn),
        };
        if !fits {
            return Err(WRONG_MEN);
        }
        // The men of each group follow each other, and a group has all men of its kind.
        let mut next_group = || {
            let &man = rest.first()?;
            let count = rest.iter().take_while(|&&next| next == man).count();
            rest = &rest[count..];
            Some((man, count))
        };
        let mut groups = ArrayVec::<_, MAX_PIECES>::new();
        while let Some((man, count)) = next_group() {
            if count != material.count(man.color, man.piece) || groups.try_push((man, count)).is_err() {
                return Err(WRONG_MEN);
            }
        }
        let other_pawns = match leading {
            Leading::Pawns(man) if material.count(!man.color, Piece::Pawn) > 0 => {
                let group = groups.pop_at(0).filter(|(other, _)| other.piece == Piece::Pawn);
                Some(group.ok_or(WRONG_MEN)?)
            }
            _ => None,
        };
        let mut layout =
            Self { leading, leading_weight: 0, other_pawns: None, groups: ArrayVec::new(), size: 1 };
        layout.assign_weights(leading_count, leading_size, other_pawns, &groups, places)?;
        Ok(layout)
    }

    /// Multiplies the numbers of placements in the order of the file; the weight of a group is the product so far.
    fn assign_weights(
        &mut self,
        leading_count: usize,
        leading_size: u64,
        other_pawns: Option<(Man, usize)>,
        groups: &[(Man, usize)],
        [leading_place, pawns_place]: [Option<u8>; 2],
    ) -> Result<(), &'static str> {
        let mut free = 64 - leading_count - other_pawns.map_or(0, |(_, count)| count);
        let mut groups = groups.iter();
        let total = 1 + usize::from(other_pawns.is_some()) + groups.len();
        for place in (0..total).map(|place| Some(place as u8)) {
            let weight = self.size;
            if place == leading_place {
                self.leading_weight = weight;
                self.size *= leading_size;
            } else if let Some((man, count)) = other_pawns
                && place == pawns_place
            {
                self.other_pawns = Some(Group { man, weight });
                self.size *= binomial(count, 48 - leading_count);
            } else {
                let &(man, count) = groups.next().ok_or("the order of the pieces is impossible")?;
                self.groups.push(Group { man, weight });
                self.size *= binomial(count, free);
                free -= count;
            }
        }
        // Each group has a place if none is left.
        if groups.next().is_some() { Err("the order of the pieces is impossible") } else { Ok(()) }
    }

    /// Number of positions.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Number of a position, which is less than [`Self::size`].
    #[inline]
    pub(crate) fn index(&self, men: Men<'_>) -> u64 {
        let (symmetry, mut taken, number) = match self.leading {
            Leading::Kings(kings) => {
                let [first, second] = kings.map(|king| men.squares(king).trailing_zeros() as u8);
                let symmetry = Symmetry::into_triangle(&[first, second]);
                let [first, second] = [first, second].map(|square| symmetry.square(square));
                (symmetry, 1 << first | 1 << second, king_pair_number(first, second))
            }
            Leading::Three(three) => {
                let squares = three.map(|man| men.squares(man).trailing_zeros() as u8);
                let symmetry = Symmetry::into_triangle(&squares);
                let squares = squares.map(|square| symmetry.square(square));
                (symmetry, squares.iter().fold(0, |set, square| set | 1 << square), triple_number(squares))
            }
            Leading::Pawns(man) => {
                let pawns = men.squares(man);
                let leading = leading_pawn(pawns);
                let symmetry = Symmetry::to_left(leading);
                let pawns = symmetry.set(pawns);
                (symmetry, pawns, pawns_number(pawns, symmetry.square(leading)))
            }
        };
        let mut index = number * self.leading_weight;
        if let Some(Group { man, weight }) = self.other_pawns {
            let pawns = symmetry.set(men.squares(man));
            // The first rank has no pawns.
            index += number_of_set(pawns, taken, 8) * weight;
            taken |= pawns;
        }
        for &Group { man, weight } in &self.groups {
            let squares = symmetry.set(men.squares(man));
            index += number_of_set(squares, taken, 0) * weight;
            taken |= squares;
        }
        index
    }
}

#[cfg(test)]
mod tests;
