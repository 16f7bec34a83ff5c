//! The binary as one types it.

use std::{ffi::OsStr, process::Output, time::Duration};

use super::{binary, run_as_tests_do};

/// A command that ends by itself is given up after this time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The binary, to be given arguments and an environment.
pub fn axon() -> assert_cmd::Command {
    let mut command = std::process::Command::new(binary());
    run_as_tests_do(&mut command);
    let mut command = assert_cmd::Command::from_std(command);
    command.timeout(TIMEOUT);
    command
}

/// Runs it to its end.
#[track_caller]
pub fn run_axon(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    axon().args(arguments).output().expect("it runs")
}

/// What a program said on standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
