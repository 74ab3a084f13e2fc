//! The trainer: forward pass, backward pass, gradient clipping, optimiser and weight averages.
//!
//! On a GPU a whole step is captured as a CUDA graph and replayed, because a small network would otherwise
//! spend most of its time on launching kernels.

use crate::OUT_OF_MEMORY;
use crate::batch::Batch;
use crate::device::{Compute, Processes};
use crate::errors::catch_torch;
use crate::losses::compute_losses;
use crate::model::{Model, ModelOutput, Routing, has_fixed_shapes};
use crate::optimiser::Optimiser;
use crate::parameters::{ParameterBuffer, ParameterLayout, is_bridge_tensor, to_vec};
use crate::predictor::{predict_in_batches, tensor_kind};
use crate::shim::{Graph, TorchError, peak_memory, synchronize};
use crate::sparsity::two_four_mask;
use tandem_hybrid::Bridge;
use tandem_train::transformer::{
    BridgeSetup, InitialNetworks, OutputsByHead, SampleShape, SampleSpec, Samples, TransformerRecipe,
    TransformerTrainer,
};
use tandem_train::{Sparsity, State, StepMetrics, TrainError, Trainer};
use tandem_transformer::{Architecture, Weights};
use tandem_util::random::SplitMix;
use tch::{Device, Kind, Tensor};

/// Steps before one is captured, during which cuBLAS and the allocator choose algorithms and reserve memory.
const STEPS_BEFORE_CAPTURE: u64 = 3;

/// A captured step with the tensors that it reads and writes.
struct CapturedStep {
    graph: Graph,
    batch: Batch,
    metrics: Tensor,
}

/// Trains a transformer with libtorch; implements [`TransformerTrainer`] for
/// `tandem_train::transformer::run_transformer`.
pub struct TorchTrainer {
    recipe: TransformerRecipe,
    architecture: Architecture,
    shape: SampleShape,
    /// Bridge to an NNUE. If there is one, only the bridge is trained.
    bridge_setup: Option<BridgeSetup>,
    layout: ParameterLayout,
    model: Model,
    parameters: ParameterBuffer,
    optimiser: Optimiser,
    /// Exponential moving average of the parameters.
    ema: Option<Tensor>,
    /// Plain average of the parameters (stochastic weight averaging), and the number of its terms.
    swa: Option<Tensor>,
    swa_count: u64,
    /// Mask with 1 for trainable parameters, and the initial values of the others; `None` if nothing is
    /// frozen.
    trainable: Option<(Tensor, Tensor)>,
    processes: Processes,
    compute: Compute,
    captured: Option<CapturedStep>,
    /// Graph on whose stream the steps before the capture run.
    graph: Option<Graph>,
    step: u64,
    /// Number of steps when this trainer was created, which is not 0 in a resumed run.
    first_step: u64,
    /// Names of a step's metrics, and the metrics of the steps since the last
    /// [`Trainer::take_metrics`].
    metric_names: Vec<String>,
    pending_metrics: Vec<Tensor>,
}

