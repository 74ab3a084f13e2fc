//! Steps.

use crate::OUT_OF_MEMORY;
use crate::batch::Batch;
use crate::device::{Compute, Processes};
use crate::judge::{judged, kind_of};
use crate::losses::wrong;
use crate::model::{Model, Routing, Said, are_asked_at_once};
use crate::optimiser::Optimiser;
use crate::parameters::{Parameters, Row, is_of_bridge, numbers_of};
use crate::shim::{Graph, TorchError, peak_memory, synchronise};
use crate::sparsity::two_of_four;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use tandem_chess::random::SplitMix;
use tandem_hybrid::Bridge;
use tandem_train::TrainError;
use tandem_train::transformer::{
    Join, Judged, Reading, SampleShape, Samples, Start, StepTold, TransformerRecipe, TransformerState,
    TransformerTrainer,
};
use tandem_transformer::{Architecture, FeedForward, Weights};
use tch::{Device, Kind, Tensor};

/// Steps that are made before one is recorded: libtorch chooses its ways while they are.
const STEPS_BEFORE_RECORDING: u64 = 3;

/// A step of a card that was recorded, what it reads and what it says.
struct Recorded {
    graph: Graph,
    batch: Batch,
    told: Tensor,
}

/// Trains a transformer with libtorch.
pub struct TorchTrainer {
    recipe: TransformerRecipe,
    architecture: Architecture,
    shape: SampleShape,
    /// What the network is joined to. Then the bridge alone is learnt.
    join: Option<Join>,
    row: Row,
    model: Model,
    parameters: Parameters,
    optimiser: Optimiser,
    /// The average that follows the numbers slowly.
    following: Option<Tensor>,
    /// The plain average, and of how many.
    plain: Option<Tensor>,
    averaged: u64,
    /// Ones where numbers may move, and the numbers at first; none where all may.
    free: Option<(Tensor, Tensor)>,
    processes: Processes,
    compute: Compute,
    recorded: Option<Recorded>,
    /// The graph that steps before a recording are made beside.
    graph: Option<Graph>,
    step: u64,
    /// Where it began or went on.
    first_step: u64,
    /// Names of what a step says, and what the steps since the last look have said.
    names: Vec<String>,
    told: Vec<Tensor>,
}

