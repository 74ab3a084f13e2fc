//! A transformer's file, and what can be said of it.

use crate::card::sha256;
use crate::error::LabError;
use std::path::{Path, PathBuf};
use tandem_transformer::{
    Architecture, ArchitectureError, Attention, Embedding, FeedForward, FileDescription, FileError, Format,
    Input, Mask, NormKind, NormPlace, PolicyKind, Preset, Weights,
};

/// A transformer's file.
pub(crate) struct TransformerFile {
    /// What it says of itself.
    pub(crate) said: FileDescription,
    /// Its numbers; of a graph of ONNX we read none.
    weights: Option<Weights>,
    /// Where it is.
    path: PathBuf,
    /// Bytes of it.
    pub(crate) size: usize,
    /// Their SHA-256.
    pub(crate) sha256: String,
}

impl TransformerFile {
    /// Reads a file; nothing if it is no transformer's. An architecture must be given where the file has none.
    pub(crate) fn load(path: &Path, given: Option<&Architecture>) -> Result<Option<Self>, LabError> {
        let start = crate::any_network::start_of(path);
        if Format::of(&start).is_none() {
            return Ok(None);
        }
        let bytes = std::fs::read(path).map_err(LabError::file(path))?;
        let named = |source| FileError::Load { path: path.into(), source };
        let said = FileDescription::read(&bytes).map_err(named)?;
        // Networks of other kinds are kept as tensors too.
        if said.format == Format::Safetensors && said.architecture.is_none() && given.is_none() {
            return Ok(None);
        }
        let weights = match said.format {
            Format::Onnx => None,
            _ => Some(Weights::from_bytes(&bytes, given).map_err(named)?),
        };
        Ok(Some(Self { said, weights, path: path.into(), size: bytes.len(), sha256: sha256(&bytes) }))
    }

    /// What the network is made of, if the file says it.
    pub(crate) fn architecture(&self) -> Option<&Architecture> {
        self.weights.as_ref().map(Weights::architecture).or(self.said.architecture.as_ref())
    }

    /// Its numbers.
    pub(crate) fn weights(&self) -> Result<&Weights, LabError> {
        self.weights.as_ref().ok_or_else(|| {
            let problem =
                "a graph of ONNX is written and never read: take the network that it was exported from";
            LabError::Usage(format!("{}: {problem}", self.path.display()))
        })
    }
}

/// Whether a file holds a transformer. Networks of other kinds are kept as tensors too: of those only what says that it is
/// one.
pub(crate) fn is_transformer(path: &Path) -> Result<bool, LabError> {
    match Format::of(&crate::any_network::start_of(path)) {
        None => Ok(false),
        Some(Format::Safetensors) => {
            let bytes = std::fs::read(path).map_err(LabError::file(path))?;
            Ok(FileDescription::read(&bytes).is_ok_and(|said| said.architecture.is_some()))
        }
        Some(_) => Ok(true),
    }
}

/// An architecture by the name of a preset, or from a file of TOML.
pub(crate) fn architecture_named(name: &str) -> Result<Architecture, LabError> {
    if let Some(preset) = Preset::named(name) {
        return Ok(preset.architecture());
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(LabError::Usage(format!(
            "{name:?} is neither a preset ({}) nor a file of TOML that describes an architecture",
            Preset::ALL.map(Preset::name).join(", ")
        )));
    }
    let text = std::fs::read_to_string(path).map_err(LabError::file(path))?;
    Architecture::from_toml(&text).map_err(|error: ArchitectureError| {
        LabError::Usage(format!("{name}: {}", error.to_string().trim_end()))
    })
}

/// What an architecture is, in one line.
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
    facts(architecture).into_iter().find(|(fact, _)| *fact == name).map_or_else(String::new, |(_, told)| told)
}

/// What an architecture is made of, part by part.
pub(crate) fn facts(architecture: &Architecture) -> Vec<(&'static str, String)> {
    let Architecture { input, embedding, body, .. } = architecture;
    let tokens = architecture.tokens();
    let input = match input {
        Input::Text if architecture.heads.action_value.is_some() => {
            format!("text: {tokens} tokens, a FEN and a move")
        }
        Input::Text => format!("text: {tokens} tokens, a FEN"),
        Input::Squares => format!("squares: {tokens} tokens of 19 numbers"),
        Input::Planes => format!("planes: {tokens} tokens of lc0's 112 numbers"),
        Input::LonePlanes => {
            format!("lone-planes: {tokens} tokens of lc0's 112 numbers, nothing of the game before")
        }
    };
    let embedding = match embedding {
        Embedding::Positions => "a row for each token and one for each place".into(),
        Embedding::DenseBoard(board) => format!(
            "each square sees the whole board in {} numbers; gates; feed-forward {}",
            board.channels, board.feed_forward
        ),
    };
    let mut layers = format!("{}, of {} numbers a token", body.layers, body.width);
    if body.mask == Mask::Prefix {
        layers += "; the position does not see the move";
    }
    let mut norm = format!(
        "{} {} each branch, epsilon {}",
        if body.norm.kind == NormKind::Layer { "layer norm" } else { "RMS norm" },
        if body.norm.place == NormPlace::Pre { "before" } else { "after" },
        body.norm.epsilon
    );
    for (there, word) in [(body.norm.deepnorm, ", deepnorm"), (body.norm.last, ", and a last one")] {
        norm += if there { word } else { "" };
    }
    let with = |biases: bool| if biases { ", biases" } else { "" };
    let biases = with(body.attention.biases());
    let attention = match &body.attention {
        Attention::Plain { .. } => format!("plain{biases}"),
        Attention::Bias { .. } => format!("a learned bias for each pair of squares{biases}"),
        Attention::Smolgen(smolgen) => format!(
            "smolgen {}/{}/{}, {:?}{biases}",
            smolgen.compressed, smolgen.hidden, smolgen.generated, smolgen.activation
        )
        .to_lowercase(),
    };
    let feed_forward = match &body.feed_forward {
        FeedForward::Dense { width, biases } => format!("dense {width}{}", with(*biases)),
        FeedForward::Gated { width, biases } => format!("gated {width}{}", with(*biases)),
        FeedForward::Experts(experts) => format!(
            "{} of {} experts, {} {}{}",
            experts.chosen,
            experts.count,
            if experts.gated { "gated" } else { "dense" },
            experts.width,
            with(experts.biases)
        ),
    };
    let told = heads(architecture).into_iter().map(|(name, sizes)| format!("{name} ({sizes})"));
    vec![
        ("input", input),
        ("embedding", embedding),
        ("layers", layers),
        ("attention heads", body.heads.to_string()),
        ("attention", attention),
        ("feed-forward", feed_forward),
        ("activation", format!("{:?}", body.activation).to_lowercase()),
        ("norm", norm),
        ("heads", told.collect::<Vec<_>>().join(", ")),
    ]
}

/// The heads and their sizes.
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
        let beside = policy.beside.iter().map(|target| format!(", {}", target.name().replace('_', " ")));
        list.push(("policy", moves + &beside.collect::<String>()));
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

/// How many numbers each part of a network has, the largest parts first.
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

/// The part of a network that a tensor belongs to.
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
    fn every_number_belongs_to_a_part() {
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
            "lone-planes -> 8 x (smolgen 32/128/128, silu, biases; dense 512, biases) of 256 with 8 heads -> policy, value, \
             moves left"
        );
    }
}
