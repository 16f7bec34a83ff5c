//! A bundle as it comes, written to files.

use std::io::{self, Read};

use http::{HeaderName, StatusCode, header};
use thiserror::Error;

use super::{
    destination::{CreateError, Destination, NewFile},
    part_name::{NameError, PartName, Shown},
};
use crate::bundle::{Event, Fault, PartHead, ReadError, Reader};

/// How much is read at once.
const READ_LEN: usize = 64 * 1024;

/// How much of a body tells what it is, where it is no bundle.
const START_LEN: usize = 64;

/// The longest problem that is read for its detail; Axon's own have some hundred bytes.
const MAX_PROBLEM_LEN: usize = 4096;

/// What is said in the place of a name.
const NAMELESS: &[u8] = b"(no name)";

/// MIME's way to say how content is encoded (RFC 2045 §6). HTTP has none of it, mail has.
const TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

/// What is done with the parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnpackOptions {
    /// Names are those to save under, without directories, instead of the paths that were asked for.
    pub flat: bool,
    /// Names that start with a dot are written, too.
    pub dotfiles: bool,
}

/// What became of a part.
#[derive(Debug)]
pub enum PartReport<'a> {
    /// It is a file now, or would be; and what its head says.
    Whole {
        /// Its name.
        name: Shown<'a>,
        /// Its length in bytes.
        len: u64,
        /// Its head.
        head: &'a PartHead,
    },
    /// It stands in for a file that the server could not serve.
    Missing {
        /// The file's name.
        name: Shown<'a>,
        /// Why.
        status: StatusCode,
        /// Why, in the server's words.
        detail: Option<&'a str>,
    },
    /// It was read and not written.
    Refused {
        /// Its name, as it came.
        name: Shown<'a>,
        /// Why not.
        refusal: &'a Refusal,
    },
}

/// Why a part is not written. The others are.
#[derive(Debug, Error)]
pub enum Refusal {
    /// Its content is not the file's.
    #[error("its content is encoded as {0}, and nothing is decoded here; ask for it without")]
    Encoded(String),
    /// The file cannot be made.
    #[error(transparent)]
    File(#[from] CreateError),
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Nothing in its head names it.
    #[error("it has no name to save it under")]
    NoName,
    /// It is a range.
    #[error("it is only a piece of a file (Content-Range); ask for the whole")]
    Piece,
}

/// Why not everything was unpacked. Parts that were whole before that are files.
#[derive(Debug, Error)]
pub enum UnpackError {
    /// It cannot be read.
    #[error("cannot read the bundle")]
    Input(#[source] io::Error),
    /// It is something else.
    #[error("{0}")]
    NotABundle(String),
    /// It is cut or broken.
    #[error("the bundle is not whole: {error}{}", .part.as_ref().map_or(String::new(), |part| format!(", in {part}")))]
    Bundle {
        /// What is wrong with it.
        error: ReadError,
        /// In which part: its number from 1 and its name.
        part: Option<String>,
    },
    /// A file cannot be written to its end.
    #[error("cannot write {0}")]
    Write(String, #[source] io::Error),
    /// What was reported went nowhere.
    #[error("cannot tell what is in the bundle")]
    Report(#[source] io::Error),
}

/// Where the content of this part goes.
enum Sink {
    /// A file.
    File(NewFile),
    /// Nowhere: the bundle is only looked at.
    Look,
    /// What the server says of a missing file, as far as it is kept.
    Problem(StatusCode, Vec<u8>),
    /// Nowhere.
    Refused(Refusal),
}

/// A part that is being read.
struct Current {
    head: PartHead,
    /// Its name as it came, or [`NAMELESS`].
    name: Vec<u8>,
    len: u64,
    sink: Sink,
}

/// Reads a bundle to its end and writes its parts to files; without a destination it is only looked at. Memory is
/// constant, but for a few bytes a file.
///
/// A part is reported when it is whole. One that cannot be written is reported as refused, and the others are written
/// all the same.
///
/// # Errors
/// Where the input is no bundle or not whole, or a file cannot be written to its end.
pub fn unpack(
    input: &mut dyn Read,
    destination: Option<&mut Destination>,
    options: UnpackOptions,
    report: &mut dyn FnMut(&PartReport<'_>) -> io::Result<()>,
) -> Result<(), UnpackError> {
    let mut unpacker = Unpacker { destination, options, report, current: None };
    let mut reader = Reader::learning();
    let mut buffer = vec![0; READ_LEN];
    let mut len = read_start(input, &mut buffer).map_err(UnpackError::Input)?;
    let start = buffer[..len.min(START_LEN)].to_vec();
    let broken = |error: ReadError, reader: &Reader, current: &Option<Current>| {
        if reader.parts() == 0 && !matches!(error.fault, Fault::Cut(_)) {
            return UnpackError::NotABundle(describe(&start, error));
        }
        let name = |current: &Current| format!("part {}, {}", reader.parts(), Shown(&current.name));
        UnpackError::Bundle { error, part: current.as_ref().map(name) }
    };
    while len > 0 {
        let mut piece = &buffer[..len];
        loop {
            match reader.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(event)) => unpacker.take(event)?,
                Err(error) => return Err(broken(error, &reader, &unpacker.current)),
            }
        }
        len = read(input, &mut buffer).map_err(UnpackError::Input)?;
    }
    reader.finish().map_err(|error| broken(error, &reader, &unpacker.current))
}

struct Unpacker<'a> {
    destination: Option<&'a mut Destination>,
    options: UnpackOptions,
    report: &'a mut dyn FnMut(&PartReport<'_>) -> io::Result<()>,
    current: Option<Current>,
}

impl Unpacker<'_> {
    fn take(&mut self, event: Event<'_>) -> Result<(), UnpackError> {
        match event {
            Event::Part(head) => {
                let name = name_of(&head, self.options.flat);
                let sink = self.open(&head, name.as_deref()).unwrap_or_else(Sink::Refused);
                let name = name.unwrap_or_else(|| NAMELESS.to_vec());
                self.current = Some(Current { head, name, len: 0, sink });
                Ok(())
            }
            Event::Data(content) => {
                // Content follows a head.
                self.current.as_mut().map_or(Ok(()), |current| current.write(content))
            }
            Event::PartEnd => self.current.take().map_or(Ok(()), |current| self.end(current)),
            Event::End => Ok(()),
        }
    }