impl TorchTrainer {
    /// Starts from the parameters of a network and, if there is one, of a bridge, or continues from the state
    /// of a checkpoint. All processes of a group must call it, because rank 0 broadcasts its parameters.
    ///
    /// # Errors
    /// Returns an error if libtorch fails, for example because the parameters do not fit the device's memory.
    pub fn new<'a>(
        recipe: &TransformerRecipe,
        start: impl Into<InitialNetworks<'a>>,
        state: Option<&State>,
        compute: Compute,
        processes: Processes,
    ) -> Result<Self, TrainError> {
        let start = start.into();
        let body = || Self::build(recipe, start, state, compute, processes);
        catch_torch(&compute, body)
    }

    fn build(
        recipe: &TransformerRecipe,
        InitialNetworks { weights, bridge_setup }: InitialNetworks<'_>,
        state: Option<&State>,
        compute: Compute,
        processes: Processes,
    ) -> Result<Self, TorchError> {
        let architecture = weights.architecture().clone();
        let device = compute.device();
        let bridge = bridge_setup.map(|setup| &setup.bridge);
        let layout = ParameterLayout::new(&architecture, bridge);
        let kind = tensor_kind(recipe.training.precision);
        let load = |buffer: fn(&State) -> &Vec<f32>| {
            let values = state.map(buffer).filter(|values| !values.is_empty());
            values.map(|values| Tensor::from_slice(values).to_device(device))
        };
        let master =
            load(|state| &state.parameters).unwrap_or_else(|| layout.flatten(weights, bridge, device));
        processes.broadcast(&master)?;
        let mut optimiser = Optimiser::new(recipe.optimiser, &layout, device);
        let step = state.map_or(0, |state| state.step);
        if let (Some(exp_avg), Some(exp_avg_sq)) =
            (load(|state| &state.exp_avg), load(|state| &state.exp_avg_sq))
        {
            optimiser.load_state(exp_avg, exp_avg_sq, step);
        }
        let training = &recipe.training;
        let ema =
            (training.ema_decay > 0.0).then(|| load(|state| &state.ema).unwrap_or_else(|| master.copy()));
        let is_frozen =
            |name: &str| training.is_frozen(name) || (bridge.is_some() && !is_bridge_tensor(name));
        let any_frozen = layout.specs().iter().any(|spec| is_frozen(&spec.name));
        // Frozen parameters keep their values from the start of the run, which a checkpoint holds; the file
        // of the network may have changed since.
        let trainable = any_frozen.then(|| (layout.mask_without(is_frozen, device), master.copy()));
        let sparsity = training.sparsity.map(|Sparsity::TwoOfFour| layout.clone());
        let graph = match training.cuda_graph {
            true => {
                check_graph(&architecture, &optimiser, &compute, &processes)?;
                compute.gpu().map(Graph::new).transpose()?
            }
            false => None,
        };
        Ok(Self {
            shape: SampleSpec::of(&architecture, bridge_setup).shape,
            model: Model::new(&architecture, &layout, kind, device).with_bridge(bridge.map(Bridge::form)),
            bridge_setup: bridge_setup.cloned(),
            parameters: ParameterBuffer::new(master, kind, sparsity),
            optimiser,
            ema,
            swa: load(|state| &state.swa),
            swa_count: state.map_or(0, |state| state.swa_count),
            trainable,
            processes,
            compute,
            captured: None,
            graph,
            step,
            first_step: step,
            metric_names: Vec::new(),
            pending_metrics: Vec::new(),
            recipe: recipe.clone(),
            architecture,
            layout,
        })
    }

    /// Computes with libtorch's kernels alone.
    #[cfg(test)]
    pub(crate) fn disable_fused_kernels(&mut self) {
        self.model.disable_fused_kernels();
    }

    /// True if steps are replayed from a CUDA graph, and true if our own kernels are used.
    #[cfg(test)]
    pub(crate) fn uses_graph_and_kernels(&self) -> [bool; 2] {
        [self.captured.is_some(), self.model.uses_fused_kernels()]
    }

    /// Waits until the device has finished all queued work.
    fn synchronize_device(&self) -> Result<(), TorchError> {
        self.compute.gpu().map_or(Ok(()), synchronize)
    }

    /// Peak number of bytes that tensors have occupied on the GPU; `None` on other devices.
    pub fn peak_memory(&self) -> Option<u64> {
        self.compute.gpu().and_then(peak_memory)
    }

    /// One step without the transfer of the data, which is what a CUDA graph captures. Returns the metrics,
    /// the gradient norm last.
    fn forward_backward_update(&mut self, batch: &Batch) -> Result<Tensor, TorchError> {
        let num_parts = self.recipe.training.gradient_accumulation_steps.max(1) as i64;
        let mut metrics: Option<Tensor> = None;
        let mut grads: Option<Tensor> = None;
        for part in 0..num_parts {
            let (first, next) = (batch.len * part / num_parts, batch.len * (part + 1) / num_parts);
            let weight = (next - first) as f64 / batch.len as f64;
            let batch = batch.narrow(first, next - first);
            let parameters = self.layout.views(self.parameters.working());
            let mut output = self.model.forward_train(&parameters, &batch.inputs(), self.dropout());
            for layer in &mut output.routing {
                // Experts are balanced over the batches of all processes together.
                self.processes.all_reduce_mean(&mut layer.load)?;
            }
            let losses = compute_losses(&output, &batch, &self.recipe.targets);
            (&losses.total * weight).backward();
            // Accumulated in f32 for any precision of the forward pass, because in bf16 the last
            // micro-batches would hardly count.
            let part_grads = tch::no_grad(|| self.parameters.take_grads())?;
            grads = Some(grads.map_or_else(|| part_grads.shallow_clone(), |sum| sum + &part_grads));
            let mut named: Vec<(String, Tensor)> = vec![("loss".into(), losses.total.detach())];
            named.extend(losses.by_head);
            named.extend(routing_metrics(&output));
            let values =
                Tensor::stack(&named.iter().map(|(_, loss)| loss.shallow_clone()).collect::<Vec<_>>(), 0)
                    * weight;
            metrics = Some(metrics.map_or_else(|| values.shallow_clone(), |sum| sum + &values));
            self.metric_names = named.into_iter().map(|(name, _)| name).collect();
        }
        let _guard = tch::no_grad_guard();
        let mut grads = grads.ok_or_else(|| TorchError::new("a step without micro-batches"))?;
        self.processes.all_reduce_mean(&mut grads)?;
        if let Some((trainable, _)) = &self.trainable {
            grads *= trainable;
        }
        // Gradient clipping, as PyTorch's `clip_grad_norm_`.
        let grad_norm = grads.norm();
        let max_norm = self.recipe.training.max_grad_norm;
        if max_norm > 0.0 {
            let factor = (max_norm / (&grad_norm + 1e-6)).clamp_max(1.0);
            grads *= factor;
        }
        self.optimiser.step(&mut self.parameters.master, &grads)?;
        if let Some((trainable, initial)) = &self.trainable {
            let restored = self.parameters.master.where_self(&trainable.gt(0.5), initial);
            self.parameters.master.copy_(&restored);
        }
        self.parameters.refresh();
        if let Some(ema) = &mut self.ema {
            // A short horizon at first, so that the initial parameters are soon forgotten.
            let steps = &self.optimiser.step_count;
            let decay = ((steps + 1.0) / (steps + 10.0)).clamp_max(self.recipe.training.ema_decay);
            let _ = ema.lerp_tensor_(&self.parameters.master, &(1.0 - decay));
        }
        let metrics = metrics.unwrap_or_else(|| Tensor::zeros([1], (Kind::Float, grad_norm.device())));
        Ok(Tensor::cat(&[metrics, grad_norm.reshape([1])], 0))
    }

    fn run_step(&mut self, samples: &Samples, lr: f64) -> Result<(), TorchError> {
        let batch = Batch::new(samples, &self.shape, self.compute.device());
        self.optimiser.set_lr(lr);
        if self.dropout() > 0.0 {
            // Seeded by step and rank, so that a resumed run draws the same dropout.
            let rank_seed = SplitMix::new(self.step).next_u64() ^ self.processes.rank() as u64;
            tch::manual_seed((self.recipe.seed ^ SplitMix::new(rank_seed).next_u64()) as i64);
        }
        let metrics = if let Some(captured) = &mut self.captured {
            captured.batch.copy_from(&batch);
            captured.graph.replay()?;
            captured.metrics.copy()
        } else if let Some(graph) = self.graph.take() {
            let is_capturing = self.steps_made() >= STEPS_BEFORE_CAPTURE;
            let metrics = graph.on_stream(|| {
                if !is_capturing {
                    return self.forward_backward_update(&batch);
                }
                graph.capture(|| self.forward_backward_update(&batch))
            })?;
            if is_capturing {
                graph.replay()?;
                let current = metrics.copy();
                self.captured = Some(CapturedStep { graph, batch, metrics });
                current
            } else {
                self.graph = Some(graph);
                metrics
            }
        } else {
            self.forward_backward_update(&batch)?
        };
        self.pending_metrics.push(metrics);
        self.step += 1;
        Ok(())
    }

    /// Probability with which a value of the bridge's code is dropped in training.
    fn dropout(&self) -> f64 {
        self.bridge_setup.as_ref().map_or(0.0, |setup| setup.dropout)
    }

    /// Steps of this trainer, not counting those before a resume.
    fn steps_made(&self) -> u64 {
        self.step - self.first_step
    }

    /// Adds to an out-of-memory error the number of positions that would fit, and the setting for it. The
    /// trainer must not be used afterwards, because the trial overwrites its gradients and drops its graph.
    pub(crate) fn with_memory_advice(&mut self, error: TrainError, samples: &Samples) -> TrainError {
        if !error.0.contains(OUT_OF_MEMORY) {
            return error;
        }
        let len = samples.len() / self.recipe.training.gradient_accumulation_steps.max(1);
        let advice = match self.largest_fitting(samples, len / 2) {
            Some(fits) => format!(
                "{len} positions at a time do not fit, {fits} do: `training.gradient_accumulation_steps = {}` makes the steps in parts",
                (samples.len().div_ceil(fits)..samples.len())
                    .find(|&num_parts| samples.len().is_multiple_of(num_parts))
                    .unwrap_or(samples.len())
            ),
            None => "not even one position fits: a smaller network is needed".into(),
        };
        TrainError(format!("{}; {advice}", error.0))
    }

    /// Largest number of positions that fits in memory, found by halving `max_len`. The results are
    /// discarded.
    fn largest_fitting(&mut self, samples: &Samples, max_len: usize) -> Option<usize> {
        (self.captured, self.graph) = (None, None);
        let compute = self.compute;
        let mut tried = max_len;
        while tried > 0 {
            let fits = catch_torch(&compute, || {
                let batch = Batch::new(samples, &self.shape, compute.device()).narrow(0, tried as i64);
                let output =
                    self.model.forward(&self.layout.views(self.parameters.working()), &batch.inputs());
                compute_losses(&output, &batch, &self.recipe.targets).total.backward();
                drop(self.parameters.take_grads()?);
                self.synchronize_device()
            });
            if fits.is_ok() {
                return Some(tried);
            }
            tried /= 2;
        }
        None
    }

    /// The parameters to validate and to save: the plain average if there is one, else the moving average,
    /// else the current ones.
    fn averaged_parameters(&self) -> Tensor {
        let values = match (&self.swa, &self.ema) {
            (Some(swa), _) => swa,
            (None, Some(ema)) => ema,
            (None, None) => &self.parameters.master,
        };
        if self.recipe.training.sparsity == Some(Sparsity::TwoOfFour) {
            values * two_four_mask(&self.layout, values)
        } else {
            values.shallow_clone()
        }
    }
}

