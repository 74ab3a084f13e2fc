//! The state of a game at the terminal: it takes a typed line or asks the opponent, and returns the text to
//! print.

use super::opponent::Opponent;
use super::ranking_table;
use crate::board_art::{Style, draw};
use tandem_arena::{Analysis, EngineLimits, Fault, GameSoFar, Outcome, PlayerClock, UciScore};
use tandem_chess::{Board, Color, Move, Position, fen, pgn, san, uci};

/// The result of a typed line or of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Text to print; the game continues.
    Print(String),
    /// The game is over; the text says why.
    Over(String),
    /// The user leaves the game unfinished.
    Quit,
    /// The opponent failed; the text says how.
    Failed(String),
}

fn failed(fault: &Fault) -> Step {
    match fault {
        Fault::Cancelled => Step::Quit,
        fault => Step::Failed(format!("the engine failed: {fault}")),
    }
}

/// A game between a person and an opponent.
pub(super) struct Session<'a> {
    start: Board,
    position: Position,
    moves: Vec<Move>,
    /// The opponent's evaluation after each move, for the side that moved.
    scores: Vec<Option<UciScore>>,
    human: Color,
    view: Color,
    style: Style,
    limits: EngineLimits,
    opponent: &'a mut Opponent,
    /// Shows the network's ranking of all moves at each turn.
    pub(super) show_ranking: bool,
    result: pgn::GameResult,
}

const HELP: &str = "\
  a move        SAN (Nf3, exd5, O-O, e8=Q) or UCI (g1f3)
  back          take back your last move
  hint          suggest a move
  eval          show the opponent's evaluation and best line
  rank          show a network's ranking of all moves
  board, flip   show the board; turn it around
  moves, fen    list the legal moves; print the position as FEN
  resign, quit  end the game; leave it unfinished
";

impl<'a> Session<'a> {
    pub(super) fn new(
        position: Position,
        human: Color,
        style: Style,
        limits: EngineLimits,
        opponent: &'a mut Opponent,
    ) -> Self {
        Self {
            start: position.board().clone(),
            position,
            moves: Vec::new(),
            scores: Vec::new(),
            human,
            view: human,
            style,
            limits,
            opponent,
            show_ranking: false,
            result: pgn::GameResult::Unknown,
        }
    }

    pub(super) fn is_humans_turn(&self) -> bool {
        self.position.side_to_move() == self.human
    }

    pub(super) fn board(&self) -> String {
        draw(self.position.board(), self.style, self.view, self.moves.last().copied())
    }

    /// The board, with the ranking of the moves if it is the user's turn.
    pub(super) fn turn(&mut self) -> String {
        let ranking = if self.is_humans_turn() { self.shown_ranking() } else { String::new() };
        self.board() + &ranking
    }

    /// The ranking of the moves, if it is to be shown at each turn; otherwise empty.
    fn shown_ranking(&mut self) -> String {
        let ranking = if self.show_ranking { self.rank_moves() } else { None };
        ranking.unwrap_or_default()
    }

    /// The network's ranking of all moves; `None` against an engine.
    fn rank_moves(&mut self) -> Option<String> {
        let Opponent::Network(strategist) = &mut *self.opponent else { return None };
        let method = strategist.method();
        let ranked = strategist.rank_moves(&mut self.position);
        Some(ranking_table::text(self.position.board(), method, ranked.moves, self.style))
    }

    /// Move number and side, such as `12.` or `12...`.
    pub(super) fn prompt(&self) -> String {
        let dots = if self.position.side_to_move() == Color::White { "." } else { "..." };
        format!("{}{dots}", self.position.board().fullmove_number())
    }

    /// Executes a typed line: a command or a move.
    pub(super) fn execute(&mut self, line: &str) -> Step {
        let word = line.to_ascii_lowercase();
        match word.as_str() {
            "" => Step::Print(String::new()),
            "help" | "?" => Step::Print(HELP.into()),
            "quit" | "exit" => Step::Quit,
            "board" => Step::Print(self.board()),
            "flip" => {
                self.view = !self.view;
                Step::Print(self.board())
            }
            "fen" => Step::Print(format!("{}\n", self.position.fen())),
            "moves" => {
                let mut moves: Vec<String> = self
                    .position
                    .legal_moves()
                    .iter()
                    .map(|&mv| san::format(self.position.board(), mv))
                    .collect();
                moves.sort();
                Step::Print(format!("{}\n", moves.join(" ")))
            }
            "back" | "undo" => self.take_back(),
            "hint" => self.with_analysis(|session, analysis| {
                let mv = san::format(session.position.board(), analysis.best);
                format!("try {mv}{}\n", evaluation(session.position.side_to_move(), analysis.score()))
            }),
            "eval" => self.with_analysis(|session, analysis| {
                let line = variation(&session.position, analysis);
                format!("{}  {line}\n", evaluation(session.position.side_to_move(), analysis.score()).trim())
            }),
            "rank" | "weigh" => {
                let none = "an engine does not rank moves: 'eval' shows its best line; 'play --net' is for networks\n";
                Step::Print(self.rank_moves().unwrap_or_else(|| none.into()))
            }
            "resign" => {
                self.result = pgn::GameResult::won_by(!self.human);
                Step::Over(format!("{} resigns. {}", color_name(self.human), self.result))
            }
            _ => self.try_move(line),
        }
    }

