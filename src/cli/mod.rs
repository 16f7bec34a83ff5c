//! What the user may type, one file a subcommand.

mod check;
mod request;
mod serve;
mod settings;
mod unpack;
mod values;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, parser::ValueSource};

pub use check::{CheckArguments, CheckFailure, check};
pub use request::{RequestArguments, RequestFailure, request};
pub use serve::{ServeArguments, ServeFailure, serve};
pub use unpack::{UnpackArguments, UnpackFailure, unpack};

/// Answers one HTTP request with many files.
///
/// nginx takes the connection and hands the request over a unix socket (uwsgi_pass); Axon streams the files back
/// as one multipart body, in constant memory. One file alone is sent as itself.
#[derive(Debug, Parser)]
#[command(name = "axon", version, max_term_width = 100, after_help = SECTIONS)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands. Each has its help from its arguments; a comment on a variant would hide it.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "a comment on a variant would take the place of the help in its arguments")]
pub enum Command {
    Serve(Box<ServeArguments>),
    Request(RequestArguments),
    Unpack(UnpackArguments),
    Check(Box<CheckArguments>),
}

impl Cli {
    /// Reads the process's arguments and environment. Wrong usage ends the process with exit code 2 and what to type
    /// instead; so does `--help`, with 0.
    ///
    /// `needs_address` says that there is nothing to listen on unless an address is given.
    pub fn from_process(needs_address: bool) -> Self {
        let serve = |serve: clap::Command| serve.mut_arg("uwsgi", |argument| argument.required(needs_address));
        let mut command = Self::command().mut_subcommand("serve", serve);
        let mut matches = command.get_matches_mut();
        let typed_level = matches
            .subcommand_matches("serve")
            .is_some_and(|serve| serve.value_source("log_level") == Some(ValueSource::CommandLine));
        let mut cli =
            Self::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut command).exit());
        if let Command::Serve(arguments) = &mut cli.command {
            arguments.settings.log_level_was_typed = typed_level;
        }
        cli
    }
}

const SECTIONS: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage

Examples:
  axon check --root /srv/files --uwsgi unix:/run/axon/axon.sock
  axon serve --root /srv/files --uwsgi unix:/run/axon/axon.sock
  axon request unix:/run/axon/axon.sock '/api/stream-files?file1=a.txt&file2=b.txt' -i
  curl -sS --fail 'http://127.0.0.1:8080/api/stream-files?file1=a.txt&file2=b.txt' | axon unpack";
