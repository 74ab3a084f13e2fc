//! Journals of labellings and tunings. Their header describes the run in text, so that a run with other settings
//! is refused.

use crate::error::SelfPlayError;
use std::path::Path;
use tandem_util::journal::{Journal, JournalFormat};

/// Opens a journal for appending, or creates it.
///
/// # Errors
///
/// Fails if the file belongs to a run with another description, is locked, damaged, or not a journal.
pub(crate) fn open(path: &Path, format: JournalFormat, about: &str) -> Result<Journal, SelfPlayError> {
    let found = Journal::open(path, format)?;
    if let Some(known) = found.header().filter(|known| *known != about.as_bytes()) {
        let known = String::from_utf8_lossy(known);
        let (then, now) = difference(&known, about);
        let problem =
            format!("begun with other settings (then {then}; now {now}); use those, or remove the file");
        return Err(SelfPlayError::File { path: path.into(), problem });
    }
    Ok(found.resume(about.as_bytes())?)
}

/// First lines in which two texts differ.
fn difference<'a>(then: &'a str, now: &'a str) -> (&'a str, &'a str) {
    let (mut then, mut now) = (then.lines(), now.lines());
    loop {
        match (then.next(), now.next()) {
            (Some(then), Some(now)) if then == now => {}
            (then, now) => return (then.unwrap_or("nothing"), now.unwrap_or("nothing")),
        }
    }
}
