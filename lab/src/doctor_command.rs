//! `tandem-lab doctor`.

mod data;
mod machine;
mod peers;
mod transformers;

use crate::error::LabError;
use clap::Args;
use std::path::PathBuf;

/// Say what this machine has and lacks for each part of the workshop
///
/// Ends with an error only if something is missing that the plain workshop cannot do without, or if a file is damaged.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Also look for books, games and networks in this folder; networks whose names tell their sha256 are checked
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There, and good.
    Ok,
    /// Not there; some part of the workshop does without.
    Missing,
    /// Nothing works as it should.
    Wrong,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Wrong => "WRONG",
        }
    }
}

/// What was found of one thing.
#[derive(Clone, Debug)]
struct Finding {
    name: String,
    state: State,
    /// What is there, or what to do.
    told: String,
}

impl Finding {
    fn ok(name: impl Into<String>, told: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, told: told.into() }
    }

    fn missing(name: impl Into<String>, told: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Missing, told: told.into() }
    }

    fn wrong(name: impl Into<String>, told: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Wrong, told: told.into() }
    }
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), LabError> {
    let mut parts = vec![
        ("machine", machine::machine()),
        ("training on a GPU", machine::gpu()),
        ("training transformers", transformers::transformers()),
        ("peers", peers::peers()),
    ];
    if let Some(dir) = &args.data {
        parts.push(("data", data::data(dir)));
    }
    if args.json {
        let part = |(name, findings): &(&str, Vec<Finding>)| {
            let findings: Vec<_> = findings
                .iter()
                .map(|f| serde_json::json!({"name": f.name, "state": f.state.name().to_lowercase(), "told": f.told}))
                .collect();
            ((*name).to_owned(), serde_json::Value::from(findings))
        };
        let facts: serde_json::Map<_, _> = parts.iter().map(part).collect();
        sayln!("{}", serde_json::Value::from(facts));
    } else {
        for (part, findings) in &parts {
            sayln!("{part}");
            let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
            for Finding { name, state, told } in findings {
                sayln!("  {name:<width$}  {:<7}  {told}", state.name());
            }
        }
    }
    let wrong: Vec<&str> = parts
        .iter()
        .flat_map(|(_, findings)| findings)
        .filter(|finding| finding.state == State::Wrong)
        .map(|finding| finding.name.as_str())
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(LabError::Usage(format!("this must be put right first: {}", wrong.join(", "))))
}

/// A size that people can read.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
