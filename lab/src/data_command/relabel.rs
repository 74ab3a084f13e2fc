//! Scores in which a transformer's opinion has a share.

use super::make::{LabelArgs, Shown};
use crate::device::Device;
use crate::error::LabError;
use crate::interrupt;
use crate::said::{chance_after_move, chance_of};
use crate::transformer_file::{TransformerFile, outline};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tandem_chess::Position;
use tandem_data::{Record, Score};
use tandem_selfplay::{LabelWork, Labeller, SelfPlayError, label_with};
use tandem_train::sigmoid;
use tandem_train::transformer::*;
use tandem_transformer::{Isa, Network, Scratch};

/// Records that the processor labels together: what a killed run loses. A network that sees the game before sees it back to
/// the first of them.
const BLOCK: usize = 256;
/// Records that a card labels together.
#[cfg(feature = "torch")]
const CARD_BLOCK: usize = 4096;
/// Records that the processor is asked about at a time: whoever interrupts waits for so many.
const AT_A_TIME: usize = 32;
/// No score comes from a chance that is nearer to certainty.
const NEAREST: f64 = 1e-6;

/// Scores the positions of a data set anew: a share of the score that was, the rest the opinion of a transformer.
pub(super) fn run(args: &LabelArgs, path: &Path) -> Result<(), LabError> {
    let (keep, scale) = (args.keep, args.scale);
    if !(0.0..=1.0).contains(&keep) {
        return Err(LabError::Usage(format!("--keep {keep} is no share from 0 to 1")));
    }
    if !(scale.is_finite() && scale > 0.0) {
        return Err(LabError::Usage(format!("a scale of {scale} is none; a recipe's target.scale is one")));
    }
    let file = TransformerFile::load(path, None)?.ok_or_else(|| {
        LabError::Usage(format!("{}: no transformer; --net is for an NNUE that searches", path.display()))
    })?;
    let heads = &file.weights()?.architecture().heads;
    let values = heads.values()[0].1.is_some();
    if !values && heads.state_value.is_none() && heads.action_value.is_none() {
        let problem = "it has no opinion of positions: neither a value nor action values";
        return Err(LabError::Usage(format!("{}: {problem}", path.display())));
    }
    let askers = Asker::several(&file, path, args.device, args.threads())?;
    let how = format!(
        "keep {keep}, scale {scale}, judged by {} ({}, sha256 {}, {})",
        path.display(),
        outline(file.weights()?.architecture()),
        &file.sha256[..16],
        askers[0].how()
    );
    let (block, _) = askers[0].sizes();
    let shape = SampleShape::of(file.weights()?.architecture());
    let labellers = askers.into_iter().map(|asker| {
        let mix = Mix { keep, scale };
        Box::new(Relabeller { asker, shape, mix }) as Box<dyn Labeller>
    });
    let work =
        LabelWork { what: "Transformer".into(), how: how.clone(), block, on_error: args.on_error.choice() };
    let sources = args.options.sources(&args.inputs)?;
    let target = args.options.target(&args.out)?;
    let mut shown = Shown::new("positions", None);
    let mut watch = |done| shown.set(done, block as u64);
    let report = label_with(sources, &target, &work, labellers.collect(), &interrupt::flag(), &mut watch)?;
    shown.finish(&how, &target.path, &report)
}

/// How two opinions become one.
#[derive(Clone, Copy, Debug)]
struct Mix {
    /// The share of the score that was there.
    keep: f64,
    /// Centipawns that stand for one in the curve from scores to chances.
    scale: f64,
}

