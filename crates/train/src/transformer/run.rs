//! A transformer, or a bridge to one, as a task of the training loop.

use super::difference::architecture_difference;
use super::loader::load_samples;
use super::{
    BridgeSetup, HeadOutputs, InitialNetworks, OutputsByHead, SampleSpec, Samples, TransformerRecipe,
    TransformerTrainer, ValueHeadOutputs, baseline,
};
use crate::checkpoint::Checkpoint;
use crate::metrics::Metrics;
use crate::pool::{DataCursor, Loader, ProcessRank};
use crate::recipe::RecipeError;
use crate::run::{Event, RunError, RunOptions, RunOutcome, RunPlan, Task, run_task};
use crate::state::State;
use crate::trainer::TrainError;
use tandem_hybrid::Hybrid;
use tandem_transformer::{Architecture, Weights};

/// Result of training a transformer.
#[derive(Clone, Debug)]
pub struct TrainedTransformer {
    /// The network, with averaged weights if the recipe asks for an average.
    pub weights: Weights,
    /// The hybrid with the trained bridge, if the recipe has one.
    pub hybrid: Option<Hybrid>,
}

/// Creates a trainer for a recipe from the initial networks, or, if a state is given, from the state of a
/// checkpoint.
pub type MakeTransformerTrainer<'a> = dyn Fn(
        &TransformerRecipe,
        InitialNetworks<'_>,
        Option<&State>,
    ) -> Result<Box<dyn TransformerTrainer>, TrainError>
    + 'a;

/// Trains a transformer or a bridge by a recipe, as one of the processes that train together. `trainer` creates
/// the trainer; `watch` is called with every event.
///
/// # Errors
/// If the recipe, the data or the folder cannot be used, if training diverges, or if the trainer or the file
/// system fails.
pub fn run_transformer(
    recipe: &TransformerRecipe,
    process: ProcessRank,
    options: &RunOptions<'_>,
    trainer: &MakeTransformerTrainer<'_>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<RunOutcome<TrainedTransformer>, RunError> {
    let training = &recipe.training;
    let parts = process.world_size * training.gradient_accumulation_steps.max(1);
    if !training.batch.is_multiple_of(parts) {
        let problem = format!(
            "{} positions cannot be split equally among {} processes, each in {} parts",
            training.batch, process.world_size, training.gradient_accumulation_steps
        );
        return Err(RecipeError::Invalid { key: "training.batch", problem }.into());
    }
    let start = first_weights(recipe)?;
    let bridge_setup = BridgeSetup::of(recipe, start.architecture())?;
    let spec = SampleSpec::of(start.architecture(), bridge_setup.as_ref());
    let make_trainer = trainer;
    let task =
        Transformer { recipe, process, make_trainer, start, bridge_setup, spec, validation: Vec::new() };
    run_task(task, options, watch)
}

struct Transformer<'a> {
    recipe: &'a TransformerRecipe,
    process: ProcessRank,
    make_trainer: &'a MakeTransformerTrainer<'a>,
    /// The transformer before the first step; with a bridge it must be unchanged at the end.
    start: Weights,
    /// The bridge and its NNUE, if a bridge is trained.
    bridge_setup: Option<BridgeSetup>,
    spec: SampleSpec,
    validation: Vec<Samples>,
}

