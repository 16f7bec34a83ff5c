//! Which policy the threads run under, as the kernel tells it.

use std::{collections::BTreeMap, fs};

use crate::harness::{Daemon, DaemonOptions, Site, injecting};

/// The numbers of `linux/sched.h`.
const OTHER: &str = "0";
const BATCH: &str = "3";
const IDLE: &str = "5";

/// Threads by their name with the number of their policy.
fn policies(daemon: &Daemon) -> BTreeMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("a process");
    let policy = |thread: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(thread.expect("a thread").path().join("stat")).expect("it waits");
        // "number (name) state ...", and the policy is field 41 (proc_pid_stat(5)).
        let (name, rest) = stat.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect("a name");
        (name.to_owned(), rest.split_whitespace().nth(41 - 3).expect("a policy").to_owned())
    };
    threads.map(policy).collect()
}

#[test]
fn workers_interrupt_nobody() {
    let site = Site::empty();
    let daemon = Daemon::start(&site, &["--workers", "2"]);
    for (name, policy) in policies(&daemon) {
        assert_eq!(policy, if name.starts_with("axon-worker-") { BATCH } else { OTHER }, "{name}");
    }
}

#[test]
fn a_policy_that_was_chosen_for_it_stays() {
    let site = Site::empty();
    let shell = Some("exec chrt --idle 0 \"$@\"");
    let options = DaemonOptions { arguments: &["--workers", "2"], shell, ..DaemonOptions::default() };
    let daemon = Daemon::start_with(&site, options);
    let policies = policies(&daemon);
    assert_eq!(policies.keys().filter(|name| name.starts_with("axon-worker-")).count(), 2, "{policies:?}");
    assert!(policies.values().all(|policy| policy == IDLE), "{policies:?}");
}

#[test]
fn without_permission_it_serves_all_the_same() {
    let site = Site::empty();
    let Some(shell) = injecting(None, &["sched_setscheduler:error=EPERM"]) else { return };
    let daemon = Daemon::start_with(&site, DaemonOptions { shell: Some(&shell), ..DaemonOptions::default() });
    assert!(policies(&daemon).values().all(|policy| policy == OTHER));
    assert_eq!(daemon.get("/api/health").status, 200);
}
