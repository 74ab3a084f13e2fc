//! The study of RNA: learns energies, says how well, how fast, and what a search finds by them. `docs/study-biology.md` has the
//! commands in their order.

use clap::Parser;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tandem_nnue::{FloatNetwork, Inputs, Network, Quantisation};
use tandem_rna::*;
use tandem_study::{
    Fit, Plot, Recipe, Sample, Series, Spread, Sum, f1, fastest, judge_all, learn, load, write_whole,
};

/// Free energies of RNA structures by an efficiently updatable network.
#[derive(Parser)]
#[command(name = "tandem-rna")]
enum Command {
    /// Learns from structures with their energies.
    Train {
        /// Lines of kind, sequence, structure, energy.
        #[arg(long)]
        data: PathBuf,
        /// The network to write.
        #[arg(long)]
        out: PathBuf,
        /// Values of the accumulator.
        #[arg(long, default_value_t = 64)]
        width: usize,
        /// How often each structure is seen.
        #[arg(long, default_value_t = 30)]
        epochs: usize,
    },
    /// Says how near the network and the best sum are to energies they have not seen.
    Evaluate {
        /// The network.
        #[arg(long)]
        network: PathBuf,
        /// What it learnt from: the sum learns from the same.
        #[arg(long)]
        data: PathBuf,
        /// Other sequences.
        #[arg(long)]
        test: PathBuf,
        /// Walks with their energies: how near what a step changes is.
        #[arg(long)]
        walks: PathBuf,
        /// Where to draw it.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// Times a pair more or less: by the accumulator, from nothing, and beside what ViennaRNA took.
    Speed(Speed),
    /// Looks for the structures of least energy.
    Fold {
        /// The network.
        #[arg(long)]
        network: PathBuf,
        /// Lines of kind, sequence, structure of least energy, its energy, seconds it took.
        #[arg(long)]
        data: PathBuf,
        /// Where to write what was found.
        #[arg(long)]
        out: PathBuf,
        /// Steps for each base.
        #[arg(long, default_value_t = Annealing::default().steps_per_base)]
        steps: usize,
    },
    /// Compares what was found with what there is, by energy and by pairs.
    Compare {
        /// What `fold` wrote.
        #[arg(long)]
        found: PathBuf,
        /// Its true energies, a line each, as `vienna.py energies` writes them.
        #[arg(long)]
        energies: PathBuf,
        /// Where to draw it.
        #[arg(long)]
        plot: Option<PathBuf>,
    },
}

#[derive(clap::Args)]
struct Speed {
    /// The network.
    #[arg(long)]
    network: PathBuf,
    /// What it learnt from: the sum learns from the same.
    #[arg(long)]
    data: PathBuf,
    /// Lines of sequence, structure, pairs to turn, energies.
    #[arg(long)]
    walks: PathBuf,
    /// Lines of length, way, nanoseconds, as `vienna.py time` writes them.
    #[arg(long)]
    vienna: PathBuf,
    /// Where to draw it.
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

/// A structure with its energy.
struct Known {
    kind: String,
    bases: usize,
    sample: Sample,
}

/// So many fields, separated by tabs.
fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.try_into().map_err(|fields: Vec<&str>| format!("{} fields, {N} expected", fields.len()))
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if number.is_finite() { Ok(number) } else { Err(format!("{text:?} is no number to work with")) }
}

fn molecule(sequence: &str, structure: &str) -> Result<(Sequence, Structure), String> {
    let sequence: Sequence = sequence.parse().map_err(|error: MoleculeError| error.to_string())?;
    let structure = Structure::parse(structure, &sequence).map_err(|error| error.to_string())?;
    Ok((sequence, structure))
}

fn load_known(path: &Path) -> Done<Vec<Known>> {
    let known = load(path, |line| {
        let [kind, sequence, structure, energy] = fields(line)?;
        let (sequence, structure) = molecule(sequence, structure)?;
        let sample = Sample { rows: rows_of(&sequence, &structure), value: number(energy)? };
        Ok(Known { kind: kind.into(), bases: sequence.len(), sample })
    })?;
    Ok(known)
}

fn load_network(path: &Path) -> Done<Network<Loops>> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let float = FloatNetwork::from_safetensors_as(&bytes, Loops)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(float.quantise(Quantisation::default())?.0)
}

