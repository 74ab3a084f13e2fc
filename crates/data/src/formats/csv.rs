//! Comma-separated values: a header that names the columns, then one position on a line. Semicolons and tabs
//! separate as well as commas; the header shows which.
//!
//! The headers of well-known data sets are recognised, so that most files need no settings; [`Columns`] names
//! the columns of others.

use super::epd::{game_result, white_outcome};
use crate::changes::{Change, Changes};
use crate::codec::*;
use crate::formats::Opened;
use crate::packed::Packed;
use crate::record::{Outcome, Record, Score};
use std::io::{self, BufRead};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tandem_chess::{Color, fen, pgn::GameResult, uci};

/// Columns of a CSV file, each named by its header. `None` looks for one of the names that known data sets
/// use, for example `fen`, `Evaluation` or `move_uci`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Name of the column with the position, in FEN.
    pub fen: Option<String>,
    /// Name of the column with the score: centipawns, pawns, mates (`#-3`) or win probabilities (`0.52w`).
    pub score: Option<String>,
    /// Name of the column with the move, in UCI notation (`e2e4`).
    pub mv: Option<String>,
    /// Name of the column with the game result: `1-0`, or points such as `0.5`.
    pub result: Option<String>,
    /// Name of the column with the number of plies since the start of the game.
    pub ply: Option<String>,
    /// True if scores and results are seen by White, false if by the side to move. The default depends on the
    /// score column: a known name has a known view, any other is seen by the side to move. Without scores it
    /// is White's view, as results in PGN are.
    pub white: Option<bool>,
    /// True if scores are in pawns, false if in centipawns; by default as the name of the score column
    /// implies.
    pub pawns: Option<bool>,
}

/// Parses text such as `fen=FEN,score=Evaluation,view=white,unit=centipawns`.
impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = Self::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not key=value"))?;
            let named = Some(value.to_owned());
            match (key, value) {
                ("fen", _) => columns.fen = named,
                ("score", _) => columns.score = named,
                ("move", _) => columns.mv = named,
                ("result", _) => columns.result = named,
                ("ply", _) => columns.ply = named,
                ("view", "white") => columns.white = Some(true),
                ("view", "side-to-move") => columns.white = Some(false),
                ("unit", "pawns") => columns.pawns = Some(true),
                ("unit", "centipawns") => columns.pawns = Some(false),
                _ => {
                    return Err(format!(
                        "{part:?} is not one of fen=, score=, move=, result=, ply= and a column's name, view=white, \
                         view=side-to-move, unit=pawns, unit=centipawns"
                    ));
                }
            }
        }
        Ok(columns)
    }
}

/// Index of each column in a file, and the meaning of its scores.
#[derive(Clone, Debug)]
struct Layout {
    fen: usize,
    score: Option<usize>,
    mv: Option<usize>,
    result: Option<usize>,
    ply: Option<usize>,
    white: bool,
    pawns: bool,
    separator: char,
}

/// Known names of score columns, with two flags: seen by White, and in pawns.
const SCORES: [(&str, bool, bool); 5] = [
    ("score", false, false),
    ("evaluation", true, false),
    ("eval", true, false),
    ("cp", true, false),
    ("eval_white", true, true),
];

impl Layout {
    fn new(header: &str, columns: &Columns) -> Result<Self, String> {
        let names = names(header);
        let find = |given: &Option<String>, usual: &[&str]| -> Result<Option<usize>, String> {
            match given {
                Some(name) => match names.iter().position(|known| known == name) {
                    Some(at) => Ok(Some(at)),
                    None => Err(format!("no column is called {name:?}; there are {}", listed(&names))),
                },
                None => {
                    let is_usual = |name: &String| usual.contains(&name.to_ascii_lowercase().as_str());
                    Ok(names.iter().position(is_usual))
                }
            }
        };
        let fen = find(&columns.fen, &["fen", "position"])?.ok_or_else(|| no_position(&names))?;
        let score = find(&columns.score, &SCORES.map(|(name, ..)| name))?;
        let usual = score.and_then(|at| {
            let name = names[at].to_ascii_lowercase();
            SCORES.into_iter().find(|(known, ..)| *known == name)
        });
        Ok(Self {
            fen,
            score,
            mv: find(&columns.mv, &["move", "move_uci", "best_move", "uci"])?,
            result: find(&columns.result, &["result"])?,
            ply: find(&columns.ply, &["ply"])?,
            white: columns.white.unwrap_or(score.is_none() || usual.is_some_and(|(_, white, _)| white)),
            pawns: columns.pawns.unwrap_or(usual.is_some_and(|(_, _, pawns)| pawns)),
            separator: separator(header),
        })
    }

