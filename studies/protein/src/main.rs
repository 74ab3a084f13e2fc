//! Program of the protein study: trains a network on energies, measures its accuracy and speed, and searches
//! for folds with it. `docs/study-biology.md` has the commands in their order.

use clap::{Parser, ValueEnum};
use std::cmp::Ordering;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tandem_nnue::{FloatNetwork, Inputs, Network, Quantisation};
use tandem_protein::*;
use tandem_study::{
    FitQuality, LinearModel, MeanWithError, PlotLabels, Sample, TrainConfig, f1_score, fastest, log_plot,
    predict, scatter_plot, train_network, write_atomically,
};
use tandem_util::plot::Series;
use tandem_util::random::SplitMix;

/// Energies of lattice proteins by an efficiently updatable network.
#[derive(Parser)]
#[command(name = "tandem-protein")]
enum Command {
    /// Train a network on folds of random sequences, with energies computed by the exact function.
    Train {
        /// Energy function to learn: additive, or with a cooperative core.
        #[arg(long)]
        energy: Kind,
        /// Network file to write, in safetensors, for the other commands.
        #[arg(long)]
        out: PathBuf,
        /// Number of sequences of 12 to 48 residues, with 40 folds each.
        #[arg(long, default_value_t = 2000)]
        sequences: usize,
        /// Number of passes over all folds.
        #[arg(long, default_value_t = 30)]
        epochs: usize,
    },
    /// Measure the errors of the network and of a linear model on folds of held-out sequences.
    Evaluate {
        /// Energy function that the network was trained on, for the true values.
        #[arg(long)]
        energy: Kind,
        /// Network file that `train` wrote.
        #[arg(long)]
        network: PathBuf,
        /// Number of sequences on which the linear model is fitted, as for the network.
        #[arg(long, default_value_t = 2000)]
        sequences: usize,
        /// Fail unless the network's RMS error is less than this fraction of the linear model's.
        #[arg(long)]
        at_most: Option<f64>,
        /// SVG file for a plot of the errors against the true energies.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Time the energy after a step: updated and computed from nothing, by the network and by the exact
    /// function.
    Speed {
        /// Network file that `train` wrote.
        #[arg(long)]
        network: PathBuf,
        /// SVG file for a plot of the times against the length.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Search for the folds of minimum energy, and compare them with the exact solution where it is known.
    Fold {
        /// Energy function that the network was trained on, for the exact solution.
        #[arg(long)]
        energy: Kind,
        /// Network file that `train` wrote, for the energies during the search.
        #[arg(long)]
        network: PathBuf,
        /// Number of sequences of each length, at least 1.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        each: u32,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Sum of the energies of all contacts.
    Additive,
    /// The sum, with contacts of the core that strengthen each other.
    Cooperative,
}

impl From<Kind> for Energy {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Additive => Self::Additive,
            Kind::Cooperative => Self::Cooperative,
        }
    }
}

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Seeds of the different sets of sequences, which must not overlap.
const TRAIN: u64 = 1;
const TEST: u64 = 2;
const SPEED: u64 = 3;
const FOLD: u64 = 4;

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Train { energy, out, sequences, epochs } => train(energy.into(), &out, sequences, epochs),
        Command::Evaluate { energy, network, sequences, at_most, plot } => {
            evaluate(energy.into(), &network, sequences, at_most, plot.as_deref())
        }
        Command::Speed { network, plot } => speed(&network, plot.as_deref()),
        Command::Fold { energy, network, each } => fold(energy.into(), &network, each),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tandem-protein: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Frequencies of the residues in natural proteins, in thousandths, in the order of their indices.
const FREQUENCIES: [u32; NUM_RESIDUE_KINDS] =
    [14, 24, 39, 59, 97, 69, 11, 29, 83, 71, 53, 66, 41, 39, 55, 67, 23, 55, 58, 47];

fn random_residues(len: usize, random: &mut SplitMix) -> Vec<Residue> {
    let all: u32 = FREQUENCIES.iter().sum();
    let one = |random: &mut SplitMix| {
        let mut at = random.below(all);
        let index = FREQUENCIES.iter().position(|&frequency| {
            let is_here = at < frequency;
            at = at.saturating_sub(frequency);
            is_here
        });
        Residue::new(index.unwrap_or(0))
    };
    (0..len).filter_map(|_| one(random)).collect()
}

/// Folds of random sequences from searches by the exact energy at high and low temperatures.
fn samples(energy: Energy, sequences: usize, seed: u64) -> Vec<Sample> {
    let mut random = SplitMix::new(seed);
    let mut samples = Vec::new();
    for _ in 0..sequences {
        let len = 12 + random.below(37) as usize;
        let mut search =
            Search::new(Chain::straight(random_residues(len, &mut random)), Evaluator::exact(energy));
        for temperature in [8.0, 5.0, 3.0, 2.0, 1.0] {
            for _ in 0..8 {
                for _ in 0..20 * len {
                    search.step(&mut random, temperature);
                }
                samples.push(Sample { features: active_features(search.chain()), value: search.energy() });
            }
        }
    }
    samples
}

fn load_network(path: &Path) -> Done<Network<ContactFeatures>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| named(&error))?;
    let float = FloatNetwork::from_safetensors_as(&bytes, ContactFeatures).map_err(|error| named(&error))?;
    Ok(float.quantise(Quantisation::default())?.0)
}