impl TorchTrainer {
    /// Begins with the numbers of a network, or goes on from a state.
    pub fn new<'a>(
        recipe: &TransformerRecipe,
        start: impl Into<Start<'a>>,
        state: Option<&TransformerState>,
        compute: Compute,
        processes: Processes,
    ) -> Result<Self, TrainError> {
        let start = start.into();
        let work = || Self::begin(recipe, start, state, compute, processes);
        caught(&compute, work)
    }

    fn begin(
        recipe: &TransformerRecipe,
        Start { weights, join }: Start<'_>,
        state: Option<&TransformerState>,
        compute: Compute,
        processes: Processes,
    ) -> Result<Self, TorchError> {
        let architecture = weights.architecture().clone();
        let device = compute.device();
        let bridge = join.map(|join| &join.bridge);
        let row = Row::of(&architecture, bridge);
        let kind = kind_of(recipe.training.precision);
        let saved = |name: &str| {
            let numbers = state.and_then(|state| state.rows.get(name));
            numbers.map(|numbers| Tensor::from_slice(numbers).to_device(device))
        };
        let masters = saved("numbers").unwrap_or_else(|| row.join(weights, bridge, device));
        processes.same(&masters)?;
        let mut optimiser = Optimiser::new(recipe.optimiser, &row, device);
        let step = state.map_or(0, |state| state.step);
        if let (Some(first), Some(second)) = (saved("first"), saved("second")) {
            optimiser.restore(first, second, step);
        }
        let training = &recipe.training;
        let following = (training.ema > 0.0).then(|| saved("following").unwrap_or_else(|| masters.copy()));
        let is_frozen = |name: &str| training.is_frozen(name) || (bridge.is_some() && !is_of_bridge(name));
        let any_frozen = row.specs().iter().any(|spec| is_frozen(&spec.name));
        // What is frozen is as it was when the run began, which a checkpoint knows better than a file that may have changed since.
        let free = any_frozen.then(|| (row.ones_but(is_frozen, device), masters.copy()));
        let mask = training.two_of_four.then(|| row.clone());
        let is_fixed = match &architecture.body.feed_forward {
            FeedForward::Experts(experts) => are_asked_at_once(experts, device),
            FeedForward::Dense { .. } | FeedForward::Gated { .. } => true,
        };
        let records = training.graph
            && compute.has_graphs()
            && is_fixed
            && optimiser.can_be_recorded()
            && processes.alone();
        Ok(Self {
            shape: Reading::of(&architecture, join).shape,
            model: Model::new(&architecture, kind, device).with_bridge(bridge.map(Bridge::form)),
            join: join.cloned(),
            parameters: Parameters::new(masters, kind, mask),
            optimiser,
            following,
            plain: saved("plain"),
            averaged: state.map_or(0, |state| state.averaged),
            free,
            processes,
            compute,
            recorded: None,
            graph: compute.card().filter(|_| records).map(Graph::new).transpose()?,
            step,
            first_step: step,
            names: Vec::new(),
            told: Vec::new(),
            recipe: recipe.clone(),
            architecture,
            row,
        })
    }

    /// Computes with libtorch's kernels alone.
    #[cfg(test)]
    pub(crate) fn use_plain(&mut self) {
        self.model.use_plain();
    }

    /// Whether steps are played back, and whether with kernels of our own.
    #[cfg(test)]
    pub(crate) fn ways(&self) -> [bool; 2] {
        [self.recorded.is_some(), self.model.has_kernels()]
    }

    /// Waits until everything is computed that was asked for.
    fn finish(&self) -> Result<(), TorchError> {
        self.compute.card().map_or(Ok(()), synchronise)
    }

    /// The most bytes of the card that were taken at one time.
    pub fn peak_memory(&self) -> Option<u64> {
        self.compute.card().and_then(peak_memory)
    }

    /// Everything of a step but the bringing of the data: what can be recorded.
    fn compute(&mut self, batch: &Batch) -> Result<Tensor, TorchError> {
        let parts = self.recipe.training.accumulate.max(1) as i64;
        let mut told: Option<Tensor> = None;
        let mut slopes: Option<Tensor> = None;
        for part in 0..parts {
            let (first, next) = (batch.len * part / parts, batch.len * (part + 1) / parts);
            let share = (next - first) as f64 / batch.len as f64;
            let batch = batch.part(first, next - first);
            let tensors = self.row.split(self.parameters.working());
            let mut said = self.model.forward_without(&tensors, &batch.inputs(), self.dropout());
            for layer in &mut said.routing {
                // Experts are to be used alike by all processes together.
                self.processes.mean(&mut layer.load)?;
            }
            let wrong = wrong(&said, &batch, &self.recipe.targets);
            (&wrong.sum * share).backward();
            // Added up in full precision, whatever they are computed in: else the last parts would hardly count.
            let of_part = tch::no_grad(|| self.parameters.take_slopes())?;
            slopes = Some(slopes.map_or_else(|| of_part.shallow_clone(), |sum| sum + &of_part));
            let mut all: Vec<(String, Tensor)> = vec![("loss".into(), wrong.sum.detach())];
            all.extend(wrong.parts);
            all.extend(figures_of(&said));
            let numbers =
                Tensor::stack(&all.iter().map(|(_, loss)| loss.shallow_clone()).collect::<Vec<_>>(), 0)
                    * share;
            told = Some(told.map_or_else(|| numbers.shallow_clone(), |sum| sum + &numbers));
            self.names = all.into_iter().map(|(name, _)| name).collect();
        }
        let _guard = tch::no_grad_guard();
        let mut slopes = slopes.ok_or_else(|| TorchError::new("a step of no parts"))?;
        self.processes.mean(&mut slopes)?;
        if let Some((free, _)) = &self.free {
            slopes *= free;
        }
        let length = slopes.norm();
        let most = self.recipe.training.clip;
        if most > 0.0 {
            let factor = (most / (&length + 1e-6)).clamp_max(1.0);
            slopes *= factor;
        }
        self.optimiser.step(&mut self.parameters.masters, &slopes)?;
        if let Some((free, start)) = &self.free {
            let kept = self.parameters.masters.where_self(&free.gt(0.5), start);
            self.parameters.masters.copy_(&kept);
        }
        self.parameters.refresh();
        if let Some(following) = &mut self.following {
            // At first it follows closely.
            let steps = &self.optimiser.steps;
            let stays = ((steps + 1.0) / (steps + 10.0)).clamp_max(self.recipe.training.ema);
            let _ = following.lerp_tensor_(&self.parameters.masters, &(1.0 - stays));
        }
        let told = told.unwrap_or_else(|| Tensor::zeros([1], (Kind::Float, length.device())));
        Ok(Tensor::cat(&[told, length.reshape([1])], 0))
    }

    fn make_step(&mut self, samples: &Samples, rate: f64) -> Result<(), TorchError> {
        let batch = Batch::new(samples, &self.shape, self.compute.device());
        self.optimiser.set_rate(rate);
        if self.dropout() > 0.0 {
            // The same step of a process draws the same, also when a run goes on.
            let place = SplitMix::new(self.step).next_u64() ^ self.processes.rank() as u64;
            tch::manual_seed((self.recipe.seed ^ SplitMix::new(place).next_u64()) as i64);
        }
        let told = if let Some(recorded) = &mut self.recorded {
            recorded.batch.refill(&batch);
            recorded.graph.replay()?;
            recorded.told.copy()
        } else if let Some(graph) = self.graph.take() {
            let recording = self.made_here() >= STEPS_BEFORE_RECORDING;
            let told = graph.aside(|| {
                if !recording {
                    return self.compute(&batch);
                }
                graph.record(|| self.compute(&batch))
            })?;
            if recording {
                graph.replay()?;
                let now = told.copy();
                self.recorded = Some(Recorded { graph, batch, told });
                now
            } else {
                self.graph = Some(graph);
                told
            }
        } else {
            self.compute(&batch)?
        };
        self.told.push(told);
        self.step += 1;
        Ok(())
    }

    /// The share of a bridge's numbers that a step leaves out.
    fn dropout(&self) -> f64 {
        self.join.as_ref().map_or(0.0, |join| join.dropout)
    }

    /// Steps that this trainer has made, which tells when one can be recorded.
    fn made_here(&self) -> u64 {
        self.step - self.first_step
    }

    /// Where memory ran out, what would help. The trainer is of no use afterwards.
    pub(crate) fn with_advice(&mut self, error: TrainError, samples: &Samples) -> TrainError {
        if !error.0.contains(OUT_OF_MEMORY) {
            return error;
        }
        let len = samples.len() / self.recipe.training.accumulate.max(1);
        let advice = match self.fitting(samples, len / 2) {
            Some(fits) => format!(
                "{len} positions at a time do not fit, {fits} do: `training.accumulate = {}` makes the steps in parts",
                (samples.len().div_ceil(fits)..samples.len())
                    .find(|&parts| samples.len().is_multiple_of(parts))
                    .unwrap_or(samples.len())
            ),
            None => "not even one position fits: a smaller network is needed".into(),
        };
        TrainError(format!("{}; {advice}", error.0))
    }

    /// How many positions fit, by halves, if no more than so many are tried. What is computed is thrown away.
    fn fitting(&mut self, samples: &Samples, most: usize) -> Option<usize> {
        (self.recorded, self.graph) = (None, None);
        let compute = self.compute;
        let mut tried = most;
        while tried > 0 {
            let fits = caught(&compute, || {
                let batch = Batch::new(samples, &self.shape, compute.device()).part(0, tried as i64);
                let said = self.model.forward(&self.row.split(self.parameters.working()), &batch.inputs());
                wrong(&said, &batch, &self.recipe.targets).sum.backward();
                drop(self.parameters.take_slopes()?);
                self.finish()
            });
            if fits.is_ok() {
                return Some(tried);
            }
            tried /= 2;
        }
        None
    }

    /// The numbers that are handed out: averaged where there is an average.
    fn best(&self) -> Tensor {
        let numbers = match (&self.plain, &self.following) {
            (Some(plain), _) => plain,
            (None, Some(following)) => following,
            (None, None) => &self.parameters.masters,
        };
        if self.recipe.training.two_of_four {
            numbers * two_of_four(&self.row, numbers)
        } else {
            numbers.shallow_clone()
        }
    }
}

