//! A chain of bases, and which of them pair.

use crate::features::MOST_BASES;
use std::fmt;
use std::str::FromStr;

/// A base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Base {
    A,
    C,
    G,
    U,
}

impl Base {
    /// Its number, from 0 to 3.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Two bases that can pair, the one nearer to the chain's beginning first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairKind(u8);

impl PairKind {
    /// How many there are.
    pub const COUNT: usize = 6;

    /// The kind of two bases, if they can pair.
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

    /// Its number, from 0 to 5.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Letters that are no molecule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoleculeError(String);

impl fmt::Display for MoleculeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MoleculeError {}

/// A chain of bases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence(Vec<Base>);

impl FromStr for Sequence {
    type Err = MoleculeError;

    fn from_str(text: &str) -> Result<Self, MoleculeError> {
        if text.len() > MOST_BASES {
            return Err(MoleculeError(format!("{} bases; there may be {MOST_BASES}", text.len())));
        }
        let base = |(place, letter): (usize, char)| match letter {
            'A' => Ok(Base::A),
            'C' => Ok(Base::C),
            'G' => Ok(Base::G),
            'U' => Ok(Base::U),
            other => Err(MoleculeError(format!("{other:?} at {place} is none of A, C, G, U"))),
        };
        Ok(Self(text.chars().enumerate().map(base).collect::<Result<_, _>>()?))
    }
}

impl Sequence {
    /// The bases.
    pub fn bases(&self) -> &[Base] {
        &self.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How two of its bases pair, if they can; the turn between them needs three others.
    pub fn pair(&self, first: usize, second: usize) -> Option<PairKind> {
        if first + TURN < second { PairKind::of(self.0[first], self.0[second]) } else { None }
    }
}

/// Bases that a chain needs to turn round.
const TURN: usize = 3;

/// Marks a base without a partner.
const ALONE: u16 = u16::MAX;

/// Which bases pair. No base has two partners, and no pairs cross.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure(Vec<u16>);

impl Structure {
    /// No pairs.
    pub fn open(bases: usize) -> Self {
        Self(vec![ALONE; bases])
    }

    /// From dots and brackets, for a sequence whose bases must be able to pair so.
    pub fn parse(text: &str, sequence: &Sequence) -> Result<Self, MoleculeError> {
        if text.len() != sequence.len() {
            return Err(MoleculeError(format!("{} signs for {} bases", text.len(), sequence.len())));
        }
        let mut structure = Self::open(text.len());
        let mut begun = Vec::new();
        for (place, sign) in text.bytes().enumerate() {
            match sign {
                b'.' => {}
                b'(' => begun.push(place),
                b')' => {
                    let first = begun
                        .pop()
                        .ok_or_else(|| MoleculeError(format!("nothing opens what closes at {place}")))?;
                    if sequence.pair(first, place).is_none() {
                        return Err(MoleculeError(format!("bases {first} and {place} cannot pair")));
                    }
                    structure.set(first, place);
                }
                _ => return Err(MoleculeError(format!("sign {place} is none of ( . )"))),
            }
        }
        match begun.last() {
            None => Ok(structure),
            Some(place) => Err(MoleculeError(format!("nothing closes what opens at {place}"))),
        }
    }

    /// The partner of a base.
    #[inline]
    pub fn partner(&self, base: usize) -> Option<usize> {
        let partner = self.0[base];
        (partner != ALONE).then(|| usize::from(partner))
    }

    /// How many bases there are.
    pub fn bases(&self) -> usize {
        self.0.len()
    }

    /// The pairs, by their first bases.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let later = |base: usize| self.partner(base).filter(|&other| other > base).map(|other| (base, other));
        (0..self.bases()).filter_map(later).collect()
    }

    /// Whether two bases could pair without a second partner and without crossing a pair.
    pub fn has_room(&self, first: usize, second: usize) -> bool {
        if self.partner(first).is_some() || self.partner(second).is_some() {
            return false;
        }
        let mut at = first + 1;
        while at < second {
            match self.partner(at) {
                None => at += 1,
                // A pair that begins here must end here.
                Some(partner) if partner > at && partner < second => at = partner + 1,
                Some(_) => return false,
            }
        }
        true
    }

    /// The innermost pair around a base, or around the pair that begins or ends there.
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

    /// Adds a pair, for which there must be room.
    #[inline]
    pub(crate) fn set(&mut self, first: usize, second: usize) {
        debug_assert!(self.has_room(first, second));
        self.0[first] = second as u16;
        self.0[second] = first as u16;
    }

    /// Takes a pair away.
    #[inline]
    pub(crate) fn clear(&mut self, first: usize, second: usize) {
        debug_assert_eq!(self.partner(first), Some(second));
        self.0[first] = ALONE;
        self.0[second] = ALONE;
    }
}

/// Dots and brackets.
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
    fn structures_are_read_and_written() {
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
            ("((([..)))....)..", "sign 3 is none"),
        ] {
            let error = Structure::parse(text, &sequence).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert!("GATTACA".parse::<Sequence>().unwrap_err().to_string().contains("'T' at 2"));
        assert!("A".repeat(MOST_BASES + 1).parse::<Sequence>().is_err());
    }

    #[test]
    fn pairs_have_room_where_they_cross_none() {
        let sequence: Sequence = "GGGAAACCCAGAAAAC".parse().unwrap();
        let structure = Structure::parse("(.......).......", &sequence).unwrap();
        assert!(structure.has_room(1, 7) && structure.has_room(9, 15));
        assert!(!structure.has_room(1, 10) && !structure.has_room(0, 7));
        assert_eq!(structure.around(4), Some((0, 8)));
        assert_eq!((structure.around(0), structure.around(8), structure.around(12)), (None, None, None));
        assert_eq!(sequence.pair(2, 5), None);
        assert_eq!(structure.pairs(), [(0, 8)]);
    }
}