impl Trainer for TorchTrainer {
    type Batch = Samples;
    type Outputs = OutputsByHead;

    fn train_step(&mut self, samples: &Samples, lr: f64) -> Result<(), TrainError> {
        let compute = self.compute;
        catch_torch(&compute, || self.run_step(samples, lr))
            .map_err(|error| self.with_memory_advice(error, samples))
    }

    fn update_average(&mut self) -> Result<(), TrainError> {
        let compute = self.compute;
        catch_torch(&compute, || {
            let _guard = tch::no_grad_guard();
            self.swa_count += 1;
            let weight = 1.0 / self.swa_count as f64;
            match &mut self.swa {
                Some(swa) => drop(swa.lerp_(&self.parameters.master, weight)),
                None => self.swa = Some(self.parameters.master.copy()),
            }
            Ok(())
        })
    }

    fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError> {
        let compute = self.compute;
        catch_torch(&compute, || {
            self.synchronize_device()?;
            if self.pending_metrics.is_empty() {
                return Ok(Vec::new());
            }
            let all = Tensor::stack(&std::mem::take(&mut self.pending_metrics), 0);
            self.processes.all_reduce_mean(&mut all.shallow_clone())?;
            let values = to_vec(&all);
            let per_step = self.metric_names.len() + 1;
            let metrics = values.chunks_exact(per_step).map(|step| {
                let values = step.iter().map(|&value| f64::from(value));
                StepMetrics {
                    loss: step[0].into(),
                    grad_norm: step[per_step - 1].into(),
                    components: self.metric_names.iter().cloned().zip(values).skip(1).collect(),
                }
            });
            Ok(metrics.collect())
        })
    }

