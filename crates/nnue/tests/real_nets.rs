//! Tests with real networks of Stockfish.

use tandem_chess::{Board, Piece, Position, Square};
use tandem_nnue::{Isa, Network};
use tandem_util::test_data;

fn path(name: &str) -> std::path::PathBuf {
    test_data::path(&format!("nets/nnue/{name}"))
}

fn net(name: &str) -> Network {
    Network::load(path(name)).unwrap()
}

const NETS: [(&str, &str); 3] = [
    ("nn-82215d0fd0df.nnue", "halfkp-41024 41024 -> 256x2 -> 32 -> 32 -> 1"),
    ("nn-76a8a7ffb820.nnue", "halfka-v2 45056 -> 512x2 -> 16 -> 32 -> 1, 8 stacks + piece squares"),
    (
        "nn-37f18f62d772.nnue",
        "halfka-v2-hm 22528 -> 128x2 pairwise -> 16 -> 32 -> 1, 8 stacks + piece squares",
    ),
];

#[test]
#[ignore = "needs data"]
fn real_networks_have_the_expected_architecture() {
    for (name, architecture) in NETS {
        assert_eq!(net(name).architecture().to_string(), architecture);
    }
}

const FENS: [&str; 4] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R b KQ - 3 8",
];

#[test]
#[ignore = "needs data"]
fn all_instruction_sets_agree() {
    for (name, _) in NETS {
        let network = net(name);
        let expected: Vec<_> =
            FENS.map(|fen| network.evaluate(Position::from_fen(fen).unwrap().board())).to_vec();
        for isa in Isa::available() {
            let network = network.clone().with_isa(isa);
            let values: Vec<_> =
                FENS.map(|fen| network.evaluate(Position::from_fen(fen).unwrap().board())).to_vec();
            assert_eq!(values, expected, "{name} {isa:?}");
        }
    }
}

fn without(board: &Board, square: Square) -> Option<Board> {
    let mut builder = tandem_chess::BoardBuilder::from_board(board);
    *builder.square_mut(square) = None;
    builder.castle_rights = [tandem_chess::CastleRights::EMPTY; 2];
    builder.build().ok()
}

/// Removing a queen must cost its owner much, with either side to move. A board seen from the wrong side
/// would fail this.
#[test]
#[ignore = "needs data"]
fn removing_a_piece_lowers_its_owners_value() {
    for (name, _) in NETS {
        let network = net(name);
        for fen in [FENS[0], FENS[1], FENS[3]] {
            let position = Position::from_fen(fen).unwrap();
            let whole = network.evaluate(position.board()).centipawns();
            for (piece, least) in [(Piece::Queen, 200), (Piece::Rook, 100), (Piece::Knight, 50)] {
                for square in position.board().pieces(piece) {
                    let Some(board) = without(position.board(), square) else { continue };
                    let ours = position.board().colors(position.side_to_move()).has(square);
                    let loss = whole - network.evaluate(&board).centipawns();
                    let loss = if ours { loss } else { -loss };
                    assert!(loss > least, "{name}: {piece:?} on {square} in {fen}: {loss}");
                }
            }
        }
    }
}

#[test]
#[ignore = "needs data"]
fn stockfish_files_are_rewritten_byte_for_byte() {
    // The third is compressed, which the writer does not support.
    for (name, _) in &NETS[..2] {
        let bytes = std::fs::read(path(name)).unwrap();
        let network = Network::from_bytes(&bytes).unwrap();
        assert!(network.to_stockfish().unwrap() == bytes, "{name} is not written as it was read");
    }
    let network = net(NETS[0].0);
    let jomfish = Network::from_bytes(&network.to_jomfish().unwrap()).unwrap();
    for fen in FENS {
        let position = Position::from_fen(fen).unwrap();
        assert_eq!(jomfish.evaluate(position.board()), network.evaluate(position.board()));
    }
}

#[test]
#[ignore = "needs data"]
fn every_real_network_survives_a_round_trip_in_our_format() {
    for (name, _) in NETS {
        let network = net(name);
        let bytes = network.to_bytes();
        let again = Network::from_bytes(&bytes).unwrap();
        assert!(again.to_bytes() == bytes, "{name}");
        for fen in FENS {
            let position = Position::from_fen(fen).unwrap();
            assert_eq!(again.evaluate(position.board()), network.evaluate(position.board()));
        }
    }
}

/// Quantisation error of real networks against the same parameters in floating point: a few hundredths of a
/// pawn.
#[test]
#[ignore = "needs data"]
fn quantisation_costs_a_few_hundredths_of_a_pawn() {
    for (name, _) in NETS {
        let network = net(name);
        let float = network.to_float();
        let pawn = f64::from(float.pawn);
        let mut sum = 0.0;
        for fen in FENS {
            let position = Position::from_fen(fen).unwrap();
            let value = f64::from(network.evaluate(position.board()).value());
            sum += (float.evaluate(position.board()) - value).abs() / pawn;
        }
        assert!(sum / (FENS.len() as f64) < 0.12, "{name}: {} pawns", sum / FENS.len() as f64);
        let (again, _) = float.quantise(network.quantisation()).unwrap();
        assert_eq!(again.to_bytes(), network.to_bytes(), "{name}");
    }
}