impl Mix {
    /// The score that comes of an old one and a chance to win. A mate stays: whoever found it knows better.
    fn score(self, old: Option<Score>, chance: f64) -> Score {
        let Self { keep, scale } = self;
        let centipawns = |chance: f64| {
            let chance = chance.clamp(NEAREST, 1.0 - NEAREST);
            let least = f64::from(-tandem_data::MATE / 2);
            Score::Centipawns((scale * (chance / (1.0 - chance)).ln()).round().clamp(least, -least) as i16)
        };
        match old {
            None => centipawns(chance),
            Some(Score::Mate(moves)) => Score::Mate(moves),
            Some(old @ Score::Centipawns(_)) if old.is_mate() => old,
            Some(Score::WinChance(old)) => Score::WinChance(keep * old + (1.0 - keep) * chance),
            Some(Score::Centipawns(old)) => {
                centipawns(keep * sigmoid(f64::from(old) / scale) + (1.0 - keep) * chance)
            }
        }
    }
}

/// Who is asked for a network's opinion, on one thread.
enum Asker {
    Processor(Arc<Network>, Box<Scratch>),
    #[cfg(feature = "torch")]
    Torch(tandem_torch::TorchJudge, String),
}

impl Asker {
    /// One for each thread. They share a card, so that positions are written while others are judged.
    fn several(
        file: &TransformerFile,
        path: &Path,
        device: Device,
        threads: usize,
    ) -> Result<Vec<Self>, LabError> {
        if device == Device::Cpu {
            // In the precision that the file has.
            let network = Arc::new(Network::load(path, Isa::best())?);
            return Ok((0..threads).map(|_| Self::Processor(Arc::clone(&network), Box::default())).collect());
        }
        Self::on_card(file, device, threads)
    }

    #[cfg(feature = "torch")]
    fn on_card(file: &TransformerFile, device: Device, threads: usize) -> Result<Vec<Self>, LabError> {
        let compute = crate::train_command::compute_of(device)?;
        compute.use_threads(threads);
        let judge = tandem_torch::TorchJudge::new(file.weights()?, TrainingPrecision::Bf16, compute)?;
        Ok((0..threads).map(|_| Self::Torch(judge.clone(), compute.name())).collect())
    }

    #[cfg(not(feature = "torch"))]
    fn on_card(_: &TransformerFile, _: Device, _: usize) -> Result<Vec<Self>, LabError> {
        let problem = "this lab was built without libtorch, which computes on cards: build it with --features torch, \
                       or leave out --device";
        Err(LabError::Usage(problem.into()))
    }

    fn how(&self) -> String {
        match self {
            Self::Processor(network, _) => network.precision().name().into(),
            #[cfg(feature = "torch")]
            Self::Torch(_, device) => format!("bf16 on {device}"),
        }
    }

    /// How many records are labelled together, and how many are asked about at a time.
    fn sizes(&self) -> (usize, usize) {
        match self {
            Self::Processor(..) => (BLOCK, AT_A_TIME),
            #[cfg(feature = "torch")]
            Self::Torch(..) => (CARD_BLOCK, CARD_BLOCK),
        }
    }

    fn judge(&mut self, samples: Samples) -> Result<Judged, SelfPlayError> {
        match self {
            Self::Processor(network, scratch) => judge_samples(network, &samples, scratch)
                .map_err(|error| SelfPlayError::Labeller(error.to_string())),
            #[cfg(feature = "torch")]
            Self::Torch(judge, _) => {
                let heads = ["value.wdl", "state_value", "action_value"];
                judge.judge(samples, &heads).map_err(|error| SelfPlayError::Labeller(error.to_string()))
            }
        }
    }
}

struct Relabeller {
    asker: Asker,
    shape: SampleShape,
    mix: Mix,
}

