//! What a move and its evaluation cost, for each instruction set: `cargo bench -p tandem-nnue`.
//!
//! The student's network is made up here. Real ones are measured where `TANDEM_DATA` names a folder that has them, or
//! `../shared/data` lies beside the repository.

use divan::Bencher;
use std::hint::black_box;
use std::path::PathBuf;
use tandem_chess::{Board, Changes, Position};
use tandem_nnue::{Accumulators, Isa, Network};

fn main() {
    divan::main();
}

fn isas() -> Vec<&'static str> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Isa::name).collect()
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 33
}

/// HalfKP 40,960 -> 256 for each perspective -> 1, with random weights.
fn student() -> Network {
    let mut bytes = b"HALFKP16".to_vec();
    for number in [1u32, 40_960, 256, 255, 64, 400, 0] {
        bytes.extend(number.to_le_bytes());
    }
    let mut state = 9;
    for _ in 0..2 * (40_960 * 256 + 256) + 512 {
        bytes.extend((random(&mut state) as i16 % 100).to_le_bytes());
    }
    bytes.extend([0; 4]);
    Network::from_bytes(&bytes).expect("a network made to fit")
}

fn real(name: &str) -> Option<Network> {
    let data = std::env::var_os("TANDEM_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")));
    Network::load(&data.join("nets/nnue").join(name)).ok()
}

/// Moves of random games, each with the board it leads to.
fn line(plies: usize) -> (Board, Vec<(Changes, Board)>) {
    let mut state = 3;
    let mut position = Position::startpos();
    let mut line = Vec::new();
    for _ in 0..plies {
        let moves = position.legal_moves();
        if moves.is_empty() {
            break;
        }
        position.play(moves[random(&mut state) as usize % moves.len()]);
        line.push((*position.changes(), position.board().clone()));
    }
    (Board::default(), line)
}

/// Every move of a line is made and evaluated; the time is that of the whole line of 100 plies.
fn follow(bencher: Bencher<'_, '_>, network: Option<Network>, isa: &str) {
    let (Some(network), Ok(isa)) = (network, isa.parse()) else { return };
    let network = network.with_isa(isa);
    let (start, line) = line(100);
    let mut accumulators = Accumulators::new(&network);
    bencher.counter(line.len()).bench_local(|| {
        accumulators.reset(&network, &start);
        let mut sum = 0;
        for (changes, board) in &line {
            accumulators.push(&network, changes);
            sum += accumulators.evaluate(&network, black_box(board)).value();
        }
        sum
    });
}

#[divan::bench(args = isas())]
fn student_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, Some(student()), isa);
}

#[divan::bench(args = isas())]
fn stockfish_12_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, real("nn-82215d0fd0df.nnue"), isa);
}

#[divan::bench(args = isas())]
fn stockfish_14_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, real("nn-76a8a7ffb820.nnue"), isa);
}

#[divan::bench]
fn load_48_megabytes(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| real("nn-76a8a7ffb820.nnue"));
}
