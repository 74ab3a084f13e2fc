//! The program for a card, for the shape of one network.

use crate::loss::Loss;
use crate::optimiser::Optimiser;
use crate::trainer::Job;
use std::fmt::Write as _;
use tandem_nnue::{Activation, HeadShape, PSQT_BUCKETS};

const PROGRAM: &str = include_str!("step.cu");

/// Sides of which the slopes are added up at a time.
pub(super) const ITEM: u32 = 64;

/// Threads of a block of the step for stacks.
pub(super) const STACK_THREADS: u32 = 256;

/// What keeps a card from training a network with stacks: its blocks hold the accumulators of a position at hand, in memory
/// that every generation of cards has.
pub(super) fn problem(job: &Job) -> Option<String> {
    const _: () = assert!(PSQT_BUCKETS == 8);
    const MOST: usize = 4096;
    let architecture = job.layout.architecture();
    let outputs = architecture.outputs;
    (matches!(architecture.head, HeadShape::Stacks(_)) && outputs > MOST).then(|| {
        format!("an accumulator of {outputs} values before stacks is too wide for a card, {MOST} is the most: {ADVICE}")
    })
}

/// What to do without a card.
pub(super) const ADVICE: &str = "train with `--device cpu`, or make it smaller";

/// Bytes that a block of the step for stacks keeps its first dense layer in.
pub(super) fn shared_bytes(job: &Job) -> u32 {
    match job.layout.architecture().head {
        HeadShape::Flat { .. } => 0,
        HeadShape::Stacks(_) => {
            let (inputs, outputs) = job.layout.architecture().layers()[0];
            (4 * inputs * outputs) as u32
        }
    }
}

/// Threads of a block of the step for a flat head: whole warps for each side.
pub(super) fn flat_threads(job: &Job) -> u32 {
    (job.layout.architecture().outputs as u32 / 2).next_multiple_of(64).clamp(64, 256)
}

/// A number as the program reads it, exactly.
fn number(value: f32) -> String {
    format!("__int_as_float(0x{:08x})", value.to_bits())
}

/// The program.
pub(super) fn source(job: &Job) -> String {
    let layout = &job.layout;
    let architecture = layout.architecture();
    let shape = layout.shape();
    let mut text = String::new();
    let mut define = |name: &str, value: String| {
        let _ = writeln!(text, "#define {name} {value}");
    };
    let mut whole = |name: &str, value: usize| define(name, value.to_string());
    whole("OUTPUTS", architecture.outputs);
    whole("WIDTH", architecture.width());
    whole("ROWS", layout.rows());
    whole("INPUTS", architecture.features.inputs());
    whole("KING_ROWS", architecture.features.stride());
    whole("MAX_INPUTS", architecture.features.max_active());
    whole("STRIDE", layout.max_active());
    whole("FACTORISER", usize::from(shape.factoriser));
    whole("ROUNDED", usize::from(shape.rounded));
    whole("BUCKETS", architecture.buckets().count);
    whole("BUCKET_LESS", architecture.buckets().less);
    whole("BUCKET_PIECES", architecture.buckets().pieces);
    whole("ITEM", ITEM as usize);
    // Where everything lies.
    whole("BIAS", layout.bias().start);
    whole("REST", layout.numbers() - layout.bias().start);
    whole("PSQT", usize::from(architecture.psqt));
    whole("PSQT_START", layout.psqt().map_or(0, |psqt| psqt.start));
    let stack = layout.layer(0, 0).0.start;
    whole("STACK", stack);
    let many = architecture.buckets().count > 1;
    whole("STACK_STEP", if many { layout.layer(1, 0).0.start - stack } else { 0 });
    for (number, (inputs, _)) in architecture.layers().into_iter().enumerate() {
        let (weights, bias) = layout.layer(0, number);
        whole(&format!("LAYER_INPUTS{number}"), inputs);
        whole(&format!("LAYER_WEIGHTS{number}"), weights.start - stack);
        whole(&format!("LAYER_BIAS{number}"), bias.start - stack);
    }
    match architecture.head {
        HeadShape::Flat { activation, .. } => {
            whole("STACKS", 0);
            whole("FLAT_THREADS", flat_threads(job) as usize);
            whole(
                "ACTIVATION",
                match activation {
                    Activation::Relu => 0,
                    Activation::Crelu => 1,
                    Activation::Screlu => 2,
                },
            );
        }
        HeadShape::Stacks(stack) => {
            whole("STACKS", 1);
            whole("STACK_THREADS", STACK_THREADS as usize);
            whole("HIDDEN", stack.hidden);
            whole("SECOND", stack.second);
            whole("DUAL", usize::from(stack.dual));
            whole("SKIP", usize::from(stack.skip));
            whole("PAIRWISE", usize::from(stack.squeeze.is_pairwise()));
            define("PRODUCT", number(stack.squeeze.product() as f32));
        }
    }
    for (layer, _) in architecture.layers().iter().enumerate() {
        let (weights, bias) = layout.layer(0, layer);
        define(&format!("LAYER_GRID{layer}"), number(weights.grid));
        define(&format!("LAYER_BIAS_GRID{layer}"), number(bias.grid));
    }
    define("FIRST_GRID", number(layout.weights().grid));
    define("PSQT_GRID", number(layout.psqt().map_or(1.0, |psqt| psqt.grid)));
    define("FIRST_LEAST", number(layout.weights().range.least));
    define("FIRST_MOST", number(layout.weights().range.most));
    define("UNIT", number(job.unit));
    let (loss, power) = match job.loss {
        Loss::Power { power } => (0, power),
        Loss::CrossEntropy => (1, 2.0),
        Loss::Score => (2, 2.0),
    };
    define("LOSS", loss.to_string());
    define("POWER", number(power as f32));
    define("POWER_IS_TWO", i32::from(power == 2.0).to_string());
    let kind = match job.optimiser {
        Optimiser::Sgd { momentum: 0.0 } => 0,
        Optimiser::Sgd { .. } => 1,
        Optimiser::Adam { .. } | Optimiser::RAdam { .. } => 2,
        Optimiser::Adadelta { .. } => 3,
        Optimiser::Ranger { .. } => 4,
    };
    define("OPTIMISER", kind.to_string());
    let needs = job.optimiser.needs();
    define("HAS_FIRST", i32::from(needs.first).to_string());
    define("HAS_SECOND", i32::from(needs.second).to_string());
    define("HAS_SLOW", i32::from(needs.slow).to_string());
    text + PROGRAM
}
