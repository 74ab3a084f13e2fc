//! The `.hybrid` file, which holds what was learnt between two networks: bridge, selector, blend, threshold
//! and scale, as safetensors.

use crate::bridge::{self, Bridge, BridgeForm};
use crate::fingerprint::Fingerprint;
use crate::selector::{FEATURES, Selector};
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tandem_util::input;
use thiserror::Error;

/// Weight of the strategist in a blended value, unless a file or a user sets another one.
pub(crate) const DEFAULT_BLEND: f32 = 0.7;
/// Probability of the selector from which a position is queried, unless a file or a user sets another one.
pub(crate) const DEFAULT_THRESHOLD: f32 = 0.5;
/// NNUE centipawns per logit of the win probability, used if the hybrid's file gives no fitted scale. The
/// strategist's students learn from scores converted with this number.
pub(crate) const DEFAULT_SCALE: f32 = 125.0;

/// Contents of a `.hybrid` file: all that was trained to make an NNUE and a transformer work together. The
/// networks themselves stay in their own files, which this one names by hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Hybrid {
    /// SHA-256 of the NNUE file that the hybrid was trained with; others are refused.
    pub nnue: Fingerprint,
    /// SHA-256 of the transformer file that the hybrid was trained with; others are refused.
    pub transformer: Fingerprint,
    /// Projection of the NNUE's accumulators into the transformer's input, if one was trained.
    pub bridge: Option<Bridge>,
    /// Classifier that decides if a position is worth a query, if one was trained.
    pub selector: Option<Selector>,
    /// Weight of the transformer's value in the value of a queried position, from 0 to 1; the rest is the
    /// NNUE's.
    pub blend: f32,
    /// Minimum output of the selector, a probability from 0 to 1, with which the transformer is queried.
    pub threshold: f32,
    /// Centipawns that an NNUE score is divided by to get its win probability, `1 / (1 + exp(-score /
    /// scale))`; from 1 to 10,000.
    pub scale: f32,
    /// Free text about the file, such as the recipe it comes from.
    pub description: String,
}

/// Contents that are not a hybrid, or a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct InvalidFile {
    /// The metadata key or tensor at fault, for example `bridge.weight`.
    pub field: String,
    /// Description of the problem, to be shown to the user.
    pub problem: String,
}

/// A `.hybrid` file that could not be read or written.
#[derive(Debug, Error)]
pub enum HybridError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Reason given by the system.
        source: io::Error,
    },
    /// The contents are not a hybrid of a version that this program reads.
    #[error("{path}: {source}")]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// The field at fault and its problem.
        source: InvalidFile,
    },
}

/// A network other than the one that a hybrid was trained with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the hybrid belongs to the {network} with SHA-256 {expected}, and {}", in_use(.found))]
pub struct IncompatibleBase {
    /// The network that does not match, either `NNUE` or `transformer`.
    pub network: &'static str,
    /// Fingerprint of the network that it was trained with.
    pub expected: Fingerprint,
    /// Fingerprint of the network in use, if there is one.
    pub found: Option<Fingerprint>,
}

fn in_use(found: &Option<Fingerprint>) -> String {
    found.map_or("there is none in use".into(), |found| format!("the one in use has {found}"))
}

/// Keys of the metadata.
const FORMAT: &str = "format";
const NNUE: &str = "nnue";
const TRANSFORMER: &str = "transformer";
const BRIDGE: &str = "bridge";
const SELECTOR: &str = "selector";
const BLEND: &str = "blend";
const THRESHOLD: &str = "threshold";
const SCALE: &str = "scale";
const DESCRIPTION: &str = "description";
const KEYS: [&str; 9] = [FORMAT, NNUE, TRANSFORMER, BRIDGE, SELECTOR, BLEND, THRESHOLD, SCALE, DESCRIPTION];
/// Value of [`FORMAT`], with the version of the format.
const FORMAT_VERSION: &str = "tandem-hybrid-2";
/// Value of [`BRIDGE`] and [`SELECTOR`] where there is none.
const NONE: &str = "none";

/// Largest accepted file, 256 MiB.
const MAX_LEN: u64 = 1 << 28;
/// Largest accepted width of a bridge at either end.
const MAX_WIDTH: usize = 1 << 16;

fn invalid(field: impl Into<String>, problem: impl Into<String>) -> InvalidFile {
    InvalidFile { field: field.into(), problem: problem.into() }
}

impl Hybrid {
    /// A hybrid of two networks before anything is learnt: no bridge, no selector, default blend, threshold
    /// and scale.
    pub fn new(nnue: Fingerprint, transformer: Fingerprint) -> Self {
        let (blend, threshold, scale) = (DEFAULT_BLEND, DEFAULT_THRESHOLD, DEFAULT_SCALE);
        let (bridge, selector, description) = (None, None, String::new());
        Self { nnue, transformer, bridge, selector, blend, threshold, scale, description }
    }