fn train(energy: Energy, out: &Path, sequences: usize, epochs: usize) -> Done {
    let samples = samples(energy, sequences, TRAIN);
    let config = TrainConfig { width: 64, epochs, batch_size: 512, lr: 2e-3, output_scale: 40.0, seed: 1 };
    let started = Instant::now();
    let mut report = |epoch: usize, error: f64| {
        if epoch.is_multiple_of(5) || epoch == epochs {
            println!("epoch {epoch}: {error:.3} RT");
        }
    };
    let (mut float, _) = train_network(ContactFeatures, &samples, &config, &mut report)?;
    println!(
        "{energy:?}: {} folds of {sequences} sequences, {epochs} times each, {:.0} s; {}",
        samples.len(),
        started.elapsed().as_secs_f64(),
        float.architecture
    );
    float.description = format!("{energy:?} energies of lattice proteins, in units of RT");
    Ok(write_atomically(out, &float.to_safetensors()?)?)
}

fn evaluate(
    energy: Energy,
    network: &Path,
    sequences: usize,
    at_most: Option<f64>,
    plot: Option<&Path>,
) -> Done {
    let network = load_network(network)?;
    let linear = LinearModel::fit(&samples(energy, sequences, TRAIN), ContactFeatures.num_inputs());
    let test = samples(energy, 200, TEST);
    let fit = |predictions: &[f64]| {
        let pairs = predictions.iter().zip(&test).map(|(&predicted, sample)| (predicted, sample.value));
        FitQuality::of(&pairs.collect::<Vec<_>>())
    };
    let by_network = predict(&network, &test);
    let by_linear: Vec<f64> = test.iter().map(|sample| linear.predict(&sample.features)).collect();
    let (of_network, of_linear) = (fit(&by_network), fit(&by_linear));
    println!(
        "| energy | folds of held-out sequences | spread, RT | network: r | network: rms, RT | network: mean, RT | sum: r | sum: rms, RT | sum: mean, RT |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    println!(
        "| {energy:?} | {} | {:.2} | {:.5} | {:.3} | {:.3} | {:.5} | {:.3} | {:.3} |",
        of_network.count,
        of_network.std_dev,
        of_network.correlation,
        of_network.rmse,
        of_network.mae,
        of_linear.correlation,
        of_linear.rmse,
        of_linear.mae
    );
    if let Some(path) = plot {
        let points = |predictions: &[f64]| {
            let all = predictions.iter().zip(&test).step_by((test.len() / 1000).max(1));
            all.map(|(&predicted, sample)| (sample.value, predicted - sample.value)).collect()
        };
        let title = format!("{energy:?} energy of unseen sequences: errors");
        let labels = PlotLabels { title: &title, x: "true energy, RT", y: "error, RT" };
        let series = vec![
            Series::scatter("network", points(&by_network)),
            Series::scatter("best sum", points(&by_linear)),
        ];
        write_atomically(path, scatter_plot(labels, series).as_bytes())?;
    }
    match at_most {
        // A comparison with NaN fails as well.
        Some(fraction)
            if of_network.rmse.partial_cmp(&(fraction * of_linear.rmse)) != Some(Ordering::Less) =>
        {
            Err(format!(
                "the network's error is {:.2} of the linear model's",
                of_network.rmse / of_linear.rmse
            )
            .into())
        }
        _ => Ok(()),
    }
}

/// A fold and the steps that follow it, so that all methods are timed on the same ones.
struct Walk {
    start: Chain,
    steps: Vec<Vec<(usize, LatticePoint)>>,
}

