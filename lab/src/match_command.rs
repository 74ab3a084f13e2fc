//! `tandem-lab match`, and `tandem-lab sprt`, which is a match that stops when its test is decided.

use crate::{error::LabError, interrupt, plural::counted, watch::Watch};
use clap::Args;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tandem_arena::{
    Adjudication, Book, BookOrder, DrawRule, EngineSpec, GameRules, ResignRule, Schedule, Tablebase,
    TimeLimit, Timeouts, Tournament, TournamentFormat,
    report::to_html,
    stats::{Sprt, SprtModel},
    summary,
};
use tandem_util::output::{AtomicFile, write_atomically};

/// Play a match between UCI engines
///
/// Two engines play a match; more play a round robin, or a gauntlet with --gauntlet. Games come in pairs: the
/// same opening twice, with colours swapped. The clock of an engine runs from sending `go` until `bestmove`
/// is read. An engine that crashes, hangs or plays an illegal move loses that game and is restarted, and the
/// match continues. An engine that exceeds its time loses too, unless its opponent has not enough material to
/// mate: then the game is drawn.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MatchArgs {
    /// Engine that plays, as key=value items separated by commas; give the option once per engine
    ///
    /// cmd=PATH (or @tandem, our search within this program, or @searchless, our evaluation alone),
    /// arg=ARGUMENT (repeatable), dir=DIRECTORY, name=NAME, option.NAME=VALUE (any UCI option);
    /// limits, one or more of: tc=[MOVES/]BASE[+INC] in seconds, st=SECONDS per move, depth=N, nodes=N;
    /// margin=MILLISECONDS by which a move may be late (default: 20); restart=on for a new process each
    /// game (default: the process is kept for the whole match); ponder=on to think in the opponent's time.
    /// A comma within a value is written \,
    #[arg(long = "engine", value_name = "SPEC", required = true, verbatim_doc_comment)]
    engines: Vec<String>,
    /// Items that apply to every engine unless its own --engine sets them, for example
    /// tc=5+0.05,option.Hash=16
    #[arg(long, value_name = "SPEC", default_value = "")]
    each: String,
    /// Number of games between each two engines, rounded up to an even number (default: 100 for a match, at
    /// most 50000 for an SPRT)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    games: Option<u64>,
    /// Opening book to take the start positions from: EPD, FEN or PGN, plain or compressed with zstd or gzip
    /// (default: every game starts from the standard position)
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Order in which the openings of the book are played; after the last one it starts again
    #[arg(long, value_enum, default_value_t = Order::Sequential)]
    order: Order,
    /// Seed of --order random; the same seed gives the same order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of plies to play from each game of a PGN book before the engines take over (default: all)
    #[arg(long, value_name = "N")]
    plies: Option<usize>,
    /// Number of games played at the same time
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Do not bind each game to CPU cores of its own; binding makes timing more even
    #[arg(long)]
    no_affinity: bool,
    /// Adjudicate games as lost: for `moves` moves of each side, the loser's score is at most -`score`
    /// centipawns and, with twosided=on, the winner's at least `score` (default: off; without RULE
    /// moves=3,score=600,twosided=on)
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = "")]
    resign: Option<String>,
    /// Adjudicate games as drawn: from move `number` on, both scores stay within `score` centipawns of 0 for
    /// `moves` moves of each side, without captures and pawn moves (default: off; without RULE
    /// number=34,moves=8,score=20)
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = "")]
    draw: Option<String>,
    /// Adjudicate games as draws after N full moves (default: no limit)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_moves: Option<u32>,
    /// End games with their proven result as soon as the Syzygy tablebases in these folders contain the
    /// position; folders are separated by : (; on Windows)
    #[arg(long, value_name = "PATH")]
    syzygy: Option<String>,
    /// Play by Chess960 rules: switch on UCI_Chess960 in every engine, and send castling as king takes rook
    #[arg(long)]
    chess960: bool,
    /// Play a gauntlet: the first N engines play all others, but not each other (1 if N is left out)
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    gauntlet: Option<usize>,
    /// Append each game to this PGN file when it ends, with clock times and scores as comments
    #[arg(long, value_name = "FILE")]
    pgn: Option<PathBuf>,
    /// Save the state of the match in this file after each game; the same command, with the same engine
    /// files, resumes from it (default: an interrupted match cannot be resumed)
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write the results as JSON to this file at the end
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write an HTML report with charts to this file at the end
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Text of the Event tag in the PGN
    #[arg(long, default_value = "Tandem match")]
    event: String,
    /// Time limit in seconds for an engine to start and answer `uci`
    ///
    /// It then has the same time again, or 30 s if that is more, to set its options and answer `isready`.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    start_timeout: u64,
    /// Time limit in seconds for a move of an engine that plays without a clock, by depth or nodes; an engine
    /// that exceeds it loses the game
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    move_timeout: u64,
    /// Do not print a line for each game, except for games that end by a crash, an illegal move or exceeded
    /// time; tables of the standings are still printed
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  tandem-lab match --engine cmd=./new --engine cmd=./old,name=old --each tc=8+0.08,option.Hash=16 \\
      --openings UHO_4060_v3.epd.zst --order random --games 400 --concurrency 2 --resign --draw \\
      --pgn games.pgn --state match.state --json match.json
  tandem-lab match --engine cmd=./tandem,nodes=20000 --engine cmd=stockfish,depth=6,option.UCI_Elo=1800,\\
