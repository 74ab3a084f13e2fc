//! The game at the table: what is typed, and what comes back.

use super::opponent::Opponent;
use super::weights_table;
use crate::board_art::{Style, draw};
use tandem_arena::{Analysis, Clock, Fault, GameSoFar, Limits, Outcome, Score};
use tandem_chess::{Board, Color, Move, Position, fen, pgn, san, uci};

/// What follows from a line or a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something to print; the game goes on.
    Say(String),
    /// The game is over.
    Over(String),
    /// The person leaves.
    Quit,
    /// The engine cannot go on.
    Failed(String),
}

fn failed(fault: &Fault) -> Step {
    match fault {
        Fault::Cancelled => Step::Quit,
        fault => Step::Failed(format!("the engine failed: {fault}")),
    }
}

/// A game between a person and an engine.
pub(super) struct Session<'a> {
    start: Board,
    position: Position,
    moves: Vec<Move>,
    /// The engine's evaluation after each move, for the side that moved.
    scores: Vec<Option<Score>>,
    human: Color,
    view: Color,
    style: Style,
    limits: Limits,
    opponent: &'a mut Opponent,
    /// Whether a network says at each turn what it thinks of every move.
    pub(super) show_weights: bool,
    result: pgn::GameResult,
}

const HELP: &str = "\
  a move        SAN (Nf3, exd5, O-O, e8=Q) or UCI (g1f3)
  back          take back your last move
  hint          what the engine would play
  eval          what the engine thinks of the position
  weigh         what a network thinks of every move
  board, flip   show the board; from the other side
  moves, fen    the legal moves; the position as FEN
  resign, quit  end the game; leave it unfinished
";

