//! System calls that fail or take long: injected by strace into a running daemon.

use std::{path::Path, process::Command};

use super::{leave_out, program, run_as_tests_do};

/// The shell command that runs a daemon whose system calls, those on one file if a path is given, are tampered with by
/// rules in the words of strace's `--inject`. None where this machine lets nobody trace; see [`leave_out`].
///
/// The daemon stays a child of the test's own: the tracer is the one that goes aside.
#[track_caller]
pub fn injecting(path: Option<&Path>, rules: &[&str]) -> Option<String> {
    let strace = program("strace", "strace");
    let mut probe = Command::new(&strace);
    let output = run_as_tests_do(probe.args(["-f", "-qq", "-o", "/dev/null", "true"])).output().expect("strace runs");
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        leave_out(&format!("no system calls that fail: {complaint}"));
        return None;
    }
    let calls: Vec<&str> = rules.iter().map(|rule| rule.split(':').next().unwrap_or(rule)).collect();
    let injected: String = rules.iter().flat_map(|rule| [" -e inject=", *rule]).collect();
    let of_path = path.map_or_else(String::new, |path| format!(" -P {}", path.display()));
    let strace = strace.display();
    Some(format!("exec {strace} -D -f -qq -o /dev/null{of_path} -e trace={}{injected} \"$@\"", calls.join(",")))
}
