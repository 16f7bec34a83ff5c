//! What the user may type, one file a subcommand.

mod request;
mod serve;
mod values;

use clap::{Parser, Subcommand};

pub use request::{RequestArguments, RequestFailure, request};
pub use serve::{ServeArguments, ServeFailure, serve};

/// Answers one HTTP request with many files.
///
/// nginx takes the connection and hands the request over a unix socket (uwsgi_pass); Axon streams the files back
/// as one multipart body, in constant memory. One file alone is sent as itself.
#[derive(Debug, Parser)]
#[command(name = "axon", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the files beneath a directory.
    Serve(Box<ServeArguments>),
    /// Make one request in the uwsgi protocol, without nginx.
    Request(RequestArguments),
}

const EXAMPLES: &str = "\
Examples:
  axon serve --root /srv/files --uwsgi unix:/run/axon/axon.sock
  axon request unix:/run/axon/axon.sock '/api/stream-files?file1=a.txt&file2=b.txt' -i

Exit codes: 0 done, 1 failed, 2 wrong usage.";