fn walk(len: usize, random: &mut SplitMix) -> Walk {
    let mut search =
        Search::new(Chain::straight(random_residues(len, random)), Evaluator::exact(Energy::Cooperative));
    // Dense folds, as a search at this temperature produces them.
    let temperature = 3.0;
    for _ in 0..2000 * len {
        search.step(random, temperature);
    }
    // The walk starts in the middle of the lattice, which a few hundred steps do not leave.
    let start = Chain::folded(search.chain().residues().to_vec(), search.chain().points());
    let start = start.unwrap_or_else(|| search.chain().clone());
    let mut search = Search::new(start.clone(), Evaluator::exact(Energy::Cooperative));
    let mut steps = Vec::new();
    while steps.len() < 300 {
        if search.step(random, temperature) {
            steps.push(search.chain().moved());
        }
    }
    Walk { start, steps }
}

/// Replays the steps of a walk and evaluates each fold, updated or from nothing. Returns the seconds taken
/// and the sum of all energies.
fn replay_walk(walk: &Walk, evaluator: &mut Evaluator<'_>, updated: bool) -> (f64, i64) {
    let mut chain = walk.start.clone();
    let mut contacts = ContactChange::default();
    evaluator.from_nothing(&chain);
    let started = Instant::now();
    let sum = walk.steps.iter().fold(0, |sum, moved| {
        sum + if updated {
            chain.replay(moved, Some(&mut contacts));
            let energy = evaluator.updated(chain.residues(), &contacts);
            evaluator.accept();
            energy
        } else {
            chain.replay(moved, None);
            evaluator.from_nothing(&chain)
        }
    });
    (started.elapsed().as_secs_f64(), sum)
}

