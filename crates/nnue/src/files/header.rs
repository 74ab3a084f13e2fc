//! Keys and values that describe a network: the header of our own files, and the metadata of float ones.

use super::{LoadError, Reader};
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::kernels::Activation;
use std::collections::BTreeMap;
use std::fmt::Display;
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

    pub(super) fn number<T: FromStr + PartialOrd + Display>(
        &mut self,
        key: &str,
        least: T,
        most: T,
    ) -> Result<T, LoadError> {
        let text = self.take(key)?;
        match text.parse() {
            Ok(number) if number >= least && number <= most => Ok(number),
            _ => Err(self.error(key, format!("{text:?} is no number from {least} to {most}"))),
        }
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
            count: self.number("buckets", 1, 32)?,
            less: self.number("bucket-less", 0, 32)?,
            pieces: self.number("bucket-pieces", 1, 32)?,
        })
    }

    /// The shape of the network.
    pub(super) fn architecture(&mut self) -> Result<Architecture, LoadError> {
        let features = self.take("features")?;
        let features =
            FeatureSet::by_name(&features).map_err(|unknown| self.error("features", unknown.to_string()))?;
        let outputs = self.number("outputs", 32, 1 << 14)?;
        super::single::check_outputs(outputs, self.offset)?;
        let tied = self.choice("tied", YES)?;
        let psqt = self.choice("psqt", YES)?;
        let stacks = self.choice("head", &[("flat", false), ("stacks", true)])?;
        let head = if stacks {
            HeadShape::Stacks(StackShape {
                squeeze: self.choice("squeeze", SQUEEZES)?,
                dual: self.choice("dual", YES)?,
                skip: self.choice("skip", YES)?,
                hidden: self.number("hidden", 2, MAX_OUTPUTS)?,
                second: self.number("second", 1, MAX_OUTPUTS)?,
                buckets: self.buckets()?,
            })
        } else {
            HeadShape::Flat { activation: self.choice("activation", ACTIVATIONS)?, buckets: self.buckets()? }
        };
        Ok(Architecture { features, outputs, tied, psqt, head })
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
pub(super) fn lines_of(architecture: &Architecture) -> Vec<(&'static str, String)> {
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
