//! Positions and puzzles that the engine did not answer: they must not be mistaken for wrong moves.

use crate::error::LabError;
use tandem_arena::Unanswered;

/// Reports answers that were late or not moves, which count as wrong.
///
/// # Errors
///
/// When the engine crashed or hung, because missing answers do not measure its strength; nothing may be saved
/// then.
pub(crate) fn report<'a>(
    asked: usize,
    unanswered: impl Iterator<Item = (Unanswered, &'a str, &'a str)>,
) -> Result<(), LabError> {
    let (failures, useless): (Vec<_>, Vec<_>) = unanswered.partition(|&(why, ..)| why == Unanswered::Failure);
    if let Some((_, id, what)) = useless.first() {
        let count = useless.len();
        errln!(
            "{count} of {asked} answers were late or not moves, and count as wrong; the first: {id}: {what}"
        );
    }
    match failures.first() {
        Some((_, id, what)) => Err(LabError::Usage(format!(
            "the engine failed {} times in {asked}, and nothing was saved; the first: {id}: {what}",
            failures.len()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failing_engine_fails_the_run() {
        let useless = [(Unanswered::Useless, "a", "late by 30 ms")];
        assert!(report(2, useless.into_iter()).is_ok());
        let failed = [useless[0], (Unanswered::Failure, "b", "crash: it ended")];
        let message = report(2, failed.into_iter()).unwrap_err().to_string();
        assert!(
            message.contains("failed 1 times in 2") && message.contains("b: crash: it ended"),
            "{message}"
        );
    }
}