fn train(data: &Path, out: &Path, width: usize, epochs: usize) -> Done {
    let samples: Vec<Sample> = load_known(data)?.into_iter().map(|known| known.sample).collect();
    let recipe = Recipe { width, epochs, batch: 512, rate: 2e-3, unit: 10.0, seed: 1 };
    let started = Instant::now();
    let mut tell = |epoch: usize, error: f64| {
        if epoch.is_multiple_of(5) || epoch == epochs {
            println!("epoch {epoch}: {error:.3} kcal/mol");
        }
    };
    let (mut float, _) = learn(Loops, &samples, &recipe, &mut tell)?;
    println!(
        "{} structures, {epochs} times each, {:.0} s; {}",
        samples.len(),
        started.elapsed().as_secs_f64(),
        float.architecture
    );
    float.description = "free energies of RNA structures, in kilocalories per mole".into();
    Ok(write_whole(out, &float.to_safetensors()?)?)
}

fn evaluate(network: &Path, data: &Path, [test, walks]: [&Path; 2], plot: Option<&Path>) -> Done {
    let network = load_network(network)?;
    let (train, test) = (load_known(data)?, load_known(test)?);
    let train: Vec<Sample> = train.into_iter().map(|known| known.sample).collect();
    let sum = Sum::fit(&train, Loops.num_inputs());
    let samples: Vec<Sample> = test.iter().map(|known| known.sample.clone()).collect();
    let by_network = judge_all(&network, &samples);
    let by_sum: Vec<f64> = samples.iter().map(|sample| sum.of(&sample.rows)).collect();
    println!("| held-out | count | spread | network: r | rms | mean | sum: r | rms | mean |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let row = |name: &str, chosen: &dyn Fn(&Known) -> bool| {
        let pairs = |said: &[f64]| {
            let chosen = test.iter().zip(said).filter(|(known, _)| chosen(known));
            Fit::of(&chosen.map(|(known, &said)| (said, known.sample.value)).collect::<Vec<_>>())
        };
        print_fits(name, pairs(&by_network), pairs(&by_sum));
    };
    row("all structures", &|_| true);
    let mut kinds: Vec<&str> = test.iter().map(|known| known.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        row(&format!("{kind} sequences"), &|known| known.kind == kind);
    }
    for (name, least, most) in
        [("up to 80 bases", 0, 80), ("81 to 140 bases", 81, 140), ("above 140 bases", 141, MOST_BASES)]
    {
        row(name, &|known| (least..=most).contains(&known.bases));
    }
    row("energy below zero", &|known| known.sample.value < 0.0);
    row("energy above zero", &|known| known.sample.value >= 0.0);
    let [of_network, of_sum] = changes(&network, &sum, &load_walks(walks)?);
    print_fits("what a pair changes", of_network, of_sum);
    let Some(path) = plot else { return Ok(()) };
    // A thousand points say it all.
    let every = (test.len() / 1000).max(1);
    let points = |said: &[f64]| {
        let all = test.iter().zip(said).step_by(every);
        all.map(|(known, &said)| (known.sample.value, said)).collect()
    };
    let plot = Plot {
        title: "Free energy of structures of unseen sequences".into(),
        across: "ViennaRNA, kcal/mol".into(),
        up: "network, kcal/mol".into(),
        logarithmic: false,
        diagonal: true,
        series: vec![Series { name: "network".into(), points: points(&by_network), joined: false }],
    };
    Ok(write_whole(path, plot.to_svg().as_bytes())?)
}

