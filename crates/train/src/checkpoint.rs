//! Checkpoints: files that hold everything needed to resume a run exactly.
//!
//! A checkpoint is a safetensors file with the parameters and optimiser buffers as tensors, and the recipe,
//! the step and the run's progress as metadata, alike for all kinds of networks. A checksum covers the whole
//! file, so that damage is noticed and an older checkpoint is used. Names in the file are older than those in
//! the code, and stay as they are so that old checkpoints can be read.

mod container;
mod folder;

pub use folder::Checkpoints;

use crate::pool::DataCursor;
use crate::recipe::{Recipe, RecipeError};
use crate::state::State;
use crate::trainer::Job;
use container::{Contents, Metadata, read_tensors, write_tensors};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tandem_nnue::FloatNetwork;
use tandem_transformer::Architecture;
use thiserror::Error;

/// A checkpoint that cannot be written or read, with its path.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file cannot be accessed, for example because the disk is full.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the checkpoint file.
        path: PathBuf,
        /// The file system's reason.
        source: std::io::Error,
    },
    /// The file is not a checkpoint of the expected kind, or is damaged.
    #[error("{}: not a checkpoint: {problem}", path.display())]
    Damaged {
        /// Path of the checkpoint file.
        path: PathBuf,
        /// The inconsistency that was found, for example a missing tensor.
        problem: String,
    },
}

/// Progress of a run beyond its parameters, stored in the checkpoint's metadata as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunProgress {
    /// Place from which the data is read on after resuming.
    pub cursor: DataCursor,
    /// Lowest validation loss so far, with its step; absent before the first validation.
    pub best: Option<(f64, u64)>,
    /// Number of validations after the best one, compared with the recipe's patience.
    #[serde(rename = "stale")]
    pub validations_since_best: u32,
    /// SHA-256 of the NNUE and of the transformer between which a bridge or a selector is trained; absent in
    /// other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bases: Option<[String; 2]>,
}

impl RunProgress {
    /// Records the validation loss after a step, and returns true if it is the lowest so far.
    pub(crate) fn record_validation(&mut self, loss: f64, step: u64) -> bool {
        let is_best = self.best.is_none_or(|(best, _)| loss < best);
        if is_best {
            (self.best, self.validations_since_best) = (Some((loss, step)), 0);
        } else {
            self.validations_since_best += 1;
        }
        is_best
    }

    /// True if the loss has not fallen for `patience` validations; a patience of 0 is never exhausted.
    pub(crate) fn patience_exhausted(&self, patience: u32) -> bool {
        patience > 0 && self.validations_since_best >= patience
    }
}

/// A recipe as a run needs it: with a name and a text form, which checkpoints store.
pub trait RunRecipe: Clone + PartialEq {
    /// Kind of the checkpoints of its runs, the first line of their metadata.
    const CHECKPOINT_KIND: &'static str;

    /// The recipe as text, with every default written out.
    fn to_text(&self) -> String;

    /// Reads what [`to_text`](Self::to_text) has written, also by an earlier version.
    ///
    /// # Errors
    ///
    /// If the text is not a recipe, or a value is out of range.
    fn from_text(text: &str) -> Result<Self, RecipeError>;

    /// Describes what a checkpoint of such a run lacks; resuming without it would silently restart a part
    /// from zero.
    ///
    /// # Errors
    ///
    /// If something is missing or has another size.
    fn check(_checkpoint: &Checkpoint<Self>) -> Result<(), String> {
        Ok(())
    }
}

/// A run after some step: recipe, parameters and progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint<R = Recipe> {
    /// Recipe that the run follows; a resumed run must have the same one.
    pub recipe: R,
    /// Architecture of a transformer, kept because the recipe may only name a file; `None` for other networks.
    pub architecture: Option<Architecture>,
    /// Parameters, optimiser buffers and averages after the step.
    pub state: State,
    /// Position in the data, and the best validation so far.
    pub progress: RunProgress,
}