impl Task for Transformer<'_> {
    type Recipe = TransformerRecipe;
    type Batch = Samples;
    type Trainer = dyn TransformerTrainer;
    type Network = TrainedTransformer;

    fn recipe(&self) -> &TransformerRecipe {
        self.recipe
    }

    fn plan(&self) -> RunPlan {
        let stops_at_once = self.process.world_size == 1;
        RunPlan { stops_at_once, ..RunPlan::of(self.recipe, self.recipe.steps()) }
    }

    fn process(&self) -> ProcessRank {
        self.process
    }

    fn bases(&self) -> Option<[String; 2]> {
        self.bridge_setup.as_ref().map(BridgeSetup::file_hashes)
    }

    fn architecture(&self) -> Option<Architecture> {
        Some(self.start.architecture().clone())
    }

    fn difference(&self, checkpoint: &Checkpoint<TransformerRecipe>) -> Option<String> {
        let own = self.start.architecture();
        let architecture = checkpoint.architecture.as_ref().unwrap_or(own);
        let trained = own.parameters() + self.bridge_setup.as_ref().map_or(0, BridgeSetup::len);
        architecture_difference(architecture, own).or_else(|| {
            let buffers = checkpoint.state.buffers().map(|(_, buffer)| buffer.len());
            let other = buffers.into_iter().find(|&len| len != 0 && len != trained)?;
            Some(format!("it has {other} values, and {trained} are trained"))
        })
    }

    fn load(
        &mut self,
        threads: usize,
        first_step: u64,
        cursor: Option<DataCursor>,
    ) -> Result<Loader<Samples>, RunError> {
        let (recipe, process, spec) = (self.recipe, self.process, self.spec.clone());
        let loader = Loader::of_samples(recipe, spec.clone(), process, threads, first_step, cursor);
        self.validation = load_samples(recipe, spec, process, threads, loader.skipped())?;
        Ok(loader)
    }

    fn trainer(&self, state: Option<State>) -> Result<Box<dyn TransformerTrainer>, RunError> {
        let start = InitialNetworks { weights: &self.start, bridge_setup: self.bridge_setup.as_ref() };
        Ok((self.make_trainer)(self.recipe, start, state.as_ref())?)
    }

    fn averages_after(&self, step: u64) -> bool {
        self.recipe.training.swa.is_some_and(|swa| {
            step as f64 >= swa.from * self.recipe.steps() as f64 && step.is_multiple_of(swa.every.max(1))
        })
    }

    fn baseline(
        &mut self,
        trainer: &mut (dyn TransformerTrainer + 'static),
    ) -> Result<Vec<(String, f64)>, RunError> {
        let architecture = self.start.architecture();
        let mut sums = baseline::target_sums(architecture, &self.recipe.targets, &self.validation);
        trainer.all_reduce_sum(&mut sums)?;
        let losses = baseline::losses(architecture, &sums);
        Ok(losses.into_iter().map(|(head, loss)| (head.name().to_owned(), loss)).collect())
    }

    fn evaluate(
        &self,
        trainer: &mut (dyn TransformerTrainer + 'static),
    ) -> Result<Option<Metrics>, RunError> {
        let mut metrics = Metrics::default();
        for samples in &self.validation {
            let outputs = trainer.predict(samples, true)?;
            metrics.add_samples(samples, &self.spec.shape, &self.recipe.targets, &head_outputs(&outputs));
        }
        trainer.all_reduce_sum(metrics.sums_mut())?;
        Ok(Some(metrics).filter(|metrics| !metrics.is_empty()))
    }

    fn loss(&self, metrics: &Metrics) -> Option<f64> {
        metrics.overall().weighted_loss(&self.recipe.targets.weights)
    }

    fn network(
        &self,
        trainer: &mut (dyn TransformerTrainer + 'static),
    ) -> Result<TrainedTransformer, RunError> {
        let weights = trainer.weights()?;
        let bridge = self.bridge_setup.as_ref().zip(trainer.bridge()?);
        let hybrid = bridge.map(|(setup, bridge)| setup.hybrid(bridge, &self.recipe.name));
        if hybrid.is_some() && weights != self.start {
            return Err(RunError::BaseChanged);
        }
        Ok(TrainedTransformer { weights, hybrid })
    }
}

/// Converts outputs from a map by head names to a struct with a field for each head; heads that the network
/// lacks are empty.
pub fn head_outputs(outputs: &OutputsByHead) -> HeadOutputs<'_> {
    let of_head = |name: &str| outputs.get(name).map_or(&[][..], Vec::as_slice);
    let value = |name: &str| ValueHeadOutputs {
        wdl: of_head(&format!("{name}.wdl")),
        error: of_head(&format!("{name}.error")),
        buckets: of_head(&format!("{name}.buckets")),
    };
    HeadOutputs {
        action_value: of_head("action_value"),
        state_value: of_head("state_value"),
        policy: of_head("policy"),
        soft_policy: of_head("soft_policy"),
        optimistic_policy: of_head("optimistic_policy"),
        opponent_policy: of_head("opponent_policy"),
        value: value("value"),
        search_value: value("search_value"),
        short_term: value("short_term"),
        moves_left: of_head("moves_left"),
        move_value: of_head("move_value"),
    }
}

/// The network file that the recipe names, or random weights.
fn first_weights(recipe: &TransformerRecipe) -> Result<Weights, RunError> {
    let architecture = recipe.network.architecture()?;
    let Some(path) = &recipe.network.init_from else { return Ok(Weights::random(architecture, recipe.seed)) };
    recipe.network.read_initial_network()?;
    Weights::load(path, Some(&architecture))
        .map_err(|error| RecipeError::Invalid { key: "network.init_from", problem: error.to_string() }.into())
}
