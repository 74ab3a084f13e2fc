//! Questions that got no answer: they must not pass for wrong moves.

use crate::error::LabError;
use tandem_arena::Unanswered;

/// Tells of answers that were late or no moves. An engine that ended or hung is an error, for what it did not say is no measure
/// of it.
pub(crate) fn tell<'a>(
    asked: usize,
    unanswered: impl Iterator<Item = (Unanswered, &'a str, &'a str)>,
) -> Result<(), LabError> {
    let (failures, useless): (Vec<_>, Vec<_>) = unanswered.partition(|&(why, ..)| why == Unanswered::Failure);
    if let Some((_, id, what)) = useless.first() {
        let count = useless.len();
        tellln!(
            "{count} of {asked} answers were late or no moves, and count as wrong; the first: {id}: {what}"
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
    fn only_who_fails_spoils_a_run() {
        let useless = [(Unanswered::Useless, "a", "late by 30 ms")];
        assert!(tell(2, useless.into_iter()).is_ok());
        let failed = [useless[0], (Unanswered::Failure, "b", "crash: it ended")];
        let told = tell(2, failed.into_iter()).unwrap_err().to_string();
        assert!(told.contains("failed 1 times in 2") && told.contains("b: crash: it ended"), "{told}");
    }
}
