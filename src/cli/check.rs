//! `axon check`.

use std::{
    env,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use thiserror::Error;

use crate::{
    check::{self, Subject},
    cli::settings::Settings,
};

/// Find out whether a set-up is going to work.
///
/// Takes the options and variables of axon serve, looks at what it would find, and says of each thing whether it is
/// ok, could be better (warning), or does not work (error), and what to type instead. Nothing is changed and nothing is
/// started: an instance that is running is asked for its health and goes on.
///
/// It looks as the user who types it. Check as the user of the service, or with its variables: set -a;
/// . /etc/axon/axon.env; axon check
///
/// With --nginx it also reads a configuration of nginx. Of the places that hand requests to Axon it tells the line of
/// each directive that costs speed, breaks ranges, fills the disk or hides errors, and the directive to write instead.
/// What an outer level sets is taken into account, and so are included files.
#[derive(Args, Clone, Debug)]
#[command(after_help = SECTIONS, allow_negative_numbers = true)]
pub struct CheckArguments {
    /// The directory that is to be served. Without it, files and the kernel are not looked at. Example: --root /srv/files
    #[arg(long, env = "AXON_ROOT", value_name = "DIR")]
    root: Option<PathBuf>,

    /// A configuration of nginx: the output of nginx -T, with all files in it, or one file; - is standard input.
    /// Example: --nginx /etc/nginx/nginx.conf
    #[arg(long, value_name = "FILE")]
    nginx: Option<PathBuf>,

    /// Print one JSON object, with findings and counts, instead of text.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    settings: Settings,
}

const SECTIONS: &str = "\
Exit codes:
  0  no errors; warnings at most
  1  errors
  2  wrong usage

Environment:
  NO_COLOR  no colours, on a terminal either

Files:
  /etc/axon/axon.env  the settings of axon.service
  /run/axon/axon.sock  looked at where no --uwsgi is given

Examples:
  axon check --root /srv/files --uwsgi unix:/run/axon/axon.sock
  nginx -T | axon check --root /srv/files --nginx -
  axon check --nginx nginx.conf --json";

/// Why there is no report.
#[derive(Debug, Error)]
pub enum CheckFailure {
    /// It cannot be printed.
    #[error("cannot write the report")]
    Output(#[source] io::Error),
}

/// Looks at everything and prints the report.
pub fn check(arguments: &CheckArguments) -> Result<ExitCode, CheckFailure> {
    let subject = Subject {
        config: arguments.settings.config(arguments.root.clone().unwrap_or_default()),
        has_root: arguments.root.is_some(),
        log_file: arguments.settings.log_file.clone(),
        nginx: arguments.nginx.clone(),
    };
    let report = check::run(&subject);
    let mut out = io::stdout().lock();
    let text = if arguments.json {
        report.to_json() + "\n"
    } else {
        let coloured = out.is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        report.to_text(coloured)
    };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads has seen enough (`axon check | head`).
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CheckFailure::Output(error)),
        _ => Ok(if report.counts().error > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }),
    }
}
