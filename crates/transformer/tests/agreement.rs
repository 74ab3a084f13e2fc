//! Compares networks with themselves: in other precisions, on other instruction sets, alone and in batches,
//! with reused buffers.

mod common;

use common::{Positions, flat, run, small};
use tandem_transformer::*;

/// Instruction sets with kernels of their own.
fn available() -> impl Iterator<Item = Isa> {
    Isa::available().filter(|isa| *isa != Isa::Sse41)
}

/// Root mean square difference of outputs, relative to the size of `right`.
fn distance(left: &[Outputs], right: &[Outputs]) -> f64 {
    let [left, right] = [left, right].map(|outputs| outputs.iter().flat_map(flat).collect::<Vec<f32>>());
    assert_eq!(left.len(), right.len());
    let square = |x: f32| f64::from(x).powi(2);
    let off: f64 = left.iter().zip(&right).map(|(&left, &right)| square(left - right)).sum();
    (off / right.iter().map(|&x| square(x)).sum::<f64>()).sqrt()
}

/// Bit-equal, because each token is computed in the same order whatever else is in the batch.
#[test]
fn outputs_do_not_depend_on_the_batch() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 21);
        let positions = Positions::random(weights.architecture(), 18, 22);
        for (precision, isa) in
            Precision::ALL.into_iter().flat_map(|precision| available().map(move |isa| (precision, isa)))
        {
            if isa == Isa::Portable && name != "byte" {
                continue;
            }
            let network = Network::new(&weights, precision, isa);
            let together = run(&network, &positions);
            let mut scratch = Scratch::default();
            let mut done = 0;
            for position in 0..positions.len() {
                let alone =
                    positions.with(position, 1, |inputs| network.run(inputs, &mut scratch).unwrap().to_vec());
                assert_eq!(
                    alone,
                    together[done..done + alone.len()],
                    "{name} {precision:?} {isa:?} {position}"
                );
                done += alone.len();
            }
            assert_eq!(done, together.len());
        }
    }
}

/// The bounds are for random weights. Where a router is nearly indifferent, lower precision may choose
/// another expert, which costs more.
#[test]
fn lower_precision_changes_outputs_little() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 31);
        let positions = Positions::random(weights.architecture(), 4, 32);
        let routed = matches!(weights.architecture().body.feed_forward, FeedForward::Experts(_));
        let exact = run(&Network::new(&weights, Precision::F32, Isa::best()), &positions);
        for isa in available() {
            for (precision, bound) in
                [(Precision::F32, 1e-5), (Precision::Bf16, 0.01), (Precision::Int8, 0.03)]
            {
                let near = run(&Network::new(&weights, precision, isa), &positions);
                let distance = distance(&near, &exact);
                println!("{name} {precision:?} {isa:?}: {distance:.2e}");
                let bound = if routed && precision != Precision::F32 { 0.2 } else { bound };
                assert!(distance < bound, "{name} {precision:?} {isa:?}: {distance}");
            }
        }
    }
}

/// An int8 file and a network that is quantised when it is packed hold the same bytes.
#[test]
fn int8_files_run_like_weights_quantised_on_packing() {
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 35);
        let positions = Positions::random(weights.architecture(), 3, 36);
        let file = weights.to_bytes(Storage::Int8, "");
        let stored = Weights::from_bytes(&file, None).unwrap();
        assert_ne!(stored, weights);
        let [read, packed] = [&stored, &weights]
            .map(|weights| run(&Network::new(weights, Precision::Int8, Isa::best()), &positions));
        assert_eq!(read, packed, "{name}");
        // Bytes that are compiled into a program may have any alignment.
        for shift in 0..4 {
            let shifted = [vec![0; shift], file.clone()].concat();
            let network = Network::from_bytes(&shifted[shift..], Isa::best()).unwrap();
            assert_eq!(run(&network, &positions), packed, "{name}, {shift}");
        }
    }
}

/// Scratch buffers that another network has used do not change the outputs.
#[test]
fn scratch_is_reused_by_other_networks() {
    let mut scratch = Scratch::default();
    for (name, architecture) in small() {
        let weights = Weights::random(architecture, 41);
        let positions = Positions::random(weights.architecture(), 3, 42);
        let network = Network::new(&weights, Precision::F32, Isa::best());
        let again = positions.with(0, 3, |inputs| network.run(inputs, &mut scratch).unwrap().to_vec());
        assert_eq!(again, run(&network, &positions), "{name}");
    }
}

#[test]
fn invalid_inputs_are_refused() {
    let network = |index: usize| {
        let weights = Weights::random(small()[index].1.clone(), 51);
        Network::new(&weights, Precision::F32, Isa::Portable)
    };
    let mut scratch = Scratch::default();
    let mut error =
        |index: usize, inputs: &Inputs<'_>| network(index).run(inputs, &mut scratch).unwrap_err().to_string();
    assert_eq!(error(0, &Inputs::Squares(&[])), "the network reads text");
    assert_eq!(error(3, &Inputs::Text { tokens: &[], actions: &[] }), "the network reads squares");
    assert_eq!(error(3, &Inputs::Squares(&[0.0; 65])), "65 values are not whole positions of 7168");
    let tokens = [0; 78];
    let no_list = error(0, &Inputs::Text { tokens: &tokens, actions: &[] });
    assert!(no_list.starts_with("0 lists of moves for 1 positions"), "{no_list}");
    let far = error(0, &Inputs::Text { tokens: &tokens, actions: &[&[1968]] });
    assert_eq!(far, "token 1968 is not below 1968");
}

#[test]
fn an_empty_batch_has_no_outputs() {
    for (_, architecture) in small() {
        let text = architecture.input == Input::Text;
        let network = Network::new(&Weights::random(architecture, 61), Precision::Int8, Isa::best());
        let inputs = if text { Inputs::Text { tokens: &[], actions: &[] } } else { Inputs::Squares(&[]) };
        assert_eq!(network.run(&inputs, &mut Scratch::default()), Ok(&[][..]));
    }
}
