//! A multipart body read in pieces.

use axon::bundle::{Event, Fault, PartHead, ReadError, Reader};

/// A part as it was read.
#[derive(Debug)]
pub struct Read {
    /// Its fields.
    pub head: PartHead,
    /// Where its head ends in the body.
    pub head_end: u64,
    /// What came of its content.
    pub content: Vec<u8>,
    /// Whether its end was told.
    pub whole: bool,
}

impl PartialEq for Read {
    fn eq(&self, other: &Self) -> bool {
        let facts = |read: &Self| (read.head.fields().clone(), read.head_end, read.whole);
        facts(self) == facts(other) && self.content == other.content
    }
}

/// Hands a body over in pieces of these lengths, one after the other and from the beginning again.
pub fn read_in_pieces(mut reader: Reader, body: &[u8], lens: &[usize]) -> (Vec<Read>, Result<(), ReadError>) {
    let mut parts: Vec<Read> = Vec::new();
    let mut ended = false;
    let mut left = body;
    for &len in lens.iter().cycle() {
        let (mut piece, behind) = left.split_at(len.clamp(1, left.len().max(1)).min(left.len()));
        match take(&mut reader, &mut piece, &mut parts, &mut ended) {
            Ok(()) => assert!(piece.is_empty(), "bytes were left"),
            Err(error) => {
                assert!(error.offset <= body.len() as u64);
                assert!(!matches!(error.fault, Fault::Cut(_) | Fault::Empty), "more may come: {error}");
                assert_eq!(reader.next(&mut &b"--"[..]).err(), Some(error), "it does not stay wrong");
                assert_eq!(reader.finish(), Err(error));
                return (parts, Err(error));
            }
        }
        left = behind;
        if left.is_empty() {
            break;
        }
    }
    assert_eq!((reader.offset(), reader.parts()), (body.len() as u64, parts.len() as u64));
    let result = reader.finish();
    match result {
        Ok(()) => assert!(ended && parts.iter().all(|part| part.whole), "it is no whole bundle"),
        Err(error) => assert!(matches!(error.fault, Fault::Cut(_) | Fault::Empty), "nothing was wrong: {error}"),
    }
    (parts, result)
}

fn take(reader: &mut Reader, piece: &mut &[u8], parts: &mut Vec<Read>, ended: &mut bool) -> Result<(), ReadError> {
    loop {
        let Some(event) = reader.next(piece)? else { return Ok(()) };
        assert!(!*ended, "{event:?} behind the end");
        match event {
            Event::Part(head) => {
                assert!(parts.last().is_none_or(|last| last.whole), "a part in a part");
                parts.push(Read { head, head_end: 0, content: Vec::new(), whole: false });
                let head_end = reader.offset();
                parts.last_mut().expect("a part").head_end = head_end;
            }
            Event::Data(data) => {
                let part = parts.last_mut().filter(|part| !part.whole).expect("content in no part");
                assert!(!data.is_empty());
                part.content.extend_from_slice(data);
            }
            Event::PartEnd => {
                let part = parts.last_mut().filter(|part| !part.whole).expect("the end of no part");
                part.whole = true;
                let announced = part.head.content_length();
                assert!(announced.is_none_or(|len| len == part.content.len() as u64), "it is not as long as it says");
            }
            Event::End => *ended = true,
        }
    }
}

/// Whatever a body is cut after, before its end it is not whole. `end` is that of the closing delimiter.
pub fn no_beginning_is_whole(mut reader: Reader, body: &[u8], end: usize) {
    let (mut parts, mut ended) = (Vec::new(), false);
    for at in 0..body.len() {
        let result = reader.finish();
        if at < end {
            let fault = result.expect_err("cut, it looks whole").fault;
            assert!(matches!(fault, Fault::Cut(_) | Fault::Empty), "{fault} after {at}");
        }
        take(&mut reader, &mut &body[at..=at], &mut parts, &mut ended).expect("a beginning of what is right");
    }
    assert_eq!(reader.finish(), Ok(()));
}
