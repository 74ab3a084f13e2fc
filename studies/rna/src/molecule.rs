//! An RNA molecule: its sequence of bases, and a secondary structure, that is the set of bases that pair.

use crate::features::MAX_BASES;
use std::fmt;
use std::str::FromStr;

/// One of the four bases of RNA: adenine, cytosine, guanine and uracil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Base {
    A,
    C,
    G,
    U,
}

impl Base {
    /// Index of the base from 0 to 3, in alphabetical order.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Kind of a base pair: two bases that can pair, the one nearer to the 5' end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairKind(u8);

impl PairKind {
    /// Number of kinds: the six ordered pairs of AU, CG and GU.
    pub const COUNT: usize = 6;

    /// Kind of a pair of bases; `None` if they cannot pair.
    pub fn of(first: Base, second: Base) -> Option<Self> {
        match (first, second) {
            (Base::A, Base::U) => Some(Self(0)),
            (Base::C, Base::G) => Some(Self(1)),
            (Base::G, Base::C) => Some(Self(2)),
            (Base::G, Base::U) => Some(Self(3)),
            (Base::U, Base::A) => Some(Self(4)),
            (Base::U, Base::G) => Some(Self(5)),
            _ => None,
        }
    }

    /// Index of the kind from 0 to 5, in alphabetical order.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Error for text that is not a valid sequence or structure, with the position of the fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoleculeError(String);

impl fmt::Display for MoleculeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MoleculeError {}

/// Sequence of bases from the 5' to the 3' end, of at most [`MAX_BASES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence(Vec<Base>);

impl FromStr for Sequence {
    type Err = MoleculeError;

    fn from_str(text: &str) -> Result<Self, MoleculeError> {
        if text.len() > MAX_BASES {
            return Err(MoleculeError(format!("{} bases; there may be {MAX_BASES}", text.len())));
        }
        let base = |(position, letter): (usize, char)| match letter {
            'A' => Ok(Base::A),
            'C' => Ok(Base::C),
            'G' => Ok(Base::G),
            'U' => Ok(Base::U),
            other => Err(MoleculeError(format!("{other:?} at {position} is not one of A, C, G, U"))),
        };
        Ok(Self(text.chars().enumerate().map(base).collect::<Result<_, _>>()?))
    }
}

impl Sequence {
    /// All bases in order, from the 5' to the 3' end.
    pub fn bases(&self) -> &[Base] {
        &self.0
    }

    /// Number of bases in the sequence.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the sequence has no bases.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Kind of the pair between two bases by index; `None` if they cannot pair or are less than four apart,
    /// because the hairpin between them needs three bases.
    pub fn pair(&self, first: usize, second: usize) -> Option<PairKind> {
        if first + MIN_HAIRPIN < second { PairKind::of(self.0[first], self.0[second]) } else { None }
    }
}

/// Minimum number of unpaired bases in a hairpin loop.
const MIN_HAIRPIN: usize = 3;

/// Marks a base without a partner in the table of a structure.
const UNPAIRED: u16 = u16::MAX;

/// A secondary structure: the partner of each base. No base has two partners, and pairs do not cross.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure(Vec<u16>);

impl Structure {
    /// Structure without any pairs, for a number of bases.
    pub fn unpaired(bases: usize) -> Self {
        Self(vec![UNPAIRED; bases])
    }

    /// Parses dot-bracket notation, for example `((...))`, for a sequence whose bases must be able to pair in
    /// this way.
    ///
    /// # Errors
    ///
    /// Fails if the length differs from the sequence's, brackets are not balanced, a sign is unknown, or two
    /// bases cannot pair.
    pub fn parse(text: &str, sequence: &Sequence) -> Result<Self, MoleculeError> {
        if text.len() != sequence.len() {
            return Err(MoleculeError(format!("{} signs for {} bases", text.len(), sequence.len())));
        }
        let mut structure = Self::unpaired(text.len());
        let mut open = Vec::new();
        for (position, sign) in text.bytes().enumerate() {
            match sign {
                b'.' => {}
                b'(' => open.push(position),
                b')' => {
                    let first = open
                        .pop()
                        .ok_or_else(|| MoleculeError(format!("nothing opens what closes at {position}")))?;
                    if sequence.pair(first, position).is_none() {
                        return Err(MoleculeError(format!("bases {first} and {position} cannot pair")));
                    }
                    structure.set(first, position);
                }
                _ => return Err(MoleculeError(format!("sign {position} is not one of ( . )"))),
            }
        }
        match open.last() {
            None => Ok(structure),
            Some(position) => Err(MoleculeError(format!("nothing closes what opens at {position}"))),
        }
    }

