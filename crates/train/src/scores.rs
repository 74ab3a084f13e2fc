//! Sanity checks of the scores in training data, which catch wrong units before a run begins.

use crate::pool::{BlockSlice, LoadDataError};
use tandem_data::{Record, Score};

/// Quantile of the absolute scores that is compared with the plausible range.
const QUANTILE: f64 = 0.9;
/// Plausible range of that quantile in centipawns, for data from real games.
const PLAUSIBLE: std::ops::RangeInclusive<i32> = 10..=20_000;

/// Rejects scores that are all zero or apparently in another unit. `reads` is true for records of a source
/// whose scores are used; `keys` are the recipe keys that could ask for results instead.
///
/// # Errors
///
/// If there are at least 100 such scores and their 90 % quantile is not plausible.
pub(crate) fn check_scores(
    pieces: &[BlockSlice],
    reads: impl Fn(&Record, usize) -> bool,
    keys: &[&str],
) -> Result<(), LoadDataError> {
    let centipawns = |record: &Record| match record.score {
        Some(Score::Centipawns(value)) => Some(i32::from(value).abs()),
        _ => None,
    };
    let reads = &reads;
    let scored_records =
        || pieces.iter().flat_map(|piece| piece.records().filter(move |record| reads(record, piece.source)));
    let mut sizes: Vec<i32> = scored_records().filter_map(centipawns).collect();
    if sizes.len() < 100 {
        return Ok(());
    }
    sizes.sort_unstable();
    let high = sizes[(sizes.len() as f64 * QUANTILE) as usize];
    let median = sizes[sizes.len() / 2];
    let evidence =
        format!("the median size of a score is {median} and nine in ten are at most {high} centipawns");
    let problem = if sizes.last() == Some(&0) {
        let instead = match keys {
            keys if keys.is_empty() || scored_records().all(|record| record.result.is_none()) => {
                String::new()
            }
            keys => format!("set `{}` to 1 to learn from results, or ", keys.join("` and `")),
        };
        format!(
            "all scores are zero: there is nothing to learn from them; {instead}label the positions with `tandem-lab data label`"
        )
    } else if high < *PLAUSIBLE.start() {
        format!(
            "{evidence}: are they pawns? Say `columns = \"unit=pawns\"` beside the path of a CSV file, or convert the data"
        )
    } else if high > *PLAUSIBLE.end() {
        format!("{evidence}: are they in another unit? Convert the data so that a pawn is 100")
    } else {
        return Ok(());
    };
    Err(LoadDataError::Scores { problem })
}