impl Relabeller {
    /// The chance to win in each of these positions; none where there is no such position, or its game is over.
    ///
    /// A network that reads moves is asked about all of them, and the best one counts.
    fn chances(
        &mut self,
        records: &[Record],
        places: Range<usize>,
    ) -> Result<Vec<Option<f64>>, SelfPlayError> {
        // Nothing of what a network should say is asked for here.
        let aim = Aim::default();
        let mut samples = Samples::default();
        let mut owners = Vec::new();
        for at in places.clone() {
            let Ok(board) = records[at].position.board() else { continue };
            let moves = Position::from(board).legal_moves();
            let mut push = |records: &[Record], at: usize, owner: usize| {
                if samples.push(&self.shape, (records, at), false, View::default(), &aim).is_ok() {
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
        let judged = self.asker.judge(samples)?;
        let answers = answers_of(&judged);
        let mut chances = vec![None; places.len()];
        for (row, owner) in owners.into_iter().enumerate() {
            let chance = match self.shape.actions {
                true => chance_after_move(&answers, count, row),
                false => chance_of(&answers, count, row),
            };
            let best: &mut Option<f64> = &mut chances[owner - places.start];
            *best = (*best).into_iter().chain(chance).reduce(f64::max);
        }
        Ok(chances)
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
            let places = start..(start + self.asker.sizes().1).min(records.len());
            for (at, chance) in places.clone().zip(self.chances(records, places.clone())?) {
                if let Some(chance) = chance {
                    labelled[at].score = Some(self.mix.score(records[at].score, chance));
                }
            }
            start = places.end;
        }
        Ok(Some(labelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_data::Packed;
    use tandem_transformer::{Precision, Preset, Weights};

    #[test]
    fn scores_are_mixed_as_chances() {
        let half = Mix { keep: 0.5, scale: 400.0 };
        assert_eq!(half.score(Some(Score::WinChance(0.5)), 0.75), Score::WinChance(0.625));
        assert_eq!(half.score(Some(Score::Mate(-3)), 0.9), Score::Mate(-3));
        assert_eq!(half.score(Some(Score::Centipawns(-31_998)), 0.9), Score::Centipawns(-31_998));
        assert_eq!(half.score(None, 0.5), Score::Centipawns(0));
        let chance = 0.5 * sigmoid(0.5) + 0.5 * 0.8;
        let expected = (400.0 * (chance / (1.0 - chance)).ln()).round() as i16;
        assert_eq!(half.score(Some(Score::Centipawns(200)), 0.8), Score::Centipawns(expected));
        let all = Mix { keep: 1.0, scale: 271.6 };
        for old in [-2500, -31, 0, 7, 1200] {
            assert_eq!(all.score(Some(Score::Centipawns(old)), 0.9), Score::Centipawns(old));
        }
        let none = Mix { keep: 0.0, scale: 1e9 };
        for chance in [0.0, 1.0] {
            let Score::Centipawns(score) = none.score(None, chance) else { panic!("a score in centipawns") };
            assert_eq!(i32::from(score.abs()), 16_000);
        }
    }

    fn network(preset: Preset) -> Arc<Network> {
        let mut architecture = preset.architecture();
        architecture.body.layers = 1;
        Arc::new(Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best()))
    }

    /// What is written is what the network says of a position alone, whatever it reads.
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
                asker: Asker::Processor(Arc::clone(&network), Box::default()),
                shape: SampleShape::of(network.architecture()),
                mix: Mix { keep: 0.0, scale: 400.0 },
            };
            let labelled = relabeller.label(&records, &AtomicBool::new(false)).unwrap().unwrap();
            assert_eq!(labelled[40].score, None);
            for (old, new) in records.iter().zip(&labelled).take(40) {
                let position = Position::from(old.position.board().unwrap());
                let judged = crate::strategist::judge(&network, &position, &mut Scratch::default()).unwrap();
                let chance = judged.chance.unwrap();
                let expected = (400.0 * (chance / (1.0 - chance)).ln()).round() as i16;
                let Some(Score::Centipawns(found)) = new.score else { panic!("no score") };
                assert!((found - expected).abs() <= 1, "{found} {expected}");
                assert_eq!(Record { score: None, ..*new }, *old);
            }
            assert_eq!(relabeller.label(&records, &AtomicBool::new(true)).unwrap(), None);
        }
    }
}
