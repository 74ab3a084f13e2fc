//! Keys and values that describe a network: the header of our own files, and the metadata of float ones.

use super::{LoadError, Reader};
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::inputs::Inputs;
use crate::kernels::Activation;
use std::collections::BTreeMap;
use std::str::FromStr;

/// What a header says, key by key.
pub(super) struct Header {
    values: BTreeMap<String, String>,
    offset: usize,
}

impl Header {
    #[cfg(feature = "safetensors")]
    pub(super) fn new(values: BTreeMap<String, String>, offset: usize) -> Self {
        Self { values, offset }
    }

    /// From lines of a key, ` = `, a value.
    pub(super) fn parse(text: &str, offset: usize) -> Result<Self, LoadError> {
        let mut values = BTreeMap::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(" = ") else {
                return Err(Reader::error("header", offset, format!("{line:?} is no \"key = value\"")));
            };
            if values.insert(key.into(), value.into()).is_some() {
                return Err(Reader::error("header", offset, format!("{key} stands there twice")));
            }
        }
        Ok(Self { values, offset })
    }

    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> LoadError {
        Reader::error(&format!("{key} in the header"), self.offset, problem)
    }

    pub(super) fn take(&mut self, key: &str) -> Result<String, LoadError> {
        self.values.remove(key).ok_or_else(|| self.error(key, "missing"))
    }

    /// A number of any size: who asks looks whether it is sound.
    pub(super) fn number<T: FromStr>(&mut self, key: &str) -> Result<T, LoadError> {
        let text = self.take(key)?;
        text.parse().map_err(|_| self.error(key, format!("{text:?} is no number that could stand here")))
    }

    /// What stands for one in some integers.
    pub(super) fn one(&mut self, key: &str) -> Result<i16, LoadError> {
        match self.number(key)? {
            one if one > 0 => Ok(one),
            other => Err(self.error(key, format!("{other} is not from 1 to {}", i16::MAX))),
        }
    }

    /// Yes, or nothing at all.
    pub(super) fn flag(&mut self, key: &str) -> Result<bool, LoadError> {
        if self.values.contains_key(key) { self.choice(key, &[("yes", true)]) } else { Ok(false) }
    }

    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<T, LoadError> {
        let text = self.take(key)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
            self.error(key, format!("{text:?} is none of {}", names.join(", ")))
        })
    }

    fn buckets(&mut self) -> Result<Buckets, LoadError> {
        Ok(Buckets {
            count: self.number("buckets")?,
            less: self.number("bucket-less")?,
            pieces: self.number("bucket-pieces")?,
        })
    }

    /// The shape of the network.
    pub(super) fn architecture(&mut self) -> Result<Architecture, LoadError> {
        let features = self.take("features")?;
        let features =
            FeatureSet::by_name(&features).map_err(|unknown| self.error("features", unknown.to_string()))?;
        self.architecture_of(features)
    }

    /// The shape of a network that must read certain inputs.
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
                squeeze: self.choice("squeeze", SQUEEZES)?,
                dual: self.choice("dual", YES)?,
                skip: self.choice("skip", YES)?,
                hidden: self.number("hidden")?,
                second: self.number("second")?,
                buckets: self.buckets()?,
            })
        } else {
            HeadShape::Flat { activation: self.choice("activation", ACTIVATIONS)?, buckets: self.buckets()? }
        };
        let architecture = Architecture { features, outputs, tied, psqt, head };
        architecture.check().map_err(|error| self.unsound(error))?;
        Ok(architecture)
    }

    /// What an output of one, and what a pawn is worth. Stacks leave no choice of the former, which our own files
    /// therefore do not name.
    pub(super) fn units<I: Inputs>(
        &mut self,
        architecture: &Architecture<I>,
        scale_is_named: bool,
    ) -> Result<(i32, i32), LoadError> {
        let scale = if scale_is_named { self.number("scale")? } else { STACK_UNITS };
        let pawn = self.number("pawn")?;
        architecture.check_units(scale, pawn).map_err(|error| self.unsound(error))?;
        Ok((scale, pawn))
    }

    fn unsound(&self, error: ArchitectureError) -> LoadError {
        self.error(&error.part, error.problem)
    }

    /// Every key must have been asked for.
    pub(super) fn end(self) -> Result<(), LoadError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.error(key, "unknown key")),
        }
    }
}

const YES: &[(&str, bool)] = &[("yes", true), ("no", false)];
const ACTIVATIONS: &[(&str, Activation)] = &[
    (Activation::Relu.name(), Activation::Relu),
    (Activation::Crelu.name(), Activation::Crelu),
    (Activation::Screlu.name(), Activation::Screlu),
];
const SQUEEZES: &[(&str, Squeeze)] = &[
    ("clip", Squeeze::Clip),
    ("pairwise-127", Squeeze::Pairwise127),
    ("pairwise-255", Squeeze::Pairwise255),
];

fn name_of<T: PartialEq>(choices: &[(&'static str, T)], wanted: &T) -> String {
    choices.iter().find(|(_, choice)| choice == wanted).map_or("?", |&(name, _)| name).into()
}

/// What [`Header::architecture`] reads.
pub(super) fn lines_of<I: Inputs>(architecture: &Architecture<I>) -> Vec<(&'static str, String)> {
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
            lines.push(("activation", name_of(ACTIVATIONS, activation)));
        }
        HeadShape::Stacks(stack) => lines.extend([
            ("head", "stacks".into()),
            ("squeeze", name_of(SQUEEZES, &stack.squeeze)),
            ("dual", yes(stack.dual)),
            ("skip", yes(stack.skip)),
            ("hidden", stack.hidden.to_string()),
            ("second", stack.second.to_string()),
        ]),
    }
    let buckets = architecture.buckets();
    lines.extend([
        ("buckets", buckets.count.to_string()),
        ("bucket-less", buckets.less.to_string()),
        ("bucket-pieces", buckets.pieces.to_string()),
    ]);
    lines
}
