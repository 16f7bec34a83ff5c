//! The Range field (RFC 9110 §14): which bytes of a representation a client wants.

use std::{cmp::Ordering, ops::Range};

use crate::message::Decision;

/// The most ranges that are answered apart, after those that overlap or touch have become one. Each costs a part
/// head and a read; who wants more wants the whole.
pub const MAX_RANGES: usize = 64;

/// Reads a Range field and applies it to a representation of `len` bytes.
///
/// What is no range set, or is of another unit, is ignored. Ends beyond the length are clamped; ranges beyond it
/// are dropped, and if none is left the set is unsatisfiable. Any range of an empty representation is the whole.
pub(super) fn select(field: &[u8], len: u64) -> Decision {
    let Some(specs) = parse(field) else { return Decision::Full };
    if len == 0 {
        return Decision::Full;
    }
    let satisfiable: Vec<_> = specs.into_iter().filter_map(|spec| spec.resolve(len)).collect();
    let mut ranges = coalesce(satisfiable);
    match ranges.len() {
        0 => Decision::Unsatisfiable,
        1 => Decision::Range(ranges.remove(0)),
        2..=MAX_RANGES => Decision::Ranges(ranges),
        _ => Decision::Full,
    }
}

/// One range as it was written, numbers cut to 64 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Spec {
    /// `first-last`, both included.
    FromTo(u64, u64),
    /// `first-`.
    From(u64),
    /// `-count`: the last bytes.
    Last(u64),
}