    /// Checks that the networks in use are those that the hybrid was trained with.
    ///
    /// # Errors
    /// If the hash of a network differs or a network is missing; the NNUE is checked first.
    pub fn check(
        &self,
        nnue: Option<Fingerprint>,
        transformer: Option<Fingerprint>,
    ) -> Result<(), IncompatibleBase> {
        for (which, expected, found) in
            [("NNUE", self.nnue, nnue), ("transformer", self.transformer, transformer)]
        {
            if found != Some(expected) {
                return Err(IncompatibleBase { network: which, expected, found });
            }
        }
        Ok(())
    }

    /// Reads and checks a `.hybrid` file of at most 256 MiB.
    ///
    /// # Errors
    /// If the file cannot be read or its contents are not a valid hybrid.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, HybridError> {
        let path = path.as_ref();
        let bytes = input::read_whole(path, MAX_LEN, "hybrid")
            .map_err(|source| HybridError::Io { path: path.into(), source })?;
        Self::from_bytes(&bytes).map_err(|source| HybridError::Invalid { path: path.into(), source })
    }

    /// Writes a `.hybrid` file, which appears whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), HybridError> {
        let path = path.as_ref();
        tandem_util::output::write_atomically(path, &self.to_bytes())
            .map_err(|source| HybridError::Io { path: path.into(), source })
    }

    /// Serialises the hybrid. Equal hybrids always give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = BTreeMap::from([
            (FORMAT, FORMAT_VERSION.to_owned()),
            (NNUE, self.nnue.to_string()),
            (TRANSFORMER, self.transformer.to_string()),
            (BRIDGE, self.bridge.as_ref().map_or(NONE, |bridge| bridge.form().name()).into()),
            (SELECTOR, if self.selector.is_some() { feature_names() } else { NONE.into() }),
            (BLEND, self.blend.to_string()),
            (THRESHOLD, self.threshold.to_string()),
            (SCALE, self.scale.to_string()),
            (DESCRIPTION, self.description.clone()),
        ]);
        let mut header = BTreeMap::from([("__metadata__", json!(metadata))]);
        let mut data = Vec::new();
        let mut add = |name, shape: Vec<usize>, tensor: &[f32]| {
            let begin = data.len();
            data.extend(tensor.iter().flat_map(|number| number.to_le_bytes()));
            let entry = [
                ("data_offsets", json!([begin, data.len()])),
                ("dtype", json!("F32")),
                ("shape", json!(shape)),
            ];
            header.insert(name, json!(BTreeMap::from(entry)));
        };
        for (name, shape, tensor) in self.bridge.iter().flat_map(Bridge::tensors) {
            add(name, shape, tensor);
        }
        for (name, shape, tensor) in self.selector.iter().flat_map(Selector::tensors) {
            add(name, shape, &tensor);
        }
        let mut header = json!(header).to_string().into_bytes();
        // Tensors begin at a multiple of eight bytes, so that they can be mapped.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(data);
        bytes
    }

    /// Parses the bytes of a `.hybrid` file.
    ///
    /// # Errors
    /// If a key or tensor is missing, unknown or out of range, or the file is of another version or of other
    /// selector features.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidFile> {
        let malformed = |error: safetensors::SafeTensorError| invalid("safetensors", error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
        let file = SafeTensors::deserialize(bytes).map_err(malformed)?;
        let metadata = Metadata::of(header.metadata().as_ref())?;
        let mut tensors = Tensors { file, taken: 0 };
        let bridge = match metadata.text(BRIDGE)? {
            NONE => None,
            text => Some(tensors.bridge(text)?),
        };
        let selector = match metadata.text(SELECTOR)? {
            NONE => None,
            names if names == feature_names() => {
                Some(Selector::from_tensors(|name, shape| tensors.take(name, shape))?)
            }
            names => {
                let problem =
                    format!("it was trained on other features than this program computes: {}", clip(names));
                return Err(invalid(SELECTOR, problem));
            }
        };
        tensors.end()?;
        Ok(Self {
            nnue: metadata.fingerprint(NNUE)?,
            transformer: metadata.fingerprint(TRANSFORMER)?,
            bridge,
            selector,
            blend: metadata.number(BLEND, 0.0..=1.0)?,
            threshold: metadata.number(THRESHOLD, 0.0..=1.0)?,
            scale: metadata.number(SCALE, 1.0..=10_000.0)?,
            description: metadata.text(DESCRIPTION).unwrap_or_default().into(),
        })
    }

    /// A hybrid with a bridge alone, between networks whose fingerprints do not matter.
    #[cfg(test)]
    pub(crate) fn of_bridge(bridge: Bridge) -> Self {
        let unused = Fingerprint::of(b"");
        Self { bridge: Some(bridge), ..Self::new(unused, unused) }
    }
}

