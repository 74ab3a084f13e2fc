//! The source of the GPU program for the shape of one network: definitions followed by `step.cu`.

use crate::loss::Loss;
use crate::optimiser::Optimiser;
use crate::trainer::Job;
use std::fmt::Write as _;
use tandem_nnue::{HeadShape, PSQT_BUCKETS};

const PROGRAM: &str = include_str!("step.cu");

/// Sides whose gradients are summed by one work item.
pub(super) const ITEM: u32 = 64;

/// Threads of a block of the step for stacks.
pub(super) const STACK_THREADS: u32 = 256;

/// The reason why a GPU cannot train a network with stacks, if there is one: a block holds the accumulators
/// of a position in shared memory, of which every generation of GPUs has enough for this width.
pub(super) fn problem(job: &Job) -> Option<String> {
    const _: () = assert!(PSQT_BUCKETS == 8);
    const MOST: usize = 4096;
    let architecture = job.layout.architecture();
    let outputs = architecture.outputs;
    (matches!(architecture.head, HeadShape::Stacks(_)) && outputs > MOST).then(|| {
        format!("an accumulator of {outputs} values before stacks is too wide for a GPU, {MOST} is the most: {ADVICE}")
    })
}

/// Advice for networks that do not fit on a GPU.
pub(super) const ADVICE: &str = "train with `--device cpu`, or make it smaller";

/// Bytes of dynamic shared memory in which a block of the step for stacks keeps its first dense layer.
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

/// A literal of exactly this value, given by its bits.
fn literal(value: f32) -> String {
    format!("__int_as_float(0x{:08x})", value.to_bits())
}

/// The complete CUDA source for a job.
pub(super) fn source(job: &Job) -> String {
    let layout = &job.layout;
    let architecture = layout.architecture();
    let shape = layout.options();
    let mut text = String::new();
    let mut define = |name: &str, value: String| {
        let _ = writeln!(text, "#define {name} {value}");
    };
    let mut integer = |name: &str, value: usize| define(name, value.to_string());
    integer("OUTPUTS", architecture.outputs);
    integer("WIDTH", architecture.width());
    integer("ROWS", layout.num_weight_rows());
    integer("INPUTS", architecture.features.num_inputs());
    integer("BUCKET_FEATURES", architecture.features.stride());
    integer("MAX_INPUTS", architecture.features.max_active());
    integer("STRIDE", layout.max_active());
    integer("FACTORISER", usize::from(shape.factoriser));
    integer("QAT", usize::from(shape.qat));
    integer("BUCKETS", architecture.buckets().count);
    integer("BUCKET_LESS", architecture.buckets().offset);
    integer("BUCKET_PIECES", architecture.buckets().divisor);
    integer("ITEM", ITEM as usize);
    // Offsets of the tensors in the flat buffer.
    integer("BIAS", layout.bias().start);
    integer("REST", layout.num_parameters() - layout.bias().start);
    integer("PSQT", usize::from(architecture.psqt));
    integer("PSQT_START", layout.psqt().map_or(0, |psqt| psqt.start));
    let stack = layout.layer(0, 0).0.start;
    integer("STACK", stack);
    let many = architecture.buckets().count > 1;
    integer("STACK_STEP", if many { layout.layer(1, 0).0.start - stack } else { 0 });
    for (number, (inputs, _)) in architecture.layers().into_iter().enumerate() {
        let (weights, bias) = layout.layer(0, number);
        integer(&format!("LAYER_INPUTS{number}"), inputs);
        integer(&format!("LAYER_WEIGHTS{number}"), weights.start - stack);
        integer(&format!("LAYER_BIAS{number}"), bias.start - stack);
    }
    match architecture.head {
        HeadShape::Flat { activation, .. } => {
            integer("STACKS", 0);
            integer("FLAT_THREADS", flat_threads(job) as usize);
            let (value, derivative) = activation.cuda_source("value");
            define("ACTIVATION_VALUE", value);
            define("ACTIVATION_DERIVATIVE", derivative);
        }
        HeadShape::Stacks(stack) => {
            integer("STACKS", 1);
            integer("STACK_THREADS", STACK_THREADS as usize);
            integer("HIDDEN", stack.hidden);
            integer("SECOND", stack.second);
            integer("SQUARED_CLIPPED", usize::from(stack.squared_clipped));
            integer("SKIP", usize::from(stack.skip));
            integer("PAIRWISE", usize::from(stack.input_activation.is_pairwise()));
            define("PRODUCT", literal(stack.input_activation.product_of_ones() as f32));
        }
    }
    for (layer, _) in architecture.layers().iter().enumerate() {
        let (weights, bias) = layout.layer(0, layer);
        define(&format!("LAYER_SCALE{layer}"), literal(weights.quant_scale));
        define(&format!("LAYER_BIAS_SCALE{layer}"), literal(bias.quant_scale));
    }
    define("FIRST_SCALE", literal(layout.weights().quant_scale));
    define("PSQT_SCALE", literal(layout.psqt().map_or(1.0, |psqt| psqt.quant_scale)));
    define("FIRST_MIN", literal(layout.weights().clamp.min));
    define("FIRST_MAX", literal(layout.weights().clamp.max));
    define("OUTPUT_SCALE", literal(job.output_scale));
    let (loss, power) = match job.loss {
        Loss::Power { power } => (0, power),
        Loss::CrossEntropy => (1, 2.0),
        Loss::Score => (2, 2.0),
    };
    define("LOSS", loss.to_string());
    define("POWER", literal(power as f32));
    define("POWER_IS_TWO", i32::from(power == 2.0).to_string());
    let kind = match job.optimiser {
        Optimiser::Sgd { momentum: 0.0 } => 0,
        Optimiser::Sgd { .. } => 1,
        Optimiser::AdamW { .. } | Optimiser::RAdam { .. } => 2,
        Optimiser::Adadelta { .. } => 3,
        Optimiser::Ranger { .. } => 4,
        Optimiser::NAdam { .. } => 5,
    };
    define("OPTIMISER", kind.to_string());
    let buffers = job.optimiser.buffers();
    define("HAS_EXP_AVG", i32::from(buffers.exp_avg).to_string());
    define("HAS_EXP_AVG_SQ", i32::from(buffers.exp_avg_sq).to_string());
    define("HAS_SLOW_WEIGHTS", i32::from(buffers.slow_weights).to_string());
    text + PROGRAM
}