    fn predict(&mut self, samples: &Samples, averaged: bool) -> Result<OutputsByHead, TrainError> {
        let compute = self.compute;
        catch_torch(&compute, || {
            let _guard = tch::no_grad_guard();
            let kind = self.parameters.working().kind();
            let values = match averaged {
                true => self.averaged_parameters().to_kind(kind),
                false => self.parameters.working().shallow_clone(),
            };
            let parameters = self.layout.views(&values);
            Ok(predict_in_batches(&self.model, &parameters, &self.shape, compute.device(), samples, |_| true))
        })
    }

    fn all_reduce_sum(&mut self, values: &mut [f64]) -> Result<(), TrainError> {
        let compute = self.compute;
        if self.processes.is_single() {
            return Ok(());
        }
        catch_torch(&compute, || {
            let tensor = Tensor::from_slice(values).to_device(self.compute.device());
            self.processes.all_reduce_sum(&tensor)?;
            let count = values.len();
            tensor.to_device(Device::Cpu).copy_data(values, count);
            Ok(())
        })
    }

    fn state(&mut self) -> Result<State, TrainError> {
        let compute = self.compute;
        catch_torch(&compute, || {
            let average = |values: &Option<Tensor>| values.as_ref().map(to_vec).unwrap_or_default();
            Ok(State {
                step: self.step,
                parameters: to_vec(&self.parameters.master),
                exp_avg: to_vec(&self.optimiser.exp_avg),
                exp_avg_sq: to_vec(&self.optimiser.exp_avg_sq),
                ema: average(&self.ema),
                swa: average(&self.swa),
                swa_count: self.swa_count,
                ..State::default()
            })
        })
    }
}

