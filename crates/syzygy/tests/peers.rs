//! Our results and distances against those of other readers of the same files.

mod common;
#[path = "common/pyrrhic.rs"]
mod pyrrhic;

use common::{folder, names, pieces, place, random_position};
use pyrrhic::Pyrrhic;
use pyrrhic_rs::{DtzProbeValue, Piece as TheirPiece, WdlProbeResult};
use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use tandem_chess::{Board, Color, Move, Piece, Position, Square, uci};
use tandem_syzygy::{Tables, Wdl};
use tandem_util::random::SplitMix;

/// Random positions of each table whose results are compared, and whose moves are.
const RESULTS: usize = 30_000;
const ROOTS: usize = 3_000;

fn our(result: WdlProbeResult) -> Wdl {
    match result {
        WdlProbeResult::Loss => Wdl::Loss,
        WdlProbeResult::BlessedLoss => Wdl::BlessedLoss,
        WdlProbeResult::Draw => Wdl::Draw,
        WdlProbeResult::CursedWin => Wdl::CursedWin,
        WdlProbeResult::Win => Wdl::Win,
    }
}

fn promotion(piece: TheirPiece) -> Option<Piece> {
    match piece {
        TheirPiece::Queen => Some(Piece::Queen),
        TheirPiece::Rook => Some(Piece::Rook),
        TheirPiece::Bishop => Some(Piece::Bishop),
        TheirPiece::Knight => Some(Piece::Knight),
        _ => None,
    }
}

/// Ranks as the crate documents them, from the other reader's distances.
fn their_ranks(board: &Board, moves: &[DtzProbeValue]) -> HashMap<Move, i32> {
    let clock = i32::from(board.halfmove_clock());
    let rank = |value: &DtzProbeValue| {
        let DtzProbeValue::DtzResult(entry) = value else { panic!("{value:?}") };
        let mv = Move {
            from: Square::index(entry.from_square.into()),
            to: Square::index(entry.to_square.into()),
            promotion: promotion(entry.promotion),
        };
        let dtz = i32::from(entry.dtz);
        let rank = match entry.wdl {
            WdlProbeResult::Win if dtz + clock <= 99 => 1000,
            WdlProbeResult::Win => 1000 - (dtz + clock),
            WdlProbeResult::CursedWin => 1,
            WdlProbeResult::Draw => 0,
            WdlProbeResult::BlessedLoss => -1,
            WdlProbeResult::Loss if dtz * 2 + clock < 100 => -1000,
            WdlProbeResult::Loss => -1000 + dtz + clock,
        };
        (mv, rank)
    };
    moves.iter().map(rank).collect()
}

/// True if a pawn could be captured en passant after a move or two. Pyrrhic 0.2.0 does not see that, because it looks
/// for the capturing pawn on the wrong rank; python-chess agrees with us.
fn may_allow_en_passant(board: &Board) -> bool {
    let [white, black] = Color::ALL.map(|color| board.colored_pieces(color, Piece::Pawn));
    white.into_iter().any(|pawn| !(pawn.file().adjacent() & black).is_empty())
}

/// Compares the distance of a position and the ranks of its moves; returns the number of moves.
fn compare_root(tables: &Tables, peer: &Pyrrhic, board: &Board) -> usize {
    let theirs = peer.root(board).unwrap_or_else(|| panic!("no answer to {board}"));
    let ranked = tables.rank_moves(&Position::from(board.clone())).unwrap();
    let DtzProbeValue::DtzResult(root) = theirs.root else {
        assert!(ranked.is_empty(), "{board}");
        return 0;
    };
    let dtz = tables.dtz(board).unwrap();
    assert_eq!(dtz.0.abs(), i32::from(root.dtz), "{board}");
    let is_lost = matches!(root.wdl, WdlProbeResult::Loss | WdlProbeResult::BlessedLoss);
    assert_eq!(dtz.0 < 0, is_lost, "{board}");
    let moves = &theirs.moves[..theirs.num_moves];
    let ours: HashMap<Move, i32> = ranked.iter().map(|ranked| (ranked.mv, ranked.rank)).collect();
    assert_eq!(ours, their_ranks(board, moves), "{board}");
    moves.len()
}

