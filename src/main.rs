//! The program: parse, dispatch, exit code.

use std::process::ExitCode;

use axon::cli::{self, Cli, Command};
use clap::Parser as _;

fn main() -> ExitCode {
    // Wrong usage ends here with exit code 2 and what to type instead.
    let result = match Cli::parse().command {
        Command::Serve(arguments) => cli::serve(&arguments).map_err(anyhow::Error::from).map(|()| ExitCode::SUCCESS),
        Command::Request(arguments) => cli::request(arguments).map_err(anyhow::Error::from),
        Command::Unpack(arguments) => cli::unpack(&arguments).map_err(anyhow::Error::from),
    };
    result.unwrap_or_else(|error| {
        eprintln!("axon: {error:#}");
        ExitCode::FAILURE
    })
}
