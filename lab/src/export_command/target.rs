//! The formats in which networks can be written.

use crate::error::LabError;
use clap::ValueEnum;
use std::path::Path;

/// A format of network files, as `--to` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Tandem's own format for NNUEs, .tnn: any architecture
    Tnn,
    /// Floating point, .safetensors: any NNUE or transformer
    Safetensors,
    /// Stockfish's format for NNUEs, .nnue: the architectures of versions 12 to 17 except 15
    Stockfish,
    /// Jomfish's format for NNUEs, .jnn: HalfKP 256x2-32-32-1
    Jomfish,
    /// HALFKP16, .halfkp16 (see docs/formats.md): HalfKP NNUEs with separate weights for each perspective
    Student,
    /// Bullet's format for NNUEs, .bullet: a single output layer; the file does not state its architecture
    Bullet,
    /// Tandem's own format for transformers, .ttn: any architecture
    Ttn,
    /// ONNX graph, .onnx: any transformer
    Onnx,
    /// lc0's format, .pb.gz: transformers of the BT family
    Lc0,
}

impl Target {
    /// Determines the format by the extension of a file name.
    ///
    /// # Errors
    ///
    /// When no format has this extension.
    pub(crate) fn of_path(path: &Path) -> Result<Self, LabError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
        let extensions = [
            (".tnn", Self::Tnn),
            (".safetensors", Self::Safetensors),
            (".nnue", Self::Stockfish),
            (".jnn", Self::Jomfish),
            (".halfkp16", Self::Student),
            (".bullet", Self::Bullet),
            (".ttn", Self::Ttn),
            (".onnx", Self::Onnx),
            (".pb.gz", Self::Lc0),
        ];
        let found = extensions.iter().find(|(extension, _)| name.ends_with(extension));
        found.map(|&(_, target)| target).ok_or_else(|| {
            LabError::Usage(format!(
                "{}: the extension is not that of a format ({}); give --to FORMAT",
                path.display(),
                extensions.map(|(extension, _)| extension).join(", ")
            ))
        })
    }

    /// The name of the format in model cards.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tnn | Self::Ttn => "tandem",
            Self::Safetensors => "safetensors, floating point",
            Self::Stockfish => "stockfish",
            Self::Jomfish => "jomfish",
            Self::Student => "student (HALFKP16)",
            Self::Bullet => "bullet",
            Self::Onnx => "onnx",
            Self::Lc0 => "lc0",
        }
    }

    /// True if the format can hold transformers.
    pub(crate) fn holds_transformers(self) -> bool {
        matches!(self, Self::Ttn | Self::Safetensors | Self::Onnx | Self::Lc0)
    }

    /// True if the format can hold NNUEs.
    pub(crate) fn holds_nnues(self) -> bool {
        self == Self::Safetensors || !self.holds_transformers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_determined_by_the_whole_extension() {
        let of = |name: &str| Target::of_path(Path::new(name)).ok();
        assert_eq!(of("a.b/net.PB.gz"), Some(Target::Lc0));
        assert_eq!(of("net.int8.ttn"), Some(Target::Ttn));
        assert_eq!(of("net.gz"), None);
        assert_eq!(of("net"), None);
    }
}
