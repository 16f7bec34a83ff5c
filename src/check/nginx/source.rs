//! Where a configuration comes from: the output of `nginx -T`, or files.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use glob::{MatchOptions, Pattern};

use crate::check::{
    Finding,
    nginx::{
        Place,
        tree::{Directive, parse},
    },
};

/// The most that is read of all files together. The largest configurations have a few megabytes.
const MAX_LEN: u64 = 16 * 1024 * 1024;

/// The most files, each as often as it is included.
const MAX_FILES: usize = 1000;

/// How deep files may include each other.
const MAX_INCLUDE_DEPTH: usize = 16;

/// What stands before each file in the output of `nginx -T`.
const MARK: (&str, &str) = ("# configuration file ", ":");

/// nginx gives its patterns to `glob(3)`, where a star stops at a slash and takes no dot at the start of a name.
const GLOB: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A configuration with its includes in their places.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The directives of the outermost level. An `include` that is still there could not be resolved.
    pub(super) items: Vec<Directive>,
    /// What was found while reading it.
    pub(super) findings: Vec<Finding>,
}

/// Reads a configuration; `-` is standard input.
///
/// # Errors
/// Where nothing of it can be looked at; the finding says why.
pub(super) fn load(path: &Path) -> Result<Configuration, Finding> {
    let from_stdin = path == Path::new("-");
    let name = if from_stdin { "standard input".into() } else { path.display().to_string() };
    let text = if from_stdin { read(io::stdin().lock()) } else { File::open(path).and_then(read) };
    let text = text.map_err(|error| {
        Finding::error("nginx", format!("cannot read {name}: {error}"), "nginx -T | axon check --nginx -, as root")
    })?;
    let directory = if from_stdin { None } else { Some(path.parent().unwrap_or(Path::new("")).to_owned()) };
    from_text(&name, &text, directory)
}

/// Reads a configuration's text; files that it includes lie in `directory`, or in its parent.
pub(super) fn from_text(name: &str, text: &str, directory: Option<PathBuf>) -> Result<Configuration, Finding> {
    if let Some(complaint) = text.lines().find(|line| line.starts_with("nginx: [emerg]")) {
        return Err(Finding::error(
            "nginx",
            format!("nginx itself refuses it: {complaint}"),
            "mend that first; nginx -t",
        ));
    }
    let dump = split(text);
    let files = match &dump {
        Some(files) => Files::Dumped(files),
        None => Files::OnDisk(directory),
    };
    let (name, text) = dump.as_ref().map_or((name, text), |files| (files[0].0, files[0].1.as_str()));
    let mut loader = Loader { main: name.to_owned(), files, findings: Vec::new(), count: 1, len: text.len() as u64 };
    let items = parse(&name.into(), text).map_err(|error| syntax(name, &error))?;
    if items.is_empty() {
        let message = format!("there is nothing in {name}");
        return Err(Finding::error(
            "nginx",
            message,
            "nginx -T | axon check --nginx -, as root: nginx must find its files",
        ));
    }
    let items = loader.expand(items, 0);
    Ok(Configuration { items, findings: loader.findings })
}

struct Loader<'a> {
    main: String,
    files: Files<'a>,
    findings: Vec<Finding>,
    count: usize,
    len: u64,
}

enum Files<'a> {
    /// By their names, in the order of the dump.
    Dumped(&'a [(&'a str, String)]),
    /// In this directory, if there is one.
    OnDisk(Option<PathBuf>),
}

