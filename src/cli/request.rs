//! `axon request`.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use thiserror::Error;

use crate::{
    cli::values,
    client::{self, ClientError, ClientRequest},
    transport::Address,
};

/// Make one request in the uwsgi protocol, without nginx.
///
/// Prints the answer's body. Fails if the answer is cut, that is, shorter than the length it announces.
#[derive(Args, Clone, Debug)]
#[command(after_help = SECTIONS)]
pub struct RequestArguments {
    /// Where the server listens: unix:PATH or IP:PORT. Example: unix:/run/axon/axon.sock
    #[arg(value_name = "ADDR")]
    address: Address,

    /// Path and query, percent-encoded. Example: '/api/stream-files?file1=a.txt&file2=b.txt'
    #[arg(value_name = "TARGET", value_parser = target)]
    target: String,

    /// The method [default: GET, or POST with a body]. Example: -X HEAD
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = "Request")]
    method: Option<String>,

    /// A header field; may be repeated. Example: -H 'Range: bytes=0-99'
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header, help_heading = "Request")]
    headers: Vec<(String, String)>,

    /// A body, or @FILE to read it from a file, or @- from standard input. Example: -d @list.json
    #[arg(short = 'd', long, value_name = "BODY|@FILE", help_heading = "Request")]
    data: Option<String>,

    /// How long the server may be silent; 0 is for ever. Example: --timeout 5s
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration, help_heading = "Request")]
    timeout: Duration,

    /// Print the answer's head before its body.
    #[arg(short = 'i', long, help_heading = "Output")]
    include: bool,

    /// Write the answer to a file instead of standard output. Example: -o bundle.bin
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,

    /// Exit with 1 if the answer's status is 400 or above.
    #[arg(long, help_heading = "Output")]
    fail: bool,
}

const SECTIONS: &str = "\
Exit codes:
  0  the answer came whole, whatever its status
  1  no answer, a cut one, or with --fail a status of 400 or above
  2  wrong usage

Examples:
  axon request unix:/run/axon/axon.sock '/api/stream-files?file1=a.txt&file2=b.txt' -i
  axon request 127.0.0.1:3031 /api/stream-files -H 'Content-Type: application/json' -d @list.json";

/// Why there is no answer to show.
#[derive(Debug, Error)]
pub enum RequestFailure {
    /// The body cannot be read.
    #[error("cannot read the body from {0}")]
    Body(String, #[source] io::Error),
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The output file cannot be made.
    #[error("cannot write {}", .0.display())]
    Output(PathBuf, #[source] io::Error),
}

/// Makes the request and prints its answer.
pub fn request(arguments: RequestArguments) -> Result<ExitCode, RequestFailure> {
    let body = arguments.data.map(read_body).transpose()?;
    let method = arguments.method.unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
    let timeout = Some(arguments.timeout).filter(|timeout| !timeout.is_zero());
    let request = ClientRequest { method, target: arguments.target, headers: arguments.headers, body, timeout };
    let mut out: Box<dyn Write> = match arguments.output {
        None => Box::new(io::stdout().lock()),
        Some(path) => Box::new(File::create(&path).map_err(|error| RequestFailure::Output(path, error))?),
    };
    match client::request(&arguments.address, &request, arguments.include, &mut *out) {
        Ok(answer) if arguments.fail && answer.status >= 400 => {
            eprintln!("axon: the answer's status is {}", answer.status);
            Ok(ExitCode::FAILURE)
        }
        Ok(_) => Ok(ExitCode::SUCCESS),
        // Whoever reads has seen enough (`axon request ... | head`).
        Err(ClientError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}

fn read_body(text: String) -> Result<Vec<u8>, RequestFailure> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(text.into_bytes());
    };
    let mut body = Vec::new();
    let read = if path == "-" { io::stdin().read_to_end(&mut body).map(|_| body) } else { fs::read(path) };
    read.map_err(|error| RequestFailure::Body(path.to_owned(), error))
}

fn target(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("a target begins with a slash, such as /api/health".into())
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write a header field as 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