    /// Partner of a base; `None` if it is unpaired.
    #[inline]
    pub fn partner(&self, base: usize) -> Option<usize> {
        let partner = self.0[base];
        (partner != UNPAIRED).then(|| usize::from(partner))
    }

    /// Number of bases, paired or not.
    pub fn bases(&self) -> usize {
        self.0.len()
    }

    /// All pairs, sorted by their first base.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let later = |base: usize| self.partner(base).filter(|&other| other > base).map(|other| (base, other));
        (0..self.bases()).filter_map(later).collect()
    }

    /// True if a pair of these bases would cross no other pair and both are unpaired. It does not check that
    /// they can pair; [`Sequence::pair`] does.
    pub fn is_free(&self, first: usize, second: usize) -> bool {
        if self.partner(first).is_some() || self.partner(second).is_some() {
            return false;
        }
        let mut at = first + 1;
        while at < second {
            match self.partner(at) {
                None => at += 1,
                // A pair that begins between the two bases must end between them.
                Some(partner) if partner > at && partner < second => at = partner + 1,
                Some(_) => return false,
            }
        }
        true
    }

    /// Innermost pair that encloses a base, or that encloses the pair of which it is part; `None` in the
    /// exterior loop.
    pub fn around(&self, base: usize) -> Option<(usize, usize)> {
        let mut at = self.partner(base).map_or(base, |partner| partner.min(base));
        while at > 0 {
            at -= 1;
            match self.partner(at) {
                Some(partner) if partner > at => return Some((at, partner)),
                Some(partner) => at = partner,
                None => {}
            }
        }
        None
    }

    /// Adds a pair, which must not conflict with others.
    #[inline]
    pub(crate) fn set(&mut self, first: usize, second: usize) {
        debug_assert!(self.is_free(first, second));
        self.0[first] = second as u16;
        self.0[second] = first as u16;
    }

    /// Removes a pair that is present.
    #[inline]
    pub(crate) fn clear(&mut self, first: usize, second: usize) {
        debug_assert_eq!(self.partner(first), Some(second));
        self.0[first] = UNPAIRED;
        self.0[second] = UNPAIRED;
    }
}

/// Dot-bracket notation: a dot for an unpaired base, brackets for the two bases of a pair.
impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.bases()).try_for_each(|base| {
            f.write_str(match self.partner(base) {
                None => ".",
                Some(partner) if partner > base => "(",
                Some(_) => ")",
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_brackets_survive_a_round_trip() {
        let sequence: Sequence = "GGGAAACCCAGAAAAC".parse().unwrap();
        for text in ["(((...))).(....)", "................", "(.(...).).......", "((.....)).(....)"] {
            assert_eq!(Structure::parse(text, &sequence).unwrap().to_string(), text);
        }
        for (text, problem) in [
            ("(((...)))", "9 signs for 16 bases"),
            ("(((...)))(.....)", "bases 9 and 15 cannot pair"),
            ("......)).(....).", "nothing opens"),
            ("((....).........", "nothing closes"),
            ("(......)((......", "nothing closes"),
            ("((([..)))....)..", "sign 3 is not one"),
        ] {
            let error = Structure::parse(text, &sequence).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert!("GATTACA".parse::<Sequence>().unwrap_err().to_string().contains("'T' at 2"));
        assert!("A".repeat(MAX_BASES + 1).parse::<Sequence>().is_err());
    }

    #[test]
    fn pairs_are_free_where_they_cross_no_other() {
        let sequence: Sequence = "GGGAAACCCAGAAAAC".parse().unwrap();
        let structure = Structure::parse("(.......).......", &sequence).unwrap();
        assert!(structure.is_free(1, 7) && structure.is_free(9, 15));
        assert!(!structure.is_free(1, 10) && !structure.is_free(0, 7));
        assert_eq!(structure.around(4), Some((0, 8)));
        assert_eq!((structure.around(0), structure.around(8), structure.around(12)), (None, None, None));
        assert_eq!(sequence.pair(2, 5), None);
        assert_eq!(structure.pairs(), [(0, 8)]);
    }
}