impl TransformerTrainer for TorchTrainer {
    fn learn(&mut self, samples: &Samples, rate: f64) -> Result<(), TrainError> {
        let compute = self.compute;
        caught(&compute, || self.make_step(samples, rate)).map_err(|error| self.with_advice(error, samples))
    }

    fn average(&mut self) -> Result<(), TrainError> {
        let compute = self.compute;
        caught(&compute, || {
            let _guard = tch::no_grad_guard();
            self.averaged += 1;
            let share = 1.0 / self.averaged as f64;
            match &mut self.plain {
                Some(plain) => drop(plain.lerp_(&self.parameters.masters, share)),
                None => self.plain = Some(self.parameters.masters.copy()),
            }
            Ok(())
        })
    }

    fn told(&mut self) -> Result<Vec<StepTold>, TrainError> {
        let compute = self.compute;
        caught(&compute, || {
            self.finish()?;
            if self.told.is_empty() {
                return Ok(Vec::new());
            }
            let all = Tensor::stack(&std::mem::take(&mut self.told), 0);
            self.processes.mean(&mut all.shallow_clone())?;
            let numbers = numbers_of(&all);
            let each = self.names.len() + 1;
            let told = numbers.chunks_exact(each).map(|said| StepTold {
                loss: said[0],
                slope: said[each - 1],
                parts: self.names.iter().cloned().zip(said.iter().copied()).skip(1).collect(),
            });
            Ok(told.collect())
        })
    }

