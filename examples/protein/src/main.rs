//! The study of lattice proteins: learns energies, says how well, how fast, and what a search finds by them.
//! `docs/study-biology.md` has the commands in their order.

use clap::{Parser, ValueEnum};
use std::cmp::Ordering;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tandem_chess::random::SplitMix;
use tandem_nnue::{FloatNetwork, Inputs, Network, Quantisation};
use tandem_protein::*;
use tandem_study::{
    Fit, Plot, Recipe, Sample, Series, Spread, Sum, f1, fastest, judge_all, learn, write_whole,
};

/// Energies of lattice proteins by an efficiently updatable network.
#[derive(Parser)]
#[command(name = "tandem-protein")]
enum Command {
    /// Learns the energies of folds.
    Train {
        /// Which energy.
        #[arg(long)]
        energy: Kind,
        /// The network to write.
        #[arg(long)]
        out: PathBuf,
        /// Sequences to learn from.
        #[arg(long, default_value_t = 2000)]
        sequences: usize,
        /// How often each fold is seen.
        #[arg(long, default_value_t = 30)]
        epochs: usize,
    },
    /// Says how near the network and the best sum are to energies they have not seen.
    Evaluate {
        /// Which energy.
        #[arg(long)]
        energy: Kind,
        /// The network.
        #[arg(long)]
        network: PathBuf,
        /// Sequences that the sum learns from: those of the network.
        #[arg(long, default_value_t = 2000)]
        sequences: usize,
        /// Fails unless the network's error is at most this share of the sum's.
        #[arg(long)]
        at_most: Option<f64>,
        /// Where to draw it.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Times a step: by the accumulator, from nothing, and by the energy itself in both ways.
    Speed {
        /// The network.
        #[arg(long)]
        network: PathBuf,
        /// Where to draw it.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Looks for the folds of least energy, and compares them with what there is.
    Fold {
        /// Which energy.
        #[arg(long)]
        energy: Kind,
        /// The network.
        #[arg(long)]
        network: PathBuf,
        /// Sequences of each length.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        each: u32,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// The sum of the contacts' own.
    Additive,
    /// Contacts of the core help each other.
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

/// Seeds that have nothing in common.
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

/// How many of a thousand residues of natural proteins each is, in the order of their numbers.
const SHARES: [u32; RESIDUES] =
    [14, 24, 39, 59, 97, 69, 11, 29, 83, 71, 53, 66, 41, 39, 55, 67, 23, 55, 58, 47];

fn random_residues(len: usize, random: &mut SplitMix) -> Vec<Residue> {
    let all: u32 = SHARES.iter().sum();
    let one = |random: &mut SplitMix| {
        let mut at = random.below(all);
        let index = SHARES.iter().position(|&share| {
            let is_here = at < share;
            at = at.saturating_sub(share);
            is_here
        });
        Residue::new(index.unwrap_or(0))
    };
    (0..len).filter_map(|_| one(random)).collect()
}

/// Folds that a search by the energy meets, hot and cold, of as many sequences as told.
fn samples(energy: Energy, sequences: usize, seed: u64) -> Vec<Sample> {
    let mut random = SplitMix::new(seed);
    let mut samples = Vec::new();
    for _ in 0..sequences {
        let len = 12 + random.below(37) as usize;
        let mut search =
            Search::new(Chain::straight(random_residues(len, &mut random)), Judge::exact(energy));
        for heat in [8.0, 5.0, 3.0, 2.0, 1.0] {
            for _ in 0..8 {
                for _ in 0..20 * len {
                    search.step(&mut random, heat);
                }
                samples.push(Sample { rows: rows_of(search.chain()), value: search.energy() });
            }
        }
    }
    samples
}

fn load_network(path: &Path) -> Done<Network<Contact>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| named(&error))?;
    let float = FloatNetwork::from_safetensors_as(&bytes, Contact).map_err(|error| named(&error))?;
    Ok(float.quantise(Quantisation::default())?.0)
}

fn train(energy: Energy, out: &Path, sequences: usize, epochs: usize) -> Done {
    let samples = samples(energy, sequences, TRAIN);
    let recipe = Recipe { width: 64, epochs, batch: 512, rate: 2e-3, unit: 40.0, seed: 1 };
    let started = Instant::now();
    let mut tell = |epoch: usize, error: f64| {
        if epoch.is_multiple_of(5) || epoch == epochs {
            println!("epoch {epoch}: {error:.3} RT");
        }
    };
    let (mut float, _) = learn(Contact, &samples, &recipe, &mut tell)?;
    println!(
        "{energy:?}: {} folds of {sequences} sequences, {epochs} times each, {:.0} s; {}",
        samples.len(),
        started.elapsed().as_secs_f64(),
        float.architecture
    );
    float.description = format!("{energy:?} energies of lattice proteins, in units of RT");
    Ok(write_whole(out, &float.to_safetensors()?)?)
}

fn evaluate(
    energy: Energy,
    network: &Path,
    sequences: usize,
    at_most: Option<f64>,
    plot: Option<&Path>,
) -> Done {
    let network = load_network(network)?;
    let sum = Sum::fit(&samples(energy, sequences, TRAIN), Contact.num_inputs());
    let test = samples(energy, 200, TEST);
    let fit = |said: &[f64]| {
        let pairs = said.iter().zip(&test).map(|(&said, sample)| (said, sample.value));
        Fit::of(&pairs.collect::<Vec<_>>())
    };
    let by_network = judge_all(&network, &test);
    let by_sum: Vec<f64> = test.iter().map(|sample| sum.of(&sample.rows)).collect();
    let (of_network, of_sum) = (fit(&by_network), fit(&by_sum));
    println!(
        "| energy | folds of held-out sequences | spread, RT | network: r | rms | mean | sum: r | rms | mean |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    println!(
        "| {energy:?} | {} | {:.2} | {:.5} | {:.3} | {:.3} | {:.5} | {:.3} | {:.3} |",
        of_network.count,
        of_network.spread,
        of_network.correlation,
        of_network.rms,
        of_network.mean,
        of_sum.correlation,
        of_sum.rms,
        of_sum.mean
    );
    if let Some(path) = plot {
        let points = |said: &[f64]| {
            let all = said.iter().zip(&test).step_by((test.len() / 1000).max(1));
            all.map(|(&said, sample)| (sample.value, said - sample.value)).collect()
        };
        let plot = Plot {
            title: format!("{energy:?} energy of unseen sequences: errors"),
            across: "true energy, RT".into(),
            up: "error, RT".into(),
            logarithmic: false,
            diagonal: false,
            series: vec![
                Series { name: "network".into(), points: points(&by_network), joined: false },
                Series { name: "best sum".into(), points: points(&by_sum), joined: false },
            ],
        };
        write_whole(path, plot.to_svg().as_bytes())?;
    }
    match at_most {
        // A share that is no number is no share.
        Some(share) if of_network.rms.partial_cmp(&(share * of_sum.rms)) != Some(Ordering::Less) => {
            Err(format!("the network's error is {:.2} of the sum's", of_network.rms / of_sum.rms).into())
        }
        _ => Ok(()),
    }
}

/// A fold and the steps that lead on from it, so that every way is timed on the same.
struct Walk {
    start: Chain,
    steps: Vec<Vec<(usize, Place)>>,
}

fn walk(len: usize, random: &mut SplitMix) -> Walk {
    let mut search =
        Search::new(Chain::straight(random_residues(len, random)), Judge::exact(Energy::Cooperative));
    // Dense folds, as a search at this heat keeps them.
    let heat = 3.0;
    for _ in 0..2000 * len {
        search.step(random, heat);
    }
    // From the middle, which a few hundred steps do not leave.
    let start = Chain::folded(search.chain().residues().to_vec(), search.chain().places());
    let start = start.unwrap_or_else(|| search.chain().clone());
    let mut search = Search::new(start.clone(), Judge::exact(Energy::Cooperative));
    let mut steps = Vec::new();
    while steps.len() < 300 {
        if search.step(random, heat) {
            steps.push(search.chain().moved());
        }
    }
    Walk { start, steps }
}

/// Makes the steps of a walk: moves the chain, finds what changed or everything, judges. Returns the seconds and the sum of all
/// energies.
fn made(walk: &Walk, judge: &mut Judge<'_>, updated: bool) -> (f64, i64) {
    let mut chain = walk.start.clone();
    let mut contacts = Contacts::default();
    judge.from_nothing(&chain);
    let started = Instant::now();
    let sum = walk.steps.iter().fold(0, |sum, moved| {
        sum + if updated {
            chain.repeat(moved, Some(&mut contacts));
            let energy = judge.after(chain.residues(), &contacts);
            judge.keep();
            energy
        } else {
            chain.repeat(moved, None);
            judge.from_nothing(&chain)
        }
    });
    (started.elapsed().as_secs_f64(), sum)
}

/// Nanoseconds of a step by each judge, updated and from nothing: the fastest of many rounds, in which all take turns, so that
/// busy moments of the machine meet them all.
fn timed<const N: usize>(walks: &[Walk], mut judges: [Judge<'_>; N]) -> Done<[[f64; 2]; N]> {
    let steps: usize = walks.iter().map(|walk| walk.steps.len()).sum();
    let mut rounds = [(); N].map(|()| [Vec::new(), Vec::new()]);
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < 2.0 * N as f64 {
        for (judge, rounds) in judges.iter_mut().zip(&mut rounds) {
            let mut sums = [0; 2];
            for ((updated, rounds), sum) in [true, false].into_iter().zip(rounds).zip(&mut sums) {
                let all: Vec<(f64, i64)> = walks.iter().map(|walk| made(walk, judge, updated)).collect();
                rounds.push(all.iter().map(|(seconds, _)| seconds).sum::<f64>() / steps as f64 * 1e9);
                *sum = all.iter().map(|(_, sum)| sum).sum::<i64>();
            }
            if sums[0] != sums[1] {
                return Err("updated and computed from nothing differ".into());
            }
        }
    }
    Ok(rounds.map(|ways| ways.map(|rounds| fastest(&rounds))))
}

/// Contacts of a walk's folds, and those that its steps change, each a mean over all steps.
fn contacts_of(walks: &[Walk]) -> (f64, f64) {
    let (mut all, mut changed, mut steps) = (0, 0, 0);
    for walk in walks {
        let (mut chain, mut contacts) = (walk.start.clone(), Contacts::default());
        for moved in &walk.steps {
            chain.repeat(moved, Some(&mut contacts));
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
    let names = ["network, updated", "network, from nothing", "energy, updated", "energy, from nothing"];
    let mut series = names.map(|name| Series { name: name.into(), points: Vec::new(), joined: true });
    println!(
        "| residues | contacts | changed by a step | network, updated | network, from nothing | energy, updated | energy, from nothing | gain of updating |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for len in [16, 25, 36, 48, 64] {
        let walks: Vec<Walk> = (0..10).map(|_| walk(len, &mut random)).collect();
        let (contacts, changed) = contacts_of(&walks);
        let judges = [Judge::network(&network), Judge::exact(Energy::Cooperative)];
        let [[network_updated, network_anew], [energy_updated, energy_anew]] = timed(&walks, judges)?;
        println!(
            "| {len} | {contacts:.1} | {changed:.1} | {network_updated:.0} ns | {network_anew:.0} ns | {energy_updated:.0} ns | {energy_anew:.0} ns | {:.1} |",
            network_anew / network_updated
        );
        for (series, value) in
            series.iter_mut().zip([network_updated, network_anew, energy_updated, energy_anew])
        {
            series.points.push((len as f64, value));
        }
    }
    let Some(path) = plot else { return Ok(()) };
    let plot = Plot {
        title: "A step of the chain: time for the energy".into(),
        across: "residues".into(),
        up: "nanoseconds".into(),
        logarithmic: true,
        diagonal: false,
        series: series.into(),
    };
    Ok(write_whole(path, plot.to_svg().as_bytes())?)
}

/// The longest chains of which all folds are tried.
const ALL_FOLDS: usize = 18;

fn fold(energy: Energy, network: &Path, each: u32) -> Done {
    let network = load_network(network)?;
    let mut random = SplitMix::new(FOLD);
    println!(
        "| residues | sequences | truth | by the network: F1 of contacts | above the least, RT | least found | s | by the energy: above the least, RT | least found | s | truth, s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for len in [14, 16, 18, 25, 36] {
        let mut rows = Vec::new();
        for _ in 0..each {
            rows.push(compare(energy, &network, random_residues(len, &mut random))?);
        }
        let of = |column: usize| Spread::of(&rows.iter().map(|row| row[column]).collect::<Vec<_>>());
        let with_error = |column: usize| format!("{:.2} ± {:.2}", of(column).mean, of(column).error);
        let share = |column: usize| {
            let found = rows.iter().filter(|row| row[column] < 0.005).count();
            format!("{:.0} %", 100.0 * found as f64 / rows.len() as f64)
        };
        println!(
            "| {len} | {each} | {} | {} | {} | {} | {:.3} | {} | {} | {:.3} | {:.3} |",
            if len <= ALL_FOLDS { "all folds" } else { "best of all searches" },
            with_error(0),
            with_error(1),
            share(1),
            of(2).mean,
            with_error(3),
            share(3),
            of(4).mean,
            of(5).mean
        );
    }
    Ok(())
}

/// Searches for one chain's fold by the network and by the energy, and finds the truth. Returns how much of the truth's contacts
/// the first has, its energy above the least and its seconds; the second's energy above the least and its seconds; the truth's
/// seconds.
fn compare(energy: Energy, network: &Network<Contact>, residues: Vec<Residue>) -> Done<[f64; 6]> {
    let search = |judge: Judge<'_>, annealing: &Annealing| {
        let started = Instant::now();
        let (chain, _) = Search::new(Chain::straight(residues.clone()), judge).anneal(annealing);
        let worth = Judge::exact(energy).from_nothing(&chain) as f64 / 100.0;
        (chain, worth, started.elapsed().as_secs_f64())
    };
    let usual = Annealing::default();
    let (chain, worth, seconds) = search(Judge::network(network), &usual);
    let (other, exact_worth, exact_seconds) = search(Judge::exact(energy), &usual);
    let started = Instant::now();
    let (truth, truth_chain) = if residues.len() <= ALL_FOLDS {
        let found = least(&residues, energy).ok_or("a chain without folds")?;
        (found.energy, found.chain(&residues).ok_or("a fold that is none")?)
    } else {
        // Nobody tries them all: the best of these searches, and of one that cools ten times as slowly, stands for the truth.
        let slow = Annealing { steps_per_residue: 10 * usual.steps_per_residue, seed: 99, ..usual };
        let (best, best_worth, _) = search(Judge::exact(energy), &slow);
        let all = [(best_worth, best), (worth, chain.clone()), (exact_worth, other)];
        all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).ok_or("no search")?
    };
    let truth_seconds = started.elapsed().as_secs_f64();
    let same = f1(&chain.contacts(), &truth_chain.contacts());
    Ok([same, worth - truth, seconds, exact_worth - truth, exact_seconds, truth_seconds])
}
