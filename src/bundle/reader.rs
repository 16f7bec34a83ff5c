//! A multipart body taken apart as it comes (RFC 2046 §5.1), in constant memory.
//!
//! ```text
//! [CRLF] --boundary CRLF head CRLF CRLF content [CRLF --boundary CRLF head CRLF CRLF content]... CRLF --boundary-- [CRLF]
//! ```
//!
//! Stricter than RFC 2046, so that nothing cut or glued together looks whole: there is no preamble but a line break
//! (nginx begins a body of several ranges with one), no epilogue but a line break (a second bundle behind the first one
//! would be lost in it), and lines end with CRLF.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};

use crate::bundle::{Boundary, BoundaryError, Fault, MAX_BOUNDARY_LEN, PartHead, Place, ReadError};

/// The longest head of a part in bytes, with its empty line. It holds the longest path that Linux knows (4,095 bytes)
/// with every byte percent-encoded, and 4 KiB for everything else; Axon's own have 1,000 at most.
pub const MAX_READ_HEAD_LEN: usize = 16 * 1024;

/// What comes before every boundary, the first one but for the line break.
const DASHES: &[u8] = b"\r\n--";

/// The reader: takes a body in pieces of any size, gives what is in it.
///
/// A part that says its length (Axon's always do) is that long, and a delimiter must follow. One that does not ends
/// where the next delimiter begins. Nothing is whole before [`Reader::finish`] has said so.
///
/// ```
/// use axon::bundle::{Boundary, Event, Reader};
///
/// let mut reader = Reader::new(&Boundary::from_content_type(b"multipart/mixed; boundary=x")?);
/// for mut piece in [&b"--x\r\nContent-Length: 2\r\n\r\nh"[..], b"i\r\n--x--\r\n"] {
///     while let Some(event) = reader.next(&mut piece)? {
///         match event {
///             Event::Part(head) => println!("{:?} bytes of {:?}", head.content_length(), head.path()),
///             Event::Data(content) => println!("{}", content.escape_ascii()),
///             Event::PartEnd => println!("that was all of it"),
///             Event::End => println!("no more parts"),
///         }
///     }
/// }
/// reader.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    state: State,
    /// [`DASHES`] and the boundary; without it until the body has told it.
    delimiter: Vec<u8>,
    /// Looks for the delimiter; None until it is known.
    finder: Option<memmem::Finder<'static>>,
    /// What has come of a head, or of the first boundary.
    line: Vec<u8>,
    /// How many bytes have been taken.
    offset: u64,
    /// How many heads have been read.
    parts: u64,
    /// How much content of this part has been given out.
    content_len: u64,
}

/// What is in a body, in the order Part, Data (as often as it takes, and never empty), PartEnd, ..., End.
#[derive(Debug)]
pub enum Event<'a> {
    /// A part begins.
    Part(PartHead),
    /// Content of this part: a slice of what was handed in, or of the delimiter that it looked like.
    Data(&'a [u8]),
    /// The part is whole: its content and the delimiter line behind it have come.
    PartEnd,
    /// The last part is behind us. What follows must be a line break or nothing: only [`Reader::finish`] knows.
    End,
}

#[derive(Clone, Debug)]
enum State {
    /// Before the first byte.
    Start,
    /// In a delimiter, of which so many bytes have come. Before the first part there is no content.
    Delimiter {
        matched: usize,
        content: Option<u64>,
    },
    /// In a boundary that is to be learned.
    Boundary,
    /// Behind a boundary, in the rest of its line.
    LineEnd {
        seen: Seen,
        after_part: bool,
    },
    /// In a head.
    Head,
    /// In content of a known length.
    Counted {
        left: u64,
        announced: u64,
    },
    /// In content that the next delimiter ends. This range of the delimiter has come: the end of it as input, what is
    /// before it not at all (content may begin with a delimiter that lacks its line break).
    Scanned {
        held: Range<usize>,
    },
    /// The closing delimiter has come, and the end of its part was told.
    Ended,
    /// The same, and the end was told.
    Closed {
        seen: Seen,
    },
    Failed(ReadError),
}

/// What has come of the rest of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Seen {
    Nothing,
    Dash,
    /// Spaces and tabs: RFC 2046's transport padding.
    Padding,
    Return,
    LineFeed,
}

/// What a step leads to. Unlike [`Event`] it does not borrow from the reader.
enum Step<'i> {
    Event(Event<'i>),
    /// Content that had looked like the delimiter.
    Held(Range<usize>),
    /// Something else is next.
    Again,
    /// All input was taken.
    Starved,
}

impl Reader {
    /// A reader for a body whose boundary is known: from its Content-Type.
    pub fn new(boundary: &Boundary) -> Self {
        let mut reader = Self::learning();
        reader.learn(boundary);
        reader
    }

    /// A reader that takes the boundary from the body's first line. It must have a letter or a digit: a line of dashes
    /// is how other texts begin.
    pub fn learning() -> Self {
        Self {
            state: State::Start,
            delimiter: DASHES.to_vec(),
            finder: None,
            line: Vec::new(),
            offset: 0,
            parts: 0,
            content_len: 0,
        }
    }

