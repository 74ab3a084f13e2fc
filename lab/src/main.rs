//! The Tandem workshop.

#[macro_use]
mod say;

mod any_network;
mod board_art;
mod card;
mod data_command;
mod device;
mod distance;
mod doctor_command;
mod elo_command;
mod engine_args;
mod error;
mod evaluate_command;
mod export_command;
mod inspect_command;
mod interrupt;
mod judge;
mod lines;
mod maps_command;
mod match_command;
mod new_command;
mod play_command;
mod progress;
mod puzzles_command;
mod said;
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

/// Loading data takes and drops buffers of megabytes all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The Tandem workshop: matches between engines and what they prove, training data, and networks.
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
    Play(play_command::PlayArgs),
    Inspect(inspect_command::InspectArgs),
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
    let outcome = match Cli::parse().command {
        Command::Match(args) => match_command::run(&args),
        Command::Sprt(args) => match_command::run_sprt(&args),
        Command::Elo(args) => elo_command::run(&args),
        Command::Suite(args) => suite_command::run(&args),
        Command::Puzzles(args) => puzzles_command::run(&args),
        Command::Play(args) => play_command::run(&args),
        Command::Inspect(args) => inspect_command::run(&args),
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
        Ok(()) => match say::lost() {
            None => ExitCode::SUCCESS,
            Some(error) => {
                tellln!("tandem-lab: standard output: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            tellln!("tandem-lab: {error}");
            error.status()
        }
    }
}
