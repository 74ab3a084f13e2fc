//! What a network file says of itself, known without a look at its numbers.

use super::wire::Part;
use super::{Format, LoadError, own};
use crate::Architecture;

/// What a network file says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDescription {
    /// What kind of file it is.
    pub format: Format,
    /// What the network is made of, where the file says it: lc0's networks show it by their tensors alone.
    pub architecture: Option<Architecture>,
    /// Whatever its maker wrote about it.
    pub description: String,
    /// What its numbers are.
    pub numbers: String,
}

impl FileDescription {
    /// Reads the beginning of a file. That the rest of it is sound is not known then; [`crate::Weights::from_bytes`] sees
    /// to that.
    pub fn read(bytes: &[u8]) -> Result<Self, LoadError> {
        match Format::of(bytes) {
            Some(Format::Tandem) => own::describe(bytes),
            Some(Format::Onnx) => describe_onnx(bytes),
            Some(Format::Lc0) => Ok(Self {
                format: Format::Lc0,
                architecture: None,
                description: String::new(),
                numbers: "as lc0 keeps them, mostly in 16 bits".into(),
            }),
            #[cfg(feature = "safetensors")]
            Some(Format::Safetensors) => super::safetensors::describe(bytes),
            #[cfg(not(feature = "safetensors"))]
            Some(Format::Safetensors) => Err(super::without_safetensors()),
            None => Err(super::unknown()),
        }
    }
}

/// Fields of a model in ONNX.
const PRODUCER: u32 = 2;
const METADATA: u32 = 14;

fn describe_onnx(bytes: &[u8]) -> Result<FileDescription, LoadError> {
    let model = Part { bytes, offset: 0 };
    let text = |part: Option<Part<'_>>| {
        part.map_or_else(String::new, |part| String::from_utf8_lossy(part.bytes).into_owned())
    };
    let mut architecture = None;
    for entry in model.parts(METADATA) {
        let entry = entry?;
        if text(entry.part(1)?) == "architecture" {
            let described = Architecture::from_toml(&text(entry.part(2)?));
            let problem = |error: crate::ArchitectureError| {
                LoadError::new("architecture", entry.offset, error.to_string())
            };
            architecture = Some(described.map_err(problem)?);
        }
    }
    let description = format!("made by {}", text(model.part(PRODUCER)?));
    Ok(FileDescription { format: Format::Onnx, architecture, description, numbers: "f32".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preset, Storage, Weights};

    #[test]
    fn every_file_that_we_write_is_known_again() {
        let weights = Weights::random(Preset::BtSmall.architecture(), 1);
        let own = Some(weights.architecture().clone());
        let read = |bytes: Vec<u8>| FileDescription::read(&bytes).unwrap();
        let int8 = read(weights.to_bytes(Storage::Int8, "a test"));
        assert_eq!(
            (int8.format, int8.architecture, int8.numbers.as_str()),
            (Format::Tandem, own.clone(), "int8 and f32")
        );
        assert_eq!(int8.description, "a test");
        assert_eq!(read(weights.to_bytes(Storage::F32, "")).numbers, "f32");
        let onnx = read(weights.to_onnx());
        assert_eq!((onnx.format, onnx.architecture), (Format::Onnx, own.clone()));
        assert_eq!(onnx.description, "made by tandem");
        #[cfg(feature = "safetensors")]
        {
            let tensors = read(weights.to_safetensors("a test"));
            assert_eq!((tensors.format, tensors.architecture), (Format::Safetensors, own));
            assert_eq!((tensors.numbers.as_str(), tensors.description.as_str()), ("f32", "a test"));
        }
        let lc0 = read(weights.to_lc0().unwrap());
        assert_eq!((lc0.format, lc0.architecture), (Format::Lc0, None));
    }

    #[test]
    fn a_graph_is_described_and_not_read() {
        let bytes = Weights::random(Preset::Byte.architecture(), 1).to_onnx();
        let error = Weights::from_bytes(&bytes, None).unwrap_err().to_string();
        assert_eq!(error, "format at byte 0: a graph of ONNX, which is written and never read");
        // What is cut short says nothing of its architecture, which comes last.
        for len in 1..2000 {
            let told = FileDescription::read(&bytes[..len]);
            assert!(told.map_or(true, |told| told.architecture.is_none()), "{len} bytes");
        }
        assert!(FileDescription::read(&bytes[..2000]).is_err());
        let mut changed = bytes.clone();
        let at = bytes.windows(5).position(|window| window == b"[body").unwrap();
        changed[at] = b'?';
        let error = FileDescription::read(&changed).unwrap_err().to_string();
        assert!(error.starts_with("architecture at byte"), "{error}");
    }
}
