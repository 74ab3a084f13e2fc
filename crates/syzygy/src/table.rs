//! One table: its header, and its values for positions.

use crate::error::{Damage, Kind};
use crate::layout::{Layout, Man, Men, leading_pawns};
use crate::material::{MAX_PIECES, Material};
use crate::pairs::{Part, Values};
use crate::reader::{Reader, part, u16_at};
use crate::result::Wdl;
use crate::squares::{leading_file, leading_pawn};
use arrayvec::ArrayVec;
use std::ops::{Deref, Range};
use tandem_chess::{Board, Color};
use tandem_memory::MappedFile;

/// First bytes of a file of results and of one of distances.
const MAGIC: [[u8; 4]; 2] = [[0x71, 0xE8, 0x23, 0x5D], [0xD7, 0x66, 0x0C, 0xA5]];
/// Bytes of the checksum at the end of a file, and boundary on which it begins.
const CHECKSUM: usize = 16;
const BOUNDARY: usize = 64;

/// True if a table can have this length: it consists of blocks of 64 bytes and a checksum.
pub(crate) fn is_possible_length(bytes: u64) -> bool {
    bytes % BOUNDARY as u64 == CHECKSUM as u64
}

/// The bytes of a table.
pub(crate) enum Contents {
    Mapped(MappedFile),
    Memory(Vec<u8>),
}

impl Deref for Contents {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file,
            Self::Memory(bytes) => bytes,
        }
    }
}

/// A table with its header read and checked.
pub(crate) struct Table {
    contents: Contents,
    /// Material with White as the table's first side.
    material: Material,
    /// Sides to move that have subtables of their own.
    sides: usize,
    /// For each file of the leading pawn, or once without pawns, the subtables of the sides.
    subtables: Vec<Subtable>,
}

/// Positions with one side to move and, with pawns, the leading pawn on one file.
struct Subtable {
    layout: Layout,
    values: Values,
    /// Properties of a table of distances.
    flags: Flags,
    /// Distances by their numbers, where values are numbers.
    map: Option<DistanceMap>,
}

/// Properties of a subtable of distances.
#[derive(Clone, Copy)]
struct Flags(u8);

impl Flags {
    /// True if Black is the side to move whose distances are stored.
    fn is_black_to_move(self) -> bool {
        self.0 & 1 != 0
    }

    /// True if values are numbers of distances in a map.
    fn has_map(self) -> bool {
        self.0 & 2 != 0
    }

    /// True if the numbers of the map have 16 bits instead of 8.
    fn has_wide_map(self) -> bool {
        self.0 & 16 != 0
    }

    /// True if the distances of positions with this result are in plies, not in moves.
    fn is_in_plies(self, wdl: Wdl) -> bool {
        match wdl {
            Wdl::Win => self.0 & 4 != 0,
            Wdl::Loss => self.0 & 8 != 0,
            _ => false,
        }
    }
}

/// Distances by their numbers: a range of bytes for wins, losses, cursed wins and blessed losses each.
struct DistanceMap {
    ranges: [Range<usize>; 4],
    is_wide: bool,
}

impl DistanceMap {
    fn parse(reader: &mut Reader<'_>, is_wide: bool) -> Result<Self, Damage> {
        let mut ranges = [const { 0..0 }; 4];
        if is_wide {
            reader.align(2)?;
        }
        for range in &mut ranges {
            let bytes = if is_wide { 2 * usize::from(reader.u16()?) } else { usize::from(reader.u8()?) };
            *range = reader.take(bytes)?;
        }
        Ok(Self { ranges, is_wide })
    }

    /// Distance with number `n` of positions with a result.
    fn get(&self, file: &[u8], wdl: Wdl, n: u16) -> Result<u16, Damage> {
        let range = match wdl {
            Wdl::Win | Wdl::Draw => 0,
            Wdl::Loss => 1,
            Wdl::CursedWin => 2,
            Wdl::BlessedLoss => 3,
        };
        let range = self.ranges[range].clone();
        let offset = range.start;
        let distances = part(file, range)?;
        let n = usize::from(n);
        let distance = if self.is_wide {
            u16_at(distances, n)
        } else {
            distances.get(n).map(|&distance| distance.into())
        };
        distance.ok_or_else(|| Damage::new(offset, "a distance is not in the map"))
    }
}

/// A board with the colours of a table.
struct View<'a> {
    men: Men<'a>,
    /// 0 if the first side of the table is to move, 1 for the other one.
    side: usize,
}

