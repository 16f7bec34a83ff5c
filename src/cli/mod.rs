//! What the user may type, one file a subcommand.

mod request;
mod serve;
mod unpack;
mod values;

use clap::{Parser, Subcommand};

pub use request::{RequestArguments, RequestFailure, request};
pub use serve::{ServeArguments, ServeFailure, serve};
pub use unpack::{UnpackArguments, UnpackFailure, unpack};

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

/// The subcommands. Each has its help from its arguments; a comment on a variant would hide it.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "a comment on a variant would take the place of the help in its arguments")]
pub enum Command {
    Serve(Box<ServeArguments>),
    Request(RequestArguments),
    Unpack(UnpackArguments),
}

const EXAMPLES: &str = "\
Examples:
  axon serve --root /srv/files --uwsgi unix:/run/axon/axon.sock
  axon request unix:/run/axon/axon.sock '/api/stream-files?file1=a.txt&file2=b.txt' -i
  curl -sS --fail 'http://127.0.0.1:8080/api/stream-files?file1=a.txt&file2=b.txt' | axon unpack

Exit codes: 0 done, 1 failed, 2 wrong usage.";
