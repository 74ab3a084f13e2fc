//! The trait for sparse inputs of a network, from chess or from any other field.

use std::fmt;

/// A set of inputs of which only a few are active at a time.
///
/// A network, its accumulators and its trainer need nothing else to know about their inputs. A set may
/// therefore stand for anything of which one step changes little, for example pieces on squares
/// ([`crate::FeatureSet`]) or base pairs of a molecule. Inputs are indices from zero.
///
/// ```
/// use tandem_nnue::{
///     Accumulator, Activation, Architecture, FloatNetwork, HeadShape, Inputs, OutputBuckets, Quantisation,
/// };
///
/// /// A row of lamps, each on or off.
/// #[derive(Clone, Debug, PartialEq)]
/// struct Lamps(usize);
///
/// impl Inputs for Lamps {
///     const SIDES: usize = 1;
///     fn name(&self) -> &str { "lamps" }
///     fn num_inputs(&self) -> usize { self.0 }
///     fn max_active(&self) -> usize { self.0 }
/// }
///
/// let head = HeadShape::Flat { activation: Activation::Crelu, buckets: OutputBuckets::ONE };
/// let architecture = Architecture { features: Lamps(3), outputs: 32, tied: true, psqt: false, head };
/// let mut float = FloatNetwork::zeroed(architecture, 100, 100);
/// float.weights[32] = 0.5; // The second lamp adds 0.5 to the first accumulator value,
/// float.stacks[0][0].weights[0] = 1.0; // which is the output.
/// let (network, _) = float.quantise(Quantisation::default())?;
///
/// let dark = Accumulator::new(&network);
/// let mut lit = dark.clone();
/// lit.update_from(&network, &dark, &[0, 1], &[]);
/// let mut scratch = network.scratch();
/// assert_eq!(network.forward(&[&lit], 0, &mut scratch).value(), 50);
/// # Ok::<(), tandem_nnue::QuantiseError>(())
/// ```
pub trait Inputs: Clone + PartialEq + fmt::Debug {
    /// Number of accumulators that one evaluation reads: 2 if two players see the same position from their
    /// own perspective, otherwise 1. No other value is valid.
    const SIDES: usize;

    /// The name in file headers, from which the whole set can be reconstructed.
    fn name(&self) -> &str;

    /// Number of inputs, which is the number of weight rows of the first layer.
    fn num_inputs(&self) -> usize;

    /// Maximum number of inputs active at once for one side. An input that counts several times counts that
    /// often here.
    fn max_active(&self) -> usize;

    /// True if an input may be active several times at once. The default is `false`.
    fn may_repeat(&self) -> bool {
        false
    }

    /// Number of inputs in one group. All inputs that are active at once belong to one group, for example
    /// that of a king bucket. The default is a single group of all inputs.
    fn stride(&self) -> usize {
        self.num_inputs()
    }
}
