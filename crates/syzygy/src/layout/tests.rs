use super::*;
use std::io::Write;
use std::process::{Command, Stdio};
use tandem_chess::{BoardBuilder, Rank, Square};
use tandem_util::random::SplitMix;

/// Code of a man in a file.
fn code(man: Man) -> u8 {
    man.piece as u8 + 1 + 8 * man.color as u8
}

fn men(codes: &[u8]) -> Vec<Man> {
    codes.iter().map(|&code| Man::of_code(code).unwrap()).collect()
}

#[test]
fn codes_name_men() {
    for value in 0..=255 {
        match Man::of_code(value) {
            Some(man) => assert_eq!(code(man), value),
            None => assert!(value > 14 || value % 8 == 0 || value % 8 == 7, "{value}"),
        }
    }
}

#[test]
fn orders_that_do_not_fit_the_material_are_refused() {
    let layout = |name: &str, codes: &[u8], places| {
        Layout::new(&men(codes), Material::parse(name).unwrap(), places, 0).map(|layout| layout.size())
    };
    // Three different pieces first: 31,332 placements, and the other one on 61 squares.
    assert_eq!(layout("KQvKR", &[5, 14, 6, 12], [Some(0), None]), Ok(31_332 * 61));
    assert_eq!(layout("KQvKR", &[5, 14, 6, 12], [Some(1), None]), Ok(31_332 * 61));
    assert!(layout("KQvKR", &[5, 14, 6, 12], [Some(2), None]).is_err(), "there are two groups");
    assert!(layout("KQvKR", &[5, 14, 6, 5], [Some(0), None]).is_err(), "two queens");
    assert!(layout("KQvKR", &[5, 14, 6], [Some(0), None]).is_err(), "a piece is missing");
    // Without a piece that is alone, the kings come first.
    assert_eq!(layout("KNNvK", &[6, 14, 2, 2], [Some(0), None]), Ok(462 * 62 * 61 / 2));
    assert!(layout("KNNvK", &[2, 2, 6, 14], [Some(0), None]).is_err(), "the knights come first");
    assert!(layout("KNNvK", &[6, 6, 2, 2], [Some(0), None]).is_err(), "one side has both kings");
    // The leading pawns on a file, the other side's pawn on 47 squares, and the kings on 62 and 61.
    assert_eq!(layout("KPvKP", &[1, 9, 6, 14], [Some(0), Some(1)]), Ok(6 * 47 * 62 * 61));
    assert!(layout("KPvKP", &[1, 9, 6, 14], [Some(1), Some(1)]).is_err(), "two groups have one place");
    assert!(layout("KPvKP", &[1, 9, 6, 14], [Some(0), Some(4)]).is_err(), "there are four groups");
    assert!(layout("KPvKP", &[9, 1, 6, 14], [Some(0), Some(1)]).is_err(), "Black's pawn comes first");
    assert!(layout("KPvKP", &[1, 6, 9, 14], [Some(0), Some(1)]).is_err(), "a king before the pawns");
    assert!(layout("KNNvK", &[], [Some(0), None]).is_err());
}

/// All positions of a table have different numbers below its size, up to symmetry.
#[test]
fn positions_of_a_table_have_different_numbers() {
    let layout =
        Layout::new(&men(&[9, 6, 14]), Material::parse("KvKP").unwrap(), [Some(1), None], 2).unwrap();
    let mut seen = vec![false; layout.size() as usize];
    let squares = |n: usize| [n & 63, n >> 6 & 63, n >> 12].map(Square::index);
    for [pawn, white, black] in (0..1 << 18).map(squares) {
        let has_pawn = pawn.file() as usize == 2 && pawn.rank() != Rank::First && pawn.rank() != Rank::Eighth;
        if !has_pawn || pawn == white || pawn == black {
            continue;
        }
        let mut builder = BoardBuilder::empty();
        for (square, man) in [(pawn, 9), (white, 6), (black, 14)] {
            let man = Man::of_code(man).unwrap();
            *builder.square_mut(square) = Some((man.piece, man.color));
        }
        let Ok(board) = tandem_chess::build(&builder) else { continue };
        let index = layout.index(Men::new(&board, false)) as usize;
        assert!(!std::mem::replace(&mut seen[index], true), "{board}");
    }
    assert!(seen.iter().filter(|&&seen| seen).count() > 15_000);
}

fn shuffle<T>(items: &mut [T], random: &mut SplitMix) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u32 + 1) as usize);
    }
}

