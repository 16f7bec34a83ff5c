//! What can be wrong with a multipart body, and where.

use thiserror::Error;

use crate::bundle::{BoundaryError, MAX_READ_HEAD_LEN, PartHeadError};

/// What is wrong with a body, and where.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("{fault} (byte {offset})")]
pub struct ReadError {
    /// How many bytes were right: the position of the first that is not, from 0. For a head as a whole, where it ends.
    pub offset: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Fault {
    /// The body's first line is no delimiter.
    #[error("it does not begin with a boundary line")]
    NoDelimiter,
    /// The body's first line is no delimiter with a boundary.
    #[error("it does not begin with a boundary line: {0}")]
    Boundary(#[from] BoundaryError),
    /// The content is over, says its Content-Length, and no delimiter follows.
    #[error("no boundary line follows the {announced} bytes of a part's content")]
    Overrun {
        /// Content-Length.
        announced: u64,
    },
    /// A boundary is followed by neither a line break nor two dashes.
    #[error("a boundary line goes on behind the boundary")]
    DelimiterLine,
    /// A line feed without a carriage return in a head or the first line.
    #[error("a line does not end with CR LF")]
    LineBreak,
    /// More than [`MAX_READ_HEAD_LEN`].
    #[error("a part's head is longer than {MAX_READ_HEAD_LEN} bytes")]
    HeadTooLong,
    /// A head that cannot be read.
    #[error(transparent)]
    Head(#[from] PartHeadError),
    /// Bytes behind the closing delimiter.
    #[error("there is more behind the end of the bundle")]
    Trailing,
    /// Nothing came.
    #[error("it is empty")]
    Empty,
    /// It ends too early.
    #[error("it is cut {0}")]
    Cut(Place),
}

/// Where a body that is cut ends.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Place {
    /// In a boundary line: of its part all content may have come.
    #[error("in a boundary line")]
    Delimiter,
    /// In a part's head.
    #[error("in a part's head")]
    Head,
    /// In a part's content.
    #[error("in a part's content, of which {received}{} bytes came", .announced.map_or(String::new(), |all| format!(" of {all}")))]
    Content {
        /// How many bytes came.
        received: u64,
        /// Content-Length, if the part had one.
        announced: Option<u64>,
    },
}
