//! `tandem-lab`: matches between engines, training data, training and measuring networks.
//!
//! Each subcommand has a module of its own, named after it, with its arguments (the doc comments are the help
//! texts) and a `run` function. This file parses the command line, calls `run`, and turns its result into an
//! exit status: 0, 1 for a failure, 130 for an interruption.

#[macro_use]
mod output;

mod any_network;
mod board_art;
mod compliance_command;
mod data_command;
mod device;
mod distance;
mod doctor_command;
mod elo_command;
mod engine_args;
mod error;
mod eval_command;
mod evaluate_command;
mod evaluator;
mod export_command;
mod inspect_command;
mod interrupt;
mod lines;
mod maps_command;
mod match_command;
mod model_card;
mod model_output;
mod new_command;
mod play_command;
mod plural;
mod progress;
mod puzzles_command;
mod selector_report;
mod strategist;
mod strategist_player;
mod suite_command;
mod svg;
mod svg_board;
mod table;
mod train_command;
mod train_speed_command;
mod transformer_file;
mod tune_command;
mod unanswered;
mod verify_command;
mod watch;

/// mimalloc, because loading data allocates and frees buffers of megabytes all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Run matches between engines, make training data, and train and measure networks
///
/// Every subcommand explains itself: `tandem-lab COMMAND --help`.
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
    Suite(suite_command::SuiteArgs),
    Puzzles(puzzles_command::PuzzlesArgs),
    Compliance(compliance_command::ComplianceArgs),
    Play(play_command::PlayArgs),
    Inspect(inspect_command::InspectArgs),
    Eval(eval_command::EvalArgs),
    Evaluate(evaluate_command::EvaluateArgs),
    New(new_command::NewArgs),
    Export(export_command::ExportArgs),
    Verify(verify_command::VerifyArgs),
    Maps(maps_command::MapsArgs),
    Doctor(doctor_command::DoctorArgs),
    #[command(subcommand)]
    Data(Box<data_command::DataCommand>),
    Train(train_command::TrainArgs),
    TrainSpeed(train_speed_command::TrainSpeedArgs),
    Tune(tune_command::TuneArgs),
}

fn main() -> ExitCode {
    interrupt::report_file_size_limit();
    let outcome = match Cli::parse().command {
        Command::Match(args) => match_command::run(&args),
        Command::Sprt(args) => match_command::run_sprt(&args),
        Command::Elo(args) => elo_command::run(&args),
        Command::Suite(args) => suite_command::run(&args),
        Command::Puzzles(args) => puzzles_command::run(&args),
        Command::Compliance(args) => compliance_command::run(&args),
        Command::Play(args) => play_command::run(&args),
        Command::Inspect(args) => inspect_command::run(&args),
        Command::Eval(args) => eval_command::run(&args),
        Command::Evaluate(args) => evaluate_command::run(&args),
        Command::New(args) => new_command::run(&args),
        Command::Export(args) => export_command::run(&args),
        Command::Verify(args) => verify_command::run(&args),
        Command::Maps(args) => maps_command::run(&args),
        Command::Doctor(args) => doctor_command::run(&args),
        Command::Data(command) => data_command::run(&command),
        Command::Train(args) => train_command::run(&args),
        Command::TrainSpeed(args) => train_speed_command::run(&args),
        Command::Tune(args) => tune_command::run(&args),
    };
    match outcome {
        Ok(()) => match output::first_error() {
            None => ExitCode::SUCCESS,
            Some(error) => {
                errln!("tandem-lab: standard output: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            errln!("tandem-lab: {error}");
            error.status()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn old_names_of_options_still_work_but_are_not_listed() {
        let evaluate: &[&str] = &["evaluate", "net.tnn", "--data", "x.vf"];
        let split: &[&str] = &["data", "split", "x.vf", "--train", "t", "--validation", "v", "--test", "w"];
        for (command, new, old) in [
            (evaluate, "--wdl", "--result-share"),
            (split, "--validation-fraction", "--validation-share"),
            (split, "--test-fraction", "--test-share"),
        ] {
            let parse = |option| {
                let args = [&["tandem-lab"][..], command, &[option, "0.25"]].concat();
                format!("{:?}", Cli::try_parse_from(args).unwrap())
            };
            assert_eq!(parse(old), parse(new));
            assert!(parse(new).contains(": 0.25"));
            let help = |command: &str| {
                let root = Cli::command();
                let mut commands = root.get_subcommands().flat_map(|sub| sub.get_subcommands().chain([sub]));
                let found = commands.find(|sub| sub.get_name() == command);
                found.unwrap().clone().render_long_help().to_string()
            };
            let name = if command[0] == "data" { command[1] } else { command[0] };
            assert!(help(name).contains(new) && !help(name).contains(old));
        }
    }
}
