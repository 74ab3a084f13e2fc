//! Inference with libtorch: predictions of a network for many samples.

use crate::batch::Batch;
use crate::device::Compute;
use crate::errors::catch_torch;
use crate::model::Model;
use crate::parameters::{ParameterLayout, ParameterViews, to_vec};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_train::TrainError;
use tandem_train::TrainingPrecision;
use tandem_train::transformer::{OutputsByHead, SampleShape, Samples};
use tandem_transformer::Weights;
use tch::{Device, Kind};

/// Positions in a forward pass on the CPU; more would not fit its caches.
const CPU_BATCH: usize = 1024;
/// Positions in a forward pass on a GPU, which has more memory and needs more work at once.
const GPU_BATCH: usize = 4096;
/// Threads that feed a GPU: while one computes, another uploads its positions, and a third downloads its
/// outputs.
const GPU_THREADS: usize = 3;

/// Predicts with libtorch on threads of its own. Clones share the threads, so any number of callers can use
/// one network at the same time.
#[derive(Clone)]
pub struct TorchPredictor {
    requests: Sender<Request>,
}

/// Samples, the heads that are wanted, and the channel for the answer.
struct Request {
    samples: Samples,
    heads: Vec<String>,
    reply: Sender<Result<OutputsByHead, TrainError>>,
}

impl TorchPredictor {
    /// Loads a network on a device; `precision` is that of the forward pass. Returns when all threads are
    /// ready.
    ///
    /// # Errors
    /// Returns an error if the network does not fit the device's memory, or if a thread cannot be started.
    pub fn new(
        weights: &Weights,
        precision: TrainingPrecision,
        compute: Compute,
    ) -> Result<Self, TrainError> {
        let (requests, queue) = channel::<Request>();
        let queue = Arc::new(Mutex::new(queue));
        let (ready, started) = channel();
        let threads = if compute.device().is_cuda() { GPU_THREADS } else { 1 };
        for _ in 0..threads {
            let (queue, ready, weights) = (Arc::clone(&queue), ready.clone(), weights.clone());
            let thread = std::thread::Builder::new().name("predict".into()).spawn(move || {
                let worker = match Worker::new(&weights, precision, compute) {
                    Ok(worker) => worker,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                drop(weights);
                let _ = ready.send(Ok(()));
                while let Some(Request { samples, heads, reply }) = next_request(&queue) {
                    // The caller may have stopped waiting.
                    let _ = reply.send(worker.predict(&samples, &heads));
                }
            });
            thread.map_err(|error| TrainError(format!("no thread for predictions: {error}")))?;
        }
        // From here on only the threads hold senders, so a thread that panics ends the wait below instead of
        // blocking it.
        drop(ready);
        for _ in 0..threads {
            started.recv().unwrap_or_else(|_| Err(threads_ended()))?;
        }
        Ok(Self { requests })
    }

    /// Runs the forward pass and returns the outputs of the heads with these names, or of all heads if
    /// `heads` is empty.
    ///
    /// # Errors
    /// Returns an error if libtorch fails, for example for lack of memory, or if the threads have ended.
    pub fn predict(&self, samples: Samples, heads: &[&str]) -> Result<OutputsByHead, TrainError> {
        let (reply, response) = channel();
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        self.requests.send(Request { samples, heads, reply }).map_err(|_| threads_ended())?;
        response.recv().unwrap_or_else(|_| Err(threads_ended()))
    }
}

/// The next request; `None` when all predictors have been dropped.
fn next_request(queue: &Mutex<Receiver<Request>>) -> Option<Request> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn threads_ended() -> TrainError {
    TrainError("the threads for predictions have ended".into())
}

/// Network of one thread. Each thread has its own, because a handle to kernels must not be shared.
struct Worker {
    shape: SampleShape,
    model: Model,
    parameters: ParameterViews,
    compute: Compute,
}

impl Worker {
    fn new(weights: &Weights, precision: TrainingPrecision, compute: Compute) -> Result<Self, TrainError> {
        catch_torch(&compute, || {
            let _guard = tch::no_grad_guard();
            let architecture = weights.architecture();
            let (layout, kind) = (ParameterLayout::new(architecture, None), tensor_kind(precision));
            Ok(Self {
                shape: SampleShape::of(architecture),
                model: Model::new(architecture, &layout, kind, compute.device()),
                parameters: layout.views(&layout.flatten(weights, None, compute.device()).to_kind(kind)),
                compute,
            })
        })
    }

    fn predict(&self, samples: &Samples, heads: &[String]) -> Result<OutputsByHead, TrainError> {
        catch_torch(&self.compute, || {
            let is_wanted = |name: &str| heads.is_empty() || heads.iter().any(|head| head == name);
            Ok(predict_in_batches(
                &self.model,
                &self.parameters,
                &self.shape,
                self.compute.device(),
                samples,
                is_wanted,
            ))
        })
    }
}

/// Element type of tensors for a precision.
pub(crate) fn tensor_kind(precision: TrainingPrecision) -> Kind {
    match precision {
        TrainingPrecision::F32 => Kind::Float,
        TrainingPrecision::Bf16 => Kind::BFloat16,
    }
}

/// Outputs of the wanted heads for all samples, computed in batches.
pub(crate) fn predict_in_batches(
    model: &Model,
    parameters: &ParameterViews,
    shape: &SampleShape,
    device: Device,
    samples: &Samples,
    is_wanted: impl Fn(&str) -> bool,
) -> OutputsByHead {
    let _guard = tch::no_grad_guard();
    let mut outputs = BTreeMap::<String, Vec<f32>>::new();
    if samples.is_empty() {
        return outputs;
    }
    let batch = Batch::new(samples, shape, device);
    let batch_size = if device.is_cuda() { GPU_BATCH } else { CPU_BATCH };
    let mut first = 0;
    while first < samples.len() {
        let len = batch_size.min(samples.len() - first);
        let output = model.forward(parameters, &batch.narrow(first as i64, len as i64).inputs());
        for (name, values) in output.heads.iter().filter(|(name, _)| is_wanted(name)) {
            outputs.entry(name.clone()).or_default().extend(to_vec(values));
        }
        first += len;
    }
    outputs
}