/// Nanoseconds for each step by each evaluator, updated and from nothing: the fastest of many rounds in which
/// the methods alternate, so that busy moments of the machine affect all of them.
fn timed<const N: usize>(walks: &[Walk], mut evaluators: [Evaluator<'_>; N]) -> Done<[[f64; 2]; N]> {
    let steps: usize = walks.iter().map(|walk| walk.steps.len()).sum();
    let mut rounds = [(); N].map(|()| [Vec::new(), Vec::new()]);
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < 2.0 * N as f64 {
        for (evaluator, rounds) in evaluators.iter_mut().zip(&mut rounds) {
            let mut sums = [0; 2];
            for ((updated, rounds), sum) in [true, false].into_iter().zip(rounds).zip(&mut sums) {
                let all: Vec<(f64, i64)> =
                    walks.iter().map(|walk| replay_walk(walk, evaluator, updated)).collect();
                rounds.push(all.iter().map(|(seconds, _)| seconds).sum::<f64>() / steps as f64 * 1e9);
                *sum = all.iter().map(|(_, sum)| sum).sum::<i64>();
            }
            if sums[0] != sums[1] {
                return Err("updated and computed from nothing differ".into());
            }
        }
    }
    Ok(rounds.map(|methods| methods.map(|rounds| fastest(&rounds))))
}

/// Mean number of contacts in the folds of the walks, and mean number of contacts that a step changes.
fn mean_contacts(walks: &[Walk]) -> (f64, f64) {
    let (mut all, mut changed, mut steps) = (0, 0, 0);
    for walk in walks {
        let (mut chain, mut contacts) = (walk.start.clone(), ContactChange::default());
        for moved in &walk.steps {
            chain.replay(moved, Some(&mut contacts));
            all += chain.contacts().len();
            changed += contacts.added.len() + contacts.removed.len();
            steps += 1;
        }
    }
    (all as f64 / f64::from(steps), changed as f64 / f64::from(steps))
}

fn speed(network: &Path, plot: Option<&Path>) -> Done {
    let network = load_network(network)?;
    let mut random = SplitMix::new(SPEED);
    let names = ["network, updated", "network, from scratch", "energy, updated", "energy, from scratch"];
    let mut series = names.map(|name| Series::marked(name, Vec::new()));
    println!(
        "| residues | contacts | changed by a step | network, updated, ns | network, from scratch, ns | energy, updated, ns | energy, from scratch, ns | gain of updating |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for len in [16, 25, 36, 48, 64] {
        let walks: Vec<Walk> = (0..10).map(|_| walk(len, &mut random)).collect();
        let (contacts, changed) = mean_contacts(&walks);
        let evaluators = [Evaluator::network(&network), Evaluator::exact(Energy::Cooperative)];
        let [[network_updated, network_anew], [energy_updated, energy_anew]] = timed(&walks, evaluators)?;
        println!(
            "| {len} | {contacts:.1} | {changed:.1} | {network_updated:.0} | {network_anew:.0} | {energy_updated:.0} | {energy_anew:.0} | {:.1} |",
            network_anew / network_updated
        );
        for (series, value) in
            series.iter_mut().zip([network_updated, network_anew, energy_updated, energy_anew])
        {
            series.points.push((len as f64, value));
        }
    }
    let Some(path) = plot else { return Ok(()) };
    let title = "A step of the chain: time for the energy";
    let plot = log_plot(PlotLabels { title, x: "residues", y: "nanoseconds" }, series.into());
    Ok(write_atomically(path, plot.as_bytes())?)
}

/// Maximum length of the chains for which all folds are enumerated.
const MAX_ENUMERATED: usize = 18;

fn fold(energy: Energy, network: &Path, each: u32) -> Done {
    let network = load_network(network)?;
    let mut random = SplitMix::new(FOLD);
    println!(
        "| residues | sequences | reference | by the network: F1 of contacts | by the network: above the minimum, RT | by the network: minimum found | by the network: time, s | by the energy: above the minimum, RT | by the energy: minimum found | by the energy: time, s | reference: time, s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for len in [14, 16, 18, 25, 36] {
        let mut rows = Vec::new();
        for _ in 0..each {
            rows.push(compare(energy, &network, random_residues(len, &mut random))?);
        }
        let of = |column: usize| MeanWithError::of(&rows.iter().map(|row| row[column]).collect::<Vec<_>>());
        let with_error = |column: usize| format!("{:.2} ± {:.2}", of(column).mean, of(column).error);
        let percent_found = |column: usize| {
            let found = rows.iter().filter(|row| row[column] < 0.005).count();
            format!("{:.0} %", 100.0 * found as f64 / rows.len() as f64)
        };
        println!(
            "| {len} | {each} | {} | {} | {} | {} | {:.3} | {} | {} | {:.3} | {:.3} |",
            if len <= MAX_ENUMERATED { "all folds" } else { "best of all searches" },
            with_error(0),
            with_error(1),
            percent_found(1),
            of(2).mean,
            with_error(3),
            percent_found(3),
            of(4).mean,
            of(5).mean
        );
    }
    Ok(())
}

/// Searches for the fold of one chain by the network and by the exact energy, and determines the reference.
/// Returns the F1 score of the first one's contacts, its energy above the reference and its seconds; the
/// second one's energy above the reference and its seconds; the seconds for the reference.
fn compare(energy: Energy, network: &Network<ContactFeatures>, residues: Vec<Residue>) -> Done<[f64; 6]> {
    let search = |evaluator: Evaluator<'_>, settings: &Annealing| {
        let started = Instant::now();
        let (chain, _) = Search::new(Chain::straight(residues.clone()), evaluator).anneal(settings);
        let energy_found = Evaluator::exact(energy).from_nothing(&chain) as f64 / 100.0;
        (chain, energy_found, started.elapsed().as_secs_f64())
    };
    let annealing = Annealing::default();
    let (chain, energy_found, seconds) = search(Evaluator::network(network), &annealing);
    let (other, exact_energy_found, exact_seconds) = search(Evaluator::exact(energy), &annealing);
    let started = Instant::now();
    let (reference, reference_chain) = if residues.len() <= MAX_ENUMERATED {
        let found = ground_state(&residues, energy).ok_or("a chain without folds")?;
        (found.energy, found.chain(&residues).ok_or("an invalid fold")?)
    } else {
        // These chains have too many folds to enumerate. The best of these searches, and of one that cools
        // ten times as slowly, serves as the reference.
        let slow = Annealing { steps_per_residue: 10 * annealing.steps_per_residue, seed: 99, ..annealing };
        let (best, best_energy, _) = search(Evaluator::exact(energy), &slow);
        let all = [(best_energy, best), (energy_found, chain.clone()), (exact_energy_found, other)];
        all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).ok_or("no search")?
    };
    let reference_seconds = started.elapsed().as_secs_f64();
    let same = f1_score(&chain.contacts(), &reference_chain.contacts());
    Ok([
        same,
        energy_found - reference,
        seconds,
        exact_energy_found - reference,
        exact_seconds,
        reference_seconds,
    ])
}