fn print_fits(name: &str, network: Fit, sum: Fit) {
    println!(
        "| {name} | {} | {:.2} | {:.4} | {:.2} | {:.2} | {:.4} | {:.2} | {:.2} |",
        network.count,
        network.spread,
        network.correlation,
        network.rms,
        network.mean,
        sum.correlation,
        sum.rms,
        sum.mean
    );
}

/// How near the network and the sum are to what each turn of the walks changes.
fn changes(network: &Network<Loops>, sum: &Sum, walks: &[Walk]) -> [Fit; 2] {
    let (mut by_network, mut by_sum) = (Vec::new(), Vec::new());
    for walk in walks {
        let mut search = Search::new(network, &walk.sequence, walk.structure.clone());
        let mut summed = sum.of(&rows_of(&walk.sequence, &walk.structure));
        for (&pair, energies) in walk.pairs.iter().zip(walk.energies.windows(2)) {
            let truth = energies[1] - energies[0];
            let before = search.energy();
            search.try_pair(pair);
            search.keep();
            by_network.push((search.energy() - before, truth));
            let after = sum.of(&rows_of(&walk.sequence, search.structure()));
            by_sum.push((after - summed, truth));
            summed = after;
        }
    }
    [Fit::of(&by_network), Fit::of(&by_sum)]
}

/// A structure and pairs that are turned one after the other.
struct Walk {
    sequence: Sequence,
    structure: Structure,
    pairs: Vec<(usize, usize)>,
    /// Before the first turn and after each.
    energies: Vec<f64>,
}