    fn judge(&mut self, samples: &Samples) -> Result<Judged, TrainError> {
        let compute = self.compute;
        caught(&compute, || {
            let _guard = tch::no_grad_guard();
            let tensors = self.row.split(&self.best().to_kind(self.parameters.working().kind()));
            Ok(judged(&self.model, &tensors, &self.shape, compute.device(), samples, |_| true))
        })
    }

    fn add_up(&mut self, numbers: &mut [f64]) -> Result<(), TrainError> {
        let compute = self.compute;
        if self.processes.alone() {
            return Ok(());
        }
        caught(&compute, || {
            let tensor = Tensor::from_slice(numbers).to_device(self.compute.device());
            self.processes.sum(&tensor)?;
            let count = numbers.len();
            tensor.to_device(Device::Cpu).copy_data(numbers, count);
            Ok(())
        })
    }

    fn state(&mut self) -> Result<TransformerState, TrainError> {
        let compute = self.compute;
        caught(&compute, || {
            let mut rows = BTreeMap::new();
            let mut keep = |name: &str, row: &Tensor| rows.insert(name.to_owned(), numbers_of(row));
            keep("numbers", &self.parameters.masters);
            keep("first", &self.optimiser.first);
            keep("second", &self.optimiser.second);
            self.following.iter().for_each(|row| drop(keep("following", row)));
            self.plain.iter().for_each(|row| drop(keep("plain", row)));
            Ok(TransformerState { step: self.step, averaged: self.averaged, rows })
        })
    }

    fn weights(&mut self) -> Result<Weights, TrainError> {
        let compute = self.compute;
        let weights = caught(&compute, || Ok(self.row.weights(&self.architecture, &self.best())))?;
        weights.map_err(|error| TrainError(error.to_string()))
    }

    fn bridge(&mut self) -> Result<Option<Bridge>, TrainError> {
        let compute = self.compute;
        caught(&compute, || {
            Ok(self.join.as_ref().and_then(|join| self.row.bridge(&join.bridge, &self.best())))
        })
    }
}

/// How evenly experts are used: 1 where all are alike, and how many are not used at all.
fn figures_of(said: &Said) -> Vec<(String, Tensor)> {
    if said.routing.is_empty() {
        return Vec::new();
    }
    let mean = |figure: &dyn Fn(&Routing) -> Tensor| {
        let figures: Vec<Tensor> = said.routing.iter().map(figure).collect();
        Tensor::stack(&figures, 0).mean(Kind::Float)
    };
    let entropy = mean(&|layer| {
        let load = layer.load.clamp_min(1e-9);
        -(load.log() * &load).sum(Kind::Float) / (layer.load.size()[0] as f64).ln()
    });
    let dead = mean(&|layer| layer.load.eq(0.0).to_kind(Kind::Float).sum(Kind::Float));
    let highest = mean(&|layer| layer.load.max());
    [("experts.entropy", entropy), ("experts.dead", dead), ("experts.highest_load", highest)]
        .map(|(name, figure)| (name.to_owned(), figure))
        .into()
}

thread_local! {
    /// A panic of this thread will be told as an error.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// What libtorch said, out of tch's panic that quotes it: not where in libtorch that was, nor all it knows of its memory.
pub(crate) fn essence(panic: &str) -> &str {
    let said =
        panic.split_once("Torch(\"").map_or(panic, |(_, said)| said.strip_suffix("\")").unwrap_or(said));
    // Quoted text has its lines' ends as two characters.
    let said =
        ["\\n", "\n"].iter().fold(said, |said, end| said.split_once(end).map_or(said, |(first, _)| first));
    let free = " is free";
    said.find(free).map_or(said, |at| &said[..at + free.len()])
}

/// tch tells of what libtorch refuses by a panic; here it becomes an error again.
pub(crate) fn caught<T>(
    compute: &Compute,
    work: impl FnOnce() -> Result<T, TorchError>,
) -> Result<T, TrainError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                usual(panic);
            }
        }));
    });
    CAUGHT.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(false);
    let problem = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => essence(text).to_owned(),
            (None, Some(text)) => (*text).to_owned(),
            (None, None) => "libtorch failed without a word".to_owned(),
        },
    };
    Err(TrainError(format!("{}: {problem}", compute.name())))
}
