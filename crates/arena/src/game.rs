//! One game between two players.

use crate::adjudication::{Adjudication, Adjudicator};
use crate::tablebase::Tablebase;
use crate::{Clock, Fault, GameSoFar, Limits, Opening, Outcome, Player, Score, Termination, verdict};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_chess::{Board, Color, Move, Piece, Position, uci};

/// A move as it was played.
#[derive(Clone, Debug)]
pub struct PlayedMove {
    /// The move.
    pub mv: Move,
    /// What its player thought of it; none for a move of the opening.
    pub thought: Option<PlayedThought>,
}

/// What a player's thinking left behind.
#[derive(Clone, Copy, Debug)]
pub struct PlayedThought {
    /// Evaluation for the side that moved.
    pub score: Option<Score>,
    /// Depth of the search.
    pub depth: Option<u32>,
    /// Time it took.
    pub elapsed: Duration,
    /// Time left on the clock after the move.
    pub left: Option<Duration>,
}

/// A game from start to end.
#[derive(Clone, Debug)]
pub struct GameRecord {
    /// Where it started.
    pub start: Board,
    /// All moves, those of the opening first.
    pub moves: Vec<PlayedMove>,
    /// Its result.
    pub outcome: Outcome,
    /// What ended it.
    pub termination: Termination,
    /// Details for people where a side forfeited, such as how much too late it was.
    pub details: Option<String>,
    /// The side that forfeited.
    pub culprit: Option<Color>,
    /// What the arena itself needed between moves.
    pub overhead: Overhead,
}

/// Time from the arrival of a move to the next `go`: the arena's own cost, beside the time that players thought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overhead {
    /// Time that some player's clock ran.
    pub thinking: Duration,
    /// Moves counted.
    pub moves: u32,
    /// Sum over them.
    pub total: Duration,
    /// The worst.
    pub worst: Duration,
}

impl Overhead {
    /// Adds another game's.
    pub fn add(&mut self, other: &Self) {
        self.thinking += other.thinking;
        self.moves += other.moves;
        self.total += other.total;
        self.worst = self.worst.max(other.worst);
    }
}

/// How games are played.
#[derive(Clone, Debug, Default)]
pub struct GameRules {
    /// When they end early.
    pub adjudication: Adjudication,
    /// Castling as king takes rook.
    pub chess960: bool,
    /// Tablebases that end games, where there are any.
    pub tablebase: Option<Tablebase>,
}

/// Plays a game. None when `stop` was set before its end.
pub fn play_game(
    players: [&mut dyn Player; 2],
    limits: [Limits; 2],
    opening: &Opening,
    rules: &GameRules,
    stop: &AtomicBool,
) -> Option<GameRecord> {
    let [white, black] = players;
    let players = [white, black];
    let mut clocks = limits.map(Clock::new);
    let mut table = Table::new(opening, rules);
    for side in Color::ALL {
        if let Err(fault) = players[side as usize].new_game(rules.chess960) {
            return table.forfeit(side, fault);
        }
    }
    let mut adjudicator = Adjudicator::new(rules.adjudication);
    loop {
        if let Some((outcome, termination)) = table.verdict() {
            return Some(table.end(outcome, termination));
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let side = table.position.side_to_move();
        let (us, them) = (side as usize, !side as usize);
        let thought = match players[us].think(&table.so_far(), &clocks[us], &clocks[them]) {
            Ok(thought) => thought,
            Err(fault) => return table.forfeit(side, fault),
        };
        table.book_overhead(thought.started, thought.elapsed);
        if let Err(overrun) = clocks[us].spend(thought.elapsed) {
            return table.forfeit(side, Fault::Time(overrun.0));
        }
        let move_number = u32::from(table.position.board().fullmove_number());
        let played = PlayedThought {
            score: thought.score,
            depth: thought.depth,
            elapsed: thought.elapsed,
            left: clocks[us].left(),
        };
        table.play(PlayedMove { mv: thought.mv, thought: Some(played) });
        players[us].opponent_thinks(&table.so_far(), &clocks[us], &clocks[them]);
        // The rules of chess go before every adjudication.
        if table.verdict().is_none() {
            let irreversible = table.position.board().halfmove_clock() == 0;
            let verdict = adjudicator.after_move(side, thought.score, irreversible, move_number);
            if let Some((outcome, termination)) = verdict {
                return Some(table.end(outcome, termination));
            }
        }
    }
}

/// A game that a side forfeits before its first move. None when nothing is wrong with it.
pub(crate) fn forfeit_unplayed(
    opening: &Opening,
    rules: &GameRules,
    side: Color,
    fault: Fault,
) -> Option<GameRecord> {
    Table::new(opening, rules).forfeit(side, fault)
}

/// The board and its game record while the game runs.
struct Table<'a> {
    start: Board,
    position: Position,
    text: String,
    moves: Vec<PlayedMove>,
    rules: &'a GameRules,
    overhead: Overhead,
    /// When the last move became known.
    known: Option<Instant>,
}

