//! Parser for the `info` lines that UCI engines print during a search.

use crate::UciScore;

/// Contents of one `info` line, by which a UCI engine reports on its search; fields that the engine did not
/// send are `None`, false or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UciInfo {
    /// Nominal search depth in plies.
    pub depth: Option<u32>,
    /// Evaluation from the view of the side to move.
    pub score: Option<UciScore>,
    /// True if the evaluation is only a lower or upper bound, as in a failed aspiration window.
    pub bound: bool,
    /// Number of nodes searched so far.
    pub nodes: Option<u64>,
    /// Milliseconds since `go`, by the engine's own clock.
    pub millis: Option<u64>,
    /// Rank of the variation, from 1; `None` if the engine does not send it.
    pub multipv: Option<u32>,
    /// Principal variation as UCI moves, not checked for legality.
    pub pv: Vec<String>,
}

impl UciInfo {
    /// Parses the text of an `info` line, with or without the word `info`. Unknown words are skipped, as UCI
    /// requires; malformed numbers leave their field empty.
    pub fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
            match word {
                "depth" => info.depth = number().and_then(|n| n.try_into().ok()),
                "nodes" => info.nodes = number().and_then(|n| n.try_into().ok()),
                "time" => info.millis = number().and_then(|n| n.try_into().ok()),
                "multipv" => info.multipv = number().and_then(|n| n.try_into().ok()),
                "cp" => info.score = number().map(|n| UciScore::Cp(clamp(n))),
                "mate" => info.score = number().map(|n| UciScore::Mate(clamp(n))),
                "lowerbound" | "upperbound" => info.bound = true,
                "pv" => {
                    info.pv = words.map(str::to_owned).collect();
                    break;
                }
                // The rest of the line is free text.
                "string" => break,
                _ => {}
            }
        }
        info
    }
}

fn clamp(number: i64) -> i32 {
    number.clamp(-1_000_000, 1_000_000) as i32
}

/// True if a line has an evaluation of the best variation. This is much cheaper than parsing the line.
pub(crate) fn is_main_line(line: &str) -> bool {
    // What follows `string` is free text and may contain any of these words.
    let facts = line.split_once(" string ").map_or(line, |(facts, _)| facts);
    facts.contains(" score ") && (!facts.contains(" multipv ") || facts.contains(" multipv 1 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_info_line_of_stockfish_is_parsed() {
        let line = "info depth 12 seldepth 16 multipv 1 score cp -31 lowerbound nodes 5403 nps 900500 time 6 pv e2e4 e7e5";
        let info = UciInfo::parse(line);
        assert_eq!((info.depth, info.nodes, info.millis), (Some(12), Some(5403), Some(6)));
        assert_eq!((info.score, info.bound), (Some(UciScore::Cp(-31)), true));
        assert_eq!(info.pv, ["e2e4", "e7e5"]);
        assert!(is_main_line(line));
    }

    #[test]
    fn malformed_lines_are_ignored() {
        assert_eq!(UciInfo::parse("info depth x score mate").score, None);
        assert_eq!(UciInfo::parse("info string score cp 5"), UciInfo::default());
        assert!(!is_main_line("info string my score is 5"));
        assert!(!is_main_line("info depth 3 string the score is 5"));
        assert_eq!(UciInfo::parse("info score cp 99999999999").score, Some(UciScore::Cp(1_000_000)));
        assert_eq!(UciInfo::parse("info depth -5").depth, None);
    }
}
