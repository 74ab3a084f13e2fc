//! The file of what was learnt between two networks: bridge, selector, blend and threshold, as safetensors.

use crate::bridge::{self, Bridge, BridgeForm};
use crate::fingerprint::Fingerprint;
use crate::opinion::USUAL_SCALE;
use crate::selector::{FEATURES, Selector};
use crate::strategist;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tandem_chess::input;
use thiserror::Error;

/// What was learnt between an NNUE and a transformer, which themselves stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Hybrid {
    /// The NNUE's file.
    pub nnue: Fingerprint,
    /// The transformer's.
    pub transformer: Fingerprint,
    /// From the one to the other.
    pub bridge: Option<Bridge>,
    /// Where the transformer is worth its time.
    pub selector: Option<Selector>,
    /// How much of a blended value is the transformer's, from 0 to 1.
    pub blend: f32,
    /// From which probability of the selector's on the transformer is asked, from 0 to 1.
    pub threshold: f32,
    /// How many of the NNUE's centipawns are worth a logit of its chances, which are 1 / (1 + e^(−score / scale)).
    pub scale: f32,
    /// What the file says of itself.
    pub description: String,
}

/// A file that is no hybrid, or a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct UnfitFile {
    /// What was being read.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A hybrid's file that could not be read or written.
#[derive(Debug, Error)]
pub enum HybridError {
    /// The file system's word.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is in the file is no hybrid.
    #[error("{path}: {source}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: UnfitFile,
    },
}

/// A network that a hybrid was not learnt with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the hybrid belongs to the {which} with SHA-256 {expected}, and {}", in_use(.found))]
pub struct UnfitBase {
    /// NNUE or transformer.
    pub which: &'static str,
    /// The one that it was learnt with.
    pub expected: Fingerprint,
    /// The one that is there, if any.
    pub found: Option<Fingerprint>,
}

fn in_use(found: &Option<Fingerprint>) -> String {
    found.map_or("there is none in use".into(), |found| format!("the one in use has {found}"))
}

/// The metadata's keys.
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
/// The metadata's word on what the file is.
const OURS: &str = "tandem-hybrid-2";
/// And on a bridge or a selector that is not there.
const NONE: &str = "none";

/// Larger than any such file should be.
const MAX_LEN: u64 = 1 << 28;
/// More numbers than a bridge can have at either end.
const MAX_WIDTH: usize = 1 << 16;

fn unfit(field: impl Into<String>, problem: impl Into<String>) -> UnfitFile {
    UnfitFile { field: field.into(), problem: problem.into() }
}

impl Hybrid {
    /// Nothing learnt between two networks yet.
    pub fn new(nnue: Fingerprint, transformer: Fingerprint) -> Self {
        let (blend, threshold, scale) = (strategist::BLEND, strategist::THRESHOLD, USUAL_SCALE);
        let (bridge, selector, description) = (None, None, String::new());
        Self { nnue, transformer, bridge, selector, blend, threshold, scale, description }
    }

    /// Whether these are the networks that it was learnt with.
    pub fn check(
        &self,
        nnue: Option<Fingerprint>,
        transformer: Option<Fingerprint>,
    ) -> Result<(), UnfitBase> {
        for (which, expected, found) in
            [("NNUE", self.nnue, nnue), ("transformer", self.transformer, transformer)]
        {
            if found != Some(expected) {
                return Err(UnfitBase { which, expected, found });
            }
        }
        Ok(())
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, HybridError> {
        let path = path.as_ref();
        let bytes = input::read_whole(path, MAX_LEN, "hybrid")
            .map_err(|source| HybridError::Io { path: path.into(), source })?;
        Self::from_bytes(&bytes).map_err(|source| HybridError::Unfit { path: path.into(), source })
    }

    /// Writes a file, which appears whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), HybridError> {
        let path = path.as_ref();
        tandem_chess::output::write_whole(path, &self.to_bytes())
            .map_err(|source| HybridError::Io { path: path.into(), source })
    }

    /// The file's bytes. The same numbers are always the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = BTreeMap::from([
            (FORMAT, OURS.to_owned()),
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
        let mut numbers = Vec::new();
        let mut add = |name, shape: Vec<usize>, tensor: &[f32]| {
            let begin = numbers.len();
            numbers.extend(tensor.iter().flat_map(|number| number.to_le_bytes()));
            let place = [
                ("data_offsets", json!([begin, numbers.len()])),
                ("dtype", json!("F32")),
                ("shape", json!(shape)),
            ];
            header.insert(name, json!(BTreeMap::from(place)));
        };
        for (name, shape, tensor) in self.bridge.iter().flat_map(Bridge::tensors) {
            add(name, shape, tensor);
        }
        for (name, shape, tensor) in self.selector.iter().flat_map(Selector::tensors) {
            add(name, shape, &tensor);
        }
        let mut header = json!(header).to_string().into_bytes();
        // Numbers begin where a machine likes to read them.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(numbers);
        bytes
    }

    /// Reads a file's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UnfitFile> {
        let broken = |error: safetensors::SafeTensorError| unfit("safetensors", error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        let metadata = Metadata::of(header.metadata().as_ref())?;
        let mut tensors = Tensors { file, taken: 0 };
        let bridge = match metadata.text(BRIDGE)? {
            NONE => None,
            text => Some(tensors.bridge(text)?),
        };
        let selector = match metadata.text(SELECTOR)? {
            NONE => None,
            names if names == feature_names() => {
                Some(Selector::of_tensors(|name, shape| tensors.take(name, shape))?)
            }
            names => {
                let problem =
                    format!("it was taught other features than this program finds: {}", clip(names));
                return Err(unfit(SELECTOR, problem));
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

    /// A bridge between networks that nobody asks about.
    #[cfg(test)]
    pub(crate) fn of_bridge(bridge: Bridge) -> Self {
        let nobody = Fingerprint::of(b"");
        Self { bridge: Some(bridge), ..Self::new(nobody, nobody) }
    }
}

/// The features by which a selector was taught, in their order.
fn feature_names() -> String {
    FEATURES.map(|feature| feature.name).join(" ")
}

/// The beginning of a text that may be of any length.
fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}

/// What the header says of the file.
struct Metadata<'a>(&'a HashMap<String, String>);