impl<'a> Session<'a> {
    pub(super) fn new(
        position: Position,
        human: Color,
        style: Style,
        limits: Limits,
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
            show_weights: false,
            result: pgn::GameResult::Unknown,
        }
    }

    pub(super) fn is_humans_turn(&self) -> bool {
        self.position.side_to_move() == self.human
    }

    pub(super) fn board(&self) -> String {
        draw(self.position.board(), self.style, self.view, self.moves.last().copied())
    }

    /// What a person sees when it is their turn.
    pub(super) fn turn(&mut self) -> String {
        let weights = if self.is_humans_turn() { self.shown_weights() } else { String::new() };
        self.board() + &weights
    }

    /// What the network thinks of every move, if that is to be shown at each turn.
    fn shown_weights(&mut self) -> String {
        let weights = if self.show_weights { self.weigh() } else { None };
        weights.unwrap_or_default()
    }

    /// What the network thinks of every move; none if an engine plays.
    fn weigh(&mut self) -> Option<String> {
        let Opponent::Network(strategist) = &mut *self.opponent else { return None };
        let method = strategist.method();
        let advice = strategist.weigh(&mut self.position);
        Some(weights_table::text(self.position.board(), method, advice.moves, self.style))
    }

    /// Move number and side, such as `12.` or `12...`.
    pub(super) fn prompt(&self) -> String {
        let dots = if self.position.side_to_move() == Color::White { "." } else { "..." };
        format!("{}{dots}", self.position.board().fullmove_number())
    }

    /// What the person typed.
    pub(super) fn hear(&mut self, line: &str) -> Step {
        let word = line.to_ascii_lowercase();
        match word.as_str() {
            "" => Step::Say(String::new()),
            "help" | "?" => Step::Say(HELP.into()),
            "quit" | "exit" => Step::Quit,
            "board" => Step::Say(self.board()),
            "flip" => {
                self.view = !self.view;
                Step::Say(self.board())
            }
            "fen" => Step::Say(format!("{}\n", self.position.fen())),
            "moves" => {
                let mut moves: Vec<String> = self
                    .position
                    .legal_moves()
                    .iter()
                    .map(|&mv| san::format(self.position.board(), mv))
                    .collect();
                moves.sort();
                Step::Say(format!("{}\n", moves.join(" ")))
            }
            "back" | "undo" => self.take_back(),
            "hint" => self.consult(|session, analysis| {
                let mv = san::format(session.position.board(), analysis.best);
                format!("try {mv}{}\n", evaluation(session.position.side_to_move(), analysis.score()))
            }),
            "eval" => self.consult(|session, analysis| {
                let line = variation(&session.position, analysis);
                format!("{}  {line}\n", evaluation(session.position.side_to_move(), analysis.score()).trim())
            }),
            "weigh" => {
                let none = "an engine weighs lines, not moves: 'eval' shows its best; 'play --net' is for networks\n";
                Step::Say(self.weigh().unwrap_or_else(|| none.into()))
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
                self.verdict().unwrap_or(Step::Say(board))
            }
            Err(error) => {
                Step::Say(format!("{error}. Type 'moves' for the legal ones, 'help' for the rest\n"))
            }
        }
    }

    fn play(&mut self, mv: Move, score: Option<Score>) {
        self.position.play(mv);
        self.moves.push(mv);
        self.scores.push(score);
    }

    /// Takes back to the person's last move, the engine's answer included.
    fn take_back(&mut self) -> Step {
        let mut took = false;
        while self.position.undo() {
            self.moves.pop();
            self.scores.pop();
            took = true;
            if self.is_humans_turn() {
                return Step::Say(self.turn());
            }
        }
        Step::Say(if took { self.turn() } else { "there is nothing to take back\n".into() })
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
        self.opponent.analyst().analyse(&game, &Clock::new(self.limits))
    }

    fn consult(&mut self, answer: impl Fn(&Self, &Analysis) -> String) -> Step {
        match self.ask() {
            Ok(analysis) => Step::Say(answer(self, &analysis)),
            Err(fault) => failed(&fault),
        }
    }

    /// The engine's move.
    pub(super) fn answer(&mut self) -> Step {
        let weights = self.shown_weights();
        match self.ask() {
            Ok(analysis) => {
                let text = format!(
                    "{weights}{} {}{}\n",
                    self.prompt(),
                    san::format(self.position.board(), analysis.best),
                    evaluation(self.position.side_to_move(), analysis.score())
                );
                self.play(analysis.best, analysis.score());
                match self.verdict() {
                    Some(Step::Over(end)) => Step::Over(text + &self.board() + &end),
                    _ => Step::Say(text + &self.turn()),
                }
            }
            Err(fault) => failed(&fault),
        }
    }

    /// What the rules say, if they end the game.
    fn verdict(&mut self) -> Option<Step> {
        let (outcome, termination) = tandem_arena::verdict(&self.position)?;
        let result = match outcome {
            Outcome::WhiteWins => pgn::GameResult::WhiteWins,
            Outcome::BlackWins => pgn::GameResult::BlackWins,
            Outcome::Draw => pgn::GameResult::Draw,
        };
        self.result = result;
        Some(Step::Over(format!("{result} by {termination}")))
    }

    /// The game as PGN, the engine's evaluations in comments.
    pub(super) fn to_pgn(&self, human: &str) -> String {
        let mut game = pgn::Game::from_start(self.start.clone());
        let names = match self.human {
            Color::White => [human, self.opponent.name()],
            Color::Black => [self.opponent.name(), human],
        };
        game.set_tag("Event", "Game at the terminal");
        game.set_tag("White", names[0]);
        game.set_tag("Black", names[1]);
        game.result = self.result;
        let mut side = self.start.side_to_move();
        for (&mv, score) in self.moves.iter().zip(&self.scores) {
            let mut ply = pgn::Ply::new(mv);
            let for_white = |score: &Score| if side == Color::White { *score } else { score.turned() };
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

/// An evaluation for White, in parentheses.
fn evaluation(side: Color, score: Option<Score>) -> String {
    let Some(score) = score else { return String::new() };
    let score = if side == Color::White { score } else { score.turned() };
    format!("  ({}{score})", if score.centipawns() > 0 && matches!(score, Score::Cp(_)) { "+" } else { "" })
}

/// The engine's best line, as SAN.
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

/// White or Black.
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
    use tandem_arena::{Analyst, Info};

    /// Plays the first legal move, in the order of the alphabet.
    struct First;

    impl Analyst for First {
        fn name(&self) -> &str {
            "First"
        }
        fn analyse(&mut self, game: &GameSoFar, _: &Clock) -> Result<Analysis, Fault> {
            let mut moves: Vec<String> =
                game.position.legal_moves().iter().map(ToString::to_string).collect();
            moves.sort();
            let info = Info::parse(&format!("info depth 3 score cp 25 pv {}", moves[0]));
            let best = moves[0].parse().unwrap();
            Ok(Analysis { best, elapsed: Duration::ZERO, infos: vec![(Duration::ZERO, info)] })
        }
        fn forget(&mut self, _: bool) -> Result<(), Fault> {
            Ok(())
        }
        fn is_well(&self) -> bool {
            true
        }
    }

    fn said(step: Step) -> String {
        match step {
            Step::Say(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_short_game_to_mate() {
        let mut engine = Opponent::Engine(Box::new(First));
        let mut session =
            Session::new(Position::startpos(), Color::Black, Style::Ascii, Limits::default(), &mut engine);
        assert!(!session.is_humans_turn());
        // White walks f3 and g4 by hand, so that Black can mate.
        for text in ["f2f3", "e7e5", "g2g4"] {
            said(session.hear(text));
        }
        assert!(session.is_humans_turn());
        let Step::Over(text) = session.hear("Qh4") else { panic!("mate ends the game") };
        assert_eq!(text, "0-1 by checkmate");
        let pgn = session.to_pgn("Ada");
        assert!(pgn.contains("[White \"First\"]") && pgn.contains("[Black \"Ada\"]"), "{pgn}");
        assert!(pgn.contains("Qh4# 0-1"), "{pgn}");
    }

    #[test]
    fn moves_are_taken_back_in_pairs() {
        let mut engine = Opponent::Engine(Box::new(First));
        let mut session =
            Session::new(Position::startpos(), Color::White, Style::Ascii, Limits::default(), &mut engine);
        assert_eq!(said(session.hear("back")), "there is nothing to take back\n");
        said(session.hear("Nf3"));
        assert!(said(session.answer()).starts_with("1... a5  (-0.25)"));
        assert!(said(session.hear("e9")).contains("legal"));
        said(session.hear("back"));
        assert_eq!(session.position.fen(), Position::startpos().fen());
        assert!(said(session.hear("hint")).starts_with("try a3  (+0.25)"));
        assert!(said(session.hear("eval")).contains("a3"));
        assert!(said(session.hear("weigh")).contains("play --net"));
        assert!(said(session.hear("moves")).contains("Nf3"));
        assert!(said(session.hear("help")).contains("take back"));
        assert_eq!(session.hear("quit"), Step::Quit);
        assert!(matches!(session.hear("resign"), Step::Over(text) if text.contains("0-1")));
    }
}