impl TransformerTrainer for TorchTrainer {
    fn weights(&mut self) -> Result<Weights, TrainError> {
        let compute = self.compute;
        let weights = catch_torch(&compute, || {
            Ok(self.layout.weights(&self.architecture, &self.averaged_parameters()))
        })?;
        weights.map_err(|error| TrainError(error.to_string()))
    }

    fn bridge(&mut self) -> Result<Option<Bridge>, TrainError> {
        let compute = self.compute;
        catch_torch(&compute, || {
            Ok(self
                .bridge_setup
                .as_ref()
                .and_then(|setup| self.layout.bridge(&setup.bridge, &self.averaged_parameters())))
        })
    }
}

/// Refuses `training.cuda_graph` where a step cannot be captured: the setting would have no effect.
fn check_graph(
    architecture: &Architecture,
    optimiser: &Optimiser,
    compute: &Compute,
    processes: &Processes,
) -> Result<(), TorchError> {
    let has_fixed_shapes = has_fixed_shapes(&architecture.body.feed_forward, compute.device());
    let reason = if !compute.supports_graphs() {
        "it needs an NVIDIA GPU and the GPU library"
    } else if !optimiser.supports_graph_capture() {
        "it needs the optimiser adamw"
    } else if !processes.is_single() {
        "it needs a single process"
    } else if !has_fixed_shapes {
        "it needs experts of which each token is sent to at least an eighth"
    } else {
        return Ok(());
    };
    let remedy = "`--set training.cuda_graph=false` trains without it";
    Err(TorchError::new(&format!("training.cuda_graph has no effect here, because {reason}: {remedy}")))
}

/// Metrics of the routing, each the mean over layers: normalised entropy of the load (1 if all experts are
/// used alike), number of unused experts, and load of the busiest one.
fn routing_metrics(output: &ModelOutput) -> Vec<(String, Tensor)> {
    if output.routing.is_empty() {
        return Vec::new();
    }
    let mean = |metric: &dyn Fn(&Routing) -> Tensor| {
        let values: Vec<Tensor> = output.routing.iter().map(metric).collect();
        Tensor::stack(&values, 0).mean(Kind::Float)
    };
    let entropy = mean(&|layer| {
        let load = layer.load.clamp_min(1e-9);
        -(load.log() * &load).sum(Kind::Float) / (layer.load.size()[0] as f64).ln()
    });
    let unused = mean(&|layer| layer.load.eq(0.0).to_kind(Kind::Float).sum(Kind::Float));
    let highest = mean(&|layer| layer.load.max());
    [("experts.entropy", entropy), ("experts.dead", unused), ("experts.highest_load", highest)]
        .map(|(name, metric)| (name.to_owned(), metric))
        .into()
}
