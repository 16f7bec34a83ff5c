//! Writes the manual pages and the completions for shells, from the definitions of the command line.
//!
//! ```sh
//! cargo run --example generate -- DIR
//! ```
//!
//! makes `DIR/man/axon.1` and one page a subcommand, and in `DIR/completions` the files for bash, zsh and fish. An
//! example and no part of the program, so that the program does not carry it. The pages bear the date of
//! `SOURCE_DATE_EPOCH`, where that is set, and else today's.

mod manual;

use std::{env, error::Error, fs, path::Path, process::ExitCode};

use axon::cli::Cli;
use clap::CommandFactory as _;
use clap_complete::Shell;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).filter(|_| env::args_os().len() == 2) else {
        eprintln!("usage: cargo run --example generate -- DIR");
        return ExitCode::from(2);
    };
    match generate(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {}: {error}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}

fn generate(folder: &Path) -> Result<(), Box<dyn Error>> {
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    manual::write(Cli::command(), &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "axon", &completions)?;
    }
    Ok(())
}
