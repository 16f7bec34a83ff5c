//! What a daemon tells of itself: its log records, and the state it comes back to.

use std::{fs, time::Duration};

use serde_json::Value;

use super::{Daemon, wait_until};

/// How much CPU time an idle process may use within [`IDLE_WINDOW`]: two ticks of the kernel's clock.
const IDLE_CPU_TIME: Duration = Duration::from_millis(20);

/// A spinning thread uses ten times [`IDLE_CPU_TIME`] in it.
const IDLE_WINDOW: Duration = Duration::from_millis(200);

impl Daemon {
    /// How many descriptors it has open once it has started: its workers open theirs after it listens.
    #[track_caller]
    pub fn idle_descriptors(&self) -> usize {
        wait_until("the daemon has started", || self.has_started());
        self.descriptors()
    }

    /// Waits until it uses no CPU time to speak of.
    #[track_caller]
    pub fn assert_cpu_idle(&self) {
        wait_until("the CPU is idle", || {
            let before = self.cpu_time();
            std::thread::sleep(IDLE_WINDOW);
            self.cpu_time() <= before + IDLE_CPU_TIME
        });
    }

    /// All records so far. Whatever is written must be JSON, one object a line.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        parse_records(&self.log())
    }

    /// Waits for a record and gives it.
    #[track_caller]
    pub fn recorded(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(&format!("a record: {what}"), || {
            found = self.records().into_iter().find(|record| is_it(record));
            found.is_some()
        });
        found.expect("it was found")
    }

    /// Waits for the record of the request that was sent with this id.
    #[track_caller]
    pub fn request_record(&self, id: &str) -> Value {
        // What a peer chose is escaped, spaces too.
        let escaped = id.replace(' ', r"\x20");
        self.recorded(id, |record| record["message"] == "request" && record["request_id"] == escaped)
    }

    /// Whether there are workers and every thread sleeps; one that has something to do yet does not.
    fn has_started(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a process");
        let stats = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        let stats: Vec<String> = stats.collect();
        stats.iter().any(|stat| stat.contains("(axon-worker")) && stats.iter().all(|stat| stat.contains(") S "))
    }
}

/// The records in a log. A last line that is still being written does not count.
#[track_caller]
pub fn parse_records(log: &str) -> Vec<Value> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let parse = |line: &str| match serde_json::from_str(line) {
        Ok(record @ Value::Object(_)) => record,
        other => panic!("no record: {line:?}: {other:?}"),
    };
    whole.lines().map(parse).collect()
}
