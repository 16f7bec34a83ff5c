//! Which files a JSON list asks for: the same as a query, for lists longer than a URL.

use bytes::Bytes;
use http::{StatusCode, header};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::{
    handler::selection::{OnMissing, Selection, Wanted, parse_format},
    message::{Problem, Request},
};

use super::HandlerOptions;

/// The longest name to save a file under, in bytes: the longest that Linux's file systems hold.
const MAX_FILENAME_LEN: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    files: Vec<Entry>,
    format: Option<String>,
    missing: Option<String>,
}

/// A path, or a path with a name to save the file under.
struct Entry {
    path: String,
    name: Option<String>,
}

/// Reads the body of a POST: `{"files": ["a", {"path": "b", "name": "x"}], "format": …, "missing": …}`.
pub(super) fn from_request(request: &Request, options: &HandlerOptions) -> Result<Selection, Problem> {
    if !request.header(header::CONTENT_TYPE).is_some_and(is_json) {
        let detail = "send the list as application/json: {\"files\": [\"a.txt\", \"b.txt\"]}";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    if request.content_length > options.max_body {
        let detail = format!("the list has {} bytes, at most {} are read", request.content_length, options.max_body);
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let bad_request = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    if !request.query.is_empty() {
        return Err(bad_request("with POST everything stands in the JSON body, nothing in the query".into()));
    }
    let list = parse(&request.body).map_err(bad_request)?;
    let format = list.format.map(|text| parse_format(text.as_bytes())).transpose()?;
    let on_missing = list.missing.map(|text| OnMissing::parse(text.as_bytes())).transpose()?.unwrap_or_default();
    let mut selection = Selection { files: Vec::new(), format, on_missing };
    for (index, Entry { path, name }) in list.files.into_iter().enumerate() {
        let parameter = Bytes::from(format!("files[{index}]"));
        let mut wanted = Wanted::new(parameter, path.into(), options);
        if let Some(name) = name {
            if name.is_empty() || name.len() > MAX_FILENAME_LEN || name.contains(['/', '\0']) {
                wanted.key = Err((StatusCode::BAD_REQUEST, "its name has 1 to 255 bytes, no slash and no NUL"));
            }
            wanted.filename = Some(name.into());
        }
        selection.push(wanted, options)?;
    }
    selection.or_empty("no file is named; write {\"files\": [\"a.txt\"]}")
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&b| b == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// The list, or what is wrong with it and where.
fn parse(body: &[u8]) -> Result<List, String> {
    if body.trim_ascii_start().starts_with(b"[") {
        // serde would take an array of the fields' values in their order.
        return Err("the list is an object: {\"files\": [\"a.txt\"]}".into());
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let list =
        serde_path_to_error::deserialize(&mut json).map_err(|error| match error.path().to_string().as_str() {
            "." => error.inner().to_string(),
            path => format!("{path}: {}", error.inner()),
        })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(list)
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            path: String,
            name: Option<String>,
        }

        struct EntryVisitor;

        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = Entry;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a path, or an object with path and name")
            }

            fn visit_str<E>(self, path: &str) -> Result<Entry, E> {
                Ok(Entry { path: path.to_owned(), name: None })
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Entry, M::Error> {
                let Named { path, name } = Named::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Entry { path, name })
            }
        }

        deserializer.deserialize_any(EntryVisitor)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;

    fn request(content_type: &str, body: &str) -> Request {
        let mut request = Request::new(Method::POST, "/api/stream-files", "");
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(content_type).expect("a value"));
        request.content_length = body.len() as u64;
        request.body = Bytes::copy_from_slice(body.as_bytes());
        request
    }

    fn select(body: &str) -> Result<Selection, Problem> {
        let options = HandlerOptions { max_files: 3, ..HandlerOptions::default() };
        from_request(&request("application/json", body), &options)
    }

    #[test]
    fn paths_and_named_paths() {
        let list = r#"{"files": ["a.txt", {"path": "sub/b", "name": "x"}, {"path": "c"}], "format": "related", "missing": "part"}"#;
        let selection = select(list).expect("a list");
        let files: Vec<_> =
            selection.files.iter().map(|f| (&f.parameter[..], &f.name[..], f.filename.as_deref())).collect();
        assert_eq!(
            files,
            [
                (&b"files[0]"[..], &b"a.txt"[..], None),
                (b"files[1]", b"sub/b", Some(&b"x"[..])),
                (b"files[2]", b"c", None)
            ]
        );
        assert_eq!(selection.format, Some(crate::bundle::Shape::Related));
        assert_eq!(selection.on_missing, OnMissing::Part);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (body, status, words) in [
            ("", 400, "line 1 column 0"),
            ("{\"files\": [\"a\",\n \"b\"", 400, "line 2 column 4"),
            (r#"{"files": ["a"]} x"#, 400, "trailing characters at line 1 column 18"),
            (r#"{"files": ["a", {"path": "b", "nmae": "x"}]}"#, 400, "files[1].nmae: unknown field `nmae`"),
            (r#"{"files": ["a", 7]}"#, 400, "files[1]: invalid type: integer `7`, expected a path, or an object"),
            (r#"{"files": ["a", {"name": "x"}]}"#, 400, "files[1]: missing field `path`"),
            (r#"{"files": ["a"], "file": 1}"#, 400, "unknown field `file`"),
            (r#"{"files": ["a"], "files": ["b"]}"#, 400, "duplicate field `files`"),
            (r"{}", 400, "missing field `files`"),
            (r#"["a"]"#, 400, "the list is an object"),
            (r#" [["a.txt"], null, null]"#, 400, "the list is an object"),
            (r#"{"files": []}"#, 400, "no file is named"),
            (r#"{"files": ["a", "b", "c", "d"]}"#, 400, "more than 3 files"),
            (r#"{"files": ["a"], "format": "zip"}"#, 406, "form-data"),
            (r#"{"files": ["a"], "missing": "skip"}"#, 400, "missing=part"),
        ] {
            let problem = select(body).expect_err(body);
            let text = problem.to_json().replace("\\\"", "\"");
            assert_eq!(problem.status().as_u16(), status, "{body}: {text}");
            assert!(text.contains(words), "{body}: {text}");
        }
    }

    #[test]
    fn a_name_to_save_under_is_one() {
        for name in ["", "a/b", "a\\u0000b", &"x".repeat(256)] {
            let selection = select(&format!(r#"{{"files": [{{"path": "a", "name": "{name}"}}]}}"#)).expect("a list");
            assert!(selection.files[0].key.is_err(), "{name}");
        }
        let selection =
            select(&format!(r#"{{"files": [{{"path": "a", "name": "{}"}}]}}"#, "x".repeat(255))).expect("a list");
        assert!(selection.files[0].key.is_ok());
    }

    #[test]
    fn the_body_has_a_type_and_a_longest_length() {
        let options = HandlerOptions { max_body: 20, ..HandlerOptions::default() };
        let body = r#"{"files": ["a.txt"]}"#;
        assert_eq!(body.len(), 20);
        let status = |request: &Request| from_request(request, &options).map_or_else(|p| p.status().as_u16(), |_| 200);
        for (content_type, expected) in [
            ("application/json", 200),
            ("Application/JSON; charset=utf-8", 200),
            ("text/plain", 415),
            ("application/jsonx", 415),
            ("application/x-www-form-urlencoded", 415),
        ] {
            assert_eq!(status(&request(content_type, body)), expected, "{content_type}");
        }
        assert_eq!(status(&request("application/json", &format!("{body} "))), 413);
        let mut without_type = request("application/json", body);
        without_type.headers.clear();
        assert_eq!(status(&without_type), 415);
        let mut with_query = request("application/json", body);
        with_query.query = Bytes::from_static(b"file1=b");
        assert_eq!(status(&with_query), 400);
    }
}
