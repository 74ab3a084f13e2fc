//! Description of a network file, read from its header without reading the weights.

use super::{Format, LoadError, ttn};
use crate::Architecture;
use tandem_util::protobuf::MessageView;

/// Contents of a network file's header: enough to list or select networks without loading them.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDescription {
    /// Format of the file, detected from its first bytes.
    pub format: Format,
    /// Architecture, if the header has one; that of lc0's networks follows from their tensors only.
    pub architecture: Option<Architecture>,
    /// Free text of the author; may be empty.
    pub description: String,
    /// Number formats of the tensors, for example `int8 and f32`.
    pub dtypes: String,
}

impl FileDescription {
    /// Reads the header of a file. The rest of the file is not checked; [`crate::Weights::from_bytes`] does
    /// that.
    ///
    /// # Errors
    /// If the format is unknown or the header is malformed.
    pub fn read(bytes: &[u8]) -> Result<Self, LoadError> {
        match Format::of(bytes) {
            Some(Format::Tandem) => ttn::describe(bytes),
            Some(Format::Onnx) => describe_onnx(bytes),
            Some(Format::Lc0) => Ok(Self {
                format: Format::Lc0,
                architecture: None,
                description: String::new(),
                dtypes: "as lc0 keeps them, mostly in 16 bits".into(),
            }),
            #[cfg(feature = "safetensors")]
            Some(Format::Safetensors) => super::safetensors::describe(bytes),
            #[cfg(not(feature = "safetensors"))]
            Some(Format::Safetensors) => Err(super::without_safetensors()),
            None => Err(super::unknown()),
        }
    }
}

const PRODUCER: u32 = 2;
const METADATA: u32 = 14;

fn describe_onnx(bytes: &[u8]) -> Result<FileDescription, LoadError> {
    let model = MessageView { bytes, offset: 0 };
    let text = |part: Option<MessageView<'_>>| {
        part.map_or_else(String::new, |part| String::from_utf8_lossy(part.bytes).into_owned())
    };
    let mut architecture = None;
    for entry in model.messages(METADATA) {
        let entry = entry?;
        if text(entry.message(1)?) == "architecture" {
            let described = Architecture::from_toml(&text(entry.message(2)?));
            let problem = |error: crate::ArchitectureError| {
                LoadError::new("architecture", entry.offset, error.to_string())
            };
            architecture = Some(described.map_err(problem)?);
        }
    }
    let description = format!("made by {}", text(model.message(PRODUCER)?));
    Ok(FileDescription { format: Format::Onnx, architecture, description, dtypes: "f32".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Preset, Storage, Weights};

    #[test]
    fn written_files_are_described() {
        let weights = Weights::random(Preset::BtSmall.architecture(), 1);
        let own = Some(weights.architecture().clone());
        let read = |bytes: Vec<u8>| FileDescription::read(&bytes).unwrap();
        let int8 = read(weights.to_bytes(Storage::Int8, "a test"));
        assert_eq!(
            (int8.format, int8.architecture, int8.dtypes.as_str()),
            (Format::Tandem, own.clone(), "int8 and f32")
        );
        assert_eq!(int8.description, "a test");
        assert_eq!(read(weights.to_bytes(Storage::F32, "")).dtypes, "f32");
        let onnx = read(weights.to_onnx());
        assert_eq!((onnx.format, onnx.architecture), (Format::Onnx, own.clone()));
        assert_eq!(onnx.description, "made by tandem");
        #[cfg(feature = "safetensors")]
        {
            let tensors = read(weights.to_safetensors("a test"));
            assert_eq!((tensors.format, tensors.architecture), (Format::Safetensors, own));
            assert_eq!((tensors.dtypes.as_str(), tensors.description.as_str()), ("f32", "a test"));
        }
        let lc0 = read(weights.to_lc0().unwrap());
        assert_eq!((lc0.format, lc0.architecture), (Format::Lc0, None));
    }

    #[test]
    fn onnx_files_are_described_and_not_read() {
        let bytes = Weights::random(Preset::Byte.architecture(), 1).to_onnx();
        let error = Weights::from_bytes(&bytes, None).unwrap_err().to_string();
        assert_eq!(error, "format at byte 0: a graph of ONNX, which is written and never read");
        // A truncated file does not describe its architecture, which comes last.
        for len in 1..2000 {
            let description = FileDescription::read(&bytes[..len]);
            assert!(
                description.map_or(true, |description| description.architecture.is_none()),
                "{len} bytes"
            );
        }
        assert!(FileDescription::read(&bytes[..2000]).is_err());
        let mut changed = bytes.clone();
        let at = bytes.windows(5).position(|window| window == b"[body").unwrap();
        changed[at] = b'?';
        let error = FileDescription::read(&changed).unwrap_err().to_string();
        assert!(error.starts_with("architecture at byte"), "{error}");
    }
}
