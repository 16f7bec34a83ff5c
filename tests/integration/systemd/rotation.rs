//! Logs that a real logrotate moves away, by the file that is shipped.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::harness::{Daemon, Packet, Site, program, run_as_tests_do, stderr, wait_until};

const SHIPPED: &str = include_str!("../../../systemd/logrotate.conf");

/// What `id` says of whom the tests run as.
fn id(option: &str) -> String {
    let output = run_as_tests_do(Command::new("id").arg(option)).output().expect("id runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn rotate(site: &Site, configuration: &Path) -> Output {
    let mut command = Command::new(program("logrotate", "logrotate"));
    command.arg("--force").arg("--state").arg(site.beside("logs/state")).arg(configuration);
    run_as_tests_do(&mut command).output().expect("logrotate runs")
}

fn records(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let id = |line| {
        let record: Value = serde_json::from_str(line).expect("a record is JSON");
        (record["message"] == "request").then(|| record["request_id"].as_str().expect("a number").to_owned())
    };
    text.lines().filter_map(id).collect()
}

#[test]
fn logrotate_moves_logs_away_and_no_record_is_lost() {
    let site = Site::empty();
    let logs = site.beside("logs");
    assert!(run_as_tests_do(Command::new("mkdir").arg(&logs)).status().is_ok_and(|status| status.success()));
    let log = logs.join("axon.log");
    let mut daemon = Daemon::start(&site, &["--log-file", log.to_str().expect("a path")]);
    let idle = daemon.descriptors();

    // Other users and another place; nobody but root may become somebody else.
    let mut shipped = SHIPPED.to_owned();
    for (old, new) in [
        ("/var/log/axon/*.log", format!("{}/*.log", logs.display())),
        ("create 0640 _axon _axon", format!("create 0640 {} {}", id("-un"), id("-gn"))),
        ("    su _axon _axon\n", String::new()),
        ("systemctl kill --signal=HUP axon.service", format!("kill -s HUP {}", daemon.pid())),
    ] {
        assert_eq!(shipped.matches(old).count(), 1, "{old}");
        shipped = shipped.replace(old, &new);
    }
    let configuration = site.beside("logrotate.conf");
    fs::write(&configuration, shipped).expect("a file");

    let mut asked = Vec::new();
    let mut ask = |daemon: &Daemon, round: usize| {
        for number in 0..50 {
            asked.push(format!("{round}-{number}"));
            let request = Packet::get("/api/health").header("X-Request-Id", asked.last().expect("it was pushed"));
            assert_eq!(daemon.send(&request).status, 200);
        }
    };
    ask(&daemon, 0);
    wait_until("the log is written", || records(&log).len() == 50);
    let output = rotate(&site, &configuration);
    assert!(output.status.success(), "{}", stderr(&output));
    wait_until("the new file is in use", || fs::read_to_string(&log).is_ok_and(|text| text.contains("reloaded")));
    ask(&daemon, 1);
    wait_until("the new file is written", || records(&log).len() == 50);
    let old = logs.join("axon.log.1");
    let mut found = [records(&old), records(&log)].concat();
    // Workers do not wait for each other.
    found.sort();
    asked.sort();
    assert_eq!(found, asked);
    daemon.assert_alive(idle);

    // The time after, the first one is compressed: nobody has written to it for a day.
    let output = rotate(&site, &configuration);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(logs.join("axon.log.2.gz").exists() && old.exists(), "{:?}", fs::read_dir(&logs).map(Iterator::count));
}
