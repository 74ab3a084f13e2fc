//! Jomfish's `.jnn`, which has the layers of Stockfish 12 without hashes.

use super::stacks::{put_stack, read_stack};
use super::stockfish::{
    PADDING, Shape, VERSION_12, finish, put_first_layer, put_text, put_u32, read_first_layer, unsupported,
};
use super::{FieldReader, LoadError, UnsupportedArchitecture};
use crate::float::FloatNetwork;
use crate::network::{Head, Network};

pub(super) const MAGIC: u32 = 0x4A4F_4D46;
const VERSION: u32 = 0x0001_0001;

/// Reads a `.jnn` file.
pub(super) fn read(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = FieldReader::new(bytes);
    reader.expect("magic", MAGIC)?;
    reader.expect("version", VERSION)?;
    let description = reader.text("description")?;
    let shape = Shape::stockfish_12();
    let first = read_first_layer(&mut reader, &shape.architecture)?;
    let stack = read_stack(&mut reader, &shape.architecture.layers(), PADDING, 0)?;
    reader.end()?;
    Ok(finish(description, shape, first, vec![stack]))
}

impl Network {
    /// Writes the network in Jomfish's `.jnn` format, which holds one architecture only.
    ///
    /// # Errors
    /// The architecture is not HalfKP 256x2-32-32-1.
    pub fn to_jomfish(&self) -> Result<Vec<u8>, UnsupportedArchitecture> {
        let (Some((VERSION_12, _)), Head::Stacks(stacks)) = (self.shape(), &self.head) else {
            return Err(unsupported(self, "Jomfish's"));
        };
        let mut bytes = Vec::new();
        put_u32(&mut bytes, MAGIC);
        put_u32(&mut bytes, VERSION);
        put_text(&mut bytes, &self.description);
        put_first_layer(&mut bytes, &self.first);
        put_stack(&mut bytes, &stacks.stacks[0], PADDING);
        Ok(bytes)
    }
}

impl FloatNetwork {
    /// Writes the network byte for byte as Jomfish's own exporter does.
    ///
    /// That exporter swaps the scales of the hidden layers and of the output, so an engine that computes as
    /// Stockfish does gets other values. [`Network::to_jomfish`] writes correct files.
    ///
    /// # Errors
    /// The architecture is not HalfKP 256x2-32-32-1.
    pub fn to_jomfish_literal(&self) -> Result<Vec<u8>, UnsupportedArchitecture> {
        let fits = self.architecture == Shape::stockfish_12().architecture && self.check().is_ok();
        if !fits {
            let architecture = self.architecture.to_string();
            return Err(UnsupportedArchitecture { architecture, format: "Jomfish's".into() });
        }
        let rounded = |number: f32, scale: f32| (number * scale).round();
        let mut bytes = Vec::new();
        put_u32(&mut bytes, MAGIC);
        put_u32(&mut bytes, VERSION);
        put_text(&mut bytes, &self.description);
        for numbers in [&self.bias, &self.weights] {
            bytes.extend(numbers.iter().flat_map(|&number| (rounded(number, 127.0) as i16).to_le_bytes()));
        }
        for (layer, is_output) in self.stacks[0].iter().zip([false, false, true]) {
            let bias_scale = if is_output { 64.0 * 127.0 } else { 9600.0 };
            let weight_scale: f32 = bias_scale / 127.0;
            let greatest = 127.0 / weight_scale;
            for &bias in &layer.bias {
                bytes.extend((rounded(bias, bias_scale) as i32).to_le_bytes());
            }
            for &weight in &layer.weights {
                bytes.push(rounded(weight.clamp(-greatest, greatest), weight_scale) as i8 as u8);
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureSet;
    use crate::test_nets;

    #[test]
    fn jomfish_files_have_correct_scales_or_literally_jomfishs() {
        let Shape { architecture, pawn, .. } = Shape::stockfish_12();
        let mut float = FloatNetwork::zeroed(architecture, 600, pawn);
        float.description = "jom".into();
        float.bias[0] = 0.5;
        float.weights[256] = -0.25;
        float.stacks[0][0].bias[0] = 1.0;
        float.stacks[0][0].weights[1] = 1.0;
        float.stacks[0][2].bias[0] = 1.0;
        float.stacks[0][2].weights[31] = 9.0;
        let sound = float.quantise(crate::Quantisation::default()).unwrap().0.to_jomfish().unwrap();
        assert_eq!(Network::from_bytes(&sound).unwrap().to_jomfish().unwrap(), sound);
        let literal = float.to_jomfish_literal().unwrap();
        assert_eq!(literal.len(), sound.len());
        // The header and the first layer; then the first dense layer, with the output layer at the end.
        let dense = 15 + 2 * 256 * 41_025;
        assert_eq!(literal[..dense], sound[..dense]);
        assert_eq!(literal[15..17], 64i16.to_le_bytes());
        assert_eq!(literal[15 + 512 + 512..][..2], (-32i16).to_le_bytes());
        let scales = |bytes: &[u8]| {
            let end = bytes.len();
            let int = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            (int(dense), bytes[dense + 129] as i8, int(end - 36), bytes[end - 1] as i8)
        };
        assert_eq!(scales(&sound), (8128, 64, 9600, 127));
        assert_eq!(scales(&literal), (9600, 76, 8128, 127));
        assert!(test_nets::stacks(FeatureSet::plain(), 64, 2).to_float().to_jomfish_literal().is_err());
    }
}
