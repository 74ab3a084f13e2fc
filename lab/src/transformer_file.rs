//! Transformer files of every format, and descriptions of their architectures in words.

use crate::any_network::built_in;
use crate::error::LabError;
use crate::model_card::sha256;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use tandem_transformer::{
    Architecture, ArchitectureError, Embedding, FileDescription, FileError, Format, Input, Mask, NormKind,
    NormPlace, PolicyKind, Preset, Weights,
};

/// A transformer file that was read into memory.
pub(crate) struct TransformerFile {
    /// Format, architecture and description, as the file states them.
    pub(crate) header: FileDescription,
    /// The weights; `None` for an ONNX graph, because those are only written.
    weights: Option<Weights>,
    /// The path that it was read from, for error messages.
    path: PathBuf,
    /// Size of the file in bytes.
    pub(crate) size: usize,
    /// SHA-256 of the file, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl TransformerFile {
    /// Reads a file; `None` if it does not hold a transformer. `given` supplies the architecture of a file
    /// that does not state it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is damaged, or contradicts the given architecture.
    pub(crate) fn load(path: &Path, given: Option<&Architecture>) -> Result<Option<Self>, LabError> {
        let start = crate::any_network::start_of(path)?;
        if Format::of(&start).is_none() {
            return Ok(None);
        }
        let bytes = match built_in(path) {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(std::fs::read(path).map_err(LabError::file(path))?),
        };
        let named = |source| FileError::Load { path: path.into(), source };
        let header = FileDescription::read(&bytes).map_err(named)?;
        // Safetensors hold networks of other kinds too.
        if header.format == Format::Safetensors && header.architecture.is_none() && given.is_none() {
            return Ok(None);
        }
        let weights = match header.format {
            Format::Onnx => None,
            _ => Some(Weights::from_bytes(&bytes, given).map_err(named)?),
        };
        Ok(Some(Self { header, weights, path: path.into(), size: bytes.len(), sha256: sha256(&bytes) }))
    }

    /// The architecture, if the file states it.
    pub(crate) fn architecture(&self) -> Option<&Architecture> {
        self.weights.as_ref().map(Weights::architecture).or(self.header.architecture.as_ref())
    }

    /// The weights of the network.
    ///
    /// # Errors
    ///
    /// When the file is an ONNX graph, which cannot be read back.
    pub(crate) fn weights(&self) -> Result<&Weights, LabError> {
        self.weights.as_ref().ok_or_else(|| {
            let problem = "ONNX graphs are written and never read: use the network that it was exported from";
            LabError::Usage(format!("{}: {problem}", self.path.display()))
        })
    }
}

/// True if a file holds a transformer. Safetensors hold networks of other kinds too, so those must state a
/// transformer's architecture.
///
/// # Errors
///
/// When the file cannot be read.
pub(crate) fn is_transformer(path: &Path) -> Result<bool, LabError> {
    match Format::of(&crate::any_network::start_of(path)?) {
        None => Ok(false),
        Some(Format::Safetensors) => {
            let bytes = std::fs::read(path).map_err(LabError::file(path))?;
            Ok(FileDescription::read(&bytes).is_ok_and(|header| header.architecture.is_some()))
        }
        Some(_) => Ok(true),
    }
}

/// Loads an architecture by the name of a preset, for example `bt3`, or from a TOML file.
///
/// # Errors
///
/// When there is no such preset, or the TOML file is missing or invalid.
pub(crate) fn architecture_named(name: &str) -> Result<Architecture, LabError> {
    if let Some(preset) = Preset::named(name) {
        return Ok(preset.architecture());
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(LabError::Usage(format!(
            "{name:?} is neither a preset ({}) nor a TOML file that describes an architecture",
            Preset::ALL.map(Preset::name).join(", ")
        )));
    }
    let text = std::fs::read_to_string(path).map_err(LabError::file(path))?;
    Architecture::from_toml(&text).map_err(|error: ArchitectureError| {
        LabError::Usage(format!("{name}: {}", error.to_string().trim_end()))
    })
}

/// The architecture in one line: input, layers, width, heads and outputs.
pub(crate) fn outline(architecture: &Architecture) -> String {
    let body = &architecture.body;
    let [input, attention, feed_forward] =
        ["input", "attention", "feed-forward"].map(|name| fact(architecture, name));
    format!(
        "{} -> {} x ({attention}; {feed_forward}) of {} with {} heads -> {}",
        input.split(':').next().unwrap_or_default(),
        body.layers,
        body.width,
        body.heads,
        heads(architecture).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    )
}

fn fact(architecture: &Architecture, name: &str) -> String {
    facts(architecture).into_iter().find(|(fact, _)| *fact == name).map_or_else(String::new, |(_, text)| text)
}