impl Loader<'_> {
    fn expand(&mut self, items: Vec<Directive>, depth: usize) -> Vec<Directive> {
        let mut out = Vec::with_capacity(items.len());
        for mut item in items {
            item.block = item.block.map(|block| self.expand(block, depth));
            if item.name != "include" || item.block.is_some() {
                out.push(item);
                continue;
            }
            match self.included(&item, depth) {
                Ok(included) => out.extend(included),
                Err(finding) => {
                    self.findings.push(*finding);
                    out.push(item);
                }
            }
        }
        out
    }

    /// What a line brings in.
    fn included(&mut self, include: &Directive, depth: usize) -> Result<Vec<Directive>, Box<Finding>> {
        let pattern = include.argument(0);
        let failed = |message: String| {
            let fix = "give the whole of it: nginx -T | axon check --nginx -, as root";
            Box::new(Finding::warning("include", message, fix).at(&include.place))
        };
        if depth == MAX_INCLUDE_DEPTH {
            return Err(failed(format!("files include each other more than {MAX_INCLUDE_DEPTH} deep")));
        }
        let too_much = || failed(format!("{pattern}: that is more than {MAX_FILES} files or {MAX_LEN} bytes"));
        if self.count >= MAX_FILES || self.len >= MAX_LEN {
            return Err(too_much());
        }
        let found = self.find(pattern).map_err(|error| failed(format!("{pattern} is not looked at: {error}")))?;
        let mut out = Vec::new();
        for (name, text) in found {
            self.count += 1;
            self.len += text.len() as u64;
            if self.count > MAX_FILES || self.len > MAX_LEN {
                return Err(too_much());
            }
            let file: Arc<str> = name.as_str().into();
            match parse(&file, &text) {
                Ok(items) => out.extend(self.expand(items, depth + 1)),
                Err(error) => self.findings.push(syntax(&name, &error)),
            }
        }
        Ok(out)
    }

    /// The files that a pattern stands for, by name.
    fn find(&self, pattern: &str) -> io::Result<Vec<(String, String)>> {
        let is_pattern = pattern.contains(['*', '?', '[']);
        match &self.files {
            Files::Dumped(files) => {
                // As nginx does it: relative to where its main file is.
                let directory = self.main.rfind('/').map_or("", |end| &self.main[..=end]);
                let name = if pattern.starts_with('/') { pattern.to_owned() } else { format!("{directory}{pattern}") };
                let compiled = Pattern::new(&name).map_err(io::Error::other)?;
                let fits = |found: &str| found == name || (is_pattern && compiled.matches_with(found, GLOB));
                let mut found: Vec<_> = files
                    .iter()
                    .filter(|(found, _)| fits(found))
                    .map(|(n, text)| ((*n).to_owned(), text.clone()))
                    .collect();
                found.sort();
                if found.is_empty() && !is_pattern { Err(not_there()) } else { Ok(found) }
            }
            Files::OnDisk(directory) => {
                let Some(directory) = directory else {
                    return Err(io::Error::other("it comes from standard input, so where its files are is not known"));
                };
                // A file in conf.d names others as seen from one directory above.
                let above = directory.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
                let places = [Some(directory.clone()), above.filter(|_| !pattern.starts_with('/'))];
                let mut result = Err(not_there());
                for place in places.into_iter().flatten() {
                    result = on_disk(&place, pattern, is_pattern);
                    if result.as_ref().is_ok_and(|found| !found.is_empty()) {
                        break;
                    }
                }
                result
            }
        }
    }
}

fn not_there() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file")
}

fn on_disk(directory: &Path, pattern: &str, is_pattern: bool) -> io::Result<Vec<(String, String)>> {
    let paths = if is_pattern {
        let escaped = PathBuf::from(Pattern::escape(&directory.to_string_lossy()));
        let whole = escaped.join(pattern).to_string_lossy().into_owned();
        let found = glob::glob_with(&whole, GLOB).map_err(io::Error::other)?;
        found.take(MAX_FILES + 1).collect::<Result<Vec<_>, _>>().map_err(io::Error::from)?
    } else {
        vec![directory.join(pattern)]
    };
    let read = |path: PathBuf| Ok((path.display().to_string(), File::open(&path).and_then(read)?));
    paths.into_iter().map(read).collect()
}

/// Names and texts of the files in the output of `nginx -T`; None where it is something else.
fn split(text: &str) -> Option<Vec<(&str, String)>> {
    // What nginx says on standard error may stand before.
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty() || line.starts_with("nginx: ")).peekable();
    mark(lines.peek()?)?;
    let mut files: Vec<(&str, String)> = Vec::new();
    for line in lines {
        match (mark(line), files.last_mut()) {
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (name, _) => files.push((name?, String::new())),
        }
    }
    Some(files)
}

/// The file's name in a line that stands before it.
fn mark(line: &str) -> Option<&str> {
    line.strip_prefix(MARK.0)?.strip_suffix(MARK.1).filter(|name| !name.is_empty())
}