/// Names of the selector's features, in order: a selector is valid only for the features it was trained on.
fn feature_names() -> String {
    FEATURES.map(|feature| feature.name).join(" ")
}

/// The first 200 characters, because a file may hold text of any length.
fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}

/// The string map in the header of a safetensors file.
struct Metadata<'a>(&'a HashMap<String, String>);

impl<'a> Metadata<'a> {
    fn of(metadata: Option<&'a HashMap<String, String>>) -> Result<Self, InvalidFile> {
        let metadata = Self(metadata.ok_or_else(|| invalid(FORMAT, "missing in the header"))?);
        let format = metadata.text(FORMAT)?;
        if format != FORMAT_VERSION {
            return Err(invalid(FORMAT, format!("{:?} found, {FORMAT_VERSION:?} expected", clip(format))));
        }
        match metadata.0.keys().filter(|key| !KEYS.contains(&key.as_str())).min() {
            Some(other) => Err(invalid(clip(other), "a hybrid has no key of this name")),
            None => Ok(metadata),
        }
    }

    fn text(&self, key: &'static str) -> Result<&'a str, InvalidFile> {
        self.0.get(key).map(String::as_str).ok_or_else(|| invalid(key, "missing in the header"))
    }

    fn fingerprint(&self, key: &'static str) -> Result<Fingerprint, InvalidFile> {
        let text = self.text(key)?;
        text.parse().map_err(|error| invalid(key, format!("{error}, not {:?}", clip(text))))
    }

    /// Parses a number and checks its range.
    fn number(&self, key: &'static str, range: RangeInclusive<f32>) -> Result<f32, InvalidFile> {
        let text = self.text(key)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| {
            invalid(key, format!("a number from {least} to {most} expected, not {:?}", clip(text)))
        })
    }
}

/// The tensors of a file, each of which must be used.
struct Tensors<'a> {
    file: SafeTensors<'a>,
    taken: usize,
}