    /// Indices of all columns that are read.
    fn columns(&self) -> [Option<usize>; 5] {
        [Some(self.fen), self.score, self.mv, self.result, self.ply]
    }
}

/// Longest text of a file that a message repeats, in characters.
const QUOTED: usize = 200;

/// The names of columns for a message, cut off where they are too long.
fn listed(names: &[String]) -> String {
    let text = names.join(", ");
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

/// Reason and remedy if no column holds the position: other names, or no header line at all.
fn no_position(names: &[String]) -> String {
    let is_position =
        |name: &String| name.split(' ').next().is_some_and(|board| board.matches('/').count() == 7);
    match names.iter().position(is_position) {
        Some(at) => format!(
            "the first line is a position, not a header: write the names of the columns above it, for example \
             `fen,evaluation` (the position is in column {})",
            at + 1
        ),
        None => {
            format!(
                "no column holds the position; name it with --columns fen=NAME. There are {}",
                listed(names)
            )
        }
    }
}

/// Properties of a CSV file that its header line alone decides.
pub(crate) struct Header {
    pub(crate) has_moves: bool,
    /// Names of the columns that have no place in a record.
    pub(crate) unused: Vec<String>,
}

/// Reads the header line, and fails with a reason if no column holds the position.
pub(crate) fn header(columns: &Columns, input: &mut dyn BufRead) -> io::Result<Result<Header, String>> {
    let (text, _) = first_line(input)?;
    Ok(Layout::new(&text, columns).map(|layout| Header {
        has_moves: layout.mv.is_some(),
        unused: names(&text)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| !layout.columns().contains(&Some(*at)))
            .map(|(_, name)| name)
            .collect(),
    }))
}

/// The header line without byte order mark and line ending, and its length in bytes with them.
fn first_line(input: &mut dyn BufRead) -> io::Result<(String, usize)> {
    let mut line = Vec::new();
    io::Read::take(&mut *input, 1 << 16).read_until(b'\n', &mut line)?;
    let text = String::from_utf8_lossy(&line);
    Ok((text.trim_start_matches('\u{feff}').trim_end().to_owned(), line.len()))
}

/// Names of the columns in a header line.
fn names(header: &str) -> Vec<String> {
    fields(header, separator(header)).into_iter().map(|name| name.trim().to_owned()).collect()
}

/// The character that separates columns: a comma, or a semicolon or a tab in a header without commas.
fn separator(header: &str) -> char {
    let others = [';', '\t'].into_iter().filter(|_| !header.contains(','));
    others.into_iter().find(|&other| header.contains(other)).unwrap_or(',')
}

pub(crate) fn open(columns: &Columns, input: &mut dyn BufRead) -> io::Result<Opened> {
    let (text, len) = first_line(input)?;
    Ok(match Layout::new(&text, columns) {
        Ok(layout) => Ok((Arc::new(Csv { layout }), len as u64)),
        Err(problem) => Err(Problem::new(0, problem)),
    })
}

struct Csv {
    layout: Layout,
}

/// Fields of a line; fields in quotation marks may contain separators.
fn fields(line: &str, separator: char) -> Vec<std::borrow::Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(separator).map(Into::into).collect();
    }
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                fields.last_mut().unwrap_or(&mut String::new()).push('"');
            }
            '"' => quoted = !quoted,
            char if char == separator && !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap_or(&mut String::new()).push(other),
        }
    }
    fields.into_iter().map(Into::into).collect()
}

