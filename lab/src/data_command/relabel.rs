//! `tandem-lab data label --transformer`: replaces scores by a mixture of the existing score and the value of
//! a transformer.

use super::make::{LabelArgs, LabelProgress};
use crate::any_network::load_transformer;
use crate::device::Device;
use crate::error::LabError;
use crate::interrupt;
use crate::model_output::{win_probability, win_probability_after_move};
use crate::transformer_file::{TransformerFile, outline};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tandem_chess::Position;
use tandem_data::{Record, Score};
use tandem_selfplay::{LabelRun as LabelJob, Labeller, SelfPlayError, label_with};
use tandem_train::sigmoid;
use tandem_train::transformer::*;
use tandem_transformer::{Network, Scratch};

/// Records that the CPU labels in one block, which is the most that a killed run loses. The history of a
/// position reaches back to the first record of its block only.
const BLOCK: usize = 256;
/// Records that a GPU labels in one block.
#[cfg(feature = "torch")]
const GPU_BLOCK: usize = 4096;
/// Records that the CPU evaluates between two checks for an interruption.
const CHUNK: usize = 32;
/// Win probabilities are clamped to this distance from 0 and 1, so that scores are finite.
const MIN_PROBABILITY: f64 = 1e-6;

/// Labels a data set with a transformer.
///
/// # Errors
///
/// When an option is out of range, the network has no value head, a file cannot be read or written, or the
/// work is interrupted.
pub(super) fn run(args: &LabelArgs, path: &Path) -> Result<(), LabError> {
    let (keep, scale) = (args.keep, args.scale);
    if !(0.0..=1.0).contains(&keep) {
        return Err(LabError::Usage(format!("--keep {keep} is not from 0 to 1")));
    }
    if !(scale.is_finite() && scale > 0.0) {
        return Err(LabError::Usage(format!(
            "a scale of {scale} is not positive; use target.scale of the recipe"
        )));
    }
    let file = TransformerFile::load(path, None)?.ok_or_else(|| {
        LabError::Usage(format!("{}: not a transformer; use --net for an NNUE with a search", path.display()))
    })?;
    let heads = &file.weights()?.architecture().heads;
    let values = heads.values()[0].1.is_some();
    if !values && heads.state_value.is_none() && heads.action_value.is_none() {
        let problem = "it cannot evaluate positions: it has neither a value head nor action values";
        return Err(LabError::Usage(format!("{}: {problem}", path.display())));
    }
    let backends = Backend::one_per_thread(&file, path, args.device, args.threads())?;
    let network = format!(
        "{} ({}, sha256 {}, {})",
        path.display(),
        outline(file.weights()?.architecture()),
        &file.sha256[..16],
        backends[0].description()
    );
    // Journals of earlier builds contain this line, and a resumed command must find the same one.
    let method = format!("keep {keep}, scale {scale}, judged by {network}"); // language: old name
    let (block, _) = backends[0].sizes();
    let shape = SampleShape::of(file.weights()?.architecture());
    let labellers = backends.into_iter().map(|backend| {
        let mix = Mix { keep, scale };
        Box::new(Relabeller { backend, shape, mix }) as Box<dyn Labeller>
    });
    let work = LabelJob { kind: "Transformer".into(), method, block, on_error: args.on_error.choice() };
    let sources = args.options.sources(&args.inputs)?;
    let target = args.options.target(&args.out)?;
    super::report::check_outputs(&sources, &[&target])?;
    let mut progress = LabelProgress::new("positions", None);
    let mut watch = |done| progress.set(done, block as u64);
    let report = label_with(sources, &target, &work, labellers.collect(), &interrupt::flag(), &mut watch)?;
    progress.finish(&format!("keep {keep}, scale {scale}, evaluated by {network}"), &target.path, &report)
}

/// The mixture of an existing score and a win probability.
#[derive(Clone, Copy, Debug)]
struct Mix {
    /// Weight of the existing score, from 0 to 1.
    keep: f64,
    /// Centipawns per unit of the sigmoid between scores and win probabilities.
    scale: f64,
}

impl Mix {
    /// Mixes an existing score, if there is one, with a win probability. Mate scores are kept, because a
    /// search that found a mate is right.
    fn score(self, old: Option<Score>, probability: f64) -> Score {
        let Self { keep, scale } = self;
        let centipawns = |probability: f64| {
            let probability = probability.clamp(MIN_PROBABILITY, 1.0 - MIN_PROBABILITY);
            let min = f64::from(-tandem_data::MATE / 2);
            Score::Centipawns(
                (scale * (probability / (1.0 - probability)).ln()).round().clamp(min, -min) as i16
            )
        };
        match old {
            None => centipawns(probability),
            Some(Score::Mate(moves)) => Score::Mate(moves),
            Some(old @ Score::Centipawns(_)) if old.is_mate() => old,
            Some(Score::WinProbability(old)) => {
                Score::WinProbability(keep * old + (1.0 - keep) * probability)
            }
            Some(Score::Centipawns(old)) => {
                centipawns(keep * sigmoid(f64::from(old) / scale) + (1.0 - keep) * probability)
            }
        }
    }
}

