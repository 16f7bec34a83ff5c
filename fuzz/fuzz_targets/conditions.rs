//! Conditional header fields to an answer: consistent with what they were made to mean.

#![no_main]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arbitrary::Arbitrary;
use axon::message::{Decision, Request, Response, Validators, decide};
use axon_fuzz::answer;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use libfuzzer_sys::fuzz_target;

const LEN: u64 = 1000;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// Of the representation, in seconds since 1970; None where it has none.
    modified: Option<u32>,
    if_match: Option<Tags<'a>>,
    if_none_match: Option<Tags<'a>>,
    if_modified_since: Option<Date<'a>>,
    if_unmodified_since: Option<Date<'a>>,
    if_range: Option<IfRange<'a>>,
    range: Option<RangeField>,
}

#[derive(Arbitrary, Debug)]
enum Tags<'a> {
    Any,
    List(Vec<Tag<'a>>),
    /// `TAG` in it stands for ours.
    Text(&'a [u8]),
}

#[derive(Arbitrary, Debug)]
struct Tag<'a> {
    ours: bool,
    weak: bool,
    opaque: &'a [u8],
    separator: Separator,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Separator {
    Comma,
    CommaSpace,
    SpaceComma,
    Commas,
}

#[derive(Arbitrary, Debug)]
enum Date<'a> {
    /// So many seconds after that of the representation.
    Later(i8, DateForm),
    Text(&'a [u8]),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum DateForm {
    Imf,
    Rfc850,
    Asctime,
}

#[derive(Arbitrary, Debug)]
enum IfRange<'a> {
    Ours,
    OursWeak,
    Modified,
    Text(&'a [u8]),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum RangeField {
    Some,
    Several,
    Beyond,
    NoSet,
}

fuzz_target!(|input: Input<'_>| {
    let Some(headers) = input.headers() else { return };
    let get = input.decided(&Method::GET, &headers);
    let head = input.decided(&Method::HEAD, &headers);
    let is_about_range =
        |decision: &Decision| matches!(decision, Decision::Range(_) | Decision::Ranges(_) | Decision::Unsatisfiable);

    let possible = input.possible();
    assert!(possible.contains(&get), "{get:?} is none of {possible:?}");
    assert_eq!(head, if is_about_range(&get) { Decision::Full } else { get.clone() }, "HEAD differs from GET");
    assert_eq!(input.decided(&Method::POST, &headers), Decision::Full);

    let mut without_range = headers.clone();
    without_range.remove(header::RANGE);
    assert_eq!(input.decided(&Method::GET, &without_range), head, "Range decides more than the range");

    our_own_tag_decides(&input, &headers);
    for (method, decision) in [(Method::GET, get), (Method::HEAD, head), (Method::POST, Decision::Full)] {
        is_answered_as_decided(&input, &method, &headers, &decision);
    }
});

/// Whatever else is in the list.
fn our_own_tag_decides(input: &Input<'_>, headers: &HeaderMap) {
    let with_ours = |name: HeaderName, ours: &[u8]| {
        let mut headers = headers.clone();
        let list = match headers.get(&name) {
            Some(list) => [ours, b", ", list.as_bytes()].concat(),
            None => ours.to_vec(),
        };
        headers.insert(name, HeaderValue::from_bytes(&list).expect("a value"));
        headers
    };
    let ours = answer::etag();
    for method in [Method::GET, Method::HEAD] {
        let mut headers = with_ours(header::IF_NONE_MATCH, ours.as_bytes());
        let decision = input.decided(&method, &headers);
        assert!(matches!(decision, Decision::NotModified | Decision::PreconditionFailed), "sent what the client has");
        headers.remove(header::IF_MATCH);
        headers.remove(header::IF_UNMODIFIED_SINCE);
        assert_eq!(input.decided(&method, &headers), Decision::NotModified);

        let decision = input.decided(&method, &with_ours(header::IF_MATCH, ours.as_bytes()));
        assert_ne!(decision, Decision::PreconditionFailed, "it is the version that was named");
    }
}

