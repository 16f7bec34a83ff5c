//! What is printed, and how it ends.

use serde_json::Value;

use crate::harness::{Site, axon, run_axon, stderr};

#[test]
fn text_is_plain_ascii_lines_and_json_says_the_same() {
    let site = Site::awkward();
    let root = site.root();
    let arguments = ["check", "--root", root.to_str().expect("a path"), "--secret-file", "/no/where/secret"];
    let output = run_axon(arguments);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.is_ascii(), "{text}");
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.pop().expect("a line");
    let starts = ["ok       ", "warning  ", "error    ", "         fix: "];
    assert!(lines.iter().all(|line| starts.iter().any(|start| line.starts_with(start))), "{text}");

    let output = axon().args(arguments).arg("--json").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let findings = report["findings"].as_array().expect("findings");
    for finding in findings {
        let line =
            format!("{}: {}", finding["subject"].as_str().expect("a word"), finding["message"].as_str().expect("text"));
        assert!(lines.iter().any(|found| found.ends_with(&line)), "{line} in {text}");
    }
    for (severity, name) in [("error", "error"), ("warning", "warning"), ("ok", "ok")] {
        let count = findings.iter().filter(|finding| finding["severity"] == severity).count();
        assert_eq!(report["counts"][severity], count);
        assert!(last.contains(&format!("{count} {name}")), "{last}");
    }
}

#[test]
fn a_report_that_nobody_reads_to_its_end_is_no_failure_and_one_that_cannot_be_written_is() {
    let shell = |script: &str| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", script, "sh"]).arg(crate::harness::binary());
        crate::harness::run_as_tests_do(&mut command).output().expect("a shell runs")
    };
    let output = shell("set -o pipefail; \"$1\" check | true");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let output = shell("\"$1\" check >/dev/full");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write the report"), "{}", stderr(&output));
}

#[test]
fn it_takes_what_serve_takes_from_arguments_and_variables() {
    let site = Site::awkward();
    let root = site.root();
    let root = root.to_str().expect("a path");
    for (variable, value, option) in [
        ("AXON_HEAD_TIMEOUT", "soon", "--head-timeout"),
        ("AXON_UWSGI", "x", "--uwsgi"),
        ("AXON_SOCKET_MODE", "rw", "--socket-mode"),
    ] {
        let output = axon().env(variable, value).args(["check", "--root", root]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{variable}");
        assert!(stderr(&output).contains(option), "{}", stderr(&output));
    }
    let output = run_axon(["check", "--frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    // Every variable of a service, as its environment file would give them.
    let socket = format!("unix:{}", site.beside("axon.sock").display());
    let output = axon()
        .envs([("AXON_ROOT", root), ("AXON_UWSGI", &socket), ("AXON_MAX_CONNECTIONS", "3")])
        .envs([
            ("AXON_LOG_LEVEL", "debug"),
            ("AXON_LOG_FILE", "/no/where/log"),
            ("AXON_RELOAD_FILE", "/etc/axon/axon.env"),
        ])
        .arg("check")
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    for words in ["root can be entered", &socket, "enough for 3 connections", "no directory /no/where"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}
