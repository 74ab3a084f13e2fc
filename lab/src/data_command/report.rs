//! Checks of the output before the work of a data command, and a report after it: records and values that were left
//! out, rounded or filled in.

use crate::error::LabError;
use crate::plural::counted;
use std::path::Path;
use tandem_data::{Changes, DataError, FilterCounts, Rule, Source};

/// Output in bytes from which a command announces its size before it begins.
const LARGE_OUTPUT: u64 = 1_000_000_000;

/// Refuses an output that is one of the inputs, under whatever name, or another output.
pub(super) fn check_outputs(sources: &[Source], targets: &[&Source]) -> Result<(), LabError> {
    for (number, target) in targets.iter().enumerate() {
        if sources.iter().any(|source| is_same_file(&source.path, &target.path)) {
            return Err(LabError::Usage(format!(
                "{} is an input too, and would be overwritten: name another output",
                target.path.display()
            )));
        }
        if targets[..number].iter().any(|other| is_same_file(&other.path, &target.path)) {
            return Err(LabError::Usage(format!("{} would be written twice", target.path.display())));
        }
    }
    Ok(())
}

/// True if two paths name one regular file, be it through links. Devices and pipes may be named twice.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one_file), Ok(other_file)) => {
            #[cfg(unix)]
            let is_hard_link = {
                use std::os::unix::fs::MetadataExt;
                (one_file.dev(), one_file.ino()) == (other_file.dev(), other_file.ino())
            };
            #[cfg(not(unix))]
            let is_hard_link = false;
            let is_same_path = std::fs::canonicalize(one)
                .is_ok_and(|one| std::fs::canonicalize(other).is_ok_and(|other| one == other));
            one_file.is_file() && other_file.is_file() && (is_hard_link || is_same_path)
        }
        (Err(_), Err(_)) => absolute(one) == absolute(other),
        _ => false,
    }
}

/// The path of a file that does not exist yet, with the links of its folder resolved.
fn absolute(path: &Path) -> Option<std::path::PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(std::fs::canonicalize(folder).ok()?.join(path.file_name()?))
}

/// Announces the size of the output if it is large. It is estimated from the inputs' lengths and the usual size
/// of a record in each format.
pub(super) fn announce_size(sources: &[Source], target: &Source, what: &str) {
    let bytes: f64 =
        sources.iter().map(|source| source.estimated_records() * target.bytes_per_record()).sum();
    if bytes >= LARGE_OUTPUT as f64 {
        errln!("{}: about {:.1} GB will be written{what}", target.path.display(), bytes / 1e9);
    }
}

/// Reports the columns of CSV files that no record has a field for.
pub(super) fn report_columns(sources: &[Source]) -> Result<(), LabError> {
    for source in sources {
        let unused = source.unused_columns()?;
        if !unused.is_empty() {
            let names = unused.join(", ");
            errln!(
                "{}: {} left out: {names}",
                source.path.display(),
                counted(
                    unused.len() as u64,
                    "column without a place in a record was",
                    "columns without a place in a record were"
                )
            );
        }
    }
    Ok(())
}

/// Reports values that were rounded, clipped or not stored.
pub(super) fn report_changes(target: &Source, changes: &Changes) {
    if !changes.is_empty() {
        errln!("{}: {changes}", target.path.display());
    }
}

/// Reports the records that the filter dropped, by rule, and those that no-captures could not be applied to.
pub(super) fn report_filter(counts: &FilterCounts) {
    if !counts.dropped().is_empty() {
        errln!("of {}, the filter rule {counts}", counted(counts.records(), "record", "records"));
    }
    if counts.without_move() > 0 {
        errln!(
            "{} without a move passed no-captures, which needs it; quiet does not",
            counted(counts.without_move(), "record", "records")
        );
    }
}

/// Fails if no record is left to be written, with the rules that dropped them.
pub(super) fn fail_if_empty(target: &Path, written: u64, counts: &FilterCounts) -> Result<(), LabError> {
    if written > 0 {
        return Ok(());
    }
    let target = target.display();
    let problem = if counts.dropped().is_empty() {
        format!("{target}: no record is left to be written; the file was not created")
    } else {
        let is_most = |&(_, count): &(Rule, u64)| 2 * count > counts.records();
        let remedy = match counts.dropped().into_iter().find(is_most) {
            Some((Rule::Decided, _)) => {
                ". The data has no game results: leave out decided, and use --fill-result draw"
            }
            _ => "",
        };
        let records = counted(counts.records(), "record", "records");
        format!("{target}: no record is left of {records}; the file was not created: {counts}{remedy}")
    };
    Err(LabError::Usage(problem))
}

/// Adds the remedy to the error of a record that the output format cannot store.
pub(super) fn with_remedy(error: DataError) -> LabError {
    let DataError::Unsupported { problem, .. } = &error else { return error.into() };
    let remedy = if problem.contains("without a result") {
        "--fill-result draw (of `data convert` and `data split`) writes one, --on-error skip leaves out such records"
    } else if problem.contains("without a score") {
        "--fill-score 0 (of `data convert` and `data split`) writes one, --on-error skip leaves out such records"
    } else {
        "--on-error skip leaves out such records"
    };
    LabError::Usage(format!("{error}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_data::{Format, Options};

    #[test]
    #[cfg(unix)]
    fn a_file_is_recognised_through_links() {
        let dir = std::env::temp_dir().join(format!("tandem-same-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        std::fs::write(dir.join("x.csv"), "fen\n").unwrap();
        std::fs::hard_link(dir.join("x.csv"), dir.join("hard.csv")).unwrap();
        std::os::unix::fs::symlink("x.csv", dir.join("soft.csv")).unwrap();
        let source =
            |name: &str| Source { path: dir.join(name), format: Format::Csv, options: Options::default() };
        let input = [source("x.csv")];
        for name in ["x.csv", "hard.csv", "soft.csv", "below/../x.csv"] {
            let refused = check_outputs(&input, &[&source(name)]).unwrap_err().to_string();
            assert!(refused.contains("is an input too"), "{refused}");
        }
        assert!(check_outputs(&input, &[&source("new.csv"), &source("below/new.csv")]).is_ok());
        let twice = check_outputs(&input, &[&source("new.csv"), &source("below/../new.csv")]);
        assert!(twice.unwrap_err().to_string().contains("would be written twice"));
        let null = Source { path: "/dev/null".into(), ..source("x.csv") };
        assert!(check_outputs(std::slice::from_ref(&null), &[&null, &null]).is_ok());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