/// The men of a random table with three to seven pieces in a random order that is possible, and the places of its
/// leading groups.
fn random_order(random: &mut SplitMix) -> (Vec<Man>, [Option<u8>; 2]) {
    let mut men = vec![
        Man { color: Color::White, piece: Piece::King },
        Man { color: Color::Black, piece: Piece::King },
    ];
    for _ in 0..1 + random.below(5) {
        let piece = Piece::index(random.below(5) as usize);
        let color = if random.below(2) == 0 { Color::White } else { Color::Black };
        men.push(Man { color, piece });
    }
    let material = Material::from_pieces(men.iter().map(|man| (man.color, man.piece)));
    shuffle(&mut men, random);
    let mut groups: Vec<Vec<Man>> = Vec::new();
    for man in men {
        match groups.iter_mut().find(|group| group[0] == man) {
            Some(group) => group.push(man),
            None => groups.push(vec![man]),
        }
    }
    // The groups that must come first.
    let leading = match leading_pawns(material) {
        Some(pawn) => {
            groups.sort_by_key(|group| (group[0].piece != Piece::Pawn, group[0] != pawn));
            1
        }
        None if material.has_unique_piece() => {
            groups.sort_by_key(|group| group.len() > 1);
            3
        }
        None => {
            groups.sort_by_key(|group| group[0].piece != Piece::King);
            2
        }
    };
    let other_pawns =
        material.has_pawns() && groups.get(1).is_some_and(|group| group[0].piece == Piece::Pawn);
    let total = (groups.len() + 1 - leading) as u8;
    let mut places = Vec::from_iter(0..total);
    shuffle(&mut places, random);
    (groups.concat(), [Some(places[0]), other_pawns.then(|| places[1])])
}

/// For a table's name, the codes of the men in its order, the places and the squares, prints size and number.
const PYTHON: &str = "
import sys, chess.syzygy
for line in sys.stdin:
    name, codes, places, squares = line.split()
    codes, places, squares = [[int(n) for n in part.split(',')] for part in (codes, places, squares)]
    table = chess.syzygy.WdlTable(name + '.rtbw')
    norm, factor = [0] * len(codes), [0] * 7
    if table.has_pawns:
        file = table.pawn_file(squares)
        table.set_norm_pawn(norm, codes)
        size = table.calc_factors_pawn(factor, places[0], places[1], norm, file)
        print(file, size, table.encode_pawn(norm, squares, factor))
    else:
        table.set_norm_piece(norm, codes)
        size = table.calc_factors_piece(factor, places[0], norm)
        print(0, size, table.encode_piece(norm, squares, factor))
";

#[test]
#[ignore = "needs python-chess"]
fn numbers_of_positions_are_those_of_python_chess() {
    let mut random = SplitMix::new(6);
    let (mut input, mut expected) = (String::new(), String::new());
    for _ in 0..20_000 {
        let (men, places) = random_order(&mut random);
        let material = Material::from_pieces(men.iter().map(|man| (man.color, man.piece)));
        let board = loop {
            let mut builder = BoardBuilder::empty();
            for man in &men {
                *builder.square_mut(Square::index(random.below(64) as usize)) = Some((man.piece, man.color));
            }
            match tandem_chess::build(&builder) {
                Ok(board) if board.occupied().len() as usize == men.len() => break board,
                _ => {}
            }
        };
        let view = Men::new(&board, false);
        let file = leading_pawns(material)
            .map_or(0, |pawn| crate::squares::leading_file(leading_pawn(view.squares(pawn))));
        let layout = Layout::new(&men, material, places, file).unwrap();
        // Equal men follow each other, so that each kind gives its squares once.
        let mut kinds = men.clone();
        kinds.dedup();
        let squares = kinds.iter().flat_map(|&man| crate::combinatorics::bits(view.squares(man)));
        let list = |numbers: Vec<usize>| Vec::from_iter(numbers.iter().map(ToString::to_string)).join(",");
        let codes = men.iter().map(|&man| code(man).into()).collect();
        let places = places.iter().map(|place| place.unwrap_or(15).into()).collect();
        input += &format!("{material} {} {} {}\n", list(codes), list(places), list(squares.collect()));
        expected += &format!("{file} {} {}\n", layout.size(), layout.index(view));
    }
    let python = std::env::var("TANDEM_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    let mut child =
        command.args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = input.clone();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), input.lines().count());
    for ((line, theirs), ours) in input.lines().zip(answers.lines()).zip(expected.lines()) {
        assert_eq!(ours, theirs, "{line}");
    }
}
