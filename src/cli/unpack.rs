//! `axon unpack`.

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Read, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use thiserror::Error;

use crate::client::{self, Destination, DestinationError, PartReport, UnpackError, UnpackOptions};

/// Write the files of a bundle, as it comes from standard input.
///
/// Every part becomes a file beneath the directory, under the path that was asked for (where the bundle does not say
/// it: under its file name) and with the time it has on the server. A file is there when it is whole: of a bundle that is cut, the files before the cut stay, the one that was
/// cut does not appear, and the exit code is 1.
///
/// Nothing is written outside the directory. A part is refused, by a message and with exit code 1 at the end, if its
/// name is absolute, has .. in it or starts with a dot, if a symbolic link would have to be followed, if there is such
/// a file already, or if an earlier part had the same name. The others are written.
#[derive(Args, Clone, Debug)]
#[command(after_help = SECTIONS)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that may be typed")]
pub struct UnpackArguments {
    /// A file with the bundle [default: standard input]. Example: bundle.multipart
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// The directory to unpack into. Example: -C site
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".", help_heading = "Files")]
    directory: PathBuf,

    /// Replace files that are there. Directories, links and devices are never replaced.
    #[arg(short = 'f', long, help_heading = "Files")]
    force: bool,

    /// Use the names that the bundle gives to save under, without directories: for a list of paths with names.
    #[arg(long, help_heading = "Files")]
    flat: bool,

    /// Also write names that start with a dot.
    #[arg(long, help_heading = "Files")]
    dotfiles: bool,

    /// Files that the server could not serve (missing=part) do not count as failure.
    #[arg(long, help_heading = "Files")]
    allow_missing: bool,

    /// Print the length and name of every part, and write nothing. With -v: date, media type and tag, too.
    #[arg(short = 'l', long, help_heading = "Output")]
    list: bool,

    /// Say on standard error what is written.
    #[arg(short = 'v', long, help_heading = "Output")]
    verbose: bool,
}

const SECTIONS: &str = "\
Exit codes:
  0  the bundle was whole, and every file of it was written
  1  it was cut, or a part of it was refused or is missing
  2  wrong usage

Examples:
  curl -sS --fail 'http://127.0.0.1:8080/api/stream-files?file1=a.txt&file2=b.txt' | axon unpack
  axon unpack -C site -f bundle.multipart
  axon unpack -l < bundle.multipart";

/// Why a bundle was not unpacked.
#[derive(Debug, Error)]
pub enum UnpackFailure {
    /// There is nowhere to unpack it to.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// The file cannot be read.
    #[error("cannot read {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// It is no bundle, or not whole.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
}

/// What is said while a bundle is unpacked, and what comes of it.
struct Account<'a> {
    arguments: &'a UnpackArguments,
    list: BufWriter<io::StdoutLock<'static>>,
    files: u64,
    bytes: u64,
    failed: bool,
}

/// Unpacks a bundle, or shows what is in it.
pub fn unpack(arguments: &UnpackArguments) -> Result<ExitCode, UnpackFailure> {
    let mut input: Box<dyn Read> = match arguments.file.as_deref().filter(|file| *file != Path::new("-")) {
        Some(file) => Box::new(File::open(file).map_err(|error| UnpackFailure::File(file.to_owned(), error))?),
        None if io::stdin().is_terminal() => {
            say(format_args!("nothing is piped in; type: curl -sS --fail URL | axon unpack"));
            return Ok(ExitCode::from(2));
        }
        None => Box::new(io::stdin().lock()),
    };
    let destination = || Destination::open(&arguments.directory, arguments.force);
    let mut destination = if arguments.list { None } else { Some(destination()?) };
    let options = UnpackOptions { flat: arguments.flat, dotfiles: arguments.dotfiles };
    let list = BufWriter::new(io::stdout().lock());
    let mut account = Account { arguments, list, files: 0, bytes: 0, failed: false };
    let result = client::unpack(&mut *input, destination.as_mut(), options, &mut |part| account.tell(part));
    let listed = account.list.flush().map_err(UnpackError::Report);
    match result.and(listed) {
        Ok(()) => {}
        // Whoever reads the list has seen enough (`axon unpack -l | head`).
        Err(UnpackError::Report(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        Err(error) => {
            if account.files > 0 {
                say(format_args!("unpacked {}, but not all:", files(account.files)));
            }
            return Err(error.into());
        }
    }
    if arguments.verbose && !arguments.list {
        say(format_args!("unpacked {}, {} bytes", files(account.files), account.bytes));
    }
    Ok(if account.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Account<'_> {
    fn tell(&mut self, part: &PartReport<'_>) -> io::Result<()> {
        if self.arguments.list {
            return self.list(part);
        }
        match part {
            PartReport::Whole { name, len, .. } => {
                self.files += 1;
                self.bytes += len;
                if self.arguments.verbose {
                    say(format_args!("{name}: {len} bytes"));
                }
            }
            PartReport::Missing { name, status, detail } => {
                self.failed |= !self.arguments.allow_missing;
                say(format_args!(
                    "{name}: not in the bundle: {} ({status})",
                    detail.unwrap_or("the server says no more")
                ));
            }
            PartReport::Refused { name, refusal } => {
                self.failed = true;
                say(format_args!("{name}: not unpacked: {refusal}"));
            }
        }
        Ok(())
    }

    fn list(&mut self, part: &PartReport<'_>) -> io::Result<()> {
        match part {
            PartReport::Whole { name, len, head } if self.arguments.verbose => {
                let field = |name| head.fields().get(name).map_or(&b"-"[..], http::HeaderValue::as_bytes);
                let field = |name| client::Shown(field(name));
                let (date, media_type, tag) =
                    (field(http::header::LAST_MODIFIED), field(http::header::CONTENT_TYPE), field(http::header::ETAG));
                writeln!(self.list, "{len:>12}  {date}  {media_type}  {tag}  {name}")
            }
            PartReport::Whole { name, len, .. } => writeln!(self.list, "{len:>12}  {name}"),
            PartReport::Missing { name, .. } => writeln!(self.list, "{:>12}  {name}", "missing"),
            PartReport::Refused { name, .. } => writeln!(self.list, "{:>12}  {name}", "refused"),
        }
    }
}

/// A line on standard error; where that is closed, nobody wants it.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "axon: {line}");
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}