fn is_answered_as_decided(input: &Input<'_>, method: &Method, headers: &HeaderMap, decision: &Decision) {
    let content = answer::content(usize::try_from(LEN).expect("it fits in memory"));
    let mut request = Request::new(method.clone(), "/", "");
    request.headers = headers.clone();
    let response = answer::representation(&content, input.modified()).respond(&request);
    answer::check_head(&response);
    let status = match decision {
        Decision::Full => StatusCode::OK,
        Decision::NotModified => StatusCode::NOT_MODIFIED,
        Decision::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Decision::Range(_) | Decision::Ranges(_) => StatusCode::PARTIAL_CONTENT,
        Decision::Unsatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
    };
    assert_eq!(response.status, status);
    let Response { body, content_length, headers, .. } = response;
    let body = answer::bytes(&body);
    let has = |name| headers.contains_key(name);
    if status == StatusCode::NOT_MODIFIED {
        assert_eq!((body.len(), content_length), (0, None));
        assert!(!has(header::CONTENT_TYPE) && !has(header::CONTENT_RANGE));
    } else {
        assert_eq!(content_length, Some(body.len() as u64));
    }
    if status == StatusCode::OK {
        assert_eq!(body, content);
        assert_eq!(has(header::ACCEPT_RANGES), method != Method::POST);
        assert!(!has(header::CONTENT_RANGE));
    }
    // An error says nothing about the content that a client might keep.
    let tells = matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED);
    assert_eq!(headers.get(header::ETAG), tells.then(|| answer::etag().to_header()).as_ref());
}

impl Input<'_> {
    fn modified(&self) -> Option<SystemTime> {
        /// The first second of 2070: before it, the two digits of RFC 850 mean the same year to everybody.
        const END: u32 = 3_155_760_000 - LATEST;
        /// By how much the date of a field may be later.
        const LATEST: u32 = i8::MAX as u32;
        Some(UNIX_EPOCH + Duration::from_secs((self.modified? % END).into()))
    }

    fn decided(&self, method: &Method, headers: &HeaderMap) -> Decision {
        decide(method, headers, &Validators { len: LEN, etag: answer::etag(), last_modified: self.modified() })
    }

    /// The fields as they are sent; None where a value cannot be one.
    fn headers(&self) -> Option<HeaderMap> {
        let ours = answer::etag();
        let date = self.modified().unwrap_or(UNIX_EPOCH);
        let fields = [
            (header::IF_MATCH, self.if_match.as_ref().map(Tags::value)),
            (header::IF_NONE_MATCH, self.if_none_match.as_ref().map(Tags::value)),
            (header::IF_MODIFIED_SINCE, self.if_modified_since.as_ref().map(|sent| sent.value(date))),
            (header::IF_UNMODIFIED_SINCE, self.if_unmodified_since.as_ref().map(|sent| sent.value(date))),
            (
                header::IF_RANGE,
                self.if_range.as_ref().map(|sent| match sent {
                    IfRange::Ours => ours.as_bytes().to_vec(),
                    IfRange::OursWeak => [b"W/", ours.as_bytes()].concat(),
                    IfRange::Modified => httpdate::fmt_http_date(date).into(),
                    IfRange::Text(text) => text.to_vec(),
                }),
            ),
            (header::RANGE, self.range.map(|sent| sent.value().into())),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_bytes(&value).ok()?);
            }
        }
        Some(headers)
    }

    /// What may be decided, by the order of RFC 9110 §13.2.2. Several decisions where a field is text whose meaning is
    /// not known.
    fn possible(&self) -> Vec<Decision> {
        let mut possible = Vec::new();
        let unmodified =
            || self.if_unmodified_since.as_ref().map_or(Some(true), |sent| sent.is_not_before(self.modified()));
        let matches = match &self.if_match {
            Some(tags) => tags.name_ours(false),
            None => unmodified(),
        };
        if matches != Some(true) {
            possible.push(Decision::PreconditionFailed);
        }
        if matches == Some(false) {
            return possible;
        }
        let modified = || match &self.if_modified_since {
            Some(sent) if self.modified.is_some() => sent.is_not_before(self.modified()),
            _ => Some(false),
        };
        let known_to_client = match &self.if_none_match {
            Some(tags) => tags.name_ours(true),
            None => modified(),
        };
        if known_to_client != Some(false) {
            possible.push(Decision::NotModified);
        }
        if known_to_client == Some(true) {
            return possible;
        }
        let in_range = match &self.if_range {
            None | Some(IfRange::Ours) => true,
            Some(IfRange::OursWeak | IfRange::Modified) => false,
            Some(IfRange::Text(text)) => *text == answer::etag().as_bytes(),
        };
        possible.push(match self.range {
            Some(RangeField::Some) if in_range => Decision::Range(2..5),
            Some(RangeField::Several) if in_range => Decision::Ranges(vec![LEN - 3..LEN, 0..1]),
            Some(RangeField::Beyond) if in_range => Decision::Unsatisfiable,
            _ => Decision::Full,
        });
        possible
    }
}

