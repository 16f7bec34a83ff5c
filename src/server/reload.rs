//! What SIGHUP renews while everything goes on: the log file, the secret, the log level.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tracing::{Level, error, info, warn};

use crate::{
    handler::CurrentKey,
    server::{load_secret, small_file::read_small_text},
    telemetry::{Log, with_causes},
};

/// What the names of our settings begin with in the environment.
const PREFIX: &str = "AXON_";

/// The one setting that can change while the server runs.
const LOG_LEVEL: &str = "AXON_LOG_LEVEL";

/// What is renewed on SIGHUP.
#[derive(Debug)]
pub struct Reload {
    /// The log whose file is opened anew, and whose level may change.
    pub log: Arc<Log>,
    /// Where the secret is kept, and the key it is put into; None where it was made up.
    pub secret: Option<(PathBuf, CurrentKey)>,
    /// Where the log level is read from.
    pub settings: Option<SettingsFile>,
}

impl Reload {
    /// Renews what can be. What cannot be read stays as it was, and the log says so. Waits for the disk.
    pub fn run(&self) {
        self.log.reopen();
        if let Some(settings) = &self.settings {
            settings.apply(&self.log);
        }
        if let Some((path, key)) = &self.secret {
            match load_secret(Some(path)) {
                Ok(secret) => key.replace(secret),
                Err(error) => error!(cause = with_causes(&error), "the secret stays as it was"),
            }
        }
        info!(log_level = %self.log.level(), "reloaded");
    }
}

/// A file of `AXON_…` lines that the environment was made of, as systemd's `EnvironmentFile=`.
///
/// A line is `NAME=VALUE`, the value perhaps in quotes; empty lines and those that begin with `#` or `;` do not count.
#[derive(Debug)]
pub struct SettingsFile {
    path: PathBuf,
    at_start: BTreeMap<String, String>,
    /// The level where the file says nothing of it; None where the file has no say.
    level_without: Option<Level>,
}

impl SettingsFile {
    /// Reads a file for the first time, to tell later what has changed in it. `level` is the one the server starts
    /// with, and `fixed` says that it stays, whatever the file says.
    pub fn read(path: &Path, level: Level, fixed: bool) -> Self {
        let at_start = match read_small_text(path) {
            Ok(text) => settings(&text),
            // A unit names the file whether or not there is one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(cause) => {
                warn!(path = %path.display(), %cause, "cannot read the reload file; SIGHUP will try again");
                BTreeMap::new()
            }
        };
        // A level that came from the file goes when its line goes.
        let without = if at_start.contains_key(LOG_LEVEL) { Log::DEFAULT_LEVEL } else { level };
        Self { path: path.to_owned(), at_start, level_without: (!fixed).then_some(without) }
    }

    /// Reads it again: sets the level, and names what else has changed.
    fn apply(&self, log: &Log) {
        let path = self.path.display();
        let now = match read_small_text(&self.path) {
            Ok(text) => settings(&text),
            Err(cause) => return error!(%path, %cause, "cannot read the reload file; the log level stays as it was"),
        };
        if let Some(without) = self.level_without {
            let value = now.get(LOG_LEVEL);
            if let Ok(level) = value.map_or(Ok(without), |value| value.parse()) {
                log.set_level(level);
            } else {
                let value = value.map(|value| value.escape_debug().to_string());
                error!(%path, value, "{LOG_LEVEL} is no level: write error, warn, info, debug or trace");
            }
        }
        let changed = self.changed(&now);
        if !changed.is_empty() {
            warn!(%path, settings = changed.join(" "), "settings have changed that need a restart");
        }
    }

    /// The settings that count only after a restart and are not what they were at the start.
    fn changed(&self, now: &BTreeMap<String, String>) -> Vec<String> {
        let mut names: Vec<&String> = self.at_start.keys().chain(now.keys()).collect();
        names.sort();
        names.dedup();
        let changed = names
            .into_iter()
            .filter(|&name| name.starts_with(PREFIX) && name != LOG_LEVEL && self.at_start.get(name) != now.get(name));
        changed.cloned().collect()
    }
}

/// The settings of a file; where one is repeated, the last one counts.
fn settings(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.trim_end().to_owned(), unquoted(value.trim_start()).to_owned())).collect()
}

fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settings_file_is_read_as_systemd_reads_it() {
        let text = "# AXON_A=0\n; AXON_A=1\n\nAXON_A=2\n AXON_B = 'x y' \nAXON_C=\"z\"\nAXON_D=\nno line\nAXON_A=3=4\n";
        let expected = [("AXON_A", "3=4"), ("AXON_B", "x y"), ("AXON_C", "z"), ("AXON_D", "")];
        assert_eq!(settings(text), expected.map(|(name, value)| (name.into(), value.into())).into());
        assert_eq!(unquoted("\""), "\"");
        assert_eq!(unquoted("\"a'"), "\"a'");
    }

    #[test]
    fn what_needs_a_restart_is_told_by_what_it_was_at_the_start() {
        let file = |text: &str| SettingsFile { path: PathBuf::new(), at_start: settings(text), level_without: None };
        let before = file("AXON_A=1\nAXON_B=1\nAXON_LOG_LEVEL=info\nOTHER=1\n");
        let changed = |now: &str| before.changed(&settings(now));
        assert_eq!(changed("AXON_B=1\nAXON_A=1\nAXON_LOG_LEVEL=debug\n"), [""; 0]);
        assert_eq!(changed("AXON_B=2\nAXON_C=1\n"), ["AXON_A", "AXON_B", "AXON_C"]);
    }
}
