//! The Tandem workshop.

mod elo_command;
mod error;
mod interrupt;
mod match_command;
mod watch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The Tandem workshop: matches between engines, and what they prove.
#[derive(Debug, Parser)]
#[command(name = "tandem-lab", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Match(Box<match_command::MatchArgs>),
    Sprt(Box<match_command::SprtArgs>),
    Elo(elo_command::EloArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Match(args) => match_command::run(&args),
        Command::Sprt(args) => match_command::run_sprt(&args),
        Command::Elo(args) => elo_command::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tandem-lab: {error}");
            ExitCode::FAILURE
        }
    }
}