impl Codec for Csv {
    fn cut(&self) -> Box<dyn Cut> {
        Box::new(LineCut::new(None))
    }

    fn decode(&self, block: &[u8], out: &mut Decoded) {
        for (at, line) in lines(block) {
            let line = String::from_utf8_lossy(line);
            if line.trim().is_empty() {
                continue;
            }
            match self.parse(&line, &mut out.changes) {
                Ok(record) => out.records.push(record),
                Err(problem) => out.fail(at, problem),
            }
        }
    }
}

impl Csv {
    fn parse(&self, line: &str, changes: &mut Changes) -> Result<Record, String> {
        let layout = &self.layout;
        let fields = fields(line, layout.separator);
        let field = |at: usize| {
            let text = fields.get(at).map(|field| field.trim());
            text.ok_or_else(|| format!("{} columns, where the header has more", fields.len()))
        };
        let text = field(layout.fen)?;
        let board = fen::parse(text).map_err(|error| error.to_string())?;
        if board.halfmove_clock() == 100 && crate::fen::clock_above_100(text) {
            changes.count(Change::ClippedClock);
        }
        let position = Packed::try_from(&board).map_err(|error| error.to_string())?;
        let side = board.side_to_move();
        let mut record = Record::new(position);
        if let Some(at) = layout.mv {
            let text = field(at)?;
            if !text.is_empty() {
                record.mv = Some(uci::parse(&board, text).map_err(|error| error.to_string())?);
            }
        }
        if let Some(at) = layout.score {
            let score = parse_score(field(at)?, layout.pawns, changes)?;
            let turned = layout.white && side == Color::Black;
            record.score = if turned { score.map(Score::flipped) } else { score };
        }
        if let Some(at) = layout.result {
            let text = field(at)?;
            // `1-0` is always seen from White's side; bare points are seen as the scores are.
            let white = layout.white || GameResult::parse(text).is_some();
            let result = parse_result(text)?;
            record.result = if white { result.map(|white| white.from_view_of(side)) } else { result };
        }
        if let Some(at) = layout.ply {
            let text = field(at)?;
            record.ply = text.parse().map_err(|_| format!("{text:?} is not a ply"))?;
        }
        Ok(record)
    }
}

/// Difference in centipawns that only the conversion from pawns explains, and that is not counted as rounding.
const ROUNDING: f64 = 1e-6;

/// Parses `+56`, `-0.32`, mate in moves (`#-3`) or in plies (`M7`, `-M6`), or a win probability (`0.52w`); an
/// empty field is `None`.
fn parse_score(text: &str, pawns: bool, changes: &mut Changes) -> Result<Option<Score>, String> {
    let bad = || format!("{text:?} is not a score");
    let (sign, rest) = match text.as_bytes().first() {
        None => return Ok(None),
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        Some(_) => (1, text),
    };
    if let Some(plies) = rest.strip_prefix(['M', 'm']) {
        let plies: i16 = plies.parse().map_err(|_| bad())?;
        return Ok(Some(Score::Mate(sign * (plies.clamp(0, 2000) + 1) / 2)));
    }
    if let Some(moves) = text.strip_prefix('#') {
        let moves: i16 = moves.parse().map_err(|_| bad())?;
        return Ok(Some(Score::Mate(moves.clamp(-1000, 1000))));
    }
    if let Some(probability) = text.strip_suffix('w') {
        let probability: f64 = probability.parse().map_err(|_| bad())?;
        return if (0.0..=1.0).contains(&probability) {
            Ok(Some(Score::WinProbability(probability)))
        } else {
            Err(bad())
        };
    }
    let value: f64 = text.parse().map_err(|_| bad())?;
    let value = if pawns { value * 100.0 } else { value };
    if !value.is_finite() {
        return Err(bad());
    }
    let rounded = value.round();
    let clipped = rounded.clamp(-32_000.0, 32_000.0);
    if clipped != rounded {
        changes.count(Change::ClippedScore);
    } else if (value - rounded).abs() > ROUNDING {
        changes.count(Change::RoundedScore);
    }
    Ok(Some(Score::Centipawns(clipped as i16)))
}