/// The architecture as pairs of name and description, in the order from input to output.
pub(crate) fn facts(architecture: &Architecture) -> Vec<(&'static str, String)> {
    let Architecture { input, embedding, body, .. } = architecture;
    let tokens = architecture.tokens();
    let input = match input {
        Input::Text if architecture.heads.action_value.is_some() => {
            format!("text: {tokens} tokens, a FEN and a move")
        }
        Input::Text => format!("text: {tokens} tokens, a FEN"),
        Input::Squares => format!("squares: {tokens} tokens of 19 values"),
        Input::Planes => format!("planes: {tokens} tokens of lc0's 112 planes"),
        Input::PlanesSingle => {
            format!("planes-single: {tokens} tokens of lc0's 112 planes, without the game history")
        }
    };
    let embedding = match embedding {
        Embedding::Positions => "token and position embeddings".into(),
        Embedding::DenseBoard(board) => format!(
            "each square sees the whole board as {} values; gates; feed-forward {}",
            board.channels, board.feed_forward
        ),
    };
    let mut layers = format!("{}, of {} values per token", body.layers, body.width);
    if body.mask == Mask::Prefix {
        layers += "; the position does not see the move";
    }
    let mut norm = format!(
        "{} {} each branch, epsilon {}",
        if body.norm.kind == NormKind::Layer { "layer norm" } else { "RMS norm" },
        if body.norm.place == NormPlace::Pre { "before" } else { "after" },
        body.norm.epsilon
    );
    for (there, word) in [(body.norm.deepnorm, ", deepnorm"), (body.norm.last, ", and a final one")] {
        norm += if there { word } else { "" };
    }
    let outputs = heads(architecture).into_iter().map(|(name, sizes)| format!("{name} ({sizes})"));
    vec![
        ("input", input),
        ("embedding", embedding),
        ("layers", layers),
        ("attention heads", body.heads.to_string()),
        ("attention", body.attention.to_string()),
        ("feed-forward", body.feed_forward.to_string()),
        ("activation", format!("{:?}", body.activation).to_lowercase()),
        ("norm", norm),
        ("heads", outputs.collect::<Vec<_>>().join(", ")),
    ]
}

/// The output heads and their sizes.
fn heads(architecture: &Architecture) -> Vec<(&'static str, String)> {
    let heads = &architecture.heads;
    let mut list = Vec::new();
    let buckets = [("action value", heads.action_value), ("state value", heads.state_value)];
    list.extend(
        buckets.into_iter().filter_map(|(name, head)| Some((name, format!("{} buckets", head?.buckets)))),
    );
    if let Some(policy) = &heads.policy {
        let moves = match policy.kind {
            PolicyKind::Attention => format!("1858 moves by attention of {}", policy.width),
            PolicyKind::Actions => "1968 moves".into(),
        };
        let auxiliary =
            policy.aux_targets.iter().map(|target| format!(", {}", target.name().replace('_', " ")));
        list.push(("policy", moves + &auxiliary.collect::<String>()));
    }
    let values = ["value", "search value", "short term"].into_iter().zip(heads.values());
    for (name, (_, head)) in values {
        let Some(head) = head else { continue };
        let mut sizes = format!("{}/{}", head.channels, head.hidden);
        sizes += if head.error { ", error" } else { "" };
        if head.buckets > 0 {
            sizes += &format!(", {} buckets", head.buckets);
        }
        list.push((name, sizes));
    }
    if let Some(head) = heads.moves_left {
        list.push(("moves left", format!("{}/{}", head.channels, head.hidden)));
    }
    if let Some(head) = heads.move_value {
        list.push(("value of each move", head.width.to_string()));
    }
    list
}

/// The number of parameters of each part of a network, the largest parts first.
pub(crate) fn parameters_by_part(architecture: &Architecture) -> Vec<(String, usize)> {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for spec in architecture.tensors() {
        let part = part_of(&spec.name).replace('_', " ");
        match parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, count)) => *count += spec.len(),
            None => parts.push((part, spec.len())),
        }
    }
    parts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    parts
}

/// The part of a network to which a tensor belongs, by the tensor's name.
fn part_of(tensor: &str) -> &str {
    let mut names = tensor.split('.');
    match names.next() {
        Some("layers") => match names.nth(1) {
            Some("experts" | "router") => "experts",
            Some("feed_forward") => "feed-forward",
            Some(part) if part.ends_with("norm") => "norms",
            Some(part) => part,
            None => tensor,
        },
        Some("last_norm") => "norms",
        Some(part) => part,
        None => tensor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_belongs_to_a_part() {
        for preset in Preset::ALL {
            let architecture = preset.architecture();
            let parts = parameters_by_part(&architecture);
            let sum: usize = parts.iter().map(|&(_, count)| count).sum();
            assert_eq!(sum, architecture.parameters());
        }
        let parts = parameters_by_part(&Preset::Byte.architecture());
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["experts", "embedding", "attention", "action value", "norms"]);
    }

    #[test]
    fn an_outline_fits_in_a_line() {
        assert_eq!(
            outline(&Preset::Byte.architecture()),
            "text -> 4 x (plain; 2 of 8 experts, dense 256) of 64 with 4 heads -> action value"
        );
        assert_eq!(
            outline(&Preset::BtSmall.architecture()),
            "planes-single -> 8 x (smolgen 32/128/128, silu, biases; dense 512, biases) of 256 with 8 heads -> policy, value, \
             moves left"
        );
    }
}
