//! A strict parser for `info` lines. [`crate::UciInfo`] skips what it does not know, as a GUI must; this one
//! refuses it.

use crate::UciScore;
use std::fmt;
use std::iter::Peekable;
use std::str::{FromStr, SplitAsciiWhitespace};

/// Side to which a score is only a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Lower,
    Upper,
}

/// Contents of an `info` line about a line of play.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InfoLine {
    pub(super) depth: Option<u32>,
    pub(super) nodes: Option<u64>,
    pub(super) millis: Option<u64>,
    pub(super) multipv: Option<u32>,
    pub(super) score: Option<UciScore>,
    pub(super) bound: Option<Bound>,
    pub(super) pv: Vec<String>,
}

/// Reason for which an `info` line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl InfoLine {
    /// Parses the words after `info`. Free text (`string`) and lists of moves end the line.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut info = Self::default();
        let mut words = text.split_ascii_whitespace().peekable();
        while let Some(word) = words.next() {
            match word {
                "depth" => info.depth = Some(number(&mut words, word)?),
                "seldepth" | "currmovenumber" | "cpuload" => drop(number::<u32>(&mut words, word)?),
                "nps" | "tbhits" | "sbhits" => drop(number::<u64>(&mut words, word)?),
                "nodes" => info.nodes = Some(number(&mut words, word)?),
                "time" => info.millis = Some(number(&mut words, word)?),
                "hashfull" => in_range(number(&mut words, word)?, 0, 1000, word)?,
                "multipv" => info.multipv = Some(number(&mut words, word)?),
                "currmove" => {
                    words.next().ok_or_else(|| missing(word))?;
                }
                "wdl" => {
                    let mut sum = 0;
                    for _ in 0..3 {
                        sum += number::<u32>(&mut words, word)?.min(10_000);
                    }
                    in_range(sum, 1000, 1000, "the sum of wdl")?;
                }
                "score" => info.parse_score(&mut words)?,
                "pv" => {
                    info.pv = words.map(str::to_owned).collect();
                    if info.pv.is_empty() {
                        return Err(missing("pv"));
                    }
                    break;
                }
                "string" | "refutation" | "currline" => break,
                _ => return Err(Malformed(format!("'{word}' is not a field of UCI"))),
            }
        }
        Ok(info)
    }

    fn parse_score(&mut self, words: &mut Peekable<SplitAsciiWhitespace>) -> Result<(), Malformed> {
        let kind = words.next().ok_or_else(|| missing("score"))?;
        self.score = Some(match kind {
            "cp" => UciScore::Cp(number(words, kind)?),
            "mate" => UciScore::Mate(number(words, kind)?),
            _ => return Err(Malformed(format!("'{kind}' after score is neither cp nor mate"))),
        });
        self.bound = match words.peek() {
            Some(&"lowerbound") => Some(Bound::Lower),
            Some(&"upperbound") => Some(Bound::Upper),
            _ => return Ok(()),
        };
        words.next();
        Ok(())
    }
}

fn number<T: FromStr>(words: &mut Peekable<SplitAsciiWhitespace>, field: &str) -> Result<T, Malformed> {
    let word = words.next().ok_or_else(|| missing(field))?;
    word.parse().map_err(|_| Malformed(format!("{field} is '{word}'")))
}

fn missing(field: &str) -> Malformed {
    Malformed(format!("{field} has no value"))
}

fn in_range(value: u32, least: u32, most: u32, field: &str) -> Result<(), Malformed> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let expected = if least == most { most.to_string() } else { format!("{least} to {most}") };
    Err(Malformed(format!("{field} is {value}, not {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stockfish_is_parsed() {
        let line = "depth 9 seldepth 11 multipv 2 score cp -12 upperbound wdl 10 900 90 nodes 77 nps 9 hashfull 0 tbhits 0 \
                    time 8 pv e2e4 e7e5";
        let info = InfoLine::parse(line).unwrap();
        assert_eq!(
            (info.depth, info.nodes, info.millis, info.multipv),
            (Some(9), Some(77), Some(8), Some(2))
        );
        assert_eq!((info.score, info.bound), (Some(UciScore::Cp(-12)), Some(Bound::Upper)));
        assert_eq!(info.pv, ["e2e4", "e7e5"]);
        assert_eq!(InfoLine::parse("string depth x").unwrap(), InfoLine::default());
        assert!(InfoLine::parse("depth 3 currmove e2e4 currmovenumber 1").is_ok());
    }

    #[test]
    fn malformed_lines_are_refused() {
        for (line, reason) in [
            ("depth", "depth has no value"),
            ("depth -1", "depth is '-1'"),
            ("depth 3 colour red", "'colour' is not a field of UCI"),
            ("score 12", "'12' after score is neither cp nor mate"),
            ("hashfull 1001", "hashfull is 1001, not 0 to 1000"),
            ("wdl 500 500 500", "the sum of wdl is 1500, not 1000"),
            ("depth 3 pv", "pv has no value"),
        ] {
            assert_eq!(InfoLine::parse(line).unwrap_err().to_string(), reason);
        }
    }
}
