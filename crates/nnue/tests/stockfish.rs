//! Networks written here, read by the real Stockfish 15.1: the program that the environment variable
//! `STOCKFISH` names, or one on the path.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tandem_chess::{Color, Position};
use tandem_nnue::*;
use tandem_util::random::SplitMix;

/// The Stockfish binary of the version whose evaluation output the test can parse.
fn stockfish() -> PathBuf {
    let given = std::env::var_os("STOCKFISH").map(PathBuf::from);
    let usual = ["stockfish", "/usr/games/stockfish"].map(PathBuf::from);
    let mut programs = given.into_iter().chain(usual);
    programs.find(|program| talk(program, "quit\n").contains("Stockfish 15.1")).expect("Stockfish 15.1")
}

fn talk(program: &Path, lines: &str) -> String {
    let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return String::new() };
    // Input is written while output is read, because otherwise both processes could block.
    let mut stdin = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Positions from random games.
fn fens(count: usize) -> Vec<String> {
    let mut random = SplitMix::new(0x5EED);
    let mut fens = Vec::new();
    while fens.len() < count {
        let mut position = Position::startpos();
        for _ in 0..8 + random.below(90) {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
        }
        // Stockfish's `eval` command prints nothing for positions in check.
        if position.board().checkers().is_empty() && !position.legal_moves().is_empty() {
            fens.push(position.fen());
        }
    }
    fens
}

/// The values that Stockfish prints for its network, from White's point of view, in pawns.
fn their_values(program: &Path, net: &Path, fens: &[String]) -> Vec<f64> {
    let mut lines = format!("setoption name EvalFile value {}\n", net.display());
    for fen in fens {
        lines += &format!("position fen {fen}\neval\n");
    }
    let answer = talk(program, &(lines + "quit\n"));
    let figures = answer.lines().filter_map(|line| line.strip_prefix("NNUE evaluation"));
    figures.map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

fn our_values(network: &Network, fens: &[String]) -> Vec<f64> {
    let value = |fen: &String| {
        let position = Position::from_fen(fen).unwrap();
        let value = network.evaluate(position.board()).value();
        let white = if position.side_to_move() == Color::White { value } else { -value };
        // Rounded to the precision that is printed.
        format!("{:.2}", f64::from(white) / 361.0).parse::<f64>().unwrap()
    };
    fens.iter().map(value).collect()
}

/// An untrained network of that architecture, with weights small enough that nothing overflows.
fn random_network() -> Network {
    let architecture = Architecture {
        features: FeatureSet::half_ka_v2_hm(),
        outputs: 1024,
        tied: true,
        psqt: true,
        head: HeadShape::Stacks(StackShape {
            input_activation: InputActivation::PairwiseMul127,
            squared_clipped: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: OutputBuckets::STOCKFISH,
        }),
    };
    let mut float = FloatNetwork::zeroed(architecture, 600, 361);
    float.description = "random weights, for a test".into();
    let mut random = SplitMix::new(1);
    let mut fill = |numbers: &mut [f32], size: f32| {
        numbers.iter_mut().for_each(|number| *number = (2.0 * random.unit() as f32 - 1.0) * size);
    };
    fill(&mut float.weights, 0.3);
    fill(&mut float.bias, 0.5);
    fill(&mut float.psqt, 0.4);
    for layer in float.stacks.iter_mut().flatten() {
        fill(&mut layer.weights, 0.5);
        fill(&mut layer.bias, 0.5);
    }
    float.quantise(Quantisation::default()).unwrap().0
}

#[test]
#[ignore = "needs Stockfish 15.1"]
fn stockfish_reads_written_networks_and_gives_the_same_values() {
    let program = stockfish();
    let dir = std::env::temp_dir().join(format!("tandem-stockfish-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let fens = fens(200);

    // Stockfish's own network comes back byte for byte.
    let exported = dir.join("exported.nnue");
    talk(&program, &format!("export_net {}\nquit\n", exported.display()));
    let bytes = std::fs::read(&exported).unwrap();
    let own = Network::from_bytes(&bytes).unwrap();
    assert!(own.to_stockfish().unwrap() == bytes, "the network is not written as it was read");
    assert_eq!(their_values(&program, &exported, &fens), our_values(&own, &fens));

    // A network new to Stockfish is read and evaluated the same way.
    let random = random_network();
    let written = dir.join("random.nnue");
    std::fs::write(&written, random.to_stockfish().unwrap()).unwrap();
    let (theirs, ours) = (their_values(&program, &written, &fens), our_values(&random, &fens));
    assert!(ours.iter().any(|value| value.abs() > 0.5), "random weights should give large values");
    assert_eq!(theirs, ours);
    std::fs::remove_dir_all(dir).unwrap();
}
