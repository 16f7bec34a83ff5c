//! Which files a request asks for, and how.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::{
    bundle::Shape,
    handler::list,
    message::{FileProblem, Problem, Request},
    store::{Key, KeyError},
    wire::decode_form,
};

use super::HandlerOptions;

/// The longest parameter name in bytes. It comes back in answers and log records, so it has a bound.
const MAX_PARAMETER_LEN: usize = 100;

/// What a request asks for, before anything is opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selection {
    /// The files, in their order.
    pub files: Vec<Wanted>,
    /// The form that was named; None leaves it to Accept and to the number of files.
    pub format: Option<Shape>,
    /// What becomes of a file that cannot be served.
    pub on_missing: OnMissing,
}

/// One file of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// What named it: a query key, or the place in a list.
    pub parameter: Bytes,
    /// Its name, as it was sent.
    pub name: Bytes,
    /// The name to save it under, if it has one of its own.
    pub filename: Option<Bytes>,
    /// Where it is; or what the client is told of why it cannot be served.
    pub key: Result<Key, FileFailure>,
}

/// A file's own status, and what is wrong with it.
pub type FileFailure = (StatusCode, &'static str);

/// What becomes of a file that cannot be served.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnMissing {
    /// The whole request fails.
    #[default]
    Fail,
    /// A part with the problem stands in its place.
    Part,
}

impl Wanted {
    /// A file by its name.
    pub(super) fn new(parameter: Bytes, name: Bytes, options: &HandlerOptions) -> Self {
        let key = Key::parse(&name, options.dotfiles).map_err(|error| match error {
            KeyError::Empty => (StatusCode::BAD_REQUEST, "the name is empty"),
            KeyError::Hidden => (StatusCode::NOT_FOUND, "not found"),
            KeyError::Nul => (StatusCode::BAD_REQUEST, "the name contains a NUL byte"),
            KeyError::TooLong => (StatusCode::BAD_REQUEST, "the name is too long"),
        });
        Self { parameter, name, filename: None, key }
    }
}

impl Selection {
    /// Reads a request: a POST by the JSON in its body, any other by its query.
    ///
    /// A function of the request and the options. A file whose name cannot be one is still among the files, with the
    /// reason in the place of its key.
    ///
    /// # Errors
    /// What the client is told where there is no list: 400, 406 for a format that does not exist, and for a POST 413
    /// and 415.
    pub fn from_request(request: &Request, options: &HandlerOptions) -> Result<Self, Problem> {
        match request.method {
            Method::POST => list::from_request(request, options),
            _ => from_query(&request.query, options),
        }
    }

    /// Adds a file, as long as there are not too many.
    pub(super) fn push(&mut self, wanted: Wanted, options: &HandlerOptions) -> Result<(), Problem> {
        if self.files.len() == options.max_files {
            let max = options.max_files;
            return Err(bad_request(format!("more than {max} files; ask for them in several requests")));
        }
        self.files.push(wanted);
        Ok(())
    }

    /// Itself, unless it names no file at all.
    pub(super) fn or_empty(self, detail: &'static str) -> Result<Self, Problem> {
        if self.files.is_empty() { Err(Problem::new(StatusCode::BAD_REQUEST, detail)) } else { Ok(self) }
    }
}

impl OnMissing {
    /// Reads the value of `missing`.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Problem> {
        match text {
            b"fail" => Ok(Self::Fail),
            b"part" => Ok(Self::Part),
            _ => {
                Err(bad_request("write missing=part for a part in the place of a missing file, or missing=fail".into()))
            }
        }
    }
}

/// Reads the value of `format`.
pub(super) fn parse_format(text: &[u8]) -> Result<Shape, Problem> {
    let named = |shape: &&Shape| shape.subtype().as_bytes() == text;
    Shape::ALL.iter().find(named).copied().ok_or_else(|| {
        let known: Vec<_> = Shape::ALL.iter().map(|shape| shape.subtype()).collect();
        Problem::new(StatusCode::NOT_ACCEPTABLE, format!("there is no such format; write one of {}", known.join(", ")))
    })
}

/// Reads a query: the files in its order.
fn from_query(query: &Bytes, options: &HandlerOptions) -> Result<Selection, Problem> {
    let mut selection = Selection { files: Vec::with_capacity(2), format: None, on_missing: OnMissing::Fail };
    let mut on_missing = None;
    for pair in decode_form(query) {
        let (parameter, value) = pair.map_err(|error| bad_request(error.to_string()))?;
        match &parameter[..] {
            b"format" => set_once(&mut selection.format, "format", || parse_format(&value))?,
            b"missing" => set_once(&mut on_missing, "missing", || OnMissing::parse(&value))?,
            name if !name.starts_with(b"file") => {
                let name = name.escape_ascii();
                let detail = format!("unknown parameter {name}; files are named by file1=, file2= and so on");
                return Err(bad_request(detail));
            }
            name if name.len() > MAX_PARAMETER_LEN => {
                return Err(bad_request(format!("a parameter's name is longer than {MAX_PARAMETER_LEN} bytes")));
            }
            _ => {
                let wanted = Wanted::new(shared(query, parameter), shared(query, value), options);
                selection.push(wanted, options)?;
            }
        }
    }
    selection.on_missing = on_missing.unwrap_or_default();
    selection.or_empty("no file is named; add ?file1=NAME and, for a bundle, &file2=NAME")
}

