//! `tandem-lab match`.

use crate::{error::LabError, interrupt, watch::Watch};
use clap::Args;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tandem_arena::{
    Adjudication, Book, BookOrder, DrawRule, EngineSpec, Format, GameRules, Patience, ResignRule, Schedule,
    Tournament, summary, write_whole,
};

/// Play a match between UCI engines
///
/// Two engines play a match; more play a round robin, or a gauntlet with --gauntlet. Games come in pairs: one
/// opening, colours swapped. The clock of an engine runs from the write of `go` to the read of `bestmove`. An engine
/// that crashes, hangs, oversteps its time or plays an illegal move loses that game, is started again, and the match
/// goes on.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MatchArgs {
    /// An engine, as key=value items separated by commas (give it once per engine)
    ///
    /// cmd=PATH, arg=ARGUMENT (repeatable), dir=DIRECTORY, name=NAME, option.NAME=VALUE (any UCI option);
    /// limits: tc=[MOVES/]BASE[+INC] in seconds, st=SECONDS per move, depth=N, nodes=N (also together);
    /// margin=MILLISECONDS that a move may be late (20); restart=on for a new process each game;
    /// ponder=on to think in the opponent's time. A comma within a value is written \,
    #[arg(long = "engine", value_name = "SPEC", required = true, verbatim_doc_comment)]
    engines: Vec<String>,
    /// Items that hold for every engine, such as tc=5+0.05,option.Hash=16
    #[arg(long, value_name = "SPEC", default_value = "")]
    each: String,
    /// Games of each meeting, in whole pairs
    #[arg(long, default_value_t = 100)]
    games: usize,
    /// Opening book: EPD, FEN or PGN, plain or compressed with zstd or gzip
    #[arg(long, value_name = "FILE")]
    openings: Option<PathBuf>,
    /// Order of the openings
    #[arg(long, value_enum, default_value_t = Order::Sequential)]
    order: Order,
    /// Seed of a random order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Half moves taken from each game of a PGN book; all if not given
    #[arg(long, value_name = "N")]
    plies: Option<usize>,
    /// Games played at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: usize,
    /// Do not bind games to processors of their own
    #[arg(long)]
    no_affinity: bool,
    /// End lost games, such as moves=3,score=600,twosided=on (the default with nothing after it)
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = "")]
    resign: Option<String>,
    /// End drawn games, such as number=34,moves=8,score=20 (the default with nothing after it)
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = "")]
    draw: Option<String>,
    /// End games after so many moves as draws
    #[arg(long, value_name = "N")]
    max_moves: Option<u32>,
    /// Play Chess960: sets UCI_Chess960, castling is king takes rook
    #[arg(long)]
    chess960: bool,
    /// The first N engines play all others, but not each other
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1")]
    gauntlet: Option<usize>,
    /// Append the games to this file, each when it ends, with clocks and evaluations
    #[arg(long, value_name = "FILE")]
    pgn: Option<PathBuf>,
    /// Keep the state of the match here; run the same command again to go on where it was stopped
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write the results for machines at the end
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// PGN's Event tag
    #[arg(long, default_value = "Tandem match")]
    event: String,
    /// Seconds an engine may take to start
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    start_timeout: u64,
    /// Seconds a move may take under a limit of depth or nodes
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    move_timeout: u64,
    /// Say nothing of single games
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
    Sequential,
    Random,
}

impl MatchArgs {
    fn tournament(&self) -> Result<Tournament, LabError> {
        let engines = self
            .engines
            .iter()
            .map(|text| EngineSpec::parse(text, &self.each).and_then(|spec| spec.require_limit().map(|()| spec)))
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
        let patience = Patience {
            start: Duration::from_secs(self.start_timeout.clamp(1, 86_400)),
            untimed_move: Duration::from_secs(self.move_timeout.clamp(1, 86_400)),
            ..Patience::default()
        };
        Ok(Tournament {
            engines,
            format: self.gauntlet.map_or(Format::RoundRobin, Format::Gauntlet),
            games: self.games,
            book,
            book_path: self.openings.clone(),
            book_order,
            rules: GameRules { adjudication, chess960: self.chess960, tablebase: None },
            concurrency: self.concurrency,
            affinity: !self.no_affinity,
            patience,
            pgn: self.pgn.clone(),
            state: self.state.clone(),
            event: self.event.clone(),
        })
    }
}

/// Runs the command.
pub(crate) fn run(args: &MatchArgs) -> Result<(), LabError> {
    let tournament = args.tournament()?;
    let meetings =
        Schedule::new(tournament.engines.len(), tournament.format, tournament.games).meetings().to_vec();
    let cancel = interrupt::flag();
    let mut watch = Watch::new(meetings.clone(), args.quiet);
    let report = tournament.run(&cancel, &mut watch)?;

    println!();
    for &meeting in &meetings {
        print!("{}", summary::meeting_lines(&report.standings, meeting));
    }
    print!("{}", summary::termination_lines(&report.standings));
    print!("{}", summary::cost_line(&report));
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&summary::to_json(&report, &meetings))
            .map_err(|error| LabError::Usage(error.to_string()))?;
        write_whole(path, &json).map_err(LabError::file(path))?;
    }
    if cancel.load(Ordering::Relaxed) {
        let how = if args.state.is_some() { "; run the same command to go on" } else { "" };
        return Err(LabError::Usage(format!(
            "stopped after {} of {} games{how}",
            report.standings.games(),
            report.total
        )));
    }
    Ok(())
}
