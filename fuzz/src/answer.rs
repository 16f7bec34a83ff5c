//! Representations of which every byte can be told from its neighbours, and answers read back.

use std::{sync::OnceLock, time::SystemTime};

use axon::{
    body::{Body, Segment},
    message::{ETag, FingerprintKey, Representation, Response},
    wire,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

/// The tag of every representation here.
pub fn etag() -> &'static ETag {
    static ETAG: OnceLock<ETag> = OnceLock::new();
    ETAG.get_or_init(|| ETag::of(&FingerprintKey::new([7; FingerprintKey::LEN]).token("fuzz", b"")))
}

/// Bytes that depend on their place.
pub fn content(len: usize) -> Bytes {
    (0..len).map(|at| at.wrapping_mul(0x9e37_79b9).to_le_bytes()[3]).collect()
}

/// A representation whose body has several segments, as that of a bundle.
pub fn representation(content: &Bytes, last_modified: Option<SystemTime>) -> Representation {
    /// Some ranges begin and end within a segment, some span several.
    const SEGMENT_LEN: usize = 300;

    let mut body = Body::empty();
    for start in (0..content.len()).step_by(SEGMENT_LEN) {
        body.push_bytes(content.slice(start..content.len().min(start + SEGMENT_LEN)));
    }
    represent(body, last_modified)
}

/// A representation with that body.
pub fn represent(body: Body, last_modified: Option<SystemTime>) -> Representation {
    Representation {
        body,
        media_type: HeaderValue::from_static("text/plain"),
        etag: etag().clone(),
        modified: None,
        last_modified,
        date_tells_versions: true,
        headers: HeaderMap::new(),
        parts: 1,
    }
}

/// The bytes of an answer that is in memory.
pub fn bytes(body: &Body) -> Vec<u8> {
    let mut all = Vec::new();
    for segment in body.segments() {
        let Segment::Bytes(bytes) = segment else { panic!("there is no file in it") };
        assert!(!bytes.is_empty());
        all.extend_from_slice(bytes);
    }
    assert_eq!(all.len() as u64, body.len(), "the lengths do not add up");
    all
}

/// The head on the wire says what is meant, once, and nothing else.
pub fn check_head(response: &Response) {
    let head = wire::encode_head(response);
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut read = httparse::Response::new(&mut fields);
    assert_eq!(read.parse(&head), Ok(httparse::Status::Complete(head.len())));
    assert_eq!(read.code, Some(response.status.as_u16()));
    let mut expected: Vec<(String, Vec<u8>)> =
        response.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    assert!(!response.headers.contains_key(header::CONTENT_LENGTH));
    expected.extend(response.content_length.map(|len| ("content-length".to_owned(), len.to_string().into_bytes())));
    let mut found: Vec<_> =
        read.headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec())).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}