impl Spec {
    /// The bytes it means, if there are any.
    fn resolve(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::FromTo(first, last) => first..last.saturating_add(1).min(len),
            Self::From(first) => first..len,
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// `bytes=` and a list of ranges; None where it is anything else.
fn parse(field: &[u8]) -> Option<Vec<Spec>> {
    let equals = field.iter().position(|&b| b == b'=')?;
    if !field[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    // Empty elements of a list are skipped (§5.6.1), but one there must be.
    let elements = field[equals + 1..].split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty());
    let specs: Vec<_> = elements.map(parse_spec).collect::<Option<_>>()?;
    (!specs.is_empty()).then_some(specs)
}

fn parse_spec(spec: &[u8]) -> Option<Spec> {
    let dash = spec.iter().position(|&b| b == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => number(last).map(Spec::Last),
        (false, true) => number(first).map(Spec::From),
        (false, false) => {
            let spec = Spec::FromTo(number(first)?, number(last)?);
            (compare(first, last) != Ordering::Greater).then_some(spec)
        }
    }
}

/// A decimal number of any length; one beyond 64 bits is beyond every representation.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// Compares two decimal numbers of any length.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    fn significant(digits: &[u8]) -> &[u8] {
        let start = digits.iter().position(|&b| b != b'0').unwrap_or(digits.len());
        &digits[start..]
    }
    let (a, b) = (significant(a), significant(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Makes one of those that overlap or touch; the others keep their order.
fn coalesce(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut by_start: Vec<_> = ranges.into_iter().enumerate().collect();
    by_start.sort_by_key(|(_, range)| range.start);
    let mut merged: Vec<(usize, Range<u64>)> = Vec::with_capacity(by_start.len());
    for (position, range) in by_start {
        match merged.last_mut() {
            Some((first, last)) if range.start <= last.end => {
                last.end = last.end.max(range.end);
                *first = position.min(*first);
            }
            _ => merged.push((position, range)),
        }
    }
    merged.sort_by_key(|(position, _)| *position);
    merged.into_iter().map(|(_, range)| range).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selected(field: &str) -> Decision {
        select(field.as_bytes(), 10)
    }

    #[test]
    fn one_range_is_clamped_to_what_there_is() {
        for (field, range) in [
            ("bytes=0-", 0..10),
            ("bytes=5-", 5..10),
            ("bytes=5-9", 5..10),
            ("bytes=5-99999", 5..10),
            ("bytes=0-0", 0..1),
            ("bytes=9-9", 9..10),
            ("bytes=-3", 7..10),
            ("bytes=-10", 0..10),
            ("bytes=-9999", 0..10),
            ("Bytes=0-1", 0..2),
            ("BYTES=0-1", 0..2),
            ("bytes=0-1 , ", 0..2),
            ("bytes= ,\t0-1", 0..2),
            ("bytes=000-0001", 0..2),
            ("bytes=2-99999999999999999999999999", 2..10),
            ("bytes=-99999999999999999999999999", 0..10),
            ("bytes=0-1,99-", 0..2),
        ] {
            assert_eq!(selected(field), Decision::Range(range), "{field}");
        }
    }

    #[test]
    fn what_is_no_range_set_is_ignored() {
        for field in [
            "",
            "0-1",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=--1",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1_0-",
            "bytes=0 - 1",
            "bytes=0-1;x",
            "bytes=0-1-",
            "items=0-1",
            "bytes:0-1",
            "bytes=,",
            "bytes=0-1,x",
            "bytes =0-1",
            "bytes=0-1,5-2",
            "bytes=0x0-1",
            "bytes=1",
            "bytes=99999999999999999999999999-99999999999999999999999998",
            "bytes=0-1, bytes=3-4",
        ] {
            assert_eq!(selected(field), Decision::Full, "{field}");
        }
    }

    #[test]
    fn nothing_within_the_length_is_unsatisfiable() {
        for field in ["bytes=10-", "bytes=99-", "bytes=-0", "bytes=99-,100-", "bytes=99999999999999999999999999-"] {
            assert_eq!(selected(field), Decision::Unsatisfiable, "{field}");
        }
    }

    #[test]
    fn every_range_of_nothing_is_the_whole() {
        for field in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-"] {
            assert_eq!(select(field.as_bytes(), 0), Decision::Full, "{field}");
        }
    }

    #[test]
    fn several_ranges_become_one_where_they_overlap_or_touch() {
        for (field, expected) in [
            ("bytes=0-1,5-6", Decision::Ranges(vec![0..2, 5..7])),
            ("bytes=5-6,0-1", Decision::Ranges(vec![5..7, 0..2])),
            ("bytes=-2,0-0", Decision::Ranges(vec![8..10, 0..1])),
            ("bytes=0-0,0-0", Decision::Range(0..1)),
            ("bytes=0-1,2-3", Decision::Range(0..4)),
            ("bytes=4-5,0-1,1-4", Decision::Range(0..6)),
            ("bytes=8-8,0-1,4-5,2-3", Decision::Ranges(vec![8..9, 0..6])),
            ("bytes=0-1,99-,5-6", Decision::Ranges(vec![0..2, 5..7])),
        ] {
            assert_eq!(selected(field), expected, "{field}");
        }
    }

    #[test]
    fn ranges_up_to_the_limit_and_not_one_more() {
        let field = |count| {
            let specs: Vec<_> = (0..count).map(|i| format!("{}-{}", 2 * i, 2 * i)).collect();
            format!("bytes={}", specs.join(","))
        };
        let select = |count| select(field(count).as_bytes(), 1000);
        assert!(matches!(select(MAX_RANGES), Decision::Ranges(ranges) if ranges.len() == MAX_RANGES));
        assert_eq!(select(MAX_RANGES + 1), Decision::Full);
        // It is the number after coalescing that counts.
        let touching: Vec<_> = (0..500).map(|i| format!("{i}-{i}")).collect();
        assert_eq!(super::select(format!("bytes={}", touching.join(",")).as_bytes(), 1000), Decision::Range(0..500));
    }

    proptest! {
        #[test]
        fn selected_bytes_are_those_that_were_asked_for(
            specs in proptest::collection::vec((0..120_u64, 0..120_u64, 0..3_u8), 1..12), len in 1..100_u64,
        ) {
            let text: Vec<_> = specs.iter().map(|&(a, b, kind)| match kind {
                0 => format!("{}-{}", a.min(b), a.max(b)),
                1 => format!("{a}-"),
                _ => format!("-{a}"),
            }).collect();
            let wanted = |byte: u64| specs.iter().any(|&(a, b, kind)| match kind {
                0 => (a.min(b)..=a.max(b)).contains(&byte),
                1 => byte >= a,
                _ => byte + a >= len,
            });
            let ranges = match select(format!("bytes={}", text.join(",")).as_bytes(), len) {
                Decision::Range(range) => vec![range],
                Decision::Ranges(ranges) => ranges,
                Decision::Unsatisfiable => vec![],
                other => panic!("{other:?}"),
            };
            for byte in 0..len {
                prop_assert_eq!(ranges.iter().filter(|range| range.contains(&byte)).count(), usize::from(wanted(byte)));
            }
            prop_assert!(ranges.iter().all(|range| range.end <= len && !range.is_empty()));
        }

        #[test]
        fn no_field_panics(field in proptest::collection::vec(any::<u8>(), 0..100), len in any::<u64>()) {
            select(&field, len);
            select(&[b"bytes=", &field[..]].concat(), len);
        }
    }
}
