//! One thing that was looked at, and how it is told.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::check::Place;

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// It works, but not as well as it could, or not always; or it cannot be told from here.
    Warning,
    /// Axon does not start, or requests fail, or answers are wrong.
    Error,
}

/// What was found about one thing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, in a word that stays the same.
    pub subject: &'static str,
    /// The line of nginx's configuration.
    pub place: Option<Place>,
    /// What was found.
    pub message: String,
    /// What to type or write instead.
    pub fix: Option<String>,
}

/// Everything that was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order in which it was looked at.
    pub findings: Vec<Finding>,
}

/// How many findings there are of each kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Errors.
    pub error: usize,
    /// Warnings.
    pub warning: usize,
    /// What is as it should be.
    pub ok: usize,
}

impl Finding {
    /// As it should be.
    pub(super) fn ok(subject: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Ok, subject, place: None, message: message.into(), fix: None }
    }

    /// Could be better.
    pub(super) fn warning(subject: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, subject, place: None, message: message.into(), fix: Some(fix.into()) }
    }

    /// Does not work.
    pub(super) fn error(subject: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::warning(subject, message, fix) }
    }

    /// The same at a line of nginx's configuration.
    pub(super) fn at(self, place: &Place) -> Self {
        Self { place: Some(place.clone()), ..self }
    }
}

impl Report {
    /// How many there are of each kind.
    pub fn counts(&self) -> Counts {
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        Counts { error: count(Severity::Error), warning: count(Severity::Warning), ok: count(Severity::Ok) }
    }

    /// As text for people, one finding a line and its fix below.
    ///
    /// Names of files and words of configurations are shown without what a terminal would obey.
    pub fn to_text(&self, coloured: bool) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let (name, colour) = match finding.severity {
                Severity::Ok => ("ok", "32"),
                Severity::Warning => ("warning", "33"),
                Severity::Error => ("error", "1;31"),
            };
            let padding = " ".repeat(WIDTH - name.len());
            let name = if coloured { format!("\x1b[{colour}m{name}\x1b[0m") } else { name.to_owned() };
            let place = finding.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
            let line = format!("{place}{}: {}", finding.subject, finding.message);
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name}{padding}{}", Printable(&line));
            if let Some(fix) = &finding.fix {
                let _ = writeln!(out, "{}fix: {}", " ".repeat(WIDTH), Printable(fix));
            }
        }
        let Counts { error, warning, ok } = self.counts();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let _ = writeln!(out, "{error} error{}, {warning} warning{}, {ok} ok", plural(error), plural(warning));
        out
    }

    /// As one JSON object: the findings, and how many there are of each kind.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Whole<'a> {
            findings: Vec<Shown<'a>>,
            counts: Counts,
        }

        let whole = Whole { findings: self.findings.iter().map(Shown::from).collect(), counts: self.counts() };
        // Strings and numbers always are JSON.
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    }
}

/// A finding as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    severity: Severity,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

impl<'a> From<&'a Finding> for Shown<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            severity: finding.severity,
            subject: finding.subject,
            file: finding.place.as_ref().map(|place| &*place.file),
            line: finding.place.as_ref().map(|place| place.line),
            message: &finding.message,
            fix: finding.fix.as_deref(),
        }
    }
}

/// The columns that a severity takes.
const WIDTH: usize = 9;

/// A text without control characters.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .try_for_each(|c| if c.is_control() { write!(f, "{}", c.escape_default()) } else { f.write_char(c) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let place = Place { file: "a.conf".into(), line: 7 };
        Report {
            findings: vec![
                Finding::ok("root", "/srv/files"),
                Finding::warning("somaxconn", "128", "sysctl net.core.somaxconn=4096"),
                Finding::error("gzip", "on\x1b[2J\n", "gzip off;").at(&place),
            ],
        }
    }

    #[test]
    fn the_text_has_a_line_a_finding_and_obeys_nobody() {
        let text = "ok       root: /srv/files\n\
                    warning  somaxconn: 128\n         fix: sysctl net.core.somaxconn=4096\n\
                    error    a.conf:7: gzip: on\\u{1b}[2J\\n\n         fix: gzip off;\n\
                    1 error, 1 warning, 1 ok\n";
        assert_eq!(report().to_text(false), text);
        let coloured = report().to_text(true);
        assert!(coloured.contains("\x1b[1;31merror\x1b[0m    a.conf:7"), "{coloured}");
        let plain =
            ["\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"].iter().fold(coloured, |s, code| s.replace(code, ""));
        assert_eq!(plain, text);
    }

    #[test]
    fn the_json_is_one_object() {
        let value: serde_json::Value = serde_json::from_str(&report().to_json()).expect("JSON");
        assert_eq!(value["counts"], serde_json::json!({"error": 1, "warning": 1, "ok": 1}));
        let gzip = serde_json::json!({"severity": "error", "subject": "gzip", "file": "a.conf", "line": 7,
                                      "message": "on\u{1b}[2J\n", "fix": "gzip off;"});
        assert_eq!(value["findings"][2], gzip);
        assert_eq!(
            value["findings"][0],
            serde_json::json!({"severity": "ok", "subject": "root", "message": "/srv/files"})
        );
    }
}
