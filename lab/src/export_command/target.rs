//! What can be written.

use crate::error::LabError;
use clap::ValueEnum;
use std::path::Path;

/// A format of network files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Ours, .tnn: any NNUE
    Tnn,
    /// Floating point, .safetensors: any network
    Safetensors,
    /// Stockfish's, .nnue: the architectures of 12 to 17 but for 15's
    Stockfish,
    /// Jomfish's, .jnn: HalfKP 256x2-32-32-1
    Jomfish,
    /// The student's, .halfkp16: HalfKP with weights of its own for each perspective
    Student,
    /// Bullet's, .bullet: one hidden layer; the file does not say what it is
    Bullet,
    /// Ours, .ttn: any transformer
    Ttn,
    /// A graph, .onnx: any transformer
    Onnx,
    /// lc0's, .pb.gz: transformers of the BT family
    Lc0,
}

impl Target {
    /// The format that a file's name promises.
    pub(crate) fn of_path(path: &Path) -> Result<Self, LabError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
        let endings = [
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
        let found = endings.iter().find(|(ending, _)| name.ends_with(ending));
        found.map(|&(_, target)| target).ok_or_else(|| {
            LabError::Usage(format!(
                "{}: the name does not tell the format ({}); say --to FORMAT",
                path.display(),
                endings.map(|(ending, _)| ending).join(", ")
            ))
        })
    }

    /// What it is called.
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

    /// Whether it holds transformers.
    pub(crate) fn holds_transformers(self) -> bool {
        matches!(self, Self::Ttn | Self::Safetensors | Self::Onnx | Self::Lc0)
    }

    /// Whether it holds NNUEs.
    pub(crate) fn holds_nnues(self) -> bool {
        self == Self::Safetensors || !self.holds_transformers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_format_by_its_whole_ending() {
        let of = |name: &str| Target::of_path(Path::new(name)).ok();
        assert_eq!(of("a.b/net.PB.gz"), Some(Target::Lc0));
        assert_eq!(of("net.int8.ttn"), Some(Target::Ttn));
        assert_eq!(of("net.gz"), None);
        assert_eq!(of("net"), None);
    }
}