impl Table {
    /// Reads and checks the header of a table for `material`, in which either side may come first.
    pub(crate) fn new(contents: Contents, kind: Kind, material: Material) -> Result<Self, Damage> {
        if !is_possible_length(contents.len() as u64) {
            return Err(Damage::new(contents.len(), "the file ends too early"));
        }
        let mut reader = Reader::new(&contents[..contents.len() - CHECKSUM]);
        if reader.bytes(4)? != MAGIC[kind as usize] {
            return Err(Damage::new(0, "the first bytes are not those of such a table"));
        }
        let flags = reader.u8()?;
        let (is_split, has_pawns) = (flags & 1 != 0, flags & 2 != 0);
        let fits_material =
            has_pawns == material.has_pawns() && (kind == Kind::Dtz || is_split != material.is_symmetric());
        if !fits_material {
            return Err(Damage::new(4, "the flags do not fit the file's name"));
        }
        let sides = if kind == Kind::Wdl && is_split { 2 } else { 1 };
        let (material, layouts) = parse_layouts(&mut reader, material, sides)?;
        let mut subtables = Vec::new();
        for layout in layouts {
            let (values, flags) = Values::parse(&mut reader, kind, layout.size())?;
            subtables.push(Subtable { layout, values, flags: Flags(flags), map: None });
        }
        if kind == Kind::Dtz {
            for subtable in subtables.iter_mut().filter(|subtable| subtable.flags.has_map()) {
                subtable.map = Some(DistanceMap::parse(&mut reader, subtable.flags.has_wide_map())?);
            }
            reader.align(2)?;
        }
        for part in [Part::Index, Part::Lengths, Part::Blocks] {
            for subtable in &mut subtables {
                subtable.values.place(&mut reader, part)?;
            }
        }
        let end = reader.offset().next_multiple_of(BOUNDARY);
        if end != contents.len() - CHECKSUM {
            return Err(Damage::new(end, "the checksum should follow, but the file goes on"));
        }
        Ok(Self { contents, material, sides, subtables })
    }

    #[inline]
    fn view<'a>(&self, board: &'a Board, material: Material) -> View<'a> {
        let is_black = board.side_to_move() == Color::Black;
        // If both sides have the same pieces, the side to move comes first.
        let swapped = if self.material.is_symmetric() { is_black } else { material != self.material };
        View { men: Men::new(board, swapped), side: usize::from(is_black != swapped) }
    }

    /// The subtable of a position.
    #[inline]
    fn subtable(&self, view: &View<'_>) -> Option<&Subtable> {
        let file =
            leading_pawns(self.material).map_or(0, |man| leading_file(leading_pawn(view.men.squares(man))));
        self.subtables.get(file * self.sides + if self.sides > 1 { view.side } else { 0 })
    }

    /// Result of a position of this material, if captures and en passant are left aside.
    #[inline]
    pub(crate) fn wdl(&self, board: &Board, material: Material) -> Result<Wdl, Damage> {
        let missing = || Damage::new(4, "a side has no table");
        let view = self.view(board, material);
        let subtable = self.subtable(&view).ok_or_else(missing)?;
        let value = subtable.values.get(&self.contents, subtable.layout.index(view.men))?;
        Wdl::ALL.get(usize::from(value)).copied().ok_or_else(|| Damage::new(4, "a value is not a result"))
    }

    /// Plies to the next capture or pawn move of a position with a result, less one; `None` if the distances of the
    /// other side to move are stored.
    pub(crate) fn dtz(&self, board: &Board, material: Material, wdl: Wdl) -> Result<Option<i32>, Damage> {
        let view = self.view(board, material);
        let Some(subtable) = self.subtable(&view) else { return Err(Damage::new(4, "a side has no table")) };
        let stored = usize::from(subtable.flags.is_black_to_move());
        if stored != view.side && !self.material.is_symmetric() {
            return Ok(None);
        }
        let mut distance = subtable.values.get(&self.contents, subtable.layout.index(view.men))?;
        if let Some(map) = &subtable.map {
            distance = map.get(&self.contents, wdl, distance)?;
        }
        let plies_per_unit = if subtable.flags.is_in_plies(wdl) { 1 } else { 2 };
        Ok(Some(i32::from(distance) * plies_per_unit))
    }
}