impl Tensors<'_> {
    /// Reads a bridge; the shape of its weights gives the number of inputs and outputs.
    fn bridge(&mut self, form: &str) -> Result<Bridge, InvalidFile> {
        let form: BridgeForm = form
            .parse()
            .map_err(|()| invalid(BRIDGE, format!("gated, plain or none, not {:?}", clip(form))))?;
        let name = bridge::WEIGHT;
        let layer = self.file.tensor(name).map_err(|_| invalid(name, "this tensor is missing"))?;
        let [outputs, inputs] = *layer.shape() else {
            return Err(invalid(name, format!("{:?} is not a matrix", layer.shape())));
        };
        if !(1..=MAX_WIDTH).contains(&inputs) || !(1..=MAX_WIDTH).contains(&outputs) {
            return Err(invalid(name, format!("{outputs} x {inputs} is not from 1 to {MAX_WIDTH} each way")));
        }
        Bridge::from_tensors(form, inputs, outputs, |name, shape| self.take(name, shape))
    }

    fn take(&mut self, name: &'static str, shape: &[usize]) -> Result<Vec<f32>, InvalidFile> {
        let tensor = self.file.tensor(name).map_err(|_| invalid(name, "this tensor is missing"))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let problem = format!("{:?} {:?} found, F32 {shape:?} expected", tensor.dtype(), tensor.shape());
            return Err(invalid(name, problem));
        }
        self.taken += 1;
        let stored = tensor.data().as_chunks::<4>().0;
        let values: Vec<f32> = stored.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(invalid(name, format!("number {index} is {}", values[index]))),
            None => Ok(values),
        }
    }

    fn end(&self) -> Result<(), InvalidFile> {
        if self.file.len() == self.taken {
            return Ok(());
        }
        let known = |name: &str| name.starts_with("bridge.") || name.starts_with("selector.");
        let names = self.file.names();
        let other = names.iter().filter(|name| !known(name)).min().or(names.iter().min());
        Err(invalid(clip(other.map_or("", |name| name)), "the header has no use for this tensor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_nets;

    fn whole(form: BridgeForm) -> Hybrid {
        Hybrid {
            bridge: Some(test_nets::open_bridge(form, 64)),
            selector: Some(test_nets::selector(3)),
            blend: 0.35,
            threshold: 0.625,
            scale: 175.0,
            description: "made for a test \"so\"\n".into(),
            ..Hybrid::new(Fingerprint::of(b"nnue"), Fingerprint::of(b"transformer"))
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let alone = Hybrid { bridge: None, ..whole(BridgeForm::Gated) };
        let unlearnt = Hybrid::new(Fingerprint::of(b"a"), Fingerprint::of(b"b"));
        for hybrid in [whole(BridgeForm::Gated), whole(BridgeForm::Plain), alone, unlearnt] {
            let bytes = hybrid.to_bytes();
            assert_eq!(Hybrid::from_bytes(&bytes).as_ref(), Ok(&hybrid));
            assert_eq!(hybrid.clone().to_bytes(), bytes);
        }
    }

    #[test]
    fn tensor_names_are_sorted() {
        let bytes = whole(BridgeForm::Gated).to_bytes();
        let header = String::from_utf8_lossy(&bytes[8..2000]).into_owned();
        let places =
            ["__metadata__", "blend", "bridge.bias", "bridge.gate", "bridge.weight", "selector.0.bias"]
                .map(|name| header.find(&format!("\"{name}\"")).unwrap());
        assert!(places.is_sorted(), "{header}");
    }

    #[test]
    fn other_networks_are_refused_with_the_hash_that_was_expected() {
        let hybrid = whole(BridgeForm::Gated);
        let [nnue, transformer, other] = [&b"nnue"[..], b"transformer", b"other"].map(Fingerprint::of);
        assert_eq!(hybrid.check(Some(nnue), Some(transformer)), Ok(()));
        let problem = |nnue, transformer| hybrid.check(nnue, transformer).unwrap_err().to_string();
        assert_eq!(
            problem(Some(other), Some(transformer)),
            format!("the hybrid belongs to the NNUE with SHA-256 {nnue}, and the one in use has {other}")
        );
        assert_eq!(
            problem(Some(nnue), None),
            format!(
                "the hybrid belongs to the transformer with SHA-256 {transformer}, and there is none in use"
            )
        );
    }

    #[test]
    fn errors_name_the_field_and_the_problem() {
        let bytes = whole(BridgeForm::Gated).to_bytes();
        for len in [0, 7, 8, 40, 1000, bytes.len() - 1] {
            assert_eq!(Hybrid::from_bytes(&bytes[..len]).unwrap_err().field, "safetensors", "{len} bytes");
        }
        let with = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            let mut changed = bytes.clone();
            changed[at..at + from.len()].copy_from_slice(to.as_bytes());
            Hybrid::from_bytes(&changed).unwrap_err().to_string()
        };
        assert_eq!(
            with("tandem-hybrid-2", "tandem-hybrid-9"),
            "format: \"tandem-hybrid-9\" found, \"tandem-hybrid-2\" expected"
        );
        assert_eq!(with("\"0.35\"", "\"1.35\""), "blend: a number from 0 to 1 expected, not \"1.35\"");
        assert_eq!(with("\"0.625\"", "\"aNaN!\""), "threshold: a number from 0 to 1 expected, not \"aNaN!\"");
        assert_eq!(with("\"175\"", "\"0.5\""), "scale: a number from 1 to 10000 expected, not \"0.5\"");
        assert_eq!(with("\"gated\"", "\"wobbl\""), "bridge: gated, plain or none, not \"wobbl\"");
        assert_eq!(with("\"gated\"", "\"plain\""), "bridge.bias: the header has no use for this tensor");
        assert_eq!(with("bridge.gate", "bridge.gift"), "bridge.gate: this tensor is missing");
        assert_eq!(with("[512,64]", "[64,512]"), "bridge.bias: F32 [512] found, F32 [64] expected");
        assert!(
            with("moves captures", "moves.captures")
                .starts_with("selector: it was trained on other features")
        );
        let hash = Fingerprint::of(b"nnue").to_string();
        assert!(with(&hash, &"x".repeat(64)).starts_with("nnue: a SHA-256 has 64 hexadecimal digits, not"));
        let mut infinite = bytes.clone();
        let len = bytes.len();
        infinite[len - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
        assert_eq!(
            Hybrid::from_bytes(&infinite).unwrap_err().to_string(),
            "selector.2.bias: number 0 is inf"
        );
    }

    #[test]
    fn errors_name_the_file() {
        let path = std::env::temp_dir().join(format!("tandem-hybrid-{}.safetensors", std::process::id()));
        let hybrid = whole(BridgeForm::Plain);
        hybrid.save(&path).unwrap();
        assert_eq!(Hybrid::load(&path).unwrap(), hybrid);
        std::fs::write(&path, b"nothing").unwrap();
        let error = Hybrid::load(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        let error = Hybrid::load("/no/such/hybrid").unwrap_err().to_string();
        assert!(error.starts_with("/no/such/hybrid: "), "{error}");
        assert!(Hybrid::load("/dev/zero").unwrap_err().to_string().contains("not a file"));
    }
}
