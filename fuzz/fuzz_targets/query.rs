//! A query to a list of files: what is accepted means the same when it is written again, and leads nowhere outside.

#![no_main]

use std::fmt::Write as _;

use axon::handler::{HandlerOptions, OnMissing, Selection};
use axon_fuzz::wanted;
use bytes::Bytes;
use http::{Method, StatusCode};
use libfuzzer_sys::fuzz_target;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Few, so that the limit is reached.
const MAX_FILES: usize = 8;

fuzz_target!(|query: &[u8]| {
    for dotfiles in [false, true] {
        let options = HandlerOptions { max_files: MAX_FILES, dotfiles, ..HandlerOptions::default() };
        match select(query, &options) {
            Ok(selection) => {
                assert!((1..=MAX_FILES).contains(&selection.files.len()));
                selection.files.iter().for_each(|file| wanted::check(file, &options));
                is_what_the_query_says(&selection, query);
                reads_the_same_again(&selection, &options);
            }
            Err(problem) => {
                let status = problem.status();
                assert!(matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_ACCEPTABLE), "{status}");
                assert!(!problem.detail().bytes().any(|b| b.is_ascii_control()), "{}", problem.detail());
            }
        }
    }
});

fn select(query: &[u8], options: &HandlerOptions) -> Result<Selection, axon::message::Problem> {
    let request = axon::message::Request::new(Method::GET, "/api/stream-files", Bytes::copy_from_slice(query));
    Selection::from_request(&request, options)
}

/// A plain second reading: every parameter that begins with `file`, in order.
fn is_what_the_query_says(selection: &Selection, query: &[u8]) {
    let decode = |text: &[u8]| {
        let spaced: Vec<u8> = text.iter().map(|&b| if b == b'+' { b' ' } else { b }).collect();
        percent_decode(&spaced).collect::<Vec<u8>>()
    };
    let pairs = query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let mut sides = pair.splitn(2, |&b| b == b'=').map(decode);
        (sides.next().unwrap_or_default(), sides.next().unwrap_or_default())
    });
    let (files, others): (Vec<_>, Vec<_>) = pairs.partition(|pair| pair.0.starts_with(b"file"));
    assert_eq!(files.len(), selection.files.len());
    for ((parameter, name), file) in files.iter().zip(&selection.files) {
        assert_eq!((&parameter[..], &name[..]), (&file.parameter[..], &file.name[..]));
        assert!(parameter.len() <= 100, "it comes back in answers");
        assert_eq!(file.filename, None);
    }
    let mut known = Vec::new();
    if let Some(shape) = selection.format {
        known.push((b"format".to_vec(), shape.subtype().as_bytes().to_vec()));
    }
    if others.iter().any(|pair| pair.0 == b"missing") {
        let value: &[u8] = if selection.on_missing == OnMissing::Part { b"part" } else { b"fail" };
        known.push((b"missing".to_vec(), value.to_vec()));
    }
    let sorted = |mut pairs: Vec<_>| {
        pairs.sort();
        pairs
    };
    assert_eq!(sorted(others), sorted(known), "a parameter is unknown, or comes twice");
}

/// Written with every byte encoded, and with as few as there can be.
fn reads_the_same_again(selection: &Selection, options: &HandlerOptions) {
    let encoders: [fn(&[u8]) -> String; 2] = [
        |bytes| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "%{byte:02x}");
                text
            })
        },
        |bytes| percent_encode(bytes, NON_ALPHANUMERIC).to_string().replace("%20", "+"),
    ];
    for encode in encoders {
        let mut query = String::new();
        for file in &selection.files {
            let _ = write!(query, "&{}={}", encode(&file.parameter), encode(&file.name));
        }
        if let Some(shape) = selection.format {
            let _ = write!(query, "&format={}", shape.subtype());
        }
        if selection.on_missing == OnMissing::Part {
            query.push_str("&missing=part");
        }
        assert_eq!(select(query.as_bytes(), options).as_ref(), Ok(selection), "{query}");
    }
}