impl<R: RunRecipe> Checkpoint<R> {
    /// Writes the checkpoint atomically: the file is complete or absent.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut metadata = Metadata::new(R::CHECKPOINT_KIND);
        metadata.set("step", self.state.step.to_string());
        metadata.set("averaged", self.state.swa_count.to_string());
        metadata.set("dropout", self.state.dropout_rng.to_string());
        metadata.set("recipe", self.recipe.to_text());
        if let Some(architecture) = &self.architecture {
            metadata.set("architecture", architecture.to_toml());
        }
        metadata.set("standing", serde_json::json!(self.progress).to_string());
        write_tensors(path, metadata, self.state.buffers().map(|(name, values)| (name, values.as_slice())))
    }

    /// Reads a checkpoint from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not an intact checkpoint of this kind of network.
    pub fn load(path: &Path) -> Result<Self, CheckpointError> {
        Self::load_checked(path).map(|(checkpoint, _)| checkpoint)
    }

    /// Reads a checkpoint, and returns false with it if it has no checksum, as in earlier versions.
    fn load_checked(path: &Path) -> Result<(Self, bool), CheckpointError> {
        let mut bytes =
            std::fs::read(path).map_err(|source| CheckpointError::Io { path: path.into(), source })?;
        Self::from_bytes(&mut bytes)
            .map_err(|problem| CheckpointError::Damaged { path: path.into(), problem })
    }

    fn from_bytes(bytes: &mut [u8]) -> Result<(Self, bool), String> {
        let Contents { metadata, mut tensors, has_checksum } = read_tensors(bytes, R::CHECKPOINT_KIND)?;
        // Checkpoints of earlier versions have neither of these if they are not used.
        let count = |name: &str| metadata.find(name).map_or(Ok(0), |_| metadata.integer(name));
        let mut state = State {
            step: metadata.integer("step")?,
            swa_count: count("averaged")?,
            dropout_rng: count("dropout")?,
            ..State::default()
        };
        // Name of the moving average in checkpoints of transformers by earlier versions.
        if let Some(ema) = tensors.remove("following") {
            tensors.insert("average".into(), ema);
        }
        let names = state.buffers().map(|(name, _)| name);
        for (name, parameters) in names.into_iter().zip(state.buffers_mut()) {
            *parameters = tensors.remove(name).unwrap_or_default();
        }
        let architecture = metadata.find("architecture").map(Architecture::from_toml).transpose();
        let checkpoint = Self {
            recipe: R::from_text(metadata.get("recipe")?).map_err(|error| error.to_string())?,
            architecture: architecture.map_err(|error| error.to_string())?,
            state,
            progress: metadata.json("standing")?,
        };
        R::check(&checkpoint)?;
        Ok((checkpoint, has_checksum))
    }
}

