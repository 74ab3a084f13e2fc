//! Tandem's own format (`.tnn`): a header of `key = value` lines, the weights and a checksum.
//! `docs/formats.md` describes it for other programs.

use super::header::{Header, header_lines};
use super::reader::bounded;
use super::stacks::{put_stack, read_stack};
use super::{FieldReader, LoadError, extend};
use crate::architecture::*;
use crate::first_layer::FirstLayer;
use crate::kernels::Kernels;
use crate::limits::{check_accumulators, check_psqt};
use crate::network::*;
use tandem_util::checksum::checksum;
use tandem_util::isa::Isa;

/// First bytes of a file. As in PNG, the line ends reveal a transfer in text mode.
pub(super) const MAGIC: &[u8] = b"TNNUE\r\n\x1A";
const VERSION: u32 = 1;
const CHECKSUM: usize = 8;
/// Weight rows are not padded.
const PADDING: usize = 1;

pub(super) fn read(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = FieldReader::new(bytes);
    reader.bytes("magic", MAGIC.len())?;
    reader.expect("version", VERSION)?;
    let offset = reader.at();
    let text = reader.text("header")?;
    let mut header = Header::parse(&text, offset)?;

    let architecture = header.architecture()?;
    let is_flat = matches!(architecture.head, HeadShape::Flat { .. });
    let (scale, pawn) = header.units(&architecture, is_flat)?;
    let description = header.take("description").unwrap_or_default();
    let factors = if is_flat { [header.quant_factor("qa")?, header.quant_factor("qb")?] } else { [1; 2] };
    let wraps = !is_flat && header.flag("wraps")?;
    header.end()?;

    let (outputs, width) = (architecture.outputs, architecture.width());
    let inputs = architecture.features.num_inputs();
    let bias = reader.array("biases of the first layer", width)?;
    let weights_at = reader.at();
    let weights = reader.array("weights of the first layer", inputs * width)?;
    let psqt_at = reader.at();
    let psqt = match architecture.psqt {
        true => Some(reader.array("piece squares", inputs * PSQT_BUCKETS)?),
        false => None,
    };
    let first = FirstLayer { outputs, width, bias, weights, psqt, wraps };
    let head = match architecture.head {
        HeadShape::Flat { activation, buckets } => {
            let weights = reader.array("output weights", 2 * outputs * buckets.count)?;
            let bias = reader.array("output biases", buckets.count)?.to_vec();
            Head::Flat(Flat::new(activation, factors, scale, (buckets, outputs), weights, bias))
        }
        HeadShape::Stacks(StackShape { input_activation, squared_clipped, skip, buckets, .. }) => {
            let layers = architecture.layers();
            let stacks = (0..buckets.count).map(|number| read_stack(&mut reader, &layers, PADDING, number));
            Head::Stacks(Stacks {
                input_activation,
                squared_clipped,
                skip,
                buckets,
                stacks: stacks.collect::<Result<_, _>>()?,
            })
        }
    };
    let end = reader.at();
    let stored = reader.bytes("checksum", CHECKSUM)?;
    reader.end()?;
    if stored != checksum(&bytes[..end]).to_le_bytes() {
        return Err(FieldReader::error("checksum", end, "does not fit: the file is damaged"));
    }
    let features = architecture.features;
    if let Some(psqt) = &first.psqt {
        check_psqt(psqt, features.max_active())
            .map_err(|error| FieldReader::error("piece squares", psqt_at, error.to_string()))?;
    }
    if !wraps {
        check_accumulators(&features, &first).map_err(|error| {
            FieldReader::error("weights of the first layer", weights_at, error.to_string())
        })?;
    }
    Ok(Network { description, features, first, head, pawn, kernels: Kernels::new(Isa::best()) })
}

