//! The table of the `rank` command: every legal move with its score by the network.

use crate::board_art::Style;
use std::fmt::Write;
use tandem_chess::{Board, san};
use tandem_transformer::{Method, ScoredMove, ValueEstimate};

/// Length of a full bar, in columns.
const WIDTH: f32 = 30.0;

/// One line for each move: its score in percent, a bar, and what else the network predicts for it.
pub(super) fn text(board: &Board, method: Method, moves: &[ScoredMove], style: Style) -> String {
    let mut text = match method {
        Method::Policy => "Probability of each move:\n".to_owned(),
        Method::Value | Method::ActionValue => {
            "Win probability after each move, half of draws included:\n".to_owned()
        }
    };
    for scored in moves {
        let mv = san::format(board, scored.mv);
        let line = format!(
            "  {mv:<8}{:>5.1} %  {:<30}  {}",
            100.0 * scored.score,
            bar(scored.score, style),
            note(method, scored)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let (Method::Policy, Some(position)) = (method, moves.iter().find_map(position_value)) {
        let _ = writeln!(
            text,
            "  The position: {:.1} %, half of draws included",
            100.0 * position.win_probability()
        );
    }
    text
}

/// With the policy method, the network's value of the position stands with each move; draws by the rules do
/// not count.
fn position_value(scored: &ScoredMove) -> Option<ValueEstimate> {
    scored.value.filter(|value| *value != ValueEstimate::Draw)
}

fn bar(weight: f32, style: Style) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let columns = weight.clamp(0.0, 1.0) * WIDTH;
    match style {
        Style::Ascii => "#".repeat(columns.round() as usize),
        Style::Colour | Style::Unicode => {
            let eighths = (columns * 8.0).round() as usize;
            "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
        }
    }
}

/// The remark after the bar: mate, draw, or the probabilities of win, draw and loss.
fn note(method: Method, scored: &ScoredMove) -> String {
    match scored.value {
        Some(ValueEstimate::Mate) => "mate".into(),
        Some(ValueEstimate::Draw) => "draw".into(),
        Some(ValueEstimate::Wdl { win, draw, loss }) if method != Method::Policy => {
            let [win, draw, loss] = [win, draw, loss].map(|probability| 100.0 * probability);
            format!("win {win:.0} draw {draw:.0} loss {loss:.0}")
        }
        None if method != Method::Policy => "unknown to the network".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(mv: &str, score: f32, value: Option<ValueEstimate>) -> ScoredMove {
        ScoredMove { mv: mv.parse().unwrap(), score, value }
    }

    #[test]
    fn bars_are_proportional_to_scores() {
        let board = Board::default();
        let outcomes = ValueEstimate::Wdl { win: 0.5, draw: 0.5, loss: 0.0 };
        let moves = [
            scored("e2e4", 0.75, Some(outcomes)),
            scored("g1f3", 0.5, Some(ValueEstimate::Draw)),
            scored("a2a3", 0.0, None),
        ];
        let ascii = text(&board, Method::Value, &moves, Style::Ascii);
        let lines: Vec<&str> = ascii.lines().skip(1).collect();
        assert_eq!(lines[0], "  e4       75.0 %  #######################         win 50 draw 50 loss 0");
        assert_eq!(lines[1], "  Nf3      50.0 %  ###############                 draw");
        assert_eq!(lines[2], "  a3        0.0 %                                  unknown to the network");
        let unicode = text(&board, Method::Policy, &moves, Style::Unicode);
        assert!(unicode.contains("75.0 %  ██████████████████████▌\n"), "{unicode}");
        assert!(unicode.ends_with("  The position: 75.0 %, half of draws included\n"), "{unicode}");
    }
}
