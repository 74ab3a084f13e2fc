//! A network that judges and learns nothing.

use crate::batch::Batch;
use crate::device::Compute;
use crate::model::Model;
use crate::parameters::{Named, Row, numbers_of};
use crate::trainer::caught;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_train::TrainError;
use tandem_train::transformer::{Judged, SampleShape, Samples, TrainingPrecision};
use tandem_transformer::Weights;
use tch::{Device, Kind};

/// Positions that a processor judges at a time.
const AT_A_TIME: usize = 1024;
/// Positions that a card judges at a time: it has room for more than a processor has in its caches.
const CARD_AT_A_TIME: usize = 4096;
/// Threads that keep a card busy: while it judges for one, another brings it positions, and a third takes answers away.
const CARD_THREADS: usize = 3;

/// Judges positions with libtorch, on threads of its own: any number of others may ask it.
#[derive(Clone)]
pub struct TorchJudge {
    questions: Sender<Question>,
}

/// Samples, by which heads they are to be judged, and who waits for it.
struct Question {
    samples: Samples,
    heads: Vec<String>,
    answer: Sender<Result<Judged, TrainError>>,
}

impl TorchJudge {
    /// With the numbers of a network.
    pub fn new(
        weights: &Weights,
        precision: TrainingPrecision,
        compute: Compute,
    ) -> Result<Self, TrainError> {
        let (questions, asked) = channel::<Question>();
        let asked = Arc::new(Mutex::new(asked));
        let (ready, is_ready) = channel();
        let threads = if compute.device().is_cuda() { CARD_THREADS } else { 1 };
        for _ in 0..threads {
            let (asked, ready, weights) = (Arc::clone(&asked), ready.clone(), weights.clone());
            let thread = std::thread::Builder::new().name("judge".into()).spawn(move || {
                let resident = match Resident::new(&weights, precision, compute) {
                    Ok(resident) => resident,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                drop(weights);
                let _ = ready.send(Ok(()));
                while let Some(Question { samples, heads, answer }) = next(&asked) {
                    // Who asked may have gone.
                    let _ = answer.send(resident.judge(&samples, &heads));
                }
            });
            thread.map_err(|error| TrainError(format!("no thread to judge on: {error}")))?;
        }
        // Only the threads can say so now: where one ends without a word, nobody waits for it.
        drop(ready);
        for _ in 0..threads {
            is_ready.recv().unwrap_or_else(|_| Err(gone()))?;
        }
        Ok(Self { questions })
    }

    /// What the network says of samples, by these heads; by all if none are named.
    pub fn judge(&self, samples: Samples, heads: &[&str]) -> Result<Judged, TrainError> {
        let (answer, answered) = channel();
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        self.questions.send(Question { samples, heads, answer }).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }
}

/// The next question; none when nobody is left who could ask.
fn next(asked: &Mutex<Receiver<Question>>) -> Option<Question> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn gone() -> TrainError {
    TrainError("the thread that judges has ended".into())
}

/// What a thread has: the handle of its kernels is not one that threads can share.
struct Resident {
    shape: SampleShape,
    model: Model,
    tensors: Named,
    compute: Compute,
}

impl Resident {
    fn new(weights: &Weights, precision: TrainingPrecision, compute: Compute) -> Result<Self, TrainError> {
        caught(&compute, || {
            let _guard = tch::no_grad_guard();
            let architecture = weights.architecture();
            let (row, kind) = (Row::of(architecture, None), kind_of(precision));
            Ok(Self {
                shape: SampleShape::of(architecture),
                model: Model::new(architecture, kind, compute.device()),
                tensors: row.split(&row.join(weights, None, compute.device()).to_kind(kind)),
                compute,
            })
        })
    }

    fn judge(&self, samples: &Samples, heads: &[String]) -> Result<Judged, TrainError> {
        caught(&self.compute, || {
            let wanted = |name: &str| heads.is_empty() || heads.iter().any(|head| head == name);
            Ok(judged(&self.model, &self.tensors, &self.shape, self.compute.device(), samples, wanted))
        })
    }
}

/// The numbers that a precision computes with.
pub(crate) fn kind_of(precision: TrainingPrecision) -> Kind {
    match precision {
        TrainingPrecision::F32 => Kind::Float,
        TrainingPrecision::Bf16 => Kind::BFloat16,
    }
}

/// What a network says of samples, by the heads that are wanted.
pub(crate) fn judged(
    model: &Model,
    tensors: &Named,
    shape: &SampleShape,
    device: Device,
    samples: &Samples,
    wanted: impl Fn(&str) -> bool,
) -> Judged {
    let _guard = tch::no_grad_guard();
    let mut judged = BTreeMap::<String, Vec<f32>>::new();
    if samples.is_empty() {
        return judged;
    }
    let batch = Batch::new(samples, shape, device);
    let at_a_time = if device.is_cuda() { CARD_AT_A_TIME } else { AT_A_TIME };
    let mut first = 0;
    while first < samples.len() {
        let len = at_a_time.min(samples.len() - first);
        let said = model.forward(tensors, &batch.part(first as i64, len as i64).inputs());
        for (name, numbers) in said.heads.iter().filter(|(name, _)| wanted(name)) {
            judged.entry(name.clone()).or_default().extend(numbers_of(numbers));
        }
        first += len;
    }
    judged
}
