//! The program: parse, dispatch, exit code.

use std::process::ExitCode;

use axon::{
    cli::{self, Cli, Command},
    server,
};

fn main() -> ExitCode {
    // First of all: it changes the environment, which only a process with one thread may do.
    let passed = server::passed_listeners();
    let needs_address = matches!(&passed, Ok(listeners) if listeners.is_empty());
    let result = match Cli::from_process(needs_address).command {
        Command::Serve(arguments) => {
            cli::serve(&arguments, passed).map_err(anyhow::Error::from).map(|()| ExitCode::SUCCESS)
        }
        Command::Request(arguments) => cli::request(arguments).map_err(anyhow::Error::from),
        Command::Check(arguments) => cli::check(&arguments).map_err(anyhow::Error::from),
        Command::Unpack(arguments) => cli::unpack(&arguments).map_err(anyhow::Error::from),
    };
    result.unwrap_or_else(|error| {
        eprintln!("axon: {error:#}");
        ExitCode::FAILURE
    })
}