/// Reads the order of the pieces of all subtables, and finds out which side comes first.
fn parse_layouts(
    reader: &mut Reader<'_>,
    named: Material,
    sides: usize,
) -> Result<(Material, ArrayVec<Layout, 8>), Damage> {
    let both_have_pawns =
        Color::ALL.into_iter().all(|color| named.count(color, tandem_chess::Piece::Pawn) > 0);
    let files = if named.has_pawns() { 4 } else { 1 };
    let mut first = None;
    let mut layouts = ArrayVec::new();
    for file in 0..files {
        let offset = reader.offset();
        let leading = reader.u8()?;
        let pawns = if both_have_pawns { Some(reader.u8()?) } else { None };
        let codes = reader.bytes(named.pieces())?;
        for side in 0..sides {
            let shift = 4 * side;
            let men: Option<ArrayVec<Man, MAX_PIECES>> =
                codes.iter().map(|code| Man::of_code(code >> shift & 15)).collect();
            let men = men.ok_or_else(|| Damage::new(offset, "a piece does not exist"))?;
            let own = Material::from_pieces(men.iter().map(|man| (man.color, man.piece)));
            let material = *first.get_or_insert(own);
            if own != material || (material != named && material != named.swapped()) {
                return Err(Damage::new(offset, "the pieces are not those of the file's name"));
            }
            let places = [Some(leading >> shift & 15), pawns.map(|place| place >> shift & 15)];
            let layout =
                Layout::new(&men, material, places, file).map_err(|problem| Damage::new(offset, problem))?;
            layouts.push(layout);
        }
    }
    reader.align(2)?;
    Ok((first.unwrap_or(named), layouts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table without compressed values: all positions of a side to move have one.
    fn constant(magic: [u8; 4], flags: u8, header: &[u8], values: &[u8]) -> Vec<u8> {
        let mut file = [&magic[..], &[flags], header].concat();
        file.resize(file.len().next_multiple_of(2), 0);
        file.extend(values);
        file.resize(file.len().next_multiple_of(64) + 16, 0);
        file
    }

    /// Results of king and queen against king: won for the queen, and lost for the bare king.
    fn queen() -> Vec<u8> {
        let codes = [6, 14, 5].map(|code| code | code << 4);
        constant(MAGIC[0], 1, &[&[0][..], &codes].concat(), &[0x80, 4, 0x80, 0])
    }

    fn table(bytes: Vec<u8>, kind: Kind, name: &str) -> Result<Table, Damage> {
        Table::new(Contents::Memory(bytes), kind, Material::parse(name).unwrap())
    }

    fn board(fen: &str) -> Board {
        fen.parse().unwrap()
    }

    #[test]
    fn either_side_may_have_the_stronger_pieces() {
        for name in ["KQvK", "KvKQ"] {
            let table = table(queen(), Kind::Wdl, name).unwrap();
            for (fen, result) in [
                ("8/8/3k4/8/8/8/4Q3/K7 w - - 0 1", Wdl::Win),
                ("8/8/3k4/8/8/8/4Q3/K7 b - - 0 1", Wdl::Loss),
                ("8/8/3k4/8/8/8/4q3/K7 b - - 0 1", Wdl::Win),
                ("8/8/3k4/8/8/8/4q3/K7 w - - 0 1", Wdl::Loss),
            ] {
                let board = board(fen);
                assert_eq!(table.wdl(&board, Material::of(&board)), Ok(result), "{fen}");
            }
        }
    }

    #[test]
    fn headers_that_do_not_fit_are_refused() {
        let problem =
            |bytes: Vec<u8>, name: &str| table(bytes, Kind::Wdl, name).err().map(|damage| damage.problem);
        assert_eq!(problem(queen(), "KQvK"), None);
        assert!(problem(queen(), "KRvK").unwrap().contains("name"), "another piece");
        assert!(problem(queen(), "KQvKQ").is_some(), "more pieces");
        assert!(problem(queen(), "KPvK").unwrap().contains("flags"), "pawns");
        assert!(table(queen(), Kind::Dtz, "KQvK").is_err(), "the other kind");
        for len in 0..queen().len() {
            assert!(problem(queen()[..len].to_vec(), "KQvK").is_some(), "{len} bytes");
        }
        let longer = [queen(), vec![0; 64]].concat();
        assert!(problem(longer, "KQvK").unwrap().contains("goes on"));
        for (at, byte, expected) in [
            (0, 0, "first bytes"),
            (4, 0, "flags"),
            (5, 0x01, "order"),
            (6, 0x77, "does not exist"),
            (6, 0x55, "pieces"),
            (7, 0x66, "pieces"),
            (7, 0x5E, "pieces"),
            (10, 0x00, "impossible"),
        ] {
            let mut bytes = queen();
            bytes[at] = byte;
            let problem = problem(bytes, "KQvK").unwrap_or_default();
            assert!(problem.contains(expected), "byte {at}: {problem}");
        }
    }

    #[test]
    fn a_value_that_is_no_result_is_damage() {
        let mut bytes = queen();
        bytes[11] = 5;
        let table = table(bytes, Kind::Wdl, "KQvK").unwrap();
        let board = board("8/8/3k4/8/8/8/4Q3/K7 w - - 0 1");
        assert!(table.wdl(&board, Material::of(&board)).is_err());
    }

    #[test]
    fn distances_are_of_one_side_to_move_and_may_be_mapped() {
        let codes = [6, 14, 5];
        // White to move, mapped, wins in plies; then the maps of wins, losses, cursed wins and blessed losses.
        let values = [0x80 | 2 | 4, 0, 2, 33, 44, 0, 0, 0];
        let table =
            table(constant(MAGIC[1], 1, &[&[0][..], &codes].concat(), &values), Kind::Dtz, "KQvK").unwrap();
        let dtz = |fen: &str, wdl| {
            let board = board(fen);
            table.dtz(&board, Material::of(&board), wdl)
        };
        assert_eq!(dtz("8/8/3k4/8/8/8/4Q3/K7 w - - 0 1", Wdl::Win), Ok(Some(33)));
        assert!(dtz("8/8/3k4/8/8/8/4Q3/K7 w - - 0 1", Wdl::Loss).is_err(), "no distance in the map");
        assert_eq!(dtz("8/8/3k4/8/8/8/4Q3/K7 b - - 0 1", Wdl::Loss), Ok(None));
        assert_eq!(dtz("8/8/3k4/8/8/8/4q3/K7 b - - 0 1", Wdl::Win), Ok(Some(33)));
    }
}
