//! External board codes, which are added to the outputs of a network's dense-board layer.

mod common;

use common::{flat, small};
use tandem_chess::Position;
use tandem_transformer::*;

const FENS: [&str; 5] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "4k3/8/8/8/8/8/4P3/4K3 w - - 5 39",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
];

/// The network with a dense-board embedding, and the positions it reads.
fn board(precision: Precision) -> (Network, PositionBatch, usize) {
    let architecture = small().into_iter().find(|(name, _)| *name == "bt").unwrap().1;
    let code = architecture.board_code().unwrap();
    let network = Network::new(&Weights::random(architecture, 71), precision, Isa::best());
    let mut batch = PositionBatch::new(network.architecture().input);
    FENS.iter().for_each(|fen| batch.push(&Position::from_fen(fen).unwrap()));
    (network, batch, code)
}

fn output_bits(network: &Network, inputs: &Inputs<'_>) -> Vec<Vec<u32>> {
    let mut scratch = Scratch::default();
    let outputs = network.run(inputs, &mut scratch).unwrap();
    outputs.iter().map(|outputs| flat(outputs).into_iter().map(f32::to_bits).collect()).collect()
}

#[test]
fn a_zero_code_changes_no_bit() {
    for precision in Precision::ALL {
        let (network, batch, code) = board(precision);
        let codes = vec![0.0; code * FENS.len()];
        let plain = output_bits(&network, &batch.inputs(&[]));
        assert_eq!(output_bits(&network, &batch.coded(&codes)), plain, "{precision:?}");
    }
}

#[test]
fn each_position_reads_its_own_code() {
    let (network, batch, code) = board(Precision::F32);
    let plain = output_bits(&network, &batch.inputs(&[]));
    for position in 0..FENS.len() {
        let mut codes = vec![0.0; code * FENS.len()];
        codes[position * code + 17] = 1.5;
        let coded = output_bits(&network, &batch.coded(&codes));
        for other in 0..FENS.len() {
            assert_eq!(coded[other] == plain[other], other != position, "{position} {other}");
        }
    }
}

#[test]
fn a_code_alone_determines_the_outputs() {
    let (network, batch, code) = board(Precision::F32);
    let codes: Vec<f32> = (0..code * FENS.len()).map(|index| (index % code % 7) as f32 / 7.0).collect();
    let alone = output_bits(&network, &Inputs::Codes(&codes));
    // The same code gives the same outputs, whatever was on the board.
    assert!(alone.iter().all(|output| *output == alone[0]));
    assert_ne!(alone, output_bits(&network, &batch.coded(&codes)));
    let mut other = codes;
    other[0] += 1.0;
    assert_ne!(output_bits(&network, &Inputs::Codes(&other))[0], alone[0]);
}

#[test]
fn mismatched_codes_are_refused() {
    let (network, batch, code) = board(Precision::F32);
    assert_eq!(Preset::BtSmall.architecture().board_code(), Some(512));
    let mut scratch = Scratch::default();
    let mut error = |inputs: &Inputs<'_>| network.run(inputs, &mut scratch).unwrap_err().to_string();
    let values = vec![0.0; 4 * code];
    assert_eq!(error(&batch.coded(&values)), "4 codes for 5 positions; each needs one");
    let length = format!("{} values are not whole positions of {code}", code - 1);
    assert_eq!(error(&Inputs::Codes(&values[1..code])), length);
    for (name, architecture) in small().into_iter().filter(|(name, _)| *name != "bt") {
        assert_eq!(architecture.board_code(), None, "{name}");
        let text = architecture.input == Input::Text;
        let network = Network::new(&Weights::random(architecture, 72), Precision::F32, Isa::Portable);
        let error = network.run(&Inputs::Codes(&[]), &mut Scratch::default()).unwrap_err();
        let expected = if text { InputError::Kind(Input::Text) } else { InputError::NoCode };
        assert_eq!(error, expected, "{name}");
    }
}
