//! One game between two players: clocks, legality, adjudication and forfeits. The loop in [`play_game`] asks
//! the sides in turn, and measures what the arena itself costs between two moves.

use crate::adjudication::{Adjudication, Adjudicator};
use crate::tablebase::Tablebase;
use crate::{
    EngineLimits, Fault, GameSoFar, Opening, Outcome, Player, PlayerClock, Termination, UciScore,
    result_by_rules,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_chess::{Board, Color, Move, Piece, Position, uci};

/// One move of a game, by a player or from the opening.
#[derive(Clone, Debug)]
pub struct PlayedMove {
    /// The move itself, legal in its position.
    pub mv: Move,
    /// Evaluation and time of the player; `None` for a move of the opening.
    pub thought: Option<MoveStats>,
}

/// Data about the search of one move, as the PGN comment shows it.
#[derive(Clone, Copy, Debug)]
pub struct MoveStats {
    /// Evaluation for the side that moved; `None` if the engine reported none.
    pub score: Option<UciScore>,
    /// Depth of the search in plies; `None` if the engine reported none.
    pub depth: Option<u32>,
    /// Wall-clock time from `go` to the arrival of the move.
    pub elapsed: Duration,
    /// Time left on the clock after the move, increment included; `None` without a game clock.
    pub left: Option<Duration>,
}

/// A finished game with everything that the PGN and the statistics need.
#[derive(Clone, Debug)]
pub struct GameRecord {
    /// Position before the first move.
    pub start: Board,
    /// All moves in order, those of the opening first.
    pub moves: Vec<PlayedMove>,
    /// Result by the rules, by adjudication or by forfeit.
    pub outcome: Outcome,
    /// Reason for the end of the game, for example checkmate or time loss.
    pub termination: Termination,
    /// Explanation of a forfeit, for example by how many milliseconds a move was late; `None` otherwise.
    pub details: Option<String>,
    /// Side that forfeited; `None` in a game that ended regularly.
    pub culprit: Option<Color>,
    /// Time that the arena itself used between the moves of the game.
    pub overhead: Overhead,
}

/// Cost of the arena: time from the arrival of a move to the next `go`, beside the time that the players
/// thought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overhead {
    /// Total time during which the players' clocks ran.
    pub thinking: Duration,
    /// Number of intervals counted in `total`: one for each move but the first.
    pub moves: u32,
    /// Total time between moves; divided by `moves` it is the mean overhead.
    pub total: Duration,
    /// Longest single interval, which shows a machine with too many games at once.
    pub worst: Duration,
}

impl Overhead {
    /// Adds the times and counts of another game to this one.
    pub fn add(&mut self, other: &Self) {
        self.thinking += other.thinking;
        self.moves += other.moves;
        self.total += other.total;
        self.worst = self.worst.max(other.worst);
    }
}

/// Rules that apply to all games of a match, beside the laws of chess.
#[derive(Clone, Debug, Default)]
pub struct GameRules {
    /// Early ends by the players' evaluations or by length.
    pub adjudication: Adjudication,
    /// Chess960: castling is written as the king taking its rook, and engines are set to `UCI_Chess960`.
    pub chess960: bool,
    /// Tablebases that adjudicate won, lost and drawn positions; `None` to play them out.
    pub tablebase: Option<Tablebase>,
}

/// Plays one game from the end of `opening`, White first in `players` and `limits`. Returns `None` if `stop`
/// was set before the end. A player that crashes, hangs, is late or plays an illegal move forfeits.
pub fn play_game(
    players: [&mut dyn Player; 2],
    limits: [EngineLimits; 2],
    opening: &Opening,
    rules: &GameRules,
    stop: &AtomicBool,
) -> Option<GameRecord> {
    let [white, black] = players;
    let players = [white, black];
    let mut clocks = limits.map(PlayerClock::new);
    let mut game = GameInProgress::new(opening, rules);
    for side in Color::ALL {
        if let Err(fault) = players[side as usize].new_game(rules.chess960) {
            return game.forfeit(side, fault);
        }
    }
    let mut adjudicator = Adjudicator::new(rules.adjudication);
    loop {
        if let Some((outcome, termination)) = game.result() {
            return Some(game.end(outcome, termination));
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let side = game.position.side_to_move();
        let (us, them) = (side as usize, !side as usize);
        let thought = match players[us].think(&game.so_far(), &clocks[us], &clocks[them]) {
            Ok(thought) => thought,
            Err(fault) => return game.forfeit(side, fault),
        };
        game.record_overhead(thought.started, thought.elapsed);
        if let Err(overrun) = clocks[us].spend(thought.elapsed) {
            return game.forfeit(side, Fault::Time(overrun.0));
        }
        let move_number = u32::from(game.position.board().fullmove_number());
        let played = MoveStats {
            score: thought.score,
            depth: thought.depth,
            elapsed: thought.elapsed,
            left: clocks[us].left(),
        };
        game.play(PlayedMove { mv: thought.mv, thought: Some(played) });
        players[us].start_pondering(&game.so_far(), &clocks[us], &clocks[them]);
        // The rules of chess take precedence over every adjudication.
        if game.result().is_none() {
            let irreversible = game.position.board().halfmove_clock() == 0;
            let early_result = adjudicator.after_move(side, thought.score, irreversible, move_number);
            if let Some((outcome, termination)) = early_result {
                return Some(game.end(outcome, termination));
            }
        }
    }
}

/// Record of a game that a side forfeits before its first move, for example because its engine did not start.
/// Returns `None` for [`Fault::Cancelled`], which is not a forfeit.
pub(crate) fn forfeit_unplayed(
    opening: &Opening,
    rules: &GameRules,
    side: Color,
    fault: Fault,
) -> Option<GameRecord> {
    GameInProgress::new(opening, rules).forfeit(side, fault)
}

/// State of a game in progress: the position and the record so far.
struct GameInProgress<'a> {
    start: Board,
    position: Position,
    text: String,
    moves: Vec<PlayedMove>,
    rules: &'a GameRules,
    overhead: Overhead,
    /// Arrival of the last move, from which the overhead of the next one is measured.
    last_move_at: Option<Instant>,
}

impl<'a> GameInProgress<'a> {
    fn new(opening: &Opening, rules: &'a GameRules) -> Self {
        let mut game = Self {
            start: opening.start.clone(),
            position: Position::from(opening.start.clone()),
            text: String::with_capacity(1024),
            moves: Vec::with_capacity(256),
            rules,
            overhead: Overhead::default(),
            last_move_at: None,
        };
        for &mv in &opening.moves {
            game.play(PlayedMove { mv, thought: None });
        }
        game
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

    fn record_overhead(&mut self, started: Instant, elapsed: Duration) {
        self.overhead.thinking += elapsed;
        if let Some(before) = self.last_move_at.replace(started + elapsed) {
            let cost = started.saturating_duration_since(before);
            self.overhead.add(&Overhead { thinking: Duration::ZERO, moves: 1, total: cost, worst: cost });
        }
    }

    /// Result of the current position by the rules of chess or the tablebases, if the game is over.
    fn result(&self) -> Option<(Outcome, Termination)> {
        result_by_rules(&self.position).or_else(|| {
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

    /// Ends the game by a forfeit. The side at fault loses, except that a loss on time is a draw against a
    /// bare king. A cancelled game has no result and no record.
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
