//! Whether scores can be what they are said to be.

use crate::pool::{LoadDataError, Piece};
use tandem_data::{Record, Score};

/// Of a hundred scores by their size, ten are greater than this one.
const HIGH: f64 = 0.9;
/// In centipawns, that one is at least and at most so large in data of real games.
const PLAUSIBLE: std::ops::RangeInclusive<i32> = 10..=20_000;

/// Refuses scores that are all zero or in another unit. Those count that something is learnt from, which `reads` knows of a
/// record of a source; `keys` say where a recipe could have results instead.
pub(crate) fn check_scores(
    pieces: &[Piece],
    reads: impl Fn(&Record, usize) -> bool,
    keys: &[&str],
) -> Result<(), LoadDataError> {
    let plain = |record: &Record| match record.score {
        Some(Score::Centipawns(value)) => Some(i32::from(value).abs()),
        _ => None,
    };
    let reads = &reads;
    let read =
        || pieces.iter().flat_map(|piece| piece.records().filter(move |record| reads(record, piece.source)));
    let mut sizes: Vec<i32> = read().filter_map(plain).collect();
    if sizes.len() < 100 {
        return Ok(());
    }
    sizes.sort_unstable();
    let high = sizes[(sizes.len() as f64 * HIGH) as usize];
    let median = sizes[sizes.len() / 2];
    let told =
        format!("the median size of a score is {median} and nine in ten are at most {high} centipawns");
    let problem = if sizes.last() == Some(&0) {
        let instead = match keys {
            keys if keys.is_empty() || read().all(|record| record.result.is_none()) => String::new(),
            keys => format!("set `{}` to 1 to learn from results, or ", keys.join("` and `")),
        };
        format!(
            "all scores are zero: there is nothing to learn from them; {instead}label the positions with `tandem-lab data label`"
        )
    } else if high < *PLAUSIBLE.start() {
        format!(
            "{told}: are they pawns? Say `columns = \"unit=pawns\"` beside the path of a CSV file, or convert the data"
        )
    } else if high > *PLAUSIBLE.end() {
        format!("{told}: are they in another unit? Convert the data so that a pawn is 100")
    } else {
        return Ok(());
    };
    Err(LoadDataError::Scores { problem })
}