fn load_walks(path: &Path) -> Done<Vec<Walk>> {
    let walks = load(path, |line| {
        let [sequence, structure, pairs, energies] = fields(line)?;
        let (sequence, structure) = molecule(sequence, structure)?;
        let mut after = structure.clone();
        let mut change = Change::default();
        let pair = |text: &str| -> Result<(usize, usize), String> {
            let problem = || format!("{text:?} is no pair of this structure");
            let (first, last) = text.split_once('-').ok_or_else(problem)?;
            let base = |text: &str| text.parse::<usize>().ok().filter(|&base| base < sequence.len());
            let (first, last) = (base(first).ok_or_else(problem)?, base(last).ok_or_else(problem)?);
            let is_on = after.partner(first) == Some(last);
            if sequence.pair(first, last).is_none() || !is_on && !after.has_room(first, last) {
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

/// Makes a whole walk, and says the seconds it took and the sum of all its energies, so that none can be left out.
type Way<'a> = &'a dyn Fn(&Walk) -> (f64, i64);

/// For each way the nanoseconds for a turn, of the fastest of many rounds of all walks, and the sum of all energies. The
/// ways take turns, so that busy moments of the machine meet them all.
fn timed<const N: usize>(walks: &[&Walk], ways: [Way<'_>; N]) -> [(f64, i64); N] {
    let turns: usize = walks.iter().map(|walk| walk.pairs.len()).sum();
    let (mut rounds, mut sums) = ([(); N].map(|()| Vec::new()), [0; N]);
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < N as f64 {
        for ((way, rounds), sum) in ways.iter().zip(&mut rounds).zip(&mut sums) {
            let made: Vec<(f64, i64)> = walks.iter().map(|walk| way(walk)).collect();
            let seconds: f64 = made.iter().map(|(seconds, _)| seconds).sum();
            rounds.push(seconds / turns.max(1) as f64 * 1e9);
            *sum = made.iter().map(|(_, energies)| energies).sum();
        }
    }
    let mut sums = sums.into_iter();
    rounds.map(|rounds| (fastest(&rounds), sums.next().unwrap_or_default()))
}

/// A walk by the network.
fn by_network(
    network: &Network<Loops>,
    walk: &Walk,
    turn: impl Fn(&mut Search<'_>, (usize, usize)) -> i32,
) -> (f64, i64) {
    let mut search = Search::new(network, &walk.sequence, walk.structure.clone());
    let started = Instant::now();
    let sum = walk.pairs.iter().fold(0, |sum, &pair| {
        let energy = turn(&mut search, pair);
        search.keep();
        sum + i64::from(energy)
    });
    (started.elapsed().as_secs_f64(), sum)
}

/// A walk by the sum: the same rows come and go, and each brings a number.
fn by_sum(sum: &Sum, walk: &Walk) -> (f64, i64) {
    let mut structure = walk.structure.clone();
    let mut change = Change::default();
    let mut energy = sum.of(&rows_of(&walk.sequence, &structure));
    let started = Instant::now();
    let all = walk.pairs.iter().fold(0.0, |all, &pair| {
        change.clear();
        change.toggle(&walk.sequence, &mut structure, pair);
        energy += sum.of(&change.added) - sum.of(&change.removed);
        all + energy
    });
    (started.elapsed().as_secs_f64(), all as i64)
}

fn time(speed: &Speed) -> Done {
    let network = load_network(&speed.network)?;
    let samples: Vec<Sample> = load_known(&speed.data)?.into_iter().map(|known| known.sample).collect();
    let sum = Sum::fit(&samples, Loops.num_inputs());
    let walks = load_walks(&speed.walks)?;
    let vienna = load(&speed.vienna, |line| {
        let [bases, way, taken] = fields(line)?;
        Ok((number(bases)? as usize, way.to_owned(), number(taken)?))
    })?;
    let of_vienna = |bases: usize, way: &str| {
        let found = vienna.iter().find(|(other, name, _)| (*other, name.as_str()) == (bases, way));
        let missing = || format!("{}: no time of {way} for {bases} bases", speed.vienna.display());
        found.map(|(_, _, taken)| *taken).ok_or_else(missing)
    };
    let mut lengths: Vec<usize> = walks.iter().map(|walk| walk.sequence.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let names = [
        "network, updated",
        "network, from nothing",
        "sum, updated",
        "ViennaRNA, one move",
        "ViennaRNA, from nothing",
    ];
    println!("| bases | {} | gain of updating |", names.join(" | "));
    println!("|---|---|---|---|---|---|---|");
    let mut series = names.map(|name| Series { name: name.into(), points: Vec::new(), joined: true });
    for bases in lengths {
        let walks: Vec<&Walk> = walks.iter().filter(|walk| walk.sequence.len() == bases).collect();
        let anew = |search: &mut Search<'_>, pair: (usize, usize)| {
            search.turn_only(pair);
            search.energy_from_nothing()
        };
        let [(updated, said), (anew, said_anew), (summed, _)] = timed(
            &walks,
            [
                &|walk| by_network(&network, walk, |search, pair| search.try_pair(pair)),
                &|walk| by_network(&network, walk, anew),
                &|walk| by_sum(&sum, walk),
            ],
        );
        if said != said_anew {
            return Err(format!("updated and computed from nothing differ: {said} and {said_anew}").into());
        }
        let times = [updated, anew, summed, of_vienna(bases, "move")?, of_vienna(bases, "structure")?];
        let told: Vec<String> = times.iter().map(|time| format!("{time:.0} ns")).collect();
        println!("| {bases} | {} | {:.1} |", told.join(" | "), anew / updated);
        for (series, value) in series.iter_mut().zip(times) {
            series.points.push((bases as f64, value));
        }
    }
    let Some(path) = &speed.plot else { return Ok(()) };
    let plot = Plot {
        title: "A pair more or less: time for the energy".into(),
        across: "bases".into(),
        up: "nanoseconds".into(),
        logarithmic: true,
        diagonal: false,
        series: series.into(),
    };
    Ok(write_whole(path, plot.to_svg().as_bytes())?)
}

fn fold(network: &Path, data: &Path, out: &Path, steps: usize) -> Done {
    let network = load_network(network)?;
    let annealing = Annealing { steps_per_base: steps, ..Annealing::default() };
    let wanted = load(data, |line| {
        let [kind, sequence, structure, energy, seconds] = fields(line)?;
        let (sequence, structure) = molecule(sequence, structure)?;
        Ok((kind.to_owned(), sequence, structure, number(energy)?, number(seconds)?, line.to_owned()))
    })?;
    let mut text = String::new();
    for (_, sequence, structure, _, _, line) in &wanted {
        let of_wanted = Search::new(&network, sequence, structure.clone()).energy();
        let mut search = Search::new(&network, sequence, Structure::open(sequence.len()));
        let started = Instant::now();
        let (found, energy) = search.anneal(&annealing);
        let seconds = started.elapsed().as_secs_f64();
        text += &format!("{line}\t{found}\t{energy:.2}\t{of_wanted:.2}\t{seconds:.6}\n");
    }
    println!("{} sequences, {steps} steps for each base, {} starts", wanted.len(), annealing.starts);
    Ok(write_whole(out, text.as_bytes())?)
}

/// What a search found, beside what there is.
struct Found {
    kind: String,
    bases: usize,
    pairs: [Vec<(usize, usize)>; 2],
    least: f64,
    exact_seconds: f64,
    said: f64,
    said_of_least: f64,
    seconds: f64,
}

fn compare(found: &Path, energies: &Path, plot: Option<&Path>) -> Done {
    let folds = load(found, |line| {
        let [kind, sequence, structure, least, exact_seconds, found, said, said_of_least, seconds] =
            fields(line)?;
        let (sequence, wanted) = molecule(sequence, structure)?;
        let found = Structure::parse(found, &sequence).map_err(|error| error.to_string())?;
        Ok(Found {
            kind: kind.into(),
            bases: sequence.len(),
            pairs: [found.pairs(), wanted.pairs()],
            least: number(least)?,
            exact_seconds: number(exact_seconds)?,
            said: number(said)?,
            said_of_least: number(said_of_least)?,
            seconds: number(seconds)?,
        })
    })?;
    let energies = load(energies, number)?;
    if energies.len() != folds.len() {
        return Err(format!("{} energies for {} structures", energies.len(), folds.len()).into());
    }
    println!(
        "| bases | sequences | kind | F1 of pairs | energy above the least, kcal/mol | least found | network prefers what was found | search, s | exact, s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut groups: Vec<(usize, &str)> = folds.iter().map(|fold| (fold.bases, fold.kind.as_str())).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut series: Vec<Series> = Vec::new();
    for (bases, kind) in groups {
        let chosen: Vec<(&Found, f64)> = folds
            .iter()
            .zip(energies.iter().copied())
            .filter(|(fold, _)| (fold.bases, fold.kind.as_str()) == (bases, kind))
            .collect();
        let of =
            |value: &dyn Fn(&(&Found, f64)) -> f64| Spread::of(&chosen.iter().map(value).collect::<Vec<_>>());
        let same = of(&|(fold, _)| f1(&fold.pairs[0], &fold.pairs[1]));
        let gap = of(&|(fold, energy)| energy - fold.least);
        let reached = of(&|(fold, energy)| f64::from(u8::from(energy - fold.least < 0.005)));
        // Where it does, no better search would help: the network is wrong.
        let preferred = of(&|(fold, _)| f64::from(u8::from(fold.said <= fold.said_of_least)));
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
            let place = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
                series.push(Series { name, points: Vec::new(), joined: true });
                series.len() - 1
            });
            series[place].points.push((bases as f64, value));
        };
        add(format!("{kind}: search by the network"), seconds.mean);
        add(format!("{kind}: exact, by dynamic programming"), of(&|(fold, _)| fold.exact_seconds).mean);
    }
    let Some(path) = plot else { return Ok(()) };
    let plot = Plot {
        title: "The structure of least energy: time to find one".into(),
        across: "bases".into(),
        up: "seconds".into(),
        logarithmic: true,
        diagonal: false,
        series,
    };
    Ok(write_whole(path, plot.to_svg().as_bytes())?)
}
