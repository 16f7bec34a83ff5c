//! What tells two versions of a representation apart (RFC 9110 §8.8).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;

/// A moment with nanoseconds, as a file system keeps it; may lie before 1970.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanos: u32,
}

impl Timestamp {
    /// The moment as HTTP can say it: whole seconds, and only if it lies between 1970 and `now`.
    ///
    /// RFC 9110 §8.8.2.1 forbids a date in the future, and one before 1970 cannot be written as every client
    /// reads it. Such a time is left out and never clamped to another one.
    pub fn to_http(self, now: SystemTime) -> Option<SystemTime> {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(self.secs).ok()?))?;
        (time <= now).then_some(time)
    }
}

/// The facts that a file's version is told by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// When the content was last changed, by the owner's account (mtime).
    pub modified: Timestamp,
    /// When the inode was last changed, by the kernel's account (ctime). None where copies on several
    /// machines must count as the same file.
    pub changed: Option<Timestamp>,
}

/// The secret behind entity tags and boundaries.
///
/// Equal keys give equal tags on every machine; without the key nobody can tell from a tag when a
/// file was changed, or write a file that contains the boundary of a bundle it will be part of.
#[derive(Clone)]
pub struct FingerprintKey([u8; Self::LEN]);

impl FingerprintKey {
    /// Length in bytes.
    pub const LEN: usize = blake3::KEY_LEN;

    /// Makes a key of 32 secret bytes.
    pub fn new(secret: [u8; Self::LEN]) -> Self {
        Self(secret)
    }

    /// Makes a key of a secret of any length.
    pub fn from_secret(secret: &[u8]) -> Self {
        Self(*blake3::hash(secret).as_bytes())
    }

    /// The strong entity tag of a file.
    pub fn file_tag(&self, stamp: &Stamp) -> ETag {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        hash.update(b"file\0").update(&stamp.size.to_le_bytes());
        for time in [Some(stamp.modified), stamp.changed].into_iter().flatten() {
            hash.update(&time.secs.to_le_bytes()).update(&time.nanos.to_le_bytes());
        }
        ETag::of(&token(&hash))
    }

    /// An unguessable token that stands for `purpose` and `content`.
    pub fn token(&self, purpose: &str, content: &[u8]) -> Token {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        // The purpose ends in a byte that no purpose contains: two pairs cannot run together.
        hash.update(purpose.as_bytes()).update(b"\0").update(content);
        token(&hash)
    }
}

impl std::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FingerprintKey(secret)")
    }
}

/// 32 characters of `[0-9a-f]`, 128 bits that nobody can guess.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Token([u8; Self::LEN]);

impl Token {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// The characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// A strong entity tag, with its quotes (RFC 9110 §8.8.3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ETag(HeaderValue);

impl ETag {
    /// The tag that is this token.
    ///
    /// # Panics
    /// Never: a token is visible ASCII.
    pub fn of(token: &Token) -> Self {
        let mut quoted = [b'"'; Token::LEN + 2];
        quoted[1..=Token::LEN].copy_from_slice(&token.0);
        Self(HeaderValue::from_bytes(&quoted).expect("a token is visible ASCII"))
    }

    /// The tag as it is sent, with quotes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The tag as a header value.
    pub fn to_header(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// The first 128 bits in hex.
fn token(hash: &blake3::Hasher) -> Token {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hash = hash.finalize();
    let mut token = [0; Token::LEN];
    for (pair, byte) in token.chunks_exact_mut(2).zip(hash.as_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    Token(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp =
        Stamp { size: 10, modified: Timestamp { secs: 5, nanos: 7 }, changed: Some(Timestamp { secs: 6, nanos: 8 }) };

    #[test]
    fn every_fact_counts_and_the_key_too() {
        let key = FingerprintKey::new([1; 32]);
        let tag = key.file_tag(&STAMP);
        assert_eq!(tag, key.file_tag(&STAMP));
        assert_eq!(tag.as_bytes().len(), 34);
        for other in [
            Stamp { size: 11, ..STAMP },
            Stamp { modified: Timestamp { secs: 5, nanos: 8 }, ..STAMP },
            Stamp { modified: Timestamp { secs: 4, nanos: 7 }, ..STAMP },
            Stamp { changed: Some(Timestamp { secs: 6, nanos: 9 }), ..STAMP },
            Stamp { changed: None, ..STAMP },
        ] {
            assert_ne!(tag, key.file_tag(&other), "{other:?}");
        }
        assert_ne!(tag, FingerprintKey::new([2; 32]).file_tag(&STAMP));
    }

    #[test]
    fn only_a_past_after_1970_is_told() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let at = |secs, nanos| Timestamp { secs, nanos }.to_http(now);
        assert_eq!(at(-1, 999_999_999), None);
        assert_eq!(at(0, 0), Some(UNIX_EPOCH));
        assert_eq!(at(999, 700_000_000), Some(UNIX_EPOCH + Duration::from_secs(999)));
        assert_eq!(at(1000, 0), Some(now));
        assert_eq!(at(1001, 0), None);
        assert_eq!(at(i64::MAX, 0), None);
    }

    #[test]
    fn purposes_do_not_run_together() {
        let key = FingerprintKey::new([1; 32]);
        assert_ne!(key.token("a", b"bc"), key.token("ab", b"c"));
    }
}
