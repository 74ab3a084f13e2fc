//! Program of the RNA study: trains a network on energies, measures its accuracy and speed, and searches for
//! structures with it. `docs/study-biology.md` has the commands in their order.

use clap::Parser;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tandem_nnue::{FloatNetwork, Inputs, Network, Quantisation};
use tandem_rna::*;
use tandem_study::{
    FitQuality, LinearModel, MeanWithError, PlotLabels, Sample, TrainConfig, f1_score, fastest, log_plot,
    predict, prediction_plot, read_lines, train_network, write_atomically,
};
use tandem_util::plot::Series;

/// Free energies of RNA structures by an efficiently updatable network.
#[derive(Parser)]
#[command(name = "tandem-rna")]
enum Command {
    /// Train a network on structures with known energies, from the file that `vienna.py data` wrote.
    Train {
        /// Training data: lines of kind, sequence, structure and energy, separated by tabs.
        #[arg(long)]
        data: PathBuf,
        /// Network file to write, in safetensors, for the other commands.
        #[arg(long)]
        out: PathBuf,
        /// Number of accumulator outputs (width of the network), a multiple of 32.
        #[arg(long, default_value_t = 64)]
        width: usize,
        /// Number of passes over the training data.
        #[arg(long, default_value_t = 30)]
        epochs: usize,
    },
    /// Measure the errors of the network and of a linear model on held-out energies.
    Evaluate {
        /// Network file that `train` wrote.
        #[arg(long)]
        network: PathBuf,
        /// Training data of the network, on which the linear model is fitted.
        #[arg(long)]
        data: PathBuf,
        /// Test data: structures of other sequences, in the same format.
        #[arg(long)]
        test: PathBuf,
        /// Walks with energies, for the errors of the changes by single pairs.
        #[arg(long)]
        walks: PathBuf,
        /// SVG file for a plot of predictions against true energies.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Time the energy after adding or removing a pair: updated, computed from nothing, and by ViennaRNA.
    Speed(Speed),
    /// Search for the structures of minimum energy by simulated annealing.
    Fold {
        /// Network file that `train` wrote, for the energies during the search.
        #[arg(long)]
        network: PathBuf,
        /// Lines of kind, sequence, structure of minimum energy, its energy, and seconds for the exact
        /// solution.
        #[arg(long)]
        data: PathBuf,
        /// File for the results: the lines of the data with the structures found.
        #[arg(long)]
        out: PathBuf,
        /// Number of annealing steps for each base of a sequence.
        #[arg(long, default_value_t = Annealing::default().steps_per_base)]
        steps: usize,
    },
    /// Compare the structures found with those of minimum energy, by energy and by pairs.
    Compare {
        /// File that `fold` wrote, with the structures found.
        #[arg(long)]
        found: PathBuf,
        /// True energies of the structures found, one on each line, as `vienna.py energies` writes them.
        #[arg(long)]
        energies: PathBuf,
        /// SVG file for a plot of the times against the length.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
}

#[derive(clap::Args)]
struct Speed {
    /// Network file that `train` wrote.
    #[arg(long)]
    network: PathBuf,
    /// Training data of the network, on which the linear model is fitted.
    #[arg(long)]
    data: PathBuf,
    /// Lines of sequence, structure, pairs to toggle, and energies, as `vienna.py walks` writes them.
    #[arg(long)]
    walks: PathBuf,
    /// Lines of length, method and nanoseconds, as `vienna.py time` writes them.
    #[arg(long)]
    vienna: PathBuf,
    /// SVG file for a plot of the times against the length.
    #[arg(long)]
    plot: Option<PathBuf>,
}

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Train { data, out, width, epochs } => train(&data, &out, width, epochs),
        Command::Evaluate { network, data, test, walks, plot } => {
            evaluate(&network, &data, [&test, &walks], plot.as_deref())
        }
        Command::Speed(speed) => time(&speed),
        Command::Fold { network, data, out, steps } => fold(&network, &data, &out, steps),
        Command::Compare { found, energies, plot } => compare(&found, &energies, plot.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tandem-rna: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A structure with its true energy, as an example for training or testing.
struct LabelledStructure {
    kind: String,
    bases: usize,
    sample: Sample,
}

/// Splits a line at tabs into exactly `N` fields.
fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.try_into().map_err(|fields: Vec<&str>| format!("{} fields, {N} expected", fields.len()))
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if number.is_finite() { Ok(number) } else { Err(format!("{text:?} is not finite")) }
}

fn molecule(sequence: &str, structure: &str) -> Result<(Sequence, Structure), String> {
    let sequence: Sequence = sequence.parse().map_err(|error: MoleculeError| error.to_string())?;
    let structure = Structure::parse(structure, &sequence).map_err(|error| error.to_string())?;
    Ok((sequence, structure))
}

fn load_labelled(path: &Path) -> Done<Vec<LabelledStructure>> {
    let known = read_lines(path, |line| {
        let [kind, sequence, structure, energy] = fields(line)?;
        let (sequence, structure) = molecule(sequence, structure)?;
        let sample = Sample { features: active_features(&sequence, &structure), value: number(energy)? };
        Ok(LabelledStructure { kind: kind.into(), bases: sequence.len(), sample })
    })?;
    Ok(known)
}

fn load_network(path: &Path) -> Done<Network<LoopFeatures>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let float = FloatNetwork::from_safetensors_as(&bytes, LoopFeatures)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(float.quantise(Quantisation::default())?.0)
}

fn train(data: &Path, out: &Path, width: usize, epochs: usize) -> Done {
    let samples: Vec<Sample> = load_labelled(data)?.into_iter().map(|known| known.sample).collect();
    let config = TrainConfig { width, epochs, batch_size: 512, lr: 2e-3, output_scale: 10.0, seed: 1 };
    let started = Instant::now();
    let mut report = |epoch: usize, error: f64| {
        if epoch.is_multiple_of(5) || epoch == epochs {
            println!("epoch {epoch}: {error:.3} kcal/mol");
        }
    };
    let (mut float, _) = train_network(LoopFeatures, &samples, &config, &mut report)?;
    println!(
        "{} structures, {epochs} times each, {:.0} s; {}",
        samples.len(),
        started.elapsed().as_secs_f64(),
        float.architecture
    );
    float.description = "free energies of RNA structures, in kilocalories per mole".into();
    Ok(write_atomically(out, &float.to_safetensors()?)?)
}

fn evaluate(network: &Path, data: &Path, [test, walks]: [&Path; 2], plot: Option<&Path>) -> Done {
    let network = load_network(network)?;
    let (train, test) = (load_labelled(data)?, load_labelled(test)?);
    let train: Vec<Sample> = train.into_iter().map(|known| known.sample).collect();
    let linear = LinearModel::fit(&train, LoopFeatures.num_inputs());
    let samples: Vec<Sample> = test.iter().map(|known| known.sample.clone()).collect();
    let by_network = predict(&network, &samples);
    let by_linear: Vec<f64> = samples.iter().map(|sample| linear.predict(&sample.features)).collect();
    println!(
        "| held-out structures | count | spread, kcal/mol | network: r | network: rms, kcal/mol | network: mean, kcal/mol | sum: r | sum: rms, kcal/mol | sum: mean, kcal/mol |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let print_row = |name: &str, chosen: &dyn Fn(&LabelledStructure) -> bool| {
        let pairs = |predictions: &[f64]| {
            let chosen = test.iter().zip(predictions).filter(|(known, _)| chosen(known));
            FitQuality::of(
                &chosen.map(|(known, &predicted)| (predicted, known.sample.value)).collect::<Vec<_>>(),
            )
        };
        print_fits(name, pairs(&by_network), pairs(&by_linear));
    };
    print_row("all structures", &|_| true);
    let mut kinds: Vec<&str> = test.iter().map(|known| known.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        print_row(&format!("{kind} sequences"), &|known| known.kind == kind);
    }
    for (name, min, max) in
        [("up to 80 bases", 0, 80), ("81 to 140 bases", 81, 140), ("above 140 bases", 141, MAX_BASES)]
    {
        print_row(name, &|known| (min..=max).contains(&known.bases));
    }
    print_row("energy below zero", &|known| known.sample.value < 0.0);
    print_row("energy above zero", &|known| known.sample.value >= 0.0);
    let [of_network, of_linear] = changes(&network, &linear, &load_walks(walks)?);
    print_fits("change by one pair", of_network, of_linear);
    let Some(path) = plot else { return Ok(()) };
    // A thousand points are enough for a plot.
    let every = (test.len() / 1000).max(1);
    let points = |predictions: &[f64]| {
        let all = test.iter().zip(predictions).step_by(every);
        all.map(|(known, &predicted)| (known.sample.value, predicted)).collect()
    };
    let labels = PlotLabels {
        title: "Free energy of structures of unseen sequences",
        x: "ViennaRNA, kcal/mol",
        y: "network, kcal/mol",
    };
    let plot = prediction_plot(labels, vec![Series::scatter("network", points(&by_network))]);
    Ok(write_atomically(path, plot.as_bytes())?)
}

fn print_fits(name: &str, network: FitQuality, linear: FitQuality) {
    println!(
        "| {name} | {} | {:.2} | {:.4} | {:.2} | {:.2} | {:.4} | {:.2} | {:.2} |",
        network.count,
        network.std_dev,
        network.correlation,
        network.rmse,
        network.mae,
        linear.correlation,
        linear.rmse,
        linear.mae
    );
}

/// Errors of the network and the linear model for the change in energy at each step of the walks.
fn changes(network: &Network<LoopFeatures>, linear: &LinearModel, walks: &[Walk]) -> [FitQuality; 2] {
    let (mut by_network, mut by_linear) = (Vec::new(), Vec::new());
    for walk in walks {
        let mut search = Search::new(network, &walk.sequence, walk.structure.clone());
        let mut linear_before = linear.predict(&active_features(&walk.sequence, &walk.structure));
        for (&pair, energies) in walk.pairs.iter().zip(walk.energies.windows(2)) {
            let truth = energies[1] - energies[0];
            let before = search.energy();
            search.try_pair(pair);
            search.accept();
            by_network.push((search.energy() - before, truth));
            let after = linear.predict(&active_features(&walk.sequence, search.structure()));
            by_linear.push((after - linear_before, truth));
            linear_before = after;
        }
    }
    [FitQuality::of(&by_network), FitQuality::of(&by_linear)]
}

/// A structure and pairs that are toggled one after the other.
struct Walk {
    sequence: Sequence,
    structure: Structure,
    pairs: Vec<(usize, usize)>,
    /// True energies in kilocalories per mole, before the first step and after each.
    energies: Vec<f64>,
}

fn load_walks(path: &Path) -> Done<Vec<Walk>> {
    let walks = read_lines(path, |line| {
        let [sequence, structure, pairs, energies] = fields(line)?;
        let (sequence, structure) = molecule(sequence, structure)?;
        let mut after = structure.clone();
        let mut change = FeatureChange::default();
        let pair = |text: &str| -> Result<(usize, usize), String> {
            let problem = || format!("{text:?} is not a pair of this structure");
            let (first, last) = text.split_once('-').ok_or_else(problem)?;
            let base = |text: &str| text.parse::<usize>().ok().filter(|&base| base < sequence.len());
            let (first, last) = (base(first).ok_or_else(problem)?, base(last).ok_or_else(problem)?);
            let is_on = after.partner(first) == Some(last);
            if sequence.pair(first, last).is_none() || !is_on && !after.is_free(first, last) {
                return Err(problem());
            }
            change.toggle(&sequence, &mut after, (first, last));
            Ok((first, last))
        };
        let pairs = pairs.split(' ').map(pair).collect::<Result<Vec<_>, _>>()?;
        let energies = energies.split(' ').map(number).collect::<Result<Vec<_>, _>>()?;
        if energies.len() != pairs.len() + 1 {
            return Err(format!("{} energies for {} pairs", energies.len(), pairs.len()));
        }
        Ok(Walk { sequence: sequence.clone(), structure, pairs, energies })
    })?;
    Ok(walks)
}

/// A method that makes all steps of a walk. It returns the seconds taken and the sum of all energies, which
/// also keeps the compiler from removing the computation.
type Method<'a> = &'a dyn Fn(&Walk) -> (f64, i64);

/// Nanoseconds for each step by each method, as the fastest of many rounds over all walks, and the sum of all
/// energies. The methods alternate, so that busy moments of the machine affect all of them.
fn timed<const N: usize>(walks: &[&Walk], methods: [Method<'_>; N]) -> [(f64, i64); N] {
    let num_steps: usize = walks.iter().map(|walk| walk.pairs.len()).sum();
    let (mut rounds, mut sums) = ([(); N].map(|()| Vec::new()), [0; N]);
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < N as f64 {
        for ((method, rounds), sum) in methods.iter().zip(&mut rounds).zip(&mut sums) {
            let made: Vec<(f64, i64)> = walks.iter().map(|walk| method(walk)).collect();
            let seconds: f64 = made.iter().map(|(seconds, _)| seconds).sum();
            rounds.push(seconds / num_steps.max(1) as f64 * 1e9);
            *sum = made.iter().map(|(_, energies)| energies).sum();
        }
    }
    let mut sums = sums.into_iter();
    rounds.map(|rounds| (fastest(&rounds), sums.next().unwrap_or_default()))
}

/// Makes the steps of a walk with energies by the network.
fn by_network(
    network: &Network<LoopFeatures>,
    walk: &Walk,
    step: impl Fn(&mut Search<'_>, (usize, usize)) -> i32,
) -> (f64, i64) {
    let mut search = Search::new(network, &walk.sequence, walk.structure.clone());
    let started = Instant::now();
    let sum = walk.pairs.iter().fold(0, |sum, &pair| {
        let energy = step(&mut search, pair);
        search.accept();
        sum + i64::from(energy)
    });
    (started.elapsed().as_secs_f64(), sum)
}

/// Makes the steps of a walk with energies by the linear model, updated by the same features.
fn by_linear(linear: &LinearModel, walk: &Walk) -> (f64, i64) {
    let mut structure = walk.structure.clone();
    let mut change = FeatureChange::default();
    let mut energy = linear.predict(&active_features(&walk.sequence, &structure));
    let started = Instant::now();
    let all = walk.pairs.iter().fold(0.0, |all, &pair| {
        change.clear();
        change.toggle(&walk.sequence, &mut structure, pair);
        energy += linear.predict(&change.added) - linear.predict(&change.removed);
        all + energy
    });
    (started.elapsed().as_secs_f64(), all as i64)
}

fn time(speed: &Speed) -> Done {
    let network = load_network(&speed.network)?;
    let samples: Vec<Sample> = load_labelled(&speed.data)?.into_iter().map(|known| known.sample).collect();
    let linear = LinearModel::fit(&samples, LoopFeatures.num_inputs());
    let walks = load_walks(&speed.walks)?;
    let vienna = read_lines(&speed.vienna, |line| {
        let [bases, method, taken] = fields(line)?;
        Ok((number(bases)? as usize, method.to_owned(), number(taken)?))
    })?;
    let of_vienna = |bases: usize, method: &str| {
        let found = vienna.iter().find(|(other, name, _)| (*other, name.as_str()) == (bases, method));
        let missing = || format!("{}: no time of {method} for {bases} bases", speed.vienna.display());
        found.map(|(_, _, taken)| *taken).ok_or_else(missing)
    };
    let mut lengths: Vec<usize> = walks.iter().map(|walk| walk.sequence.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let names = [
        "network, updated",
        "network, from scratch",
        "sum, updated",
        "ViennaRNA, one move",
        "ViennaRNA, from scratch",
    ];
    println!("| bases | {}, ns | gain of updating |", names.join(", ns | "));
    println!("|---|---|---|---|---|---|---|");
    let mut series = names.map(|name| Series::marked(name, Vec::new()));
    for bases in lengths {
        let walks: Vec<&Walk> = walks.iter().filter(|walk| walk.sequence.len() == bases).collect();
        let anew = |search: &mut Search<'_>, pair: (usize, usize)| {
            search.toggle_only(pair);
            search.energy_from_nothing()
        };
        let [(updated, sum), (anew, sum_anew), (linear_updated, _)] = timed(
            &walks,
            [
                &|walk| by_network(&network, walk, |search, pair| search.try_pair(pair)),
                &|walk| by_network(&network, walk, anew),
                &|walk| by_linear(&linear, walk),
            ],
        );
        if sum != sum_anew {
            return Err(format!("updated and computed from nothing differ: {sum} and {sum_anew}").into());
        }
        let times =
            [updated, anew, linear_updated, of_vienna(bases, "move")?, of_vienna(bases, "structure")?];
        let cells: Vec<String> = times.iter().map(|time| format!("{time:.0}")).collect();
        println!("| {bases} | {} | {:.1} |", cells.join(" | "), anew / updated);
        for (series, value) in series.iter_mut().zip(times) {
            series.points.push((bases as f64, value));
        }
    }
    let Some(path) = &speed.plot else { return Ok(()) };
    let title = "Time for the energy after adding or removing a pair";
    let plot = log_plot(PlotLabels { title, x: "bases", y: "nanoseconds" }, series.into());
    Ok(write_atomically(path, plot.as_bytes())?)
}

fn fold(network: &Path, data: &Path, out: &Path, steps: usize) -> Done {
    let network = load_network(network)?;
    let annealing = Annealing { steps_per_base: steps, ..Annealing::default() };
    let exact = read_lines(data, |line| {
        let [kind, sequence, structure, energy, seconds] = fields(line)?;
        let (sequence, structure) = molecule(sequence, structure)?;
        Ok((kind.to_owned(), sequence, structure, number(energy)?, number(seconds)?, line.to_owned()))
    })?;
    let mut text = String::new();
    for (_, sequence, structure, _, _, line) in &exact {
        let energy_of_exact = Search::new(&network, sequence, structure.clone()).energy();
        let mut search = Search::new(&network, sequence, Structure::unpaired(sequence.len()));
        let started = Instant::now();
        let (found, energy) = search.anneal(&annealing);
        let seconds = started.elapsed().as_secs_f64();
        text += &format!("{line}\t{found}\t{energy:.2}\t{energy_of_exact:.2}\t{seconds:.6}\n");
    }
    println!("{} sequences, {steps} steps for each base, {} runs", exact.len(), annealing.runs);
    Ok(write_atomically(out, text.as_bytes())?)
}

/// Result of a search for one sequence, beside the exact solution.
struct FoldResult {
    kind: String,
    bases: usize,
    pairs: [Vec<(usize, usize)>; 2],
    minimum: f64,
    exact_seconds: f64,
    predicted: f64,
    predicted_of_minimum: f64,
    seconds: f64,
}

fn compare(found: &Path, energies: &Path, plot: Option<&Path>) -> Done {
    let folds = read_lines(found, |line| {
        let [
            kind,
            sequence,
            structure,
            minimum,
            exact_seconds,
            found,
            predicted,
            predicted_of_minimum,
            seconds,
        ] = fields(line)?;
        let (sequence, exact) = molecule(sequence, structure)?;
        let found = Structure::parse(found, &sequence).map_err(|error| error.to_string())?;
        Ok(FoldResult {
            kind: kind.into(),
            bases: sequence.len(),
            pairs: [found.pairs(), exact.pairs()],
            minimum: number(minimum)?,
            exact_seconds: number(exact_seconds)?,
            predicted: number(predicted)?,
            predicted_of_minimum: number(predicted_of_minimum)?,
            seconds: number(seconds)?,
        })
    })?;
    let energies = read_lines(energies, number)?;
    if energies.len() != folds.len() {
        return Err(format!("{} energies for {} structures", energies.len(), folds.len()).into());
    }
    println!(
        "| bases | sequences | kind | F1 of pairs | energy above the minimum, kcal/mol | minimum found | network prefers the found structure | search, s | exact, s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut groups: Vec<(usize, &str)> = folds.iter().map(|fold| (fold.bases, fold.kind.as_str())).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut series: Vec<Series> = Vec::new();
    for (bases, kind) in groups {
        let chosen: Vec<(&FoldResult, f64)> = folds
            .iter()
            .zip(energies.iter().copied())
            .filter(|(fold, _)| (fold.bases, fold.kind.as_str()) == (bases, kind))
            .collect();
        let of = |value: &dyn Fn(&(&FoldResult, f64)) -> f64| {
            MeanWithError::of(&chosen.iter().map(value).collect::<Vec<_>>())
        };
        let same = of(&|(fold, _)| f1_score(&fold.pairs[0], &fold.pairs[1]));
        let gap = of(&|(fold, energy)| energy - fold.minimum);
        let reached = of(&|(fold, energy)| f64::from(u8::from(energy - fold.minimum < 0.005)));
        // In these cases a better search would not help, because the network itself is wrong.
        let preferred = of(&|(fold, _)| f64::from(u8::from(fold.predicted <= fold.predicted_of_minimum)));
        let seconds = of(&|(fold, _)| fold.seconds);
        println!(
            "| {bases} | {} | {kind} | {:.2} ± {:.2} | {:.2} ± {:.2} | {:.0} % | {:.0} % | {:.2} | {:.4} |",
            chosen.len(),
            same.mean,
            same.error,
            gap.mean,
            gap.error,
            100.0 * reached.mean,
            100.0 * preferred.mean,
            seconds.mean,
            of(&|(fold, _)| fold.exact_seconds).mean
        );
        let mut add = |name: String, value: f64| {
            let index = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
                series.push(Series::marked(name, Vec::new()));
                series.len() - 1
            });
            series[index].points.push((bases as f64, value));
        };
        add(format!("{kind}: search by the network"), seconds.mean);
        add(format!("{kind}: exact, by dynamic programming"), of(&|(fold, _)| fold.exact_seconds).mean);
    }
    let Some(path) = plot else { return Ok(()) };
    let title = "Time to find the structure of minimum energy";
    let plot = log_plot(PlotLabels { title, x: "bases", y: "seconds" }, series);
    Ok(write_atomically(path, plot.as_bytes())?)
}