/// The device that evaluates positions for one thread.
enum Backend {
    Cpu(Arc<Network>, Box<Scratch>),
    #[cfg(feature = "torch")]
    Torch(tandem_torch::TorchPredictor, String),
}

impl Backend {
    /// One backend for each thread. Threads share a GPU, so that one encodes or writes positions while
    /// another one's are evaluated.
    fn one_per_thread(
        file: &TransformerFile,
        path: &Path,
        device: Device,
        threads: usize,
    ) -> Result<Vec<Self>, LabError> {
        if device == Device::Cpu {
            // The precision is that of the file.
            let network = Arc::new(load_transformer(path)?);
            return Ok((0..threads).map(|_| Self::Cpu(Arc::clone(&network), Box::default())).collect());
        }
        Self::on_gpu(file, device, threads)
    }

    #[cfg(feature = "torch")]
    fn on_gpu(file: &TransformerFile, device: Device, threads: usize) -> Result<Vec<Self>, LabError> {
        let compute = crate::train_command::compute_of(device)?;
        compute.set_num_threads(threads);
        let predictor = tandem_torch::TorchPredictor::new(
            file.weights()?,
            tandem_train::TrainingPrecision::Bf16,
            compute,
        )?;
        Ok((0..threads).map(|_| Self::Torch(predictor.clone(), compute.name())).collect())
    }

    #[cfg(not(feature = "torch"))]
    fn on_gpu(_: &TransformerFile, _: Device, _: usize) -> Result<Vec<Self>, LabError> {
        let problem = "GPUs need libtorch, which this build does not have: build it with --features torch, \
                       or leave out --device";
        Err(LabError::Usage(problem.into()))
    }

    fn description(&self) -> String {
        match self {
            Self::Cpu(network, _) => network.precision().name().into(),
            #[cfg(feature = "torch")]
            Self::Torch(_, device) => format!("bf16 on {device}"),
        }
    }

    /// The number of records in a block, and the number that is evaluated at a time.
    fn sizes(&self) -> (usize, usize) {
        match self {
            Self::Cpu(..) => (BLOCK, CHUNK),
            #[cfg(feature = "torch")]
            Self::Torch(..) => (GPU_BLOCK, GPU_BLOCK),
        }
    }

    fn predict(&mut self, samples: Samples) -> Result<OutputsByHead, SelfPlayError> {
        match self {
            Self::Cpu(network, scratch) => predict_samples(network, &samples, scratch)
                .map_err(|error| SelfPlayError::Labeller(error.to_string())),
            #[cfg(feature = "torch")]
            Self::Torch(predictor, _) => {
                let heads = ["value.wdl", "state_value", "action_value"];
                predictor.predict(samples, &heads).map_err(|error| SelfPlayError::Labeller(error.to_string()))
            }
        }
    }
}

struct Relabeller {
    backend: Backend,
    shape: SampleShape,
    mix: Mix,
}

impl Relabeller {
    /// The win probability of each of these positions; `None` where there is no legal position or the game is
    /// over. A network that reads moves evaluates all of them, and the best one counts.
    fn win_probabilities(
        &mut self,
        records: &[Record],
        range: Range<usize>,
    ) -> Result<Vec<Option<f64>>, SelfPlayError> {
        // No targets are needed here.
        let label_config = LabelConfig::default();
        let mut samples = Samples::default();
        let mut owners = Vec::new();
        for at in range.clone() {
            let Ok(board) = records[at].position.board() else { continue };
            let moves = Position::from(board).legal_moves();
            let mut push = |records: &[Record], at: usize, owner: usize| {
                if samples
                    .push(&self.shape, (records, at), false, Augmentation::default(), &label_config)
                    .is_ok()
                {
                    owners.push(owner);
                }
            };
            match self.shape.actions {
                true => {
                    moves.iter().for_each(|&mv| push(&[Record { mv: Some(mv), ..records[at] }], 0, at));
                }
                false if moves.is_empty() => {}
                false => push(records, at, at),
            }
        }
        let count = samples.len();
        let outputs = self.backend.predict(samples)?;
        let heads = head_outputs(&outputs);
        let mut probabilities = vec![None; range.len()];
        for (row, owner) in owners.into_iter().enumerate() {
            let probability = match self.shape.actions {
                true => win_probability_after_move(&heads, count, row),
                false => win_probability(&heads, count, row),
            };
            let best: &mut Option<f64> = &mut probabilities[owner - range.start];
            *best = (*best).into_iter().chain(probability).reduce(f64::max);
        }
        Ok(probabilities)
    }
}