    fn try_move(&mut self, line: &str) -> Step {
        let board = self.position.board();
        let mv = san::parse(board, line).or_else(|error| uci::parse(board, line).map_err(|_| error));
        match mv {
            Ok(mv) => {
                self.play(mv, None);
                let board = self.board();
                self.verdict().unwrap_or(Step::Print(board))
            }
            Err(error) => {
                Step::Print(format!("{error}. Type 'moves' for the legal ones, 'help' for the rest\n"))
            }
        }
    }

    fn play(&mut self, mv: Move, score: Option<UciScore>) {
        self.position.play(mv);
        self.moves.push(mv);
        self.scores.push(score);
    }

    /// Takes back moves up to and including the user's last one.
    fn take_back(&mut self) -> Step {
        let mut took = false;
        while self.position.undo() {
            self.moves.pop();
            self.scores.pop();
            took = true;
            if self.is_humans_turn() {
                return Step::Print(self.turn());
            }
        }
        Step::Print(if took { self.turn() } else { "there is nothing to take back\n".into() })
    }

    fn ask(&mut self) -> Result<Analysis, Fault> {
        let chess960 = fen::is_chess960(&self.start);
        let mut position = Position::from(self.start.clone());
        let mut moves = String::new();
        for &mv in &self.moves {
            if !moves.is_empty() {
                moves.push(' ');
            }
            moves += &uci::format(position.board(), mv, chess960);
            position.play(mv);
        }
        let game = GameSoFar { start: &self.start, moves: &moves, position: &position, chess960 };
        self.opponent.analyst().analyse(&game, &PlayerClock::new(self.limits))
    }

    fn with_analysis(&mut self, answer: impl Fn(&Self, &Analysis) -> String) -> Step {
        match self.ask() {
            Ok(analysis) => Step::Print(answer(self, &analysis)),
            Err(fault) => failed(&fault),
        }
    }

    /// Asks the opponent for its move and plays it.
    pub(super) fn answer(&mut self) -> Step {
        let ranking = self.shown_ranking();
        match self.ask() {
            Ok(analysis) => {
                let text = format!(
                    "{ranking}{} {}{}\n",
                    self.prompt(),
                    san::format(self.position.board(), analysis.best),
                    evaluation(self.position.side_to_move(), analysis.score())
                );
                self.play(analysis.best, analysis.score());
                match self.verdict() {
                    Some(Step::Over(end)) => Step::Over(text + &self.board() + &end),
                    _ => Step::Print(text + &self.turn()),
                }
            }
            Err(fault) => failed(&fault),
        }
    }

    /// The end of the game by the rules, if it has come.
    fn verdict(&mut self) -> Option<Step> {
        let (outcome, termination) = tandem_arena::result_by_rules(&self.position)?;
        let result = match outcome {
            Outcome::WhiteWins => pgn::GameResult::WhiteWins,
            Outcome::BlackWins => pgn::GameResult::BlackWins,
            Outcome::Draw => pgn::GameResult::Draw,
        };
        self.result = result;
        Some(Step::Over(format!("{result} by {termination}")))
    }

    /// The game as PGN, with the opponent's evaluations as comments.
    pub(super) fn to_pgn(&self, human: &str) -> String {
        let mut game = pgn::Game::from_start(self.start.clone());
        let names = match self.human {
            Color::White => [human, self.opponent.name()],
            Color::Black => [self.opponent.name(), human],
        };
        game.set_tag("Event", "Game at the terminal");
        game.set_tag("Date", &tandem_arena::date_utc(std::time::SystemTime::now()));
        game.set_tag("White", names[0]);
        game.set_tag("Black", names[1]);
        game.result = self.result;
        let mut side = self.start.side_to_move();
        for (&mv, score) in self.moves.iter().zip(&self.scores) {
            let mut ply = pgn::Ply::new(mv);
            let for_white = |score: &UciScore| if side == Color::White { *score } else { score.flipped() };
            ply.comment = score.as_ref().map(|score| format!("[%eval {}]", for_white(score)));
            game.moves.push(ply);
            side = !side;
        }
        let mut text = Vec::new();
        match pgn::write(&mut text, &game) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("the game cannot be written: {error}\n"),
        }
    }
}