impl<'a> Metadata<'a> {
    fn of(metadata: Option<&'a HashMap<String, String>>) -> Result<Self, UnfitFile> {
        let metadata =
            Self(metadata.ok_or_else(|| unfit(FORMAT, "the header does not say what the file is"))?);
        let format = metadata.text(FORMAT)?;
        if format != OURS {
            return Err(unfit(FORMAT, format!("{:?} found, {OURS:?} expected", clip(format))));
        }
        match metadata.0.keys().filter(|key| !KEYS.contains(&key.as_str())).min() {
            Some(other) => Err(unfit(clip(other), "a hybrid says nothing under this name")),
            None => Ok(metadata),
        }
    }

    fn text(&self, key: &'static str) -> Result<&'a str, UnfitFile> {
        self.0.get(key).map(String::as_str).ok_or_else(|| unfit(key, "missing in the header"))
    }

    fn fingerprint(&self, key: &'static str) -> Result<Fingerprint, UnfitFile> {
        let text = self.text(key)?;
        text.parse().map_err(|error| unfit(key, format!("{error}, not {:?}", clip(text))))
    }

    /// A number within a range.
    fn number(&self, key: &'static str, range: RangeInclusive<f32>) -> Result<f32, UnfitFile> {
        let text = self.text(key)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| {
            unfit(key, format!("a number from {least} to {most} expected, not {:?}", clip(text)))
        })
    }
}

/// The tensors of a file, which are all asked for.
struct Tensors<'a> {
    file: SafeTensors<'a>,
    taken: usize,
}

impl Tensors<'_> {
    /// The shape of the bridge's layer says what it leads from and to.
    fn bridge(&mut self, form: &str) -> Result<Bridge, UnfitFile> {
        let form: BridgeForm = form
            .parse()
            .map_err(|()| unfit(BRIDGE, format!("gated, plain or none, not {:?}", clip(form))))?;
        let name = bridge::WEIGHT;
        let layer = self.file.tensor(name).map_err(|_| unfit(name, "this tensor is missing"))?;
        let [outputs, inputs] = *layer.shape() else {
            return Err(unfit(name, format!("{:?} is no matrix", layer.shape())));
        };
        if !(1..=MAX_WIDTH).contains(&inputs) || !(1..=MAX_WIDTH).contains(&outputs) {
            return Err(unfit(name, format!("{outputs} x {inputs} is not from 1 to {MAX_WIDTH} each way")));
        }
        Bridge::of_tensors(form, inputs, outputs, |name, shape| self.take(name, shape))
    }

    fn take(&mut self, name: &'static str, shape: &[usize]) -> Result<Vec<f32>, UnfitFile> {
        let tensor = self.file.tensor(name).map_err(|_| unfit(name, "this tensor is missing"))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let problem = format!("{:?} {:?} found, F32 {shape:?} expected", tensor.dtype(), tensor.shape());
            return Err(unfit(name, problem));
        }
        self.taken += 1;
        let stored = tensor.data().as_chunks::<4>().0;
        let numbers: Vec<f32> = stored.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(index) => Err(unfit(name, format!("number {index} is {}", numbers[index]))),
            None => Ok(numbers),
        }
    }

    fn end(&self) -> Result<(), UnfitFile> {
        if self.file.len() == self.taken {
            return Ok(());
        }
        let known = |name: &str| name.starts_with("bridge.") || name.starts_with("selector.");
        let names = self.file.names();
        let other = names.iter().filter(|name| !known(name)).min().or(names.iter().min());
        Err(unfit(clip(other.map_or("", |name| name)), "the header has no use for this tensor"))
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
    fn it_is_read_as_it_was_written() {
        let alone = Hybrid { bridge: None, ..whole(BridgeForm::Gated) };
        let unlearnt = Hybrid::new(Fingerprint::of(b"a"), Fingerprint::of(b"b"));
        for hybrid in [whole(BridgeForm::Gated), whole(BridgeForm::Plain), alone, unlearnt] {
            let bytes = hybrid.to_bytes();
            assert_eq!(Hybrid::from_bytes(&bytes).as_ref(), Ok(&hybrid));
            assert_eq!(hybrid.clone().to_bytes(), bytes);
        }
    }

    #[test]
    fn names_stand_in_order() {
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
        let told = |nnue, transformer| hybrid.check(nnue, transformer).unwrap_err().to_string();
        assert_eq!(
            told(Some(other), Some(transformer)),
            format!("the hybrid belongs to the NNUE with SHA-256 {nnue}, and the one in use has {other}")
        );
        assert_eq!(
            told(Some(nnue), None),
            format!(
                "the hybrid belongs to the transformer with SHA-256 {transformer}, and there is none in use"
            )
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
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
            with("moves captures", "moves.captures").starts_with("selector: it was taught other features")
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
