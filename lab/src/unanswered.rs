//! Questions that got no answer: they must not pass for wrong moves.

use crate::error::LabError;
use tandem_arena::Unanswered;

/// Tells of answers that were late or no moves. An engine that ended or hung is an error, for what it did not say is no measure
/// of it.
pub(crate) fn tell<'a>(
    asked: usize,
    unanswered: impl Iterator<Item = (Unanswered, &'a str, &'a str)>,
) -> Result<(), LabError> {
    let mut failures = Vec::new();
    let mut useless = Vec::new();
    for (why, id, what) in unanswered {
        let told = format!("{id}: {what}");
        match why {
            Unanswered::Failure => failures.push(told),
            Unanswered::Useless => useless.push(told),
        }
    }
    if let Some(first) = useless.first() {
        tellln!(
            "{} of {asked} answers were late or no moves, and count as wrong; the first: {first}",
            useless.len()
        );
    }
    match failures.first() {
        Some(first) => Err(LabError::Usage(format!(
            "the engine failed {} times in {asked}, and nothing was saved; the first: {first}",
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
