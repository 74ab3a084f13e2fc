//! Every move with what a network thinks of it, as a person reads it.

use crate::board_art::Style;
use std::fmt::Write;
use tandem_chess::{Board, san};
use tandem_transformer::{Method, Prospect, WeighedMove};

/// Columns of a bar that is full.
const WIDTH: f32 = 30.0;

/// A line for each move: its weight in percent, a bar, and what else is known of it.
pub(super) fn text(board: &Board, method: Method, moves: &[WeighedMove], style: Style) -> String {
    let mut text = match method {
        Method::Policy => "The probability of each move:\n".to_owned(),
        Method::Value | Method::ActionValue => {
            "The chance to win after each move, half of draws included:\n".to_owned()
        }
    };
    for weighed in moves {
        let mv = san::format(board, weighed.mv);
        let line = format!(
            "  {mv:<8}{:>5.1} %  {:<30}  {}",
            100.0 * weighed.weight,
            bar(weighed.weight, style),
            note(method, weighed)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let (Method::Policy, Some(position)) = (method, moves.iter().find_map(of_the_position)) {
        let _ = writeln!(text, "  The position: {:.1} %, half of draws included", 100.0 * position.chance());
    }
    text
}

/// By policy, the network's word on the position stands beside each move.
fn of_the_position(weighed: &WeighedMove) -> Option<Prospect> {
    weighed.prospect.filter(|prospect| *prospect != Prospect::Draw)
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

/// What else is known of a move.
fn note(method: Method, weighed: &WeighedMove) -> String {
    match weighed.prospect {
        Some(Prospect::Mate) => "mate".into(),
        Some(Prospect::Draw) => "draw".into(),
        Some(Prospect::Outcomes { win, draw, loss }) if method != Method::Policy => {
            let [win, draw, loss] = [win, draw, loss].map(|share| 100.0 * share);
            format!("win {win:.0} draw {draw:.0} loss {loss:.0}")
        }
        None if method != Method::Policy => "unknown to the network".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(mv: &str, weight: f32, prospect: Option<Prospect>) -> WeighedMove {
        WeighedMove { mv: mv.parse().unwrap(), weight, prospect }
    }

    #[test]
    fn bars_are_as_long_as_weights() {
        let board = Board::default();
        let outcomes = Prospect::Outcomes { win: 0.5, draw: 0.5, loss: 0.0 };
        let moves = [
            weighed("e2e4", 0.75, Some(outcomes)),
            weighed("g1f3", 0.5, Some(Prospect::Draw)),
            weighed("a2a3", 0.0, None),
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