impl<'a> Table<'a> {
    fn new(opening: &Opening, rules: &'a GameRules) -> Self {
        let mut table = Self {
            start: opening.start.clone(),
            position: Position::from(opening.start.clone()),
            text: String::with_capacity(1024),
            moves: Vec::with_capacity(256),
            rules,
            overhead: Overhead::default(),
            known: None,
        };
        for &mv in &opening.moves {
            table.play(PlayedMove { mv, thought: None });
        }
        table
    }

    fn so_far(&self) -> GameSoFar<'_> {
        GameSoFar {
            start: &self.start,
            moves: &self.text,
            position: &self.position,
            chess960: self.rules.chess960,
        }
    }

    fn play(&mut self, played: PlayedMove) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text += &uci::format(self.position.board(), played.mv, self.rules.chess960);
        self.position.play(played.mv);
        self.moves.push(played);
    }

    fn book_overhead(&mut self, started: Instant, elapsed: Duration) {
        self.overhead.thinking += elapsed;
        if let Some(before) = self.known.replace(started + elapsed) {
            let cost = started.saturating_duration_since(before);
            self.overhead.add(&Overhead { thinking: Duration::ZERO, moves: 1, total: cost, worst: cost });
        }
    }

    /// What the rules of chess, or the tablebases, say about the position.
    fn verdict(&self) -> Option<(Outcome, Termination)> {
        verdict(&self.position).or_else(|| {
            let tablebase = self.rules.tablebase.as_ref()?;
            tablebase.outcome(&self.position).map(|outcome| (outcome, Termination::Tablebase))
        })
    }

    fn end(self, outcome: Outcome, termination: Termination) -> GameRecord {
        GameRecord {
            start: self.start,
            moves: self.moves,
            outcome,
            termination,
            details: None,
            culprit: None,
            overhead: self.overhead,
        }
    }

    /// The side at fault loses; on time it only draws against one that cannot mate. A game that was called off is
    /// nobody's fault, and no game.
    fn forfeit(self, side: Color, fault: Fault) -> Option<GameRecord> {
        let (termination, details) = match fault {
            Fault::Crash(why) => (Termination::Crash, why),
            Fault::Hang(why) => (Termination::Hang, why),
            Fault::Illegal(text) => {
                (Termination::IllegalMove, format!("'{text}' is not a legal move in {}", self.position.fen()))
            }
            Fault::Time(overrun) => {
                (Termination::TimeLoss, format!("{:.1} ms over its time", overrun.as_secs_f64() * 1000.0))
            }
            Fault::Cancelled => return None,
        };
        let board = self.position.board();
        let bare_king = board.colors(!side) == board.colors(!side) & board.pieces(Piece::King);
        let drawn = termination == Termination::TimeLoss && bare_king;
        let outcome = if drawn { Outcome::Draw } else { Outcome::won_by(!side) };
        Some(GameRecord { details: Some(details), culprit: Some(side), ..self.end(outcome, termination) })
    }
}
