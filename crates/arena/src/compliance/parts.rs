//! The parts of a run: each asks the engine one kind of question.

use super::questions::{FINISHED, Setup, random_limit, random_moves, random_setup, start_position};
use super::report::Check;
use super::search_check::Question;
use super::session::{Ending, Session};
use crate::{Fault, OptionKind, PlayerClock, UciOption, result_by_rules};
use std::time::Duration;
use tandem_chess::{Color, Move, Position, uci};
use tandem_util::random::SplitMix;

/// Games without a result are ended after this number of plies.
const MAX_PLIES: usize = 400;
/// Random plies from the start position before the engine plays.
const OPENING_PLIES: usize = 8;
/// Growth of memory between the middle and the end of the searches that is not a leak, in MiB.
const MEMORY_TOLERANCE: f64 = 32.0;
/// Values of options that take memory or threads are limited to this, in MiB or threads.
const LARGEST_RESOURCE: i64 = 64;
const LARGEST_THREADS: i64 = 4;

impl Session<'_> {
    fn ask_from(&mut self, setup: &Setup, go: &str, ending: Ending) -> Result<Option<Move>, Fault> {
        let commands = format!("{}go {go}\n", setup.command);
        let question = Question {
            position: &setup.position,
            chess960: self.chess960,
            multipv: self.multipv,
            search_moves: &[],
            relaxed: self.settings.weakened,
            commands: &commands,
        };
        self.search(&question, ending).map(|(best, _)| best)
    }

    /// Commands outside a search, finished positions, pondering and `isready` during a search.
    pub(super) fn check_protocol(&mut self, random: &mut SplitMix) -> Result<(), Fault> {
        for text in
            ["", "   ", "xyzzy", "go_away", "debug on", "debug off", "setoption name No Such Option value 3"]
        {
            self.send(&format!("{text}\n"))?;
            self.ready()?;
            self.report.check(Check::Unknown, true, String::new);
        }
        self.send("\t isready  \nstop\nponderhit\n  position   startpos  moves \t e2e4 \n")?;
        self.ready()?;
        let mut position = Position::startpos();
        let after = position.legal_moves().into_iter().find(|mv| mv.to_string() == "e2e4");
        after.into_iter().for_each(|mv| position.play(mv));
        let odd = Setup { position, command: String::new() };
        let best = self.ask_from(&odd, "  depth \t 3 ", Ending::Limit)?;
        self.report.check(Check::Unknown, best.is_some(), || "odd white space was not understood".into());

        for text in FINISHED {
            let position = Position::from_fen(text).map_err(|error| Fault::Hang(error.to_string()))?;
            let setup = Setup { command: format!("position fen {text}\n"), position };
            for (go, ending) in [
                ("depth 5", Ending::Limit),
                ("movetime 20", Ending::Time(Duration::from_millis(20))),
                ("infinite", Ending::Stop(Duration::from_millis(20))),
            ] {
                self.ask_from(&setup, go, ending)?;
            }
        }
        for _ in 0..10 {
            let setup = random_setup(false, random);
            self.check_search_moves(&setup, random)?;
            let commands = format!("{}go infinite\n", setup.command);
            self.check_ready_during_search(&commands, 20)?;
        }
        if self.has_option("Ponder") {
            self.send("setoption name Ponder value true\n")?;
            for n in 0..10 {
                let setup = random_setup(false, random);
                let time = Duration::from_millis(300);
                let go = "ponder wtime 300 btime 300 winc 10 binc 10";
                let after = Duration::from_millis(random.below(400).into());
                let ending =
                    if n % 2 == 0 { Ending::PonderHit(after, time) } else { Ending::StopAlone(after) };
                self.ask_from(&setup, go, ending)?;
            }
            self.send("setoption name Ponder value false\n")?;
        }
        Ok(())
    }

    fn check_search_moves(&mut self, setup: &Setup, random: &mut SplitMix) -> Result<(), Fault> {
        let mut moves = setup.position.legal_moves().to_vec();
        random.shuffle(&mut moves);
        moves.truncate(1 + random.below(3) as usize);
        let words: Vec<String> =
            moves.iter().map(|&mv| uci::format(setup.position.board(), mv, self.chess960)).collect();
        let commands = format!("{}go depth 4 searchmoves {}\n", setup.command, words.join(" "));
        let question = Question {
            position: &setup.position,
            chess960: self.chess960,
            multipv: self.multipv,
            search_moves: &moves,
            relaxed: self.settings.weakened,
            commands: &commands,
        };
        self.search(&question, Ending::Limit).map(drop)
    }

    /// Searches of random positions at random limits, some in Chess960, some with several lines.
    pub(super) fn check_searches(&mut self, random: &mut SplitMix) -> Result<(), Fault> {
        let (has_960, has_lines) = (self.has_option("UCI_Chess960"), self.has_option("MultiPV"));
        let usual = self.multipv;
        let mut before = None;
        for n in 0..self.settings.searches {
            let chess960 = has_960 && random.below(3) == 0;
            let multipv =
                if has_lines && random.below(4) == 0 { 2 + random.below(5) as usize } else { usual };
            self.set_mode(chess960, multipv)?;
            if random.below(10) == 0 {
                self.send("ucinewgame\n")?;
            }
            let setup = random_setup(chess960, random);
            let (go, ending) = random_limit(setup.position.side_to_move(), random);
            self.ask_from(&setup, &go, ending)?;
            if n == self.settings.searches / 2 {
                before = self.memory();
            }
        }
        self.set_mode(false, usual)?;
        if let (Some(before), Some(after)) = (before, self.memory()) {
            self.report.record(Check::Memory, after);
            let tolerance = MEMORY_TOLERANCE.max(before / 10.0);
            self.report.check(Check::Memory, after <= before + tolerance, || {
                format!("{after:.0} MiB at the end of the searches, {before:.0} MiB in their middle")
            });
        }
        Ok(())
    }

    /// Searches with little time, down to one millisecond.
    pub(super) fn check_clocks(&mut self, random: &mut SplitMix) -> Result<(), Fault> {
        for millis in [1, 2, 3, 5, 10, 20, 50, 100, 200] {
            let time = Duration::from_millis(millis);
            for go in [
                format!("movetime {millis}"),
                format!("wtime {millis} btime {millis}"),
                format!("wtime {millis} btime {millis} winc 10 binc 10"),
                format!("wtime {millis} btime {millis} movestogo 1"),
                format!("wtime {millis} btime {millis} movestogo 40"),
            ] {
                for _ in 0..2 {
                    let setup = random_setup(false, random);
                    self.ask_from(&setup, &go, Ending::Time(time))?;
                }
            }
        }
        Ok(())
    }

    /// Sets each option to the ends of its range and to random values, with a short search after each.
    /// Options of text are left alone, because they name files.
    pub(super) fn check_options(&mut self, random: &mut SplitMix) -> Result<(), Fault> {
        // These change the form of the output and have checks of their own.
        let is_mode = |name: &str| {
            ["UCI_Chess960", "MultiPV", "Ponder"].iter().any(|mode| name.eq_ignore_ascii_case(mode))
        };
        let is_skipped = |name: &str| {
            is_mode(name)
                || self.settings.skip_options.iter().any(|skipped| name.eq_ignore_ascii_case(skipped))
        };
        let options: Vec<UciOption> =
            self.options.iter().filter(|option| !is_skipped(&option.name)).cloned().collect();
        self.set_mode(false, 1)?;
        let setup = Setup::new(&start_position(false, random), &[], false);
        for option in &options {
            for value in values_to_try(option, random) {
                let command = match option.kind {
                    OptionKind::Button => format!("setoption name {}\n", option.name),
                    _ => format!("setoption name {} value {value}\n", option.name),
                };
                self.send(&command)?;
                let commands = format!("{}go depth 3\n", setup.command);
                let question = Question {
                    position: &setup.position,
                    chess960: false,
                    multipv: 1,
                    search_moves: &[],
                    relaxed: true,
                    commands: &commands,
                };
                let (best, _) = self.search(&question, Ending::Limit)?;
                self.report
                    .check(Check::Options, best.is_some(), || format!("no legal move after {command}"));
            }
            // One option's fault is not counted again with the next.
            let is_value =
                matches!(option.kind, OptionKind::Check | OptionKind::Spin { .. } | OptionKind::Combo(_));
            if let Some(default) = option.default.as_deref().filter(|_| is_value) {
                self.send(&format!("setoption name {} value {default}\n", option.name))?;
            }
        }
        Ok(())
    }

    /// One game of the engine against itself, at the limits of its description.
    pub(super) fn play_game(&mut self, chess960: bool, random: &mut SplitMix) -> Result<(), Fault> {
        let usual = self.multipv;
        self.set_mode(chess960, usual)?;
        self.send("ucinewgame\n")?;
        let start = start_position(chess960, random);
        let mut moves = loop {
            if let Some(moves) = random_moves(&start, OPENING_PLIES, random) {
                break moves;
            }
        };
        let limits = self.settings.spec.limits;
        let mut clocks = [PlayerClock::new(limits); 2];
        loop {
            let setup = Setup::new(&start, &moves, chess960);
            if result_by_rules(&setup.position).is_some() || moves.len() >= MAX_PLIES {
                break;
            }
            let white = setup.position.side_to_move() == Color::White;
            let (mine, theirs) = if white { (0, 1) } else { (1, 0) };
            let go = clocks[mine].go_arguments(&clocks[theirs], white);
            let commands = format!("{}go{go}\n", setup.command);
            let question = Question {
                position: &setup.position,
                chess960,
                multipv: usual,
                search_moves: &[],
                relaxed: self.settings.weakened,
                commands: &commands,
            };
            let ending = clocks[mine].allowance().map_or(Ending::Limit, Ending::Time);
            let (best, elapsed) = self.search(&question, ending)?;
            // A late or illegal move has been counted; the game goes no further.
            let Some(best) = best.filter(|_| clocks[mine].spend(elapsed).is_ok()) else { break };
            moves.push(best);
        }
        self.report.games += 1;
        self.set_mode(false, usual)
    }
}

/// Values of an option to try: the ends of its range and a random value, or every choice, or both states.
fn values_to_try(option: &UciOption, random: &mut SplitMix) -> Vec<String> {
    match &option.kind {
        OptionKind::Check => vec!["true".into(), "false".into()],
        OptionKind::Spin { min, max } => {
            let name = option.name.to_ascii_lowercase();
            let is_any = |words: &[&str]| words.iter().any(|word| name.contains(word));
            let limit = if is_any(&["thread", "core"]) {
                LARGEST_THREADS
            } else if is_any(&["hash", "memory", "cache", "mb"]) {
                LARGEST_RESOURCE
            } else {
                i64::MAX
            };
            let max = (*max).min(limit).max(*min);
            let width = max.abs_diff(*min).min(u64::from(u32::MAX - 1)) as u32;
            let value = min.saturating_add(i64::from(random.below(width + 1)));
            [*min, max, value].map(|value| value.to_string()).into()
        }
        OptionKind::Combo(choices) => choices.clone(),
        OptionKind::Button => vec![String::new()],
        OptionKind::Text => Vec::new(),
    }
}