/// Recomputes the checksum of a file that was modified. Only fuzzing and tests need this.
pub fn reseal(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(CHECKSUM) {
        let sum = checksum(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
    }
}

impl Network {
    /// Writes the network in Tandem's own format, which [`Self::from_bytes`] reads. It can represent every
    /// network.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = self.header();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        extend(&mut bytes, &self.first.bias, i16::to_le_bytes);
        extend(&mut bytes, &self.first.weights, i16::to_le_bytes);
        if let Some(psqt) = &self.first.psqt {
            extend(&mut bytes, psqt, i32::to_le_bytes);
        }
        match &self.head {
            Head::Flat(flat) => {
                extend(&mut bytes, &flat.weights, i16::to_le_bytes);
                extend(&mut bytes, &flat.bias, i32::to_le_bytes);
            }
            Head::Stacks(stacks) => {
                for stack in &stacks.stacks {
                    put_stack(&mut bytes, stack, PADDING);
                }
            }
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    fn header(&self) -> String {
        let mut lines = header_lines(&self.architecture());
        lines.push(("pawn", self.pawn.to_string()));
        if !self.description.is_empty() {
            lines.push(("description", bounded(&self.description).replace(['\r', '\n'], " ")));
        }
        // Written only if it is needed, so that its presence means something.
        if self.first.wraps && check_accumulators(&self.features, &self.first).is_err() {
            lines.push(("wraps", "yes".into()));
        }
        if let Head::Flat(flat) = &self.head {
            lines.push(("qa", flat.qa.to_string()));
            lines.push(("qb", flat.qb.to_string()));
            lines.push(("scale", flat.scale.to_string()));
        }
        lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureSet;
    use crate::features::tests::random_positions;
    use crate::test_nets;

    #[test]
    fn files_survive_a_round_trip() {
        for network in test_nets::all() {
            let bytes = network.to_bytes();
            let again = Network::from_bytes(&bytes).unwrap();
            assert_eq!(again.to_bytes(), bytes);
            for position in random_positions(21, 50) {
                assert_eq!(again.evaluate(position.board()), network.evaluate(position.board()));
            }
        }
    }

    #[test]
    fn truncated_and_damaged_files_are_refused() {
        let bytes = test_nets::flat(FeatureSet::plain(), 32, 1).to_bytes();
        for len in [0, 3, 8, 11, 12, 15, 100, 400, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
            let error = Network::from_bytes(&bytes[..len]).unwrap_err();
            assert!(error.offset <= len, "{error}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Network::from_bytes(&longer).unwrap_err().field, "end of file");
        for at in [20, 60, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(Network::from_bytes(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn weights_that_could_overflow_are_refused() {
        let mut network = test_nets::flat(FeatureSet::plain(), 32, 1);
        for row in 0..40 {
            network.first.weights[row * 32 + 5] = 1500;
        }
        let bytes = network.to_bytes();
        let error = Network::from_bytes(&bytes).unwrap_err();
        assert!(error.problem.contains("value 5 could reach"), "{error}");
        let header = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        assert_eq!(error.offset, 16 + header + 2 * 32);
    }

    /// The file with one header line replaced, possibly by a longer one, and the checksum corrected.
    fn edited(network: &Network, line: &str, other: &str) -> Result<Network, LoadError> {
        let bytes = network.to_bytes();
        let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let text = String::from_utf8(bytes[16..16 + len].to_vec()).unwrap();
        assert!(text.contains(line), "{text}");
        let text = text.replace(line, other);
        let mut file = bytes[..12].to_vec();
        file.extend((text.len() as u32).to_le_bytes());
        file.extend(text.as_bytes());
        file.extend(&bytes[16 + len..]);
        reseal(&mut file);
        Network::from_bytes(&file)
    }

    #[test]
    fn invalid_headers_are_refused() {
        let flat = test_nets::flat(FeatureSet::plain(), 32, 1);
        let stacks = test_nets::stacks(FeatureSet::plain(), 32, 2);
        for (network, line, other, field) in [
            (&stacks, "buckets = 8\n", "buckets = 9\n", "buckets"),
            (&stacks, "buckets = 8\n", "buckets = 0\n", "buckets"),
            (&stacks, "hidden = 16\n", "hidden = 1\n", "hidden"),
            (&stacks, "outputs = 32\n", "outputs = 48\n", "outputs"),
            (&stacks, "outputs = 32\n", "outputs = -1\n", "outputs"),
            (&stacks, "pawn = 100\n", "pawn = 0\n", "pawn"),
            (&stacks, "pawn = 100\n", "pawn = 100\nwraps = no\n", "wraps"),
            (&flat, "pawn = 100\n", "pawn = 100\nwraps = yes\n", "wraps"),
            (&flat, "psqt = no\n", "psqt = yes\n", "psqt"),
            (&flat, "scale = 400\n", "scale = 1048577\n", "scale"),
            (&flat, "qa = 255\n", "qa = 0\n", "qa"),
        ] {
            let error = edited(network, line, other).unwrap_err();
            assert_eq!(error.field, format!("{field} in the header"), "{error}");
        }
        assert!(edited(&stacks, "pawn = 100\n", "pawn = 100\nwraps = yes\n").is_ok());
    }

    /// Regression test: a file with more stacks than piece-square values was once accepted, and evaluation
    /// panicked.
    #[test]
    fn more_stacks_than_piece_square_values_are_refused() {
        let architecture = Architecture {
            features: FeatureSet::plain(),
            outputs: 32,
            tied: true,
            psqt: false,
            head: HeadShape::Stacks(StackShape {
                input_activation: InputActivation::Clipped,
                squared_clipped: false,
                skip: false,
                hidden: 2,
                second: 1,
                buckets: OutputBuckets::bullet(32),
            }),
        };
        let float = crate::FloatNetwork::zeroed(architecture, STACK_UNITS, 100);
        let (network, _) = float.quantise(crate::Quantisation::default()).unwrap();
        let error = edited(&network, "psqt = no\n", "psqt = yes\n").unwrap_err();
        assert_eq!(error.field, "buckets in the header");
    }
}