impl Checkpoint {
    /// The network at this step, from the moving average if the run has one.
    ///
    /// # Errors
    ///
    /// If the parameters do not fit the recipe's architecture, as in a damaged file.
    pub fn network(&self) -> Result<FloatNetwork, RecipeError> {
        let job = Job::of(&self.recipe)?;
        let averaged = !self.state.ema.is_empty();
        let parameters = if averaged { &self.state.ema } else { &self.state.parameters };
        if parameters.len() != job.layout.num_parameters() {
            let problem =
                format!("{} parameters found, {} expected", parameters.len(), job.layout.num_parameters());
            return Err(RecipeError::Invalid { key: "network", problem });
        }
        Ok(job.network(parameters, &self.recipe.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::TransformerRecipe;
    use std::cell::RefCell;

    fn checkpoint(step: u64) -> Checkpoint {
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"x.bf\" }]\n[network]\nfeatures = \"768\"\naccumulator = 32\n";
        let recipe = Recipe::parse(text).unwrap();
        let mut state = crate::trainer::Job::of(&recipe).unwrap().initial_state(step);
        state.step = step;
        Checkpoint {
            recipe,
            architecture: None,
            state,
            progress: RunProgress {
                best: Some((0.067_123_456_789_012_3, 7)),
                validations_since_best: 2,
                ..RunProgress::default()
            },
        }
    }

    fn newest_of(checkpoints: &Checkpoints) -> Result<Option<Checkpoint>, CheckpointError> {
        checkpoints.newest(&mut |_| ())
    }

    #[test]
    fn any_damage_is_noticed_and_an_older_checkpoint_is_used() {
        let folder = std::env::temp_dir().join(format!("tandem-damaged-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let checkpoints = Checkpoints::new(&folder, 2);
        for step in [5, 10] {
            checkpoints.save(&checkpoint(step), false).unwrap();
        }
        let newest_path = checkpoints.list()[1].1.clone();
        let whole = std::fs::read(&newest_path).unwrap();
        let notices = RefCell::new(Vec::new());
        let newest = || checkpoints.newest::<Recipe>(&mut |notice| notices.borrow_mut().push(notice));
        assert_eq!(newest().unwrap().unwrap().state.step, 10);
        assert_eq!(notices.take(), [""; 0]);

        // Bits everywhere in the header, which has the checksum itself, and some among the parameters.
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let mut random = tandem_util::random::SplitMix::new(3);
        let flips = (0..header).chain((header..whole.len()).step_by(997));
        let flipped = flips.map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << random.below(8);
            bytes
        });
        let zeroed = [whole.len() / 2, header, 8].map(|from| {
            let mut bytes = whole.clone();
            bytes[from..].fill(0);
            bytes
        });
        for (index, damaged) in flipped.chain(zeroed).enumerate() {
            assert!(damaged != whole, "{index}: not damaged");
            let error = Checkpoint::<Recipe>::from_bytes(&mut damaged.clone()).err();
            assert!(error.is_some(), "{index}: accepted");
            if index % 100 == 0 {
                std::fs::write(&newest_path, &damaged).unwrap();
                assert_eq!(newest().unwrap().unwrap().state.step, 5, "{index}");
                let notice = notices.take().concat();
                assert!(notice.contains("step-000000010.checkpoint: not a checkpoint: "), "{notice}");
                assert!(notice.contains("going on from step-000000005.checkpoint"), "{notice}");
            }
        }

        // A damaged checkpoint of a stopped run is named too, and without another one it is an error.
        std::fs::write(&newest_path, &whole).unwrap();
        checkpoints.save_stopped(&checkpoint(12)).unwrap();
        let mut stopped = std::fs::read(checkpoints.stopped()).unwrap();
        *stopped.last_mut().unwrap() ^= 1;
        std::fs::write(checkpoints.stopped(), stopped).unwrap();
        assert_eq!(newest().unwrap().unwrap().state.step, 10);
        assert!(
            notices.take().concat().contains("stopped.checkpoint: not a checkpoint: damaged: its checksum")
        );
        for (_, path) in checkpoints.list() {
            std::fs::write(path, b"").unwrap();
        }
        assert!(newest().is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_checkpoint_without_a_checksum_is_read_with_a_notice() {
        let folder = std::env::temp_dir().join(format!("tandem-unchecked-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let checkpoints = Checkpoints::new(&folder, 2);
        checkpoints.save(&checkpoint(5), false).unwrap();
        let path = checkpoints.list()[0].1.clone();
        std::fs::write(&path, without_checksum(&std::fs::read(&path).unwrap())).unwrap();
        let mut notices = Vec::new();
        let found = checkpoints.newest::<Recipe>(&mut |notice| notices.push(notice)).unwrap();
        assert_eq!(found, Some(checkpoint(5)));
        assert!(notices.concat().contains("step-000000005.checkpoint has no checksum"), "{notices:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A checkpoint as earlier versions wrote it.
    fn without_checksum(bytes: &[u8]) -> Vec<u8> {
        let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
        let (header, tensors) = rest.split_at(u64::from_le_bytes(*len) as usize);
        let header = std::str::from_utf8(header).unwrap();
        let start = header.find("\"checksum\":").unwrap();
        let end = start + header[start..].find(',').unwrap() + 1;
        let mut shorter = format!("{}{}", &header[..start], &header[end..]);
        while !shorter.len().is_multiple_of(8) {
            shorter.push(' ');
        }
        [&(shorter.len() as u64).to_le_bytes(), shorter.as_bytes(), tensors].concat()
    }

    #[test]
    fn a_checkpoint_is_restored_exactly_and_damage_is_reported() {
        let folder = std::env::temp_dir().join(format!("tandem-checkpoint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let checkpoints = Checkpoints::new(&folder, 2);
        for step in [5, 10, 15] {
            checkpoints.save(&checkpoint(step), step == 5).unwrap();
        }
        assert_eq!(checkpoints.list().iter().map(|(step, _)| *step).collect::<Vec<_>>(), [10, 15]);
        assert_eq!(newest_of(&checkpoints).unwrap(), Some(checkpoint(15)));
        let again = folder.join("again");
        checkpoint(15).save(&again).unwrap();
        let newest = checkpoints.list()[1].1.clone();
        assert!(std::fs::read(again).unwrap() == std::fs::read(newest).unwrap(), "the same is the same file");
        assert_eq!(Checkpoint::load(&checkpoints.best()).unwrap(), checkpoint(5));
        let network = checkpoint(5).network().unwrap();
        assert_eq!(network.weights[..], checkpoint(5).state.parameters[..network.weights.len()]);
        // The newest is truncated: the one before it is used.
        let path = checkpoints.list()[1].1.clone();
        let bytes = std::fs::read(&path).unwrap();
        for len in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..len]).unwrap();
            assert!(
                Checkpoint::<Recipe>::load(&path).unwrap_err().to_string().contains("not a checkpoint"),
                "{len}"
            );
        }
        assert_eq!(newest_of(&checkpoints).unwrap(), Some(checkpoint(10)));
        checkpoints.save_stopped(&checkpoint(12)).unwrap();
        assert_eq!(newest_of(&checkpoints).unwrap(), Some(checkpoint(12)));
        // Only unreadable checkpoints are an error, unlike none at all.
        for path in checkpoints.list().into_iter().map(|(_, path)| path).chain([checkpoints.stopped()]) {
            std::fs::write(path, b"").unwrap();
        }
        assert!(newest_of(&checkpoints).is_err());
        checkpoints.save(&checkpoint(3), false).unwrap();
        assert_eq!(newest_of(&checkpoints).unwrap(), Some(checkpoint(3)));
        assert_eq!(newest_of(&Checkpoints::new(&folder.join("none"), 1)).unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// The recipe in a checkpoint of an earlier version has old keys.
    #[test]
    fn a_checkpoint_with_old_recipe_keys_equals_one_with_the_present_ones() {
        let path = std::env::temp_dir().join(format!("tandem-old-keys-{}", std::process::id()));
        let present = checkpoint(5);
        let text = present.recipe.explain();
        let mut old = text.replace("wdl = ", "result_share = ").replace("[lr]", "[rate]");
        old = old.replace("weight_decay = ", "decay = ").replace("qat = ", "round_weights = ");
        old = old.replace("max_grad_norm = ", "clip_slopes = "); // language: old name
        let ema = "ema_decay = 0.0\naverage_checkpoints = 0\n";
        assert!(old.contains(ema), "{old}");
        old = old.replace(ema, "\n[training.average]\nkind = \"none\"\n");
        let mut metadata = Metadata::new(Recipe::CHECKPOINT_KIND);
        metadata.set("step", "5".into());
        metadata.set("recipe", old.replace("target.wdl", "target.result_share"));
        metadata.set("standing", serde_json::json!(present.progress).to_string());
        let buffers = present.state.buffers();
        write_tensors(&path, metadata, buffers.map(|(name, values)| (name, values.as_slice()))).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), present);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_transformers_checkpoint_that_lacks_a_buffer_is_refused() {
        let path = std::env::temp_dir().join(format!("tandem-transformer-{}.checkpoint", std::process::id()));
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"x.pgn\" }]\n[network]\npreset = \"bt-small\"\n";
        let architecture =
            Architecture::from_toml(include_str!("../../transformer/tests/architectures/squares.toml"))
                .unwrap();
        let values = vec![0.25; architecture.parameters()];
        let mut state = State { step: 7, swa_count: 2, ..State::default() };
        let [parameters, exp_avg, exp_avg_sq, _, ema, swa] = state.buffers_mut();
        for buffer in [parameters, exp_avg, exp_avg_sq, ema, swa] {
            buffer.clone_from(&values);
        }
        let whole = Checkpoint {
            recipe: TransformerRecipe::parse(text).unwrap(),
            architecture: Some(architecture),
            state,
            progress: RunProgress {
                best: Some((0.5, 6)),
                validations_since_best: 1,
                ..RunProgress::default()
            },
        };
        whole.save(&path).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), whole);
        for index in [0, 1, 2, 4, 5] {
            let mut incomplete = whole.clone();
            let name = incomplete.state.buffers()[index].0;
            incomplete.state.buffers_mut()[index].clear();
            incomplete.save(&path).unwrap();
            let error = Checkpoint::<TransformerRecipe>::load(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("not a checkpoint: it has no {name}")), "{name}: {error}");
        }
        // Earlier versions named the moving average differently.
        let mut metadata = Metadata::new(TransformerRecipe::CHECKPOINT_KIND);
        metadata.set("step", "7".into());
        metadata.set("averaged", "2".into());
        metadata.set("recipe", whole.recipe.explain());
        metadata.set("architecture", whole.architecture.as_ref().unwrap().to_toml());
        metadata.set("standing", serde_json::json!(whole.progress).to_string());
        let old_names = ["numbers", "first", "second", "following", "plain"];
        write_tensors(&path, metadata, old_names.map(|name| (name, values.as_slice()))).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), whole);
        // A run without averages has no buffers for them.
        let mut plain = whole;
        plain.recipe.training.ema_decay = 0.0;
        plain.state.swa_count = 0;
        plain.state.ema.clear();
        plain.state.swa.clear();
        plain.save(&path).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), plain);
        std::fs::remove_file(path).unwrap();
    }
}