/// Parses a result as PGN writes it, or as points.
fn parse_result(text: &str) -> Result<Option<Outcome>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(result) = GameResult::parse(text) {
        return Ok(white_outcome(result));
    }
    match text.parse::<f64>() {
        Ok(1.0) => Ok(Some(Outcome::Win)),
        Ok(0.5) => Ok(Some(Outcome::Draw)),
        Ok(0.0) => Ok(Some(Outcome::Loss)),
        _ => Err(format!("{text:?} is not a result: 1-0, 0-1, 1/2-1/2, or 1, 0, 0.5")),
    }
}

pub(crate) struct CsvEncoder {
    begun: bool,
    separator: char,
}

impl CsvEncoder {
    /// An encoder for a file of this name: a `.tsv` file has tabs between its columns, any other commas.
    pub(crate) fn new(path: &Path) -> Self {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_tsv = name.split('.').any(|part| part.eq_ignore_ascii_case("tsv"));
        Self { begun: false, separator: if is_tsv { '\t' } else { ',' } }
    }

    fn line(&self, fields: [&str; 5], out: &mut Vec<u8>) {
        for (number, field) in fields.into_iter().enumerate() {
            if number > 0 {
                out.push(self.separator as u8);
            }
            out.extend(field.as_bytes());
        }
        out.push(b'\n');
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.line(["fen", "move", "score", "result", "ply"], out);
        }
    }
}