/// A text, and where it is none in UTF-8, its closest likeness: names of directives are ASCII.
fn read(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(io::Error::other(format!("it is longer than {MAX_LEN} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn syntax(file: &str, error: &crate::check::nginx::tokens::SyntaxError) -> Finding {
    let place = Place { file: file.into(), line: error.line };
    Finding::error("syntax", format!("nginx will not read this: {error}"), "nginx -t").at(&place)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn places(items: &[Directive]) -> Vec<String> {
        items.iter().map(|item| format!("{} {}", item.name, item.place)).collect()
    }

    #[test]
    fn a_dump_is_taken_apart_by_its_marks_and_put_together_by_its_includes() {
        let dump = "nginx: the configuration file /e/nginx.conf syntax is ok\n\
                    # configuration file /e/nginx.conf:\nuser a;\nhttp {\n  include d/*.conf;\n  include none/*;\n}\n\n\
                    # configuration file /e/d/b.conf:\n\nb 1;\n\n\
                    # configuration file /e/d/a.conf:\na 1;\ninclude /e/x;\n\n\
                    # configuration file /e/d/.c.conf:\nc 1;\n\n\
                    # configuration file /e/d/e/f.conf:\nf 1;\n\n\
                    # configuration file /e/x:\nx 1;";
        let loaded = from_text("-", dump, None).expect("a configuration");
        assert_eq!(loaded.findings, []);
        assert_eq!(places(&loaded.items), ["user /e/nginx.conf:1", "http /e/nginx.conf:2"]);
        assert_eq!(places(loaded.items[1].items()), ["a /e/d/a.conf:1", "x /e/x:1", "b /e/d/b.conf:2"]);
        // A file that includes itself ends, and what is not there is told.
        let round = "# configuration file /r:\ninclude r;\ninclude gone;\n";
        let loaded = from_text("-", round, None).expect("a configuration");
        let told: Vec<&str> = loaded.findings.iter().map(|finding| finding.message.as_str()).collect();
        assert!(told.iter().any(|message| message.contains("more than 16 deep")), "{told:?}");
        assert!(told.contains(&"gone is not looked at: no such file"), "{told:?}");
    }

    #[test]
    fn files_are_found_beside_the_first_one_or_above_it() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("conf.d")).expect("a directory");
        let main = dir.path().join("conf.d/site.conf");
        fs::write(dir.path().join("params"), "p 1;").expect("a file");
        fs::write(dir.path().join("conf.d/one.inc"), "one 1;").expect("a file");
        fs::write(dir.path().join("conf.d/two.inc"), "two").expect("a file");
        fs::write(&main, "include params;\ninclude *.inc;\ninclude none;\ninclude no/*.inc;").expect("a file");
        let loaded = load(&main).expect("a configuration");
        let names: Vec<&str> = loaded.items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["p", "one", "include"]);
        let subjects: Vec<_> =
            loaded.findings.iter().map(|finding| (finding.subject, finding.place.as_ref().map(|p| p.line))).collect();
        assert_eq!(subjects, [("syntax", Some(1)), ("include", Some(3))]);
        let loaded = from_text("standard input", "include a;", None).expect("a configuration");
        assert!(loaded.findings[0].message.contains("standard input"));
    }

    #[test]
    fn what_is_no_configuration_says_what_to_type() {
        for text in ["", "# nothing\n", "nginx: [emerg] unknown directive \"x\" in /e/nginx.conf:1\n"] {
            let finding = from_text("f", text, None).expect_err("nothing");
            assert!(finding.fix.is_some_and(|fix| fix.contains("nginx -")), "{text}");
        }
        assert!(load(Path::new("/no/such/file")).expect_err("nothing").message.contains("/no/such/file"));
        assert_eq!(from_text("f", "a;\n}", None).expect_err("no tree").place.map(|place| place.line), Some(2));
    }

    #[test]
    fn so_much_is_read_and_no_more() {
        assert!(read(io::repeat(b' ').take(MAX_LEN)).is_ok());
        assert!(read(io::repeat(b' ').take(MAX_LEN + 1)).is_err());
        let files = |count: usize| {
            let dump =
                "# configuration file /n:\n".to_owned() + &"include x;\n".repeat(count) + "# configuration file /x:\n";
            from_text("-", &dump, None).expect("a configuration").findings.len()
        };
        assert_eq!((files(MAX_FILES - 1), files(MAX_FILES)), (0, 1));
    }
}