    /// Takes bytes off the front of `input` and gives what they lead to. None: all of it is taken, and more is needed.
    /// Call it until then.
    ///
    /// # Errors
    /// What is wrong with the body, and from then on the same again.
    pub fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<Event<'a>>, ReadError> {
        loop {
            match self.step(input) {
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Held(range)) => return Ok(Some(Event::Data(&self.delimiter[range]))),
                Ok(Step::Again) => {}
                Ok(Step::Starved) => return Ok(None),
                Err(error) => {
                    self.state = State::Failed(error);
                    return Err(error);
                }
            }
        }
    }

    /// Says, when no more bytes will come, whether the body was whole.
    ///
    /// # Errors
    /// Where it ended too early, or what [`Reader::next`] found.
    pub fn finish(&self) -> Result<(), ReadError> {
        let place = match self.state {
            State::Closed { seen: Seen::Nothing | Seen::Padding | Seen::LineFeed } | State::Ended => return Ok(()),
            State::Failed(error) => return Err(error),
            State::Start => return Err(self.fault(Fault::Empty)),
            State::Delimiter { .. } | State::Boundary | State::LineEnd { .. } | State::Closed { .. } => {
                Place::Delimiter
            }
            State::Head => Place::Head,
            State::Counted { announced, .. } => {
                Place::Content { received: self.content_len, announced: Some(announced) }
            }
            State::Scanned { .. } => Place::Content { received: self.content_len, announced: None },
        };
        Err(self.fault(Fault::Cut(place)))
    }

    /// How many bytes have been taken.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many parts have begun.
    pub fn parts(&self) -> u64 {
        self.parts
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, ReadError> {
        match &mut self.state {
            State::Failed(error) => return Err(*error),
            State::Ended => {
                self.state = State::Closed { seen: Seen::Nothing };
                return Ok(Step::Event(Event::End));
            }
            State::Counted { left: 0, announced } => {
                self.state = State::Delimiter { matched: 0, content: Some(*announced) };
            }
            _ => {}
        }
        if input.is_empty() {
            return Ok(Step::Starved);
        }
        match self.state {
            State::Start => {
                // The first delimiter may do without its line break.
                let matched = if input[0] == b'\r' { 0 } else { 2 };
                self.state = State::Delimiter { matched, content: None };
                Ok(Step::Again)
            }
            State::Delimiter { matched, content } => self.read_delimiter(matched, content, input),
            State::Boundary => self.read_boundary(input),
            State::LineEnd { seen, after_part } => self.read_line_end(seen, after_part, input),
            State::Head => self.read_head(input),
            State::Counted { left, announced } => {
                let len = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
                self.state = State::Counted { left: left - len as u64, announced };
                Ok(self.content(input, len))
            }
            State::Scanned { ref held } => {
                let held = held.clone();
                Ok(self.scan(held, input))
            }
            State::Closed { seen } => {
                let seen = match (seen, input[0]) {
                    (Seen::Nothing | Seen::Padding, b' ' | b'\t') => Seen::Padding,
                    (Seen::Nothing | Seen::Padding, b'\r') => Seen::Return,
                    (Seen::Return, b'\n') => Seen::LineFeed,
                    _ => return Err(self.fault(Fault::Trailing)),
                };
                self.state = State::Closed { seen };
                self.take(input, 1);
                Ok(Step::Again)
            }
            State::Ended | State::Failed(_) => unreachable!("they need no input"),
        }
    }

    /// Compares with the delimiter as far as it goes.
    fn read_delimiter<'i>(
        &mut self,
        matched: usize,
        content: Option<u64>,
        input: &mut &'i [u8],
    ) -> Result<Step<'i>, ReadError> {
        let common = common_prefix(&self.delimiter[matched..], input);
        self.take(input, common);
        let matched = matched + common;
        if matched < self.delimiter.len() {
            if !input.is_empty() {
                let fault = content.map_or(Fault::NoDelimiter, |announced| Fault::Overrun { announced });
                return Err(self.fault(fault));
            }
            self.state = State::Delimiter { matched, content };
        } else if self.finder.is_none() {
            self.state = State::Boundary;
        } else {
            self.state = State::LineEnd { seen: Seen::Nothing, after_part: content.is_some() };
        }
        Ok(Step::Again)
    }

    /// Learns the boundary from the rest of the first line.
    fn read_boundary<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, ReadError> {
        let whole = self.take_line(input, MAX_BOUNDARY_LEN + 2, Fault::Boundary(BoundaryError::TooLong))?;
        if whole {
            let line = self.line.strip_suffix(b"\r\n").unwrap_or(&self.line);
            // Padding as behind every other boundary, and no other space.
            let len = line.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(0, |at| at + 1);
            let boundary = Boundary::parse(&line[..len]).map_err(|error| self.fault(error.into()))?;
            if !boundary.as_bytes().iter().any(u8::is_ascii_alphanumeric) {
                return Err(self.fault(Fault::NoDelimiter));
            }
            self.learn(&boundary);
            self.line.clear();
            self.state = State::Head;
        }
        Ok(Step::Again)
    }

    fn read_line_end<'i>(&mut self, seen: Seen, after_part: bool, input: &mut &'i [u8]) -> Result<Step<'i>, ReadError> {
        let seen = match (seen, input[0]) {
            (Seen::Nothing, b'-') => Seen::Dash,
            (Seen::Nothing | Seen::Padding, b' ' | b'\t') => Seen::Padding,
            (Seen::Nothing | Seen::Padding, b'\r') => Seen::Return,
            (Seen::Return, b'\n') => Seen::LineFeed,
            (Seen::Dash, b'-') => {
                self.take(input, 1);
                self.state = State::Ended;
                return Ok(if after_part { Step::Event(Event::PartEnd) } else { Step::Again });
            }
            _ => return Err(self.fault(Fault::DelimiterLine)),
        };
        self.take(input, 1);
        if seen == Seen::LineFeed {
            self.state = State::Head;
            return Ok(if after_part { Step::Event(Event::PartEnd) } else { Step::Again });
        }
        self.state = State::LineEnd { seen, after_part };
        Ok(Step::Again)
    }

    /// Takes lines until the empty one.
    fn read_head<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, ReadError> {
        let whole_line = self.take_line(input, MAX_READ_HEAD_LEN, Fault::HeadTooLong)?;
        if !whole_line || !(self.line.ends_with(b"\r\n\r\n") || self.line == b"\r\n") {
            return Ok(Step::Again);
        }
        let head = PartHead::parse(&self.line).map_err(|error| self.fault(error.into()))?;
        self.line.clear();
        self.parts += 1;
        self.content_len = 0;
        self.state = match head.content_length() {
            Some(announced) => State::Counted { left: announced, announced },
            // The line break of the delimiter may be the one that ended the head.
            None => State::Scanned { held: 2..2 },
        };
        Ok(Step::Event(Event::Part(head)))
    }

    /// Looks for the delimiter that ends content of unknown length.
    fn scan<'i>(&mut self, held: Range<usize>, input: &mut &'i [u8]) -> Step<'i> {
        if !held.is_empty() || held.start > 0 {
            let common = common_prefix(&self.delimiter[held.end..], input);
            let end = held.end + common;
            if end == self.delimiter.len() {
                self.take(input, common);
                self.state = State::LineEnd { seen: Seen::Nothing, after_part: true };
            } else if common == input.len() {
                self.take(input, common);
                self.state = State::Scanned { held: held.start..end };
            } else {
                // It was content after all. No other delimiter can begin in it: the only CR is its first byte.
                self.state = State::Scanned { held: 0..0 };
                if !held.is_empty() {
                    self.content_len += held.len() as u64;
                    return Step::Held(held);
                }
            }
            return Step::Again;
        }
        let found = self.finder.as_ref().and_then(|finder| finder.find(input));
        let content_len = found.unwrap_or_else(|| {
            // The delimiter may begin at the end of this piece, and then at its last CR.
            let begins = memrchr(b'\r', input).filter(|&at| self.delimiter.starts_with(&input[at..]));
            begins.unwrap_or(input.len())
        });
        if content_len > 0 {
            return self.content(input, content_len);
        }
        let common = common_prefix(&self.delimiter, input);
        self.take(input, common);
        self.state = if common == self.delimiter.len() {
            State::LineEnd { seen: Seen::Nothing, after_part: true }
        } else {
            State::Scanned { held: 0..common }
        };
        Step::Again
    }

    fn content<'i>(&mut self, input: &mut &'i [u8], len: usize) -> Step<'i> {
        self.content_len += len as u64;
        Step::Event(Event::Data(self.take(input, len)))
    }

    /// Moves a line, as far as it has come, into `self.line`, which must not become longer than `max_len`. Says whether
    /// it is whole.
    fn take_line(&mut self, input: &mut &[u8], max_len: usize, too_long: Fault) -> Result<bool, ReadError> {
        let end = memchr(b'\n', input);
        let len = end.map_or(input.len(), |at| at + 1);
        let room = max_len - self.line.len();
        let piece = self.take(input, len.min(room));
        self.line.extend_from_slice(piece);
        if len > room {
            return Err(self.fault(too_long));
        }
        if end.is_some() && !self.line.ends_with(b"\r\n") {
            return Err(self.fault(Fault::LineBreak));
        }
        Ok(end.is_some())
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], len: usize) -> &'i [u8] {
        let (taken, left) = input.split_at(len);
        *input = left;
        self.offset += len as u64;
        taken
    }

    fn learn(&mut self, boundary: &Boundary) {
        self.delimiter.extend_from_slice(boundary.as_bytes());
        self.finder = Some(memmem::Finder::new(&self.delimiter).into_owned());
    }

    fn fault(&self, fault: Fault) -> ReadError {
        ReadError { offset: self.offset, fault }
    }
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