impl Tags<'_> {
    fn value(&self) -> Vec<u8> {
        let ours = answer::etag();
        match self {
            Self::Any => b"*".to_vec(),
            Self::List(tags) => {
                let mut value = Vec::new();
                for tag in tags {
                    value.extend_from_slice(if tag.weak { b"W/" } else { b"" });
                    if tag.ours {
                        value.extend_from_slice(ours.as_bytes());
                    } else {
                        value.push(b'"');
                        value.extend(tag.opaque.iter().filter(|&&b| is_etagc(b)));
                        value.push(b'"');
                    }
                    value.extend_from_slice(match tag.separator {
                        Separator::Comma => b",",
                        Separator::CommaSpace => b", ",
                        Separator::SpaceComma => b" \t,",
                        Separator::Commas => b", ,,",
                    });
                }
                value
            }
            Self::Text(text) => {
                let mut value = Vec::new();
                let mut left = *text;
                while let Some((first, rest)) = left.split_first() {
                    if let Some(rest) = left.strip_prefix(b"TAG") {
                        value.extend_from_slice(ours.as_bytes());
                        left = rest;
                    } else {
                        value.push(*first);
                        left = rest;
                    }
                }
                value
            }
        }
    }

    /// Whether ours is among them; None where that is not known.
    fn name_ours(&self, weakly: bool) -> Option<bool> {
        match self {
            Self::Any => Some(true),
            Self::List(tags) => Some(tags.iter().any(|tag| tag.ours && (weakly || !tag.weak))),
            Self::Text(_) => {
                let value = self.value();
                let ours = answer::etag().as_bytes();
                // Without ours in it, it can only be the star.
                let has_ours = value.windows(ours.len()).any(|piece| piece == ours);
                (!has_ours).then(|| value.trim_ascii() == b"*")
            }
        }
    }
}

/// What may stand between the quotes (RFC 9110 §8.8.3).
fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

impl Date<'_> {
    fn value(&self, modified: SystemTime) -> Vec<u8> {
        match self {
            Self::Later(seconds, form) => form.of(shifted(modified, *seconds)).into(),
            Self::Text(text) => text.to_vec(),
        }
    }

    /// Whether a representation of that date was not changed since; None where that is not known.
    fn is_not_before(&self, modified: Option<SystemTime>) -> Option<bool> {
        let Some(modified) = modified else { return Some(true) };
        match self {
            Self::Later(seconds, _) => Some(shifted(modified, *seconds) >= modified),
            Self::Text(_) => None,
        }
    }
}

fn shifted(time: SystemTime, seconds: i8) -> SystemTime {
    let by = Duration::from_secs(seconds.unsigned_abs().into());
    if seconds < 0 { time.checked_sub(by).filter(|time| *time >= UNIX_EPOCH).unwrap_or(UNIX_EPOCH) } else { time + by }
}

impl DateForm {
    fn of(self, time: SystemTime) -> String {
        let imf = httpdate::fmt_http_date(time);
        let [day, month, year, clock] = [&imf[5..7], &imf[8..11], &imf[12..16], &imf[17..25]];
        match self {
            Self::Imf => imf,
            Self::Rfc850 => {
                let weekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
                let weekday = weekdays.into_iter().find(|weekday| weekday.starts_with(&imf[..3])).expect("a weekday");
                format!("{weekday}, {day}-{month}-{} {clock} GMT", &year[2..])
            }
            Self::Asctime => format!("{} {month} {:>2} {clock} {year}", &imf[..3], day.trim_start_matches('0')),
        }
    }
}

impl RangeField {
    fn value(self) -> &'static str {
        match self {
            Self::Some => "bytes=2-4",
            Self::Several => "bytes=-3,0-0",
            Self::Beyond => "bytes=1000-",
            Self::NoSet => "bytes=5-2",
        }
    }
}
