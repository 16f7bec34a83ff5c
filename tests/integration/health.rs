//! Whether somebody answers, and with `?deep=1` whether files could be served.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    time::Instant,
};

use serde_json::{Value, json};

use crate::harness::{
    Answer, Daemon, DaemonOptions, NginxOptions, Packet, Site, Stack, connect, injecting, read_answer, wait_until,
};

const DEEP: &str = "/api/health?deep=1";

/// What it says, and that nobody may keep it.
#[track_caller]
fn said(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("retry-after").is_some(), answer.status == 503);
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// The short answer, byte for byte, whatever the state.
#[track_caller]
fn assert_plain_is_as_ever(answer: &Answer) {
    assert_eq!(
        String::from_utf8_lossy(&answer.raw),
        "HTTP/1.1 200 OK\r\nContent-Length: 22\r\nContent-Type: application/json\r\n\r\n{\"status\":\"available\"}"
    );
}

#[test]
fn it_tells_how_it_is_doing_where_it_is_asked() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &["--workers", "3"]);
    let idle = daemon.idle_descriptors();
    for query in ["", "?", "?deep", "?deep=0", "?deep=true", "?depth=1", "?cache=17"] {
        assert_plain_is_as_ever(&daemon.get(format!("/api/health{query}")));
    }
    let answer = daemon.get(DEEP);
    assert_eq!(answer.status, 200);
    let mut health = said(&answer);
    let uptime = health["uptime_seconds"].take().as_u64().expect("a number");
    assert!(uptime < 60, "{uptime}");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        health,
        json!({"status": "available", "version": version, "root": "readable", "uptime_seconds": null, "workers": 3,
               "draining": false})
    );
    let head = daemon.send(&Packet::new("HEAD", DEEP));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(daemon.send(&Packet::new("POST", DEEP)).status, 405);
    wait_until("time passes", || said(&daemon.get(DEEP))["uptime_seconds"].as_u64() > Some(uptime));
    daemon.assert_alive(idle);
}

#[test]
fn a_root_that_cannot_be_opened_is_told() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let root = site.root();
    let assert_unreadable = |what: &str| {
        let answer = daemon.get(DEEP);
        assert_eq!(answer.status, 503, "{what}");
        let health = said(&answer);
        assert_eq!((&health["status"], &health["root"]), (&json!("unavailable"), &json!("unreadable")), "{what}");
        assert!(!answer.text().contains(root.to_str().expect("text")), "no path");
        assert_plain_is_as_ever(&daemon.get("/api/health"));
    };
    for (mode, readable) in [(0o000, false), (0o600, false), (0o711, true), (0o100, true), (0o755, true)] {
        fs::set_permissions(&root, Permissions::from_mode(mode)).expect("a mode");
        if readable {
            assert_eq!(said(&daemon.get(DEEP))["root"], "readable", "{mode:o}");
        } else {
            assert_unreadable(&format!("{mode:o}"));
        }
    }
    fs::remove_dir(&root).expect("gone");
    assert_unreadable("removed");
    let record = daemon.recorded("why", |record| record["level"] == "ERROR");
    assert!(record["message"].as_str().is_some_and(|text| text.contains("root")), "{record}");
    daemon.assert_alive(idle);
}

#[test]
fn whoever_asks_while_it_drains_is_told_to_go_elsewhere() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let mut open: Vec<UnixStream> = (0..2).map(|_| connect(daemon.socket())).collect();
    wait_until("both are accepted", || daemon.descriptors() >= idle + 2);
    daemon.signal("TERM");
    wait_until("it drains", || UnixStream::connect(daemon.socket()).is_err());
    let mut ask = |target| {
        let mut stream = open.pop().expect("a connection");
        stream.write_all(&Packet::get(target).to_bytes()).expect("room for a packet");
        read_answer(&mut stream, Instant::now())
    };
    let answer = ask(DEEP);
    assert_eq!(answer.status, 503);
    let health = said(&answer);
    assert_eq!((&health["status"], &health["draining"]), (&json!("draining"), &json!(true)));
    assert_eq!(health["root"], "readable");
    assert_plain_is_as_ever(&ask("/api/health"));
    assert!(daemon.wait().success());
}

#[test]
fn a_root_that_hangs_is_given_up_and_holds_up_nobody() {
    let site = Site::empty();
    // It is looked at once at the start and once for each question.
    let Some(shell) = injecting(Some(&site.root()), &["fstat:delay_enter=3000000"]) else { return };
    let options = DaemonOptions { arguments: &["--workers", "1"], shell: Some(&shell), ..DaemonOptions::default() };
    let mut daemon = Daemon::start_with(&site, options);
    let idle = daemon.idle_descriptors();
    // While it is stopped they queue up, so that its only worker takes all of them at once.
    daemon.signal("STOP");
    let mut asked = [DEEP, DEEP, DEEP, "/api/health"].map(|target| {
        let mut stream = connect(daemon.socket());
        stream.write_all(&Packet::get(target).to_bytes()).expect("room for a packet");
        stream
    });
    daemon.signal("CONT");
    let [deep @ .., plain] = &mut asked;
    assert_plain_is_as_ever(&read_answer(plain, Instant::now()));
    for stream in deep {
        let answer = read_answer(stream, Instant::now());
        assert_eq!((answer.status, &said(&answer)["root"]), (503, &json!("unreadable")));
    }
    wait_until("all have their record", || daemon.records().iter().filter(|r| r["message"] == "request").count() >= 4);
    let first = daemon.recorded("of a request", |record| record["message"] == "request");
    assert!(first["query"] == "", "the last one did not wait for those before it: {first}");
    let record = daemon.recorded("why", |record| record["level"] == "ERROR");
    assert!(record["cause"].as_str().is_some_and(|cause| cause.contains("2 s")), "{record}");
    daemon.assert_alive(idle);
}

#[test]
fn nginx_keeps_the_deep_form_to_itself_where_it_is_told_as_documented() {
    const BEFORE: &str = "        # Everything: Axon knows its own paths";
    let documented = include_str!("../../docs/metrics.md").split("```nginx\n").nth(1).expect("an example");
    let (block, _) = documented.split_once("```").expect("its end");
    let replaced = [(BEFORE, &*format!("{block}{BEFORE}"))];
    let options = NginxOptions { replaced: &replaced, ..NginxOptions::default() };
    let stack = Stack::start_with(Site::empty(), &[], &options);
    let mut connection = stack.nginx.connect();
    assert_eq!(connection.get("/api/health").text(), "{\"status\":\"available\"}");
    for target in [DEEP, "/api/health?x=1&deep=1", "/api//health?deep=1", "/api/health?deep=&deep=1"] {
        assert_eq!(connection.get(target).status, 403, "{target}");
    }

    // As it is shipped it passes on whatever is asked.
    let stack = Stack::start(Site::empty(), &[]);
    let answer = stack.nginx.connect().get(DEEP);
    assert_eq!((answer.status, &said(&answer)["root"]), (200, &json!("readable")));
}
