//! Which files a query asks for.

use bytes::Bytes;
use http::StatusCode;

use crate::{
    message::{FileProblem, Problem},
    store::{Key, KeyError},
    wire::decode_form,
};

use super::HandlerOptions;

/// The longest parameter name in bytes. It comes back in answers and log records, so it has a bound.
pub(super) const MAX_PARAMETER_LEN: usize = 100;

/// One file of a request.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The query key that named it.
    pub(super) parameter: Bytes,
    /// The name; or why it cannot be one that is served.
    pub(super) key: Result<Key, KeyError>,
}

/// Reads a query: the files in its order.
pub(super) fn from_query(query: &[u8], options: &HandlerOptions) -> Result<Vec<Wanted>, Problem> {
    let bad_request = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    let mut files = Vec::with_capacity(2);
    for pair in decode_form(query) {
        let (parameter, value) = pair.map_err(|error| bad_request(error.to_string()))?;
        if !parameter.starts_with(b"file") {
            let name = parameter.escape_ascii();
            return Err(bad_request(format!("unknown parameter {name}; files are named by file1=, file2= and so on")));
        }
        if parameter.len() > MAX_PARAMETER_LEN {
            return Err(bad_request(format!("a parameter's name is longer than {MAX_PARAMETER_LEN} bytes")));
        }
        if files.len() == options.max_files {
            return Err(bad_request(format!(
                "more than {} files; ask for them in several requests",
                options.max_files
            )));
        }
        let key = Key::parse(&value, options.dotfiles);
        files.push(Wanted { parameter: Bytes::copy_from_slice(&parameter), key });
    }
    if files.is_empty() {
        return Err(bad_request("no file is named; add ?file1=NAME and, for a bundle, &file2=NAME".into()));
    }
    Ok(files)
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
        let files = from_query(query.as_bytes(), &options).map_err(|problem| problem.to_json())?;
        let file = |file: Wanted| {
            let key = file.key.map_or_else(|error| error.to_string(), |key| text(key.as_bytes()));
            (text(&file.parameter), key)
        };
        Ok(files.into_iter().map(file).collect())
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
}
