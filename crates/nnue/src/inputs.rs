//! What a network may read, chess or not.

use std::fmt;

/// A set of inputs of which few are on at a time.
///
/// A network, its accumulators and its trainer ask nothing else of what they read, so a set may stand for anything of which a
/// step changes little: pieces on squares ([`crate::FeatureSet`]), pairs of a molecule. Rows are numbered from zero.
///
/// ```
/// use tandem_nnue::{Accumulator, Activation, Architecture, Buckets, FloatNetwork, HeadShape, Inputs, Quantisation};
///
/// /// Lamps in a row.
/// #[derive(Clone, Debug, PartialEq)]
/// struct Lamps(usize);
///
/// impl Inputs for Lamps {
///     const SIDES: usize = 1;
///     fn name(&self) -> &str { "lamps" }
///     fn inputs(&self) -> usize { self.0 }
///     fn max_active(&self) -> usize { self.0 }
/// }
///
/// let head = HeadShape::Flat { activation: Activation::Crelu, buckets: Buckets::ONE };
/// let architecture = Architecture { features: Lamps(3), outputs: 32, tied: true, psqt: false, head };
/// let mut float = FloatNetwork::zeroed(architecture, 100, 100);
/// float.weights[32] = 0.5; // The second lamp counts a half,
/// float.stacks[0][0].weights[0] = 1.0; // and this is what is said.
/// let (network, _) = float.quantise(Quantisation::default())?;
///
/// let dark = Accumulator::new(&network);
/// let mut lit = dark.clone();
/// lit.follow(&network, &dark, &[0, 1], &[]);
/// let mut scratch = network.scratch();
/// assert_eq!(network.judge(&[&lit], 0, &mut scratch).value(), 50);
/// # Ok::<(), tandem_nnue::QuantiseError>(())
/// ```
pub trait Inputs: Clone + PartialEq + fmt::Debug {
    /// How many accumulators judge together: two where two players see the same thing each in their own way, else one. There
    /// are no others.
    const SIDES: usize;

    /// The name, which says all there is to know of the set.
    fn name(&self) -> &str;

    /// How many inputs there are.
    fn inputs(&self) -> usize;

    /// The most that can be on at once, for one side; one that counts several times counts so often here.
    fn max_active(&self) -> usize;

    /// Whether an input may count several times.
    fn repeats(&self) -> bool {
        false
    }

    /// Inputs come in groups of so many, of which all that are on at once are in one. All of them, unless something like a
    /// king chooses.
    fn stride(&self) -> usize {
        self.inputs()
    }
}