/// All positions with three pieces, and random ones with four: one test, because the other reader is not safe to call
/// from several threads.
#[test]
#[ignore = "needs data"]
fn results_distances_and_ranks_are_those_of_pyrrhic() {
    let folder = folder();
    let tables = Tables::open(folder.to_str().unwrap()).unwrap();
    let peer = Pyrrhic::open(folder.to_str().unwrap());
    let (mut results, mut roots, mut moves, mut en_passant) = (0, 0, 0, 0);
    let mut compare = |board: &Board, with_root: bool| {
        let theirs = peer.wdl(board).unwrap_or_else(|| panic!("no answer to {board}"));
        assert_eq!(tables.wdl(board), Ok(our(theirs)), "{board}");
        results += 1;
        en_passant += usize::from(board.en_passant().is_some());
        if with_root && !may_allow_en_passant(board) {
            moves += compare_root(&tables, &peer, board);
            roots += 1;
        }
    };
    let mut random = SplitMix::new(1);
    for name in names(&folder) {
        let pieces = pieces(&name);
        if pieces.len() == 3 {
            for n in 0..64 * 64 * 64 {
                let squares = [n & 63, n >> 6 & 63, n >> 12].map(Square::index);
                for turn in Color::ALL {
                    if let Some(builder) = place(&pieces, &squares, turn) {
                        compare(&builder.build().unwrap(), n % 16 == 0);
                    }
                }
            }
        }
        for n in 0..RESULTS {
            let board = random_position(&pieces, n < ROOTS, &mut random);
            compare(&board, n < ROOTS);
        }
    }
    println!("{results} results, {roots} distances, ranks of {moves} moves; {en_passant} with en passant");
    assert!(results > 2_000_000 && roots > 150_000 && moves > 1_000_000 && en_passant > 5_000);
    assert_eq!(tables.take_broken(), []);
}

/// Answers each line, a position, with its result and distance.
const PYTHON: &str = "
import sys, chess, chess.syzygy
with chess.syzygy.open_tablebase(sys.argv[1]) as tables:
    for line in sys.stdin:
        board = chess.Board(line)
        print(tables.probe_wdl(board), tables.probe_dtz(board))
";

#[test]
#[ignore = "needs data and python-chess"]
fn results_and_distances_are_those_of_python_chess() {
    let folder = folder();
    let tables = Tables::open(folder.to_str().unwrap()).unwrap();
    let mut random = SplitMix::new(2);
    let mut boards = Vec::new();
    for name in names(&folder) {
        let count = if name == "KPvKP" { 3_000 } else { 300 };
        boards.extend((0..count).map(|_| random_position(&pieces(&name), false, &mut random)));
    }
    let python = std::env::var("TANDEM_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut child = Command::new(python)
        .args(["-c", PYTHON])
        .arg(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = boards.iter().map(|board| format!("{board}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), boards.len());
    for (board, answer) in boards.iter().zip(answers.lines()) {
        let wdl = tables.wdl(board).unwrap() as i32 - Wdl::Draw as i32;
        assert_eq!(format!("{wdl} {}", tables.dtz(board).unwrap().0), answer, "{board}");
    }
}

/// Plays a won ending out by the ranks alone.
#[test]
#[ignore = "needs data"]
fn the_highest_ranks_mate() {
    let tables = Tables::open(folder().to_str().unwrap()).unwrap();
    let mut position = Position::from_fen("8/8/8/4k3/8/8/8/KBN5 w - - 0 1").unwrap();
    for ply in 0.. {
        assert!(ply < 100, "the fifty-move rule ends the game");
        let Some(best) = tables.rank_moves(&position).unwrap().into_iter().max_by_key(|ranked| {
            // Among certain wins the shortest distance makes progress, and the loser resists longest.
            let mut next = position.clone();
            next.play(ranked.mv);
            (ranked.rank, tables.dtz(next.board()).unwrap())
        }) else {
            break;
        };
        assert!(uci::parse(position.board(), &best.mv.to_string()).is_ok());
        position.play(best.mv);
    }
    assert!(position.in_check() && !position.has_legal_move(), "{}", position.fen());
}