/// What was decoded, as a piece of the query where nothing had to be.
fn shared(query: &Bytes, decoded: Cow<'_, [u8]>) -> Bytes {
    match decoded {
        Cow::Borrowed(piece) => query.slice_ref(piece),
        Cow::Owned(bytes) => bytes.into(),
    }
}

fn set_once<T>(option: &mut Option<T>, name: &str, parse: impl FnOnce() -> Result<T, Problem>) -> Result<(), Problem> {
    if option.is_some() {
        return Err(bad_request(format!("{name} was sent twice")));
    }
    *option = Some(parse()?);
    Ok(())
}

fn bad_request(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// A problem that names every failing file. Its status is the gravest: what is broken here before what is
/// wrong with the request, and a name that cannot be one before one that leads nowhere.
pub(super) fn blame(files: Vec<FileProblem>) -> Problem {
    const GRAVEST_FIRST: [StatusCode; 5] = [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::FORBIDDEN,
    ];
    let found = |status: &StatusCode| files.iter().any(|file| file.status == *status);
    let status = GRAVEST_FIRST.into_iter().find(found).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let names: Vec<&str> = files.iter().map(|file| file.parameter.as_str()).take(5).collect();
    let more = if files.len() > names.len() { " and others, see files" } else { "" };
    Problem::new(status, format!("cannot serve {}{more}", names.join(", "))).with_files(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(query: &str) -> Result<Vec<(String, String)>, String> {
        let options = HandlerOptions { max_files: 3, ..HandlerOptions::default() };
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let selection =
            from_query(&Bytes::copy_from_slice(query.as_bytes()), &options).map_err(|problem| problem.to_json())?;
        let file = |file: Wanted| {
            let key = file.key.map_or_else(|(_, detail)| detail.to_owned(), |key| text(key.as_bytes()));
            (text(&file.parameter), key)
        };
        Ok(selection.files.into_iter().map(file).collect())
    }

    #[test]
    fn files_come_in_the_order_of_the_query() {
        let expect = |query, files: &[(&str, &str)]| {
            let files: Vec<_> = files.iter().map(|(p, k)| ((*p).to_owned(), (*k).to_owned())).collect();
            assert_eq!(select(query), Ok(files), "{query}");
        };
        expect("file2=b&file1=a", &[("file2", "b"), ("file1", "a")]);
        expect("file1=a&file1=b", &[("file1", "a"), ("file1", "b")]);
        expect("file=a&files%5B%5D=b&&", &[("file", "a"), ("files[]", "b")]);
        expect("file1=a;file2=b", &[("file1", "a;file2=b")]);
        expect("file1&file2=", &[("file1", "the name is empty"), ("file2", "the name is empty")]);
        expect("file1=.env", &[("file1", "not found")]);
    }

    #[test]
    fn what_is_no_list_of_files_is_refused_with_a_reason() {
        for (query, reason) in [
            ("", "no file is named"),
            ("&", "no file is named"),
            ("x=1&file1=a", "unknown parameter x;"),
            ("FILE1=a", "unknown parameter FILE1;"),
            ("%ff=a", "unknown parameter \\\\xff;"),
            ("file1=a%", "percent sign"),
            ("file1=a&missing=skip", "missing=part"),
            ("file1=a&missing=part&missing=part", "missing was sent twice"),
            ("file1=a&format=mixed&format=mixed", "format was sent twice"),
            ("file1=a&file2=b&file3=c&file4=d", "more than 3 files"),
        ] {
            let problem = select(query).expect_err(query);
            assert!(problem.contains(reason) && problem.contains("\"status\":400"), "{query}: {problem}");
        }
    }

    #[test]
    fn a_parameter_has_a_longest_name() {
        let query = |len| format!("{}=a", "file".to_owned() + &"x".repeat(len - 4));
        assert!(select(&query(MAX_PARAMETER_LEN)).is_ok());
        assert!(select(&query(MAX_PARAMETER_LEN + 1)).expect_err("too long").contains("longer than 100"));
    }

    #[test]
    fn a_format_is_one_that_exists() {
        let format = |query: &str| {
            from_query(&Bytes::copy_from_slice(query.as_bytes()), &HandlerOptions::default())
                .map(|selection| selection.format)
        };
        assert_eq!(format("file=a"), Ok(None));
        assert_eq!(format("file=a&format=mixed"), Ok(Some(Shape::Mixed)));
        assert_eq!(format("format=form-data&file=a"), Ok(Some(Shape::FormData)));
        assert_eq!(format("file=a&format=related"), Ok(Some(Shape::Related)));
        for query in ["file=a&format=zip", "file=a&format=", "file=a&format=Mixed"] {
            let problem = format(query).expect_err(query);
            assert_eq!(problem.status(), StatusCode::NOT_ACCEPTABLE, "{query}");
            assert!(problem.to_json().contains("mixed, form-data, related"));
        }
    }
}