option.UCI_LimitStrength=true --games 100";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// In the order of the book file
    Sequential,
    /// In a random order that --seed determines
    Random,
}

impl MatchArgs {
    fn tournament(&self, games: usize) -> Result<Tournament, LabError> {
        let engines = self
            .engines
            .iter()
            .map(|text| {
                EngineSpec::parse(text, &self.each).and_then(|spec| spec.require_limit().map(|()| spec))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let book_order = match self.order {
            Order::Sequential => BookOrder::Sequential,
            Order::Random => BookOrder::Random(self.seed),
        };
        let book = match &self.openings {
            Some(path) => Book::open(path, book_order, self.plies)?,
            None => Book::standard(),
        };
        let adjudication = Adjudication {
            resign: self.resign.as_deref().map(ResignRule::parse).transpose()?,
            draw: self.draw.as_deref().map(DrawRule::parse).transpose()?,
            max_moves: self.max_moves,
        };
        let start = Duration::from_secs(self.start_timeout.clamp(1, 86_400));
        let timeouts = Timeouts {
            start,
            ready: start.max(Timeouts::default().ready),
            untimed_move: Duration::from_secs(self.move_timeout.clamp(1, 86_400)),
            ..Timeouts::default()
        };
        Ok(Tournament {
            engines,
            format: self.gauntlet.map_or(TournamentFormat::RoundRobin, TournamentFormat::Gauntlet),
            games: self.games.map_or(games, |games| games as usize),
            book,
            book_path: self.openings.clone(),
            book_order,
            rules: GameRules {
                adjudication,
                chess960: self.chess960,
                tablebase: self.syzygy.as_deref().map(Tablebase::open).transpose()?,
            },
            concurrency: self.concurrency,
            affinity: !self.no_affinity,
            timeouts,
            pgn: self.pgn.clone(),
            state: self.state.clone(),
            event: self.event.clone(),
        })
    }
}

/// Test whether one engine is stronger than another (SPRT)
///
/// Plays pairs of games until a sequential probability ratio test, on the pairs' points (pentanomial),
/// accepts H1 (the first engine is stronger by --elo1) or H0 (it is stronger by --elo0).
#[derive(Args, Debug)]
pub(crate) struct SprtArgs {
    /// Elo difference under hypothesis H0, in the unit of --model; 0 for no gain
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    elo0: f64,
    /// Elo difference under hypothesis H1, in the unit of --model, greater than --elo0
    #[arg(long, default_value_t = 5.0, allow_negative_numbers = true)]
    elo1: f64,
    /// Probability of accepting H1 although H0 is true (false positive), between 0 and 0.5
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// Probability of accepting H0 although H1 is true (false negative), between 0 and 0.5
    #[arg(long, default_value_t = 0.05)]
    beta: f64,
    /// Unit of --elo0 and --elo1
    #[arg(long, value_enum, default_value_t = EloModel::Normalised)]
    model: EloModel,
    #[command(flatten)]
    common: MatchArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EloModel {
    /// Usual Elo difference, computed from the expected score
    Logistic,
    /// Normalised Elo, relative to the standard deviation of a game's score, so that the fraction of draws
    /// does not matter
    Normalised,
}

impl From<EloModel> for SprtModel {
    fn from(model: EloModel) -> Self {
        match model {
            EloModel::Logistic => Self::Logistic,
            EloModel::Normalised => Self::Normalised,
        }
    }
}

/// Runs `match`.
///
/// # Errors
///
/// When the arguments are invalid, an engine cannot be started, or the match is interrupted.
pub(crate) fn run(args: &MatchArgs) -> Result<(), LabError> {
    play(args, None)
}

/// Runs `sprt`.
///
/// # Errors
///
/// Those of [`run`], and when the bounds are invalid or the engines are not two.
pub(crate) fn run_sprt(args: &SprtArgs) -> Result<(), LabError> {
    let sprt = Sprt::new(args.elo0, args.elo1, args.alpha, args.beta, args.model.into())?;
    if args.common.engines.len() != 2 {
        return Err(LabError::Usage("an SPRT is between two engines".into()));
    }
    play(&args.common, Some(sprt))
}

/// Warns if openings repeat. In an SPRT this is an error if the second game from an opening is a copy of the
/// first, because copies would count as evidence.
fn check_openings(tournament: &Tournament, is_test: bool) -> Result<(), LabError> {
    let (openings, pairs) = (tournament.book.len(), tournament.games.div_ceil(2));
    if pairs <= openings {
        return Ok(());
    }
    let repeats = |engine: &EngineSpec| engine.limits.time == TimeLimit::Unlimited && engine.threads() == 1;
    if is_test && tournament.engines.iter().all(repeats) {
        return Err(LabError::Usage(format!(
            "engines that are limited by nodes or depth alone repeat the same games, and the book has {} for {pairs} pairs: \
             give a larger book with --openings (`tandem-lab data openings` makes one), or --games {}",
            counted(openings as u64, "opening", "openings"),
            2 * openings
        )));
    }
    errln!(
        "the book has {} for {pairs} pairs of games: they repeat from pair {} on",
        counted(openings as u64, "opening", "openings"),
        openings + 1
    );
    Ok(())
}

fn play(args: &MatchArgs, sprt: Option<Sprt>) -> Result<(), LabError> {
    let tournament = args.tournament(if sprt.is_some() { 50_000 } else { 100 })?;
    let schedule = Schedule::new(tournament.engines.len(), tournament.format, tournament.games);
    let meetings = schedule.meetings().to_vec();
    check_openings(&tournament, sprt.is_some())?;
    for path in [&args.json, &args.html].into_iter().flatten() {
        // A pipe must be opened only once: its reader takes the first end for the last.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            continue;
        }
        // A path that cannot be written is reported before the first game.
        drop(AtomicFile::create(path).map_err(LabError::file(path))?);
    }
    let cancel = interrupt::flag();
    let mut watch = Watch::new(meetings.clone(), sprt, args.quiet);
    let report = tournament.run(&cancel, &mut watch)?;
    watch.clear();
    for message in tournament.rules.tablebase.iter().flat_map(Tablebase::take_broken) {
        errln!("{message}; no game was ended by it since then");
    }

    let standings = &report.standings;
    for &meeting in &meetings {
        out!("{}", summary::meeting_lines(standings, meeting));
    }
    if standings.names.len() > 2 {
        out!("{}", summary::rating_lines(standings, &standings.ratings()));
    }
    if let (Some(sprt), Some(&(a, b))) = (&sprt, meetings.first()) {
        out!("{}", summary::sprt_line(sprt, &standings.sprt_state(sprt, a, b)));
    }
    out!("{}", summary::termination_lines(standings));
    out!("{}", summary::cost_line(&report));
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&summary::to_json(&report, &meetings, sprt.as_ref()))
            .map_err(|error| LabError::Usage(error.to_string()))?;
        write_atomically(path, &json).map_err(LabError::file(path))?;
    }
    if let Some(path) = &args.html {
        let html = to_html(&args.event, &report, &meetings, sprt.as_ref());
        write_atomically(path, html.as_bytes()).map_err(LabError::file(path))?;
    }
    if cancel.load(Ordering::Relaxed) {
        let how = if args.state.is_some() { "; run the same command to continue" } else { "" };
        let (games, total) = (standings.games(), report.total);
        return Err(LabError::Interrupted(format!("stopped after {games} of {total} games{how}")));
    }
    Ok(())
}