impl Encode for CsvEncoder {
    fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        self.begin(out);
        let board = record.position.board().map_err(|error| Unsupported(error.to_string()))?;
        let chess960 = fen::is_chess960(&board);
        let mv = record.mv.map(|mv| uci::format(&board, mv, chess960)).unwrap_or_default();
        let score = match record.score {
            None => String::new(),
            Some(Score::Centipawns(value)) => value.to_string(),
            Some(Score::Mate(moves)) => format!("#{moves}"),
            Some(Score::WinProbability(probability)) => format!("{probability}w"),
        };
        let white = record.result.map(|result| result.from_view_of(board.side_to_move()));
        let result = if white.is_some() { game_result(white).as_str() } else { "" };
        self.line([&fen::format(&board), &mv, &score, result, &record.ply.to_string()], out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        self.begin(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::samples;

    fn read(text: &str, columns: &Columns) -> Result<Decoded, String> {
        let mut input = text.as_bytes();
        let (codec, _) = open(columns, &mut input).unwrap().map_err(|problem| problem.text)?;
        Ok(samples::decode_all(&*codec, input))
    }

    #[test]
    fn lines_round_trip() {
        let mut records = samples::games(10);
        records.extend(samples::chess960_games(10));
        records[1].score = Some(Score::Mate(-3));
        records[2].score = Some(Score::WinProbability(0.123_456_789));
        (records[3].score, records[4].mv, records[5].result) = (None, None, None);
        let mut bytes = Vec::new();
        for (name, separator) in [("x.csv", ','), ("x.tsv.gz", '\t')] {
            bytes.clear();
            let mut encoder = CsvEncoder::new(Path::new(name));
            records.iter().for_each(|record| encoder.push(record, &mut bytes).unwrap());
            let text = std::str::from_utf8(&bytes).unwrap();
            assert_eq!(text.lines().next().unwrap().split(separator).count(), 5);
            let decoded = read(text, &Columns::default()).unwrap();
            assert_eq!(decoded.problems, []);
            assert_eq!(decoded.records.len(), records.len());
            for (decoded, record) in decoded.records.iter().zip(&records) {
                assert_eq!(*decoded, Record { starts_game: false, ..*record });
            }
        }
    }

    #[test]
    fn semicolons_and_tabs_separate_columns_too() {
        for separator in [",", ";", "\t"] {
            let text = "FEN,Evaluation,note\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,+56,x\n".replace(',', separator);
            let decoded = read(&text, &Columns::default()).unwrap();
            assert_eq!(decoded.records[0].score, Some(Score::Centipawns(-56)), "{separator:?}");
            let header = header(&Columns::default(), &mut text.as_bytes()).unwrap().unwrap();
            assert_eq!((header.has_moves, &header.unused[..]), (false, &["note".to_owned()][..]));
        }
    }

    #[test]
    fn rounded_and_clipped_values_are_counted() {
        let rows = [("0", "0.42"), ("0", "0.423"), ("100", "900"), ("101", "-7")];
        let rows = rows.map(|(clock, score)| format!("4k3/8/8/8/8/8/4P3/4K3 w - - {clock} 1,{score}\n"));
        let decoded = read(&format!("fen,eval_white\n{}", rows.concat()), &Columns::default()).unwrap();
        assert_eq!(decoded.problems, []);
        let kinds = [Change::RoundedScore, Change::ClippedScore, Change::ClippedClock];
        assert_eq!(kinds.map(|kind| decoded.changes.of(kind)), [1, 1, 1], "{}", decoded.changes);
    }

    #[test]
    fn points_alone_are_whites() {
        let rows = "fen,result\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,1\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,0\n";
        let results = |columns: &Columns| {
            let decoded = read(rows, columns).unwrap();
            decoded.records.iter().map(|record| record.result.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(results(&Columns::default()), [Outcome::Loss, Outcome::Loss]);
        assert_eq!(results(&"view=side-to-move".parse().unwrap()), [Outcome::Win, Outcome::Loss]);
    }

    #[test]
    fn known_sets_are_read_as_they_are() {
        let kaggle =
            "FEN,Evaluation\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,+56\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,#-3\n";
        let decoded = read(kaggle, &Columns::default()).unwrap();
        assert_eq!(decoded.records[0].score, Some(Score::Centipawns(-56)));
        assert_eq!(decoded.records[1].score, Some(Score::Mate(-3)));
        let tcec = "fen,move_uci,eval_white,depth,engine,result,frc\n\
                    4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,e8e7,0.42,19,\"A, B\",1/2-1/2,0\n\
                    4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,e2e4,-M6,19,X,0-1,0\n";
        let decoded = read(tcec, &Columns::default()).unwrap();
        assert_eq!(decoded.records[0].score, Some(Score::Centipawns(-42)));
        assert_eq!(decoded.records[0].result, Some(Outcome::Draw));
        assert_eq!(decoded.records[1].score, Some(Score::Mate(-3)));
        assert_eq!(decoded.records[1].result, Some(Outcome::Loss));
    }

    #[test]
    fn columns_can_be_named_and_missing_ones_are_reported() {
        let text =
            "where,how good\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,1.5\nx,1\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1\n";
        let columns = "fen=where,score=how good,view=side-to-move,unit=pawns".parse().unwrap();
        let decoded = read(text, &columns).unwrap();
        assert_eq!(decoded.records[0].score, Some(Score::Centipawns(150)));
        assert_eq!(decoded.problems.len(), 2);
        let text2 = "fen,score,result\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,15,1\n4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,15,1-0\n";
        let decoded = read(text2, &Columns::default()).unwrap();
        assert_eq!(
            (decoded.records[0].result, decoded.records[1].result),
            (Some(Outcome::Win), Some(Outcome::Loss))
        );
        let decoded = read(text2, &"view=white".parse().unwrap()).unwrap();
        assert_eq!(
            (decoded.records[0].result, decoded.records[1].result),
            (Some(Outcome::Loss), Some(Outcome::Loss))
        );
        assert!(read(text, &Columns::default()).unwrap_err().contains("There are where, how good"));
        for (header, remedy) in
            [("4k3/8/8/8/8/8/4P3/4K3 b - - 0 1,15", "in column 1"), (&"x,".repeat(30_000), "x, …")]
        {
            let error = read(&format!("{header}\n"), &Columns::default()).unwrap_err();
            assert!(error.contains(remedy) && error.len() < 400, "{error}");
        }
        assert!(read(text, &"fen=x".parse().unwrap()).unwrap_err().contains("no column is called \"x\""));
        assert!("fen".parse::<Columns>().is_err() && "view=black".parse::<Columns>().is_err());
    }
}
