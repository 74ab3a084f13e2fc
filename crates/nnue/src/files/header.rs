//! Key-value pairs that describe a network: the header of `.tnn` files and the metadata of safetensors files.

use super::{FieldReader, LoadError};
use crate::activation::Activation;
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::inputs::Inputs;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The pairs of a header that have not been taken yet, and where the header begins.
pub(super) struct Header {
    values: BTreeMap<String, String>,
    offset: usize,
}

impl Header {
    #[cfg(feature = "safetensors")]
    pub(super) fn new(values: BTreeMap<String, String>, offset: usize) -> Self {
        Self { values, offset }
    }

    /// Parses lines of the form `key = value`.
    pub(super) fn parse(text: &str, offset: usize) -> Result<Self, LoadError> {
        let mut values = BTreeMap::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(" = ") else {
                return Err(FieldReader::error("header", offset, format!("{line:?} is not \"key = value\"")));
            };
            if values.insert(key.into(), value.into()).is_some() {
                return Err(FieldReader::error("header", offset, format!("{key} occurs twice")));
            }
        }
        Ok(Self { values, offset })
    }

    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> LoadError {
        FieldReader::error(&format!("{key} in the header"), self.offset, problem)
    }

    pub(super) fn take(&mut self, key: &str) -> Result<String, LoadError> {
        self.values.remove(key).ok_or_else(|| self.error(key, "missing"))
    }

    /// Takes and parses a number. The caller checks its range.
    pub(super) fn number<T: FromStr>(&mut self, key: &str) -> Result<T, LoadError> {
        let text = self.take(key)?;
        text.parse().map_err(|_| self.error(key, format!("{text:?} is not a valid number here")))
    }

    /// Takes a quantisation factor, which must be positive.
    pub(super) fn quant_factor(&mut self, key: &str) -> Result<i16, LoadError> {
        match self.number(key)? {
            one if one > 0 => Ok(one),
            other => Err(self.error(key, format!("{other} is not from 1 to {}", i16::MAX))),
        }
    }

    /// Takes an optional flag: `yes`, or no such key at all.
    pub(super) fn flag(&mut self, key: &str) -> Result<bool, LoadError> {
        if self.values.contains_key(key) { self.choice(key, &[("yes", true)]) } else { Ok(false) }
    }

    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<T, LoadError> {
        let text = self.take(key)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
            self.error(key, format!("{text:?} is not one of {}", names.join(", ")))
        })
    }

    fn buckets(&mut self) -> Result<OutputBuckets, LoadError> {
        Ok(OutputBuckets {
            count: self.number("buckets")?,
            offset: self.number("bucket-less")?,
            divisor: self.number("bucket-pieces")?,
        })
    }

    /// Takes the architecture, with a chess feature set.
    pub(super) fn architecture(&mut self) -> Result<Architecture, LoadError> {
        let features = self.take("features")?;
        let features =
            FeatureSet::by_name(&features).map_err(|unknown| self.error("features", unknown.to_string()))?;
        self.architecture_of(features)
    }

    /// Takes the architecture of a network whose inputs are given. Their name must match.
    #[cfg(feature = "safetensors")]
    pub(super) fn architecture_as<I: Inputs>(&mut self, features: I) -> Result<Architecture<I>, LoadError> {
        let found = self.take("features")?;
        if found != features.name() {
            return Err(self.error("features", format!("{found:?} found, {:?} expected", features.name())));
        }
        self.architecture_of(features)
    }

    fn architecture_of<I: Inputs>(&mut self, features: I) -> Result<Architecture<I>, LoadError> {
        let outputs = self.number("outputs")?;
        let tied = self.choice("tied", YES)?;
        let psqt = self.choice("psqt", YES)?;
        let stacks = self.choice("head", &[("flat", false), ("stacks", true)])?;
        let head = if stacks {
            HeadShape::Stacks(StackShape {
                input_activation: self.choice("squeeze", INPUT_ACTIVATIONS)?,
                squared_clipped: self.choice("dual", YES)?,
                skip: self.choice("skip", YES)?,
                hidden: self.number("hidden")?,
                second: self.number("second")?,
                buckets: self.buckets()?,
            })
        } else {
            let activations = Activation::ALL.map(|activation| (activation.name(), activation));
            HeadShape::Flat { activation: self.choice("activation", &activations)?, buckets: self.buckets()? }
        };
        let architecture = Architecture { features, outputs, tied, psqt, head };
        architecture.check().map_err(|error| self.unsound(error))?;
        Ok(architecture)
    }

    /// Takes the output scale and the value of a pawn. Networks with stacks have a fixed scale, which `.tnn`
    /// headers therefore leave out.
    pub(super) fn units<I: Inputs>(
        &mut self,
        architecture: &Architecture<I>,
        scale_is_named: bool,
    ) -> Result<(i32, i32), LoadError> {
        let scale = if scale_is_named { self.number("scale")? } else { STACK_UNITS };
        let pawn = self.number("pawn")?;
        architecture.check_scale(scale, pawn).map_err(|error| self.unsound(error))?;
        Ok((scale, pawn))
    }

    fn unsound(&self, error: ArchitectureError) -> LoadError {
        self.error(&error.part, error.problem)
    }

    /// Checks that every key has been taken, so that an unknown one is an error.
    pub(super) fn end(self) -> Result<(), LoadError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.error(key, "unknown key")),
        }
    }
}

const YES: &[(&str, bool)] = &[("yes", true), ("no", false)];
const INPUT_ACTIVATIONS: &[(&str, InputActivation)] = &[
    ("clip", InputActivation::Clipped),
    ("pairwise-127", InputActivation::PairwiseMul127),
    ("pairwise-255", InputActivation::PairwiseMul255),
];

fn name_of<T: PartialEq>(choices: &[(&'static str, T)], wanted: &T) -> String {
    choices.iter().find(|(_, choice)| choice == wanted).map_or("?", |&(name, _)| name).into()
}

/// The lines that [`Header::architecture`] parses.
pub(super) fn header_lines<I: Inputs>(architecture: &Architecture<I>) -> Vec<(&'static str, String)> {
    let yes = |is: bool| name_of(YES, &is);
    let mut lines = vec![
        ("features", architecture.features.name().into()),
        ("outputs", architecture.outputs.to_string()),
        ("tied", yes(architecture.tied)),
        ("psqt", yes(architecture.psqt)),
    ];
    match &architecture.head {
        HeadShape::Flat { activation, .. } => {
            lines.push(("head", "flat".into()));
            lines.push(("activation", activation.name().into()));
        }
        HeadShape::Stacks(stack) => lines.extend([
            ("head", "stacks".into()),
            ("squeeze", name_of(INPUT_ACTIVATIONS, &stack.input_activation)),
            ("dual", yes(stack.squared_clipped)),
            ("skip", yes(stack.skip)),
            ("hidden", stack.hidden.to_string()),
            ("second", stack.second.to_string()),
        ]),
    }
    let buckets = architecture.buckets();
    lines.extend([
        ("buckets", buckets.count.to_string()),
        ("bucket-less", buckets.offset.to_string()),
        ("bucket-pieces", buckets.divisor.to_string()),
    ]);
    lines
}