/// An evaluation from White's view, in parentheses.
fn evaluation(side: Color, score: Option<UciScore>) -> String {
    let Some(score) = score else { return String::new() };
    let score = if side == Color::White { score } else { score.flipped() };
    format!(
        "  ({}{score})",
        if score.centipawns() > 0 && matches!(score, UciScore::Cp(_)) { "+" } else { "" }
    )
}

/// The principal variation in SAN, at most ten moves.
fn variation(position: &Position, analysis: &Analysis) -> String {
    let Some((_, info)) = analysis.infos.iter().rev().find(|(_, info)| !info.pv.is_empty()) else {
        return san::format(position.board(), analysis.best);
    };
    let mut board = Position::from(position.board().clone());
    let mut line = Vec::new();
    for text in info.pv.iter().take(10) {
        let Ok(mv) = uci::parse(board.board(), text) else { break };
        line.push(san::format(board.board(), mv));
        board.play(mv);
    }
    line.join(" ")
}

/// `White` or `Black`, for display.
pub(super) fn color_name(color: Color) -> &'static str {
    match color {
        Color::White => "White",
        Color::Black => "Black",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tandem_arena::{Analyst, UciInfo};

    /// Plays the first legal move in alphabetical order.
    struct First;

    impl Analyst for First {
        fn name(&self) -> &str {
            "First"
        }
        fn analyse(&mut self, game: &GameSoFar, _: &PlayerClock) -> Result<Analysis, Fault> {
            let mut moves: Vec<String> =
                game.position.legal_moves().iter().map(ToString::to_string).collect();
            moves.sort();
            let info = UciInfo::parse(&format!("info depth 3 score cp 25 pv {}", moves[0]));
            let best = moves[0].parse().unwrap();
            Ok(Analysis { best, elapsed: Duration::ZERO, infos: vec![(Duration::ZERO, info)] })
        }
        fn reset(&mut self, _: bool) -> Result<(), Fault> {
            Ok(())
        }
        fn is_usable(&self) -> bool {
            true
        }
    }

    fn printed(step: Step) -> String {
        match step {
            Step::Print(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_short_game_to_mate() {
        let mut engine = Opponent::Engine(Box::new(First));
        let mut session = Session::new(
            Position::startpos(),
            Color::Black,
            Style::Ascii,
            EngineLimits::default(),
            &mut engine,
        );
        assert!(!session.is_humans_turn());
        // White plays f3 and g4, so that Black can mate.
        for text in ["f2f3", "e7e5", "g2g4"] {
            printed(session.execute(text));
        }
        assert!(session.is_humans_turn());
        let Step::Over(text) = session.execute("Qh4") else { panic!("mate ends the game") };
        assert_eq!(text, "0-1 by checkmate");
        let pgn = session.to_pgn("Ada");
        assert!(pgn.contains("[White \"First\"]") && pgn.contains("[Black \"Ada\"]"), "{pgn}");
        assert!(pgn.contains("Qh4# 0-1"), "{pgn}");
    }

    #[test]
    fn moves_are_taken_back_in_pairs() {
        let mut engine = Opponent::Engine(Box::new(First));
        let mut session = Session::new(
            Position::startpos(),
            Color::White,
            Style::Ascii,
            EngineLimits::default(),
            &mut engine,
        );
        assert_eq!(printed(session.execute("back")), "there is nothing to take back\n");
        printed(session.execute("Nf3"));
        assert!(printed(session.answer()).starts_with("1... a5  (-0.25)"));
        assert!(printed(session.execute("e9")).contains("legal"));
        printed(session.execute("back"));
        assert_eq!(session.position.fen(), Position::startpos().fen());
        assert!(printed(session.execute("hint")).starts_with("try a3  (+0.25)"));
        assert!(printed(session.execute("eval")).contains("a3"));
        assert!(printed(session.execute("rank")).contains("play --net"));
        assert_eq!(session.execute("weigh"), session.execute("rank"), "the old name still works");
        assert!(printed(session.execute("moves")).contains("Nf3"));
        assert!(printed(session.execute("help")).contains("take back"));
        assert_eq!(session.execute("quit"), Step::Quit);
        assert!(matches!(session.execute("resign"), Step::Over(text) if text.contains("0-1")));
    }
}