impl Labeller for Relabeller {
    fn label(
        &mut self,
        records: &[Record],
        cancel: &AtomicBool,
    ) -> Result<Option<Vec<Record>>, SelfPlayError> {
        let mut labelled = records.to_vec();
        let mut start = 0;
        while start < records.len() {
            if cancel.load(Relaxed) {
                return Ok(None);
            }
            let range = start..(start + self.backend.sizes().1).min(records.len());
            for (at, probability) in range.clone().zip(self.win_probabilities(records, range.clone())?) {
                if let Some(probability) = probability {
                    labelled[at].score = Some(self.mix.score(records[at].score, probability));
                }
            }
            start = range.end;
        }
        Ok(Some(labelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_data::Packed;
    use tandem_transformer::{Isa, Precision, Preset, Weights};

    #[test]
    fn scores_are_mixed_as_win_probabilities() {
        let half = Mix { keep: 0.5, scale: 400.0 };
        assert_eq!(half.score(Some(Score::WinProbability(0.5)), 0.75), Score::WinProbability(0.625));
        assert_eq!(half.score(Some(Score::Mate(-3)), 0.9), Score::Mate(-3));
        assert_eq!(half.score(Some(Score::Centipawns(-31_998)), 0.9), Score::Centipawns(-31_998));
        assert_eq!(half.score(None, 0.5), Score::Centipawns(0));
        let probability = 0.5 * sigmoid(0.5) + 0.5 * 0.8;
        let expected = (400.0 * (probability / (1.0 - probability)).ln()).round() as i16;
        assert_eq!(half.score(Some(Score::Centipawns(200)), 0.8), Score::Centipawns(expected));
        let all = Mix { keep: 1.0, scale: 271.6 };
        for old in [-2500, -31, 0, 7, 1200] {
            assert_eq!(all.score(Some(Score::Centipawns(old)), 0.9), Score::Centipawns(old));
        }
        let none = Mix { keep: 0.0, scale: 1e9 };
        for probability in [0.0, 1.0] {
            let Score::Centipawns(score) = none.score(None, probability) else {
                panic!("a score in centipawns")
            };
            assert_eq!(i32::from(score.abs()), 16_000);
        }
    }

    fn network(preset: Preset) -> Arc<Network> {
        let mut architecture = preset.architecture();
        architecture.body.layers = 1;
        Arc::new(Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best()))
    }

    /// The score written equals the evaluation of the position alone, whatever the network reads.
    #[test]
    fn every_kind_of_network_scores_positions() {
        let mut position = Position::startpos();
        let mut records = Vec::new();
        for _ in 0..40 {
            let mv = position.legal_moves()[0];
            records.push(Record { mv: Some(mv), ..Record::new(Packed::new(position.board()).unwrap()) });
            position.play(mv);
        }
        let mated = Position::from_fen("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1").unwrap();
        records.push(Record::new(Packed::new(mated.board()).unwrap()));
        for preset in [Preset::BtSmall, Preset::Byte] {
            let network = network(preset);
            let mut relabeller = Relabeller {
                backend: Backend::Cpu(Arc::clone(&network), Box::default()),
                shape: SampleShape::of(network.architecture()),
                mix: Mix { keep: 0.0, scale: 400.0 },
            };
            let labelled = relabeller.label(&records, &AtomicBool::new(false)).unwrap().unwrap();
            assert_eq!(labelled[40].score, None);
            for (old, new) in records.iter().zip(&labelled).take(40) {
                let position = Position::from(old.position.board().unwrap());
                let evaluation =
                    crate::strategist::evaluate(&network, &position, &mut Scratch::default()).unwrap();
                let probability = evaluation.win_probability.unwrap();
                let expected = (400.0 * (probability / (1.0 - probability)).ln()).round() as i16;
                let Some(Score::Centipawns(found)) = new.score else { panic!("no score") };
                assert!((found - expected).abs() <= 1, "{found} {expected}");
                assert_eq!(Record { score: None, ..*new }, *old);
            }
            assert_eq!(relabeller.label(&records, &AtomicBool::new(true)).unwrap(), None);
        }
    }
}
