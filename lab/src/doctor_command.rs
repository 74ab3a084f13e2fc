//! `tandem-lab doctor`: checks the machine, the GPU, libtorch, peer programs and data folders.

mod data;
mod machine;
mod peers;
mod transformers;

use crate::error::LabError;
use clap::Args;
use std::path::PathBuf;

/// Check what this machine has and lacks for each task: CPU, GPU, libtorch, other programs, data
///
/// Fails only if something essential is missing or a file is damaged. What merely disables some commands is
/// reported as missing.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Also look for books, games, labelled positions, networks, puzzles, suites and endgame tables in the
    /// folders of DIR; networks whose names contain their SHA-256 are verified
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// The state of one requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Present and usable.
    Ok,
    /// Not present; only some commands need it.
    Missing,
    /// Damaged, or missing although every command needs it.
    Broken,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Broken => "BROKEN",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug)]
struct Finding {
    name: String,
    state: State,
    /// A description of what was found, or advice on what to do.
    detail: String,
}

impl Finding {
    fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, detail: detail.into() }
    }

    fn missing(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Missing, detail: detail.into() }
    }

    fn broken(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Broken, detail: detail.into() }
    }
}

/// Runs the command.
///
/// # Errors
///
/// When something essential is missing or a file is damaged.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), LabError> {
    let mut sections = vec![
        ("machine", machine::machine()),
        ("training on a GPU", machine::gpu()),
        ("training transformers", transformers::transformers()),
        ("peers", peers::peers()),
    ];
    if let Some(dir) = &args.data {
        sections.push(("data", data::data(dir)));
    }
    if args.json {
        let section = |(name, findings): &(&str, Vec<Finding>)| {
            let findings: Vec<_> = findings
                .iter()
                .map(|f| serde_json::json!({"name": f.name, "state": f.state.name().to_lowercase(), "detail": f.detail}))
                .collect();
            ((*name).to_owned(), serde_json::Value::from(findings))
        };
        let facts: serde_json::Map<_, _> = sections.iter().map(section).collect();
        outln!("{}", serde_json::Value::from(facts));
    } else {
        for (section, findings) in &sections {
            outln!("{section}");
            let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
            for Finding { name, state, detail } in findings {
                outln!("  {name:<width$}  {:<7}  {detail}", state.name());
            }
        }
    }
    let broken: Vec<&str> = sections
        .iter()
        .flat_map(|(_, findings)| findings)
        .filter(|finding| finding.state == State::Broken)
        .map(|finding| finding.name.as_str())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(LabError::Usage(format!("fix this first: {}", broken.join(", "))))
}

/// A size in decimal units, for example `1.5 GB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
