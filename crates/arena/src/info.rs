//! The `info` lines of a search.

use crate::Score;

/// What one `info` line says about the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Depth in plies.
    pub depth: Option<u32>,
    /// Evaluation for the side to move.
    pub score: Option<Score>,
    /// The evaluation is only a lower or upper bound.
    pub bound: bool,
    /// Nodes searched.
    pub nodes: Option<u64>,
    /// Milliseconds the engine counted.
    pub millis: Option<u64>,
    /// Rank of the line, from 1; none if the engine says nothing.
    pub multipv: Option<u32>,
    /// The line itself, as UCI moves.
    pub pv: Vec<String>,
}

impl Info {
    /// Reads the words after `info`. Unknown words are passed over, as UCI asks.
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
                "cp" => info.score = number().map(|n| Score::Cp(clamp(n))),
                "mate" => info.score = number().map(|n| Score::Mate(clamp(n))),
                "lowerbound" | "upperbound" => info.bound = true,
                "pv" => {
                    info.pv = words.map(str::to_owned).collect();
                    break;
                }
                // The rest of the line is for people.
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

/// Whether a line tells of the best variation; quicker than reading it.
pub(crate) fn is_main_line(line: &str) -> bool {
    // What stands after `string` is for people, be it words such as these.
    let facts = line.split_once(" string ").map_or(line, |(facts, _)| facts);
    facts.contains(" score ") && (!facts.contains(" multipv ") || facts.contains(" multipv 1 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stockfish_is_read() {
        let line = "info depth 12 seldepth 16 multipv 1 score cp -31 lowerbound nodes 5403 nps 900500 time 6 pv e2e4 e7e5";
        let info = Info::parse(line);
        assert_eq!((info.depth, info.nodes, info.millis), (Some(12), Some(5403), Some(6)));
        assert_eq!((info.score, info.bound), (Some(Score::Cp(-31)), true));
        assert_eq!(info.pv, ["e2e4", "e7e5"]);
        assert!(is_main_line(line));
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(Info::parse("info depth x score mate").score, None);
        assert_eq!(Info::parse("info string score cp 5"), Info::default());
        assert!(!is_main_line("info string my score is 5"));
        assert!(!is_main_line("info depth 3 string the score is 5"));
        assert_eq!(Info::parse("info score cp 99999999999").score, Some(Score::Cp(1_000_000)));
        assert_eq!(Info::parse("info depth -5").depth, None);
    }
}