    /// Decides where a part goes.
    fn open(&mut self, head: &PartHead, name: Option<&[u8]>) -> Result<Sink, Refusal> {
        if let Some(status) = head.failed() {
            return Ok(Sink::Problem(status, Vec::new()));
        }
        let Some(destination) = &self.destination else { return Ok(Sink::Look) };
        for field in [header::CONTENT_ENCODING, TRANSFER_ENCODING] {
            let encodings = head.fields().get_all(field).iter().map(http::HeaderValue::as_bytes);
            let is_plain = |encoding: &[u8]| {
                [&b"identity"[..], b"binary", b"7bit", b"8bit"].iter().any(|plain| encoding.eq_ignore_ascii_case(plain))
            };
            if let Some(encoding) = encodings.into_iter().find(|encoding| !is_plain(encoding)) {
                return Err(Refusal::Encoded(Shown(encoding).to_string()));
            }
        }
        if head.fields().contains_key(header::CONTENT_RANGE) {
            return Err(Refusal::Piece);
        }
        let name = name.ok_or(Refusal::NoName)?;
        let parse = if self.options.flat { PartName::parse_flat } else { PartName::parse };
        Ok(Sink::File(destination.create(&parse(name, self.options.dotfiles)?)?))
    }

    /// Finishes a part that is whole.
    fn end(&mut self, current: Current) -> Result<(), UnpackError> {
        let Current { head, name, len, sink } = current;
        let refused;
        let detail;
        let name = Shown(&name);
        let part = match (sink, &mut self.destination) {
            (Sink::Problem(status, text), _) => {
                detail = problem_detail(&text);
                PartReport::Missing { name, status, detail: detail.as_deref() }
            }
            (Sink::Refused(refusal), _) => {
                refused = refusal;
                PartReport::Refused { name, refusal: &refused }
            }
            (Sink::File(file), Some(destination)) => match destination.publish(file, head.last_modified()) {
                Ok(()) => PartReport::Whole { name, len, head: &head },
                Err(error) => {
                    refused = error.into();
                    PartReport::Refused { name, refusal: &refused }
                }
            },
            (Sink::File(_) | Sink::Look, _) => PartReport::Whole { name, len, head: &head },
        };
        (self.report)(&part).map_err(UnpackError::Report)
    }
}

impl Current {
    fn write(&mut self, content: &[u8]) -> Result<(), UnpackError> {
        self.len += content.len() as u64;
        match &mut self.sink {
            Sink::File(file) => {
                file.write(content).map_err(|error| UnpackError::Write(Shown(&self.name).to_string(), error))
            }
            Sink::Problem(_, text) => {
                // One byte more tells that it is too long.
                let room = MAX_PROBLEM_LEN + 1 - text.len();
                text.extend_from_slice(&content[..content.len().min(room)]);
                Ok(())
            }
            Sink::Look | Sink::Refused(_) => Ok(()),
        }
    }
}

