//! `axon check`: is a set-up going to work?
//!
//! | module | what is in it |
//! | --- | --- |
//! | `nginx` | configurations with a mistake each, as files and as a real nginx prints them |
//! | `report` | what is printed, and how it ends |
//! | `system` | roots, sockets, secrets and limits that are as they should be, and that are not |

mod nginx;
mod report;
mod system;

use std::process::Output;

use serde_json::Value;

use crate::harness::{axon, stderr};

/// The findings of a run with `--json`.
struct Report {
    code: Option<i32>,
    findings: Vec<Value>,
}

impl Report {
    #[track_caller]
    fn of(arguments: &[&str]) -> Self {
        Self::from_output(&axon().args([&["check", "--json"], arguments].concat()).output().expect("it runs"))
    }

    #[track_caller]
    fn from_output(output: &Output) -> Self {
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {:?}, and: {}", String::from_utf8_lossy(&output.stdout), stderr(output))
        });
        let findings = report["findings"].as_array().expect("findings").clone();
        let report = Self { code: output.status.code(), findings };
        // Errors decide how it ends, and nothing else.
        assert_eq!(report.code, Some(i32::from(report.has("error", ""))), "{:?}", report.findings);
        report
    }

    /// Whether there is a finding of this severity about something; an empty word fits all.
    fn has(&self, severity: &str, subject: &str) -> bool {
        self.messages(severity, subject).next().is_some()
    }

    /// What the findings of this severity about something say.
    fn messages<'a>(&'a self, severity: &'a str, subject: &'a str) -> impl Iterator<Item = &'a str> {
        let fits = move |finding: &&Value| {
            finding["severity"] == severity && (subject.is_empty() || finding["subject"] == subject)
        };
        self.findings.iter().filter(fits).map(|finding| finding["message"].as_str().expect("a message"))
    }

    /// The one finding about something: its severity and what it says.
    #[track_caller]
    fn only(&self, subject: &str) -> (&str, &str) {
        let found: Vec<&Value> = self.findings.iter().filter(|finding| finding["subject"] == subject).collect();
        let [finding] = found[..] else { panic!("{} findings about {subject}: {:?}", found.len(), self.findings) };
        (finding["severity"].as_str().expect("a severity"), finding["message"].as_str().expect("a message"))
    }
}