/// The path that was asked for, else the name to save it under; `flat`: the other way round, and of a path its last
/// component.
fn name_of(head: &PartHead, flat: bool) -> Option<Vec<u8>> {
    let filename = || head.disposition().and_then(|disposition| disposition.filename);
    if flat {
        let last = |path: Vec<u8>| path.rsplit(|&b| b == b'/').next().map(<[u8]>::to_vec);
        filename().or_else(|| head.path().and_then(last))
    } else {
        head.path().or_else(filename)
    }
}

/// What a problem (RFC 9457) says, made fit for a terminal.
fn problem_detail(text: &[u8]) -> Option<String> {
    if text.len() > MAX_PROBLEM_LEN {
        return None;
    }
    let problem: serde_json::Value = serde_json::from_slice(text).ok()?;
    Some(Shown(problem.get("detail")?.as_str()?.as_bytes()).to_string())
}

/// What a body is that is no bundle, and what to do about it.
fn describe(start: &[u8], error: ReadError) -> String {
    const ALONE: &str =
        "A single file comes as itself: save it with curl -o FILE, or ask for a bundle of one with format=mixed.";
    let shown = Shown(start);
    match start {
        [] => "there is nothing to unpack; was the request refused? curl -sS --fail says why".into(),
        [b'H', b'T', b'T', b'P', b'/', ..] => "this begins with the head of an HTTP answer; leave out curl's -i".into(),
        [b'{' | b'<', ..] => format!(
            "this is no bundle but begins with {shown}\nIf that is an error of the server: curl -sS --fail says which. \
             {ALONE}"
        ),
        [b'-', b'-', ..] => format!("this is no bundle: {error}\n{ALONE}"),
        _ => format!("this is no bundle but begins with {shown}\n{ALONE}"),
    }
}

/// Reads until it can be told what it is, or to the end.
fn read_start(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < START_LEN {
        match read(input, &mut buffer[len..])? {
            0 => break,
            count => len += count,
        }
    }
    Ok(len)
}

fn read(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes one at a time, and is interrupted before each.
    struct Trickle<'a>(&'a [u8], bool);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut buffer[..1]) }
        }
    }

    /// What is reported of a body that comes byte by byte, a line each.
    fn look(body: &[u8]) -> (Vec<String>, Result<(), UnpackError>) {
        let mut lines = Vec::new();
        let result = unpack(&mut Trickle(body, false), None, UnpackOptions::default(), &mut |part| {
            lines.push(match part {
                PartReport::Whole { name, len, .. } => format!("{name}: {len}"),
                PartReport::Missing { name, status, detail } => format!("{name}: {} {detail:?}", status.as_u16()),
                PartReport::Refused { name, refusal } => format!("{name}: {refusal}"),
            });
            Ok(())
        });
        (lines, result)
    }

    #[test]
    fn a_problem_is_read_up_to_a_limit() {
        let report = |text: &str| {
            let head = "Content-Location: none.txt\r\nAxon-Status: 404\r\n";
            let body = format!("--x\r\n{head}\r\n{text}\r\n--x\r\n\r\nabc\r\n--x--\r\n");
            let (lines, result) = look(body.as_bytes());
            assert!(result.is_ok() && lines[1] == "(no name): 3", "{lines:?}");
            lines[0].clone()
        };
        let padded = |len: usize| {
            let text = "{\"detail\":\"gone\\u001b\"}";
            format!("{text}{}", " ".repeat(len - text.len()))
        };
        assert_eq!(report(&padded(100)), "none.txt: 404 Some(\"gone\\\\u{1b}\")");
        assert_eq!(report(&padded(MAX_PROBLEM_LEN)), report(&padded(100)));
        for none in [&padded(MAX_PROBLEM_LEN + 1)[..], &padded(100_000), "", "gone", "{}", "{\"detail\":1}"] {
            assert_eq!(report(none), "none.txt: 404 None");
        }
    }

    #[test]
    fn what_it_is_shows_however_slowly_it_comes() {
        for (input, words) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], "leave out curl's -i"),
            (b"plain text of a file", "begins with plain text of a file\n"),
            (b"", "there is nothing to unpack"),
        ] {
            let (lines, result) = look(input);
            let error = result.expect_err("no bundle").to_string();
            assert!(lines.is_empty() && error.contains(words), "{error}");
        }
    }
}
