//! Restarts under load, behind a real nginx: nobody notices.

use std::{
    fs,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use crate::harness::{
    Download, End, Manager, Nginx, NginxOptions, Site, listening_socket, noise, program, stream_target, wait_until,
};

const LARGE_LEN: usize = 3_000_000;

/// How often it is restarted.
const RESTARTS: usize = 20;

/// A wrk that goes on until it is asked for its report, or dropped.
struct Load(Option<Child>);

impl Load {
    fn report(mut self) -> String {
        let wrk = self.0.take().expect("it runs");
        let stopped = Command::new("kill").args(["-INT", &wrk.id().to_string()]).status();
        assert!(stopped.is_ok_and(|status| status.success()));
        let output = wrk.wait_with_output().expect("wrk ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(wrk) = &mut self.0 {
            let _ = wrk.kill();
            let _ = wrk.wait();
        }
    }
}

#[test]
fn twenty_restarts_fail_no_request() {
    let site = Site::awkward();
    site.write("large.bin", noise(LARGE_LEN));
    let listener = listening_socket(&site);
    let manager = Manager::new(&site);
    let mut daemon = manager.start(&site, &[&listener], &[]);
    let nginx = Nginx::start(&site, &daemon, &NginxOptions::default());
    let bundle = stream_target(&["a.txt", "s131073.bin", "b.txt"]);

    // wrk counts whatever goes wrong, on 16 connections at once. It is told to end below.
    let mut command = Command::new(program("wrk", "wrk"));
    command.args(["--threads", "1", "--connections", "16", "--duration", "300s", "--timeout", "60s"]);
    let wrk = Load(Some(command.arg(nginx.url(&bundle)).stdout(Stdio::piped()).spawn().expect("wrk runs")));
    let (done, bundles) = (AtomicBool::new(false), AtomicUsize::new(0));
    let expected = nginx.connect().get(&bundle).parts().iter().map(|part| part.body.clone()).collect::<Vec<_>>();
    thread::scope(|scope| {
        // And here is looked at what comes, byte by byte.
        scope.spawn(|| {
            let mut connection = nginx.connect();
            while !done.load(Ordering::Relaxed) {
                let answer = connection.get(&bundle);
                assert_eq!((answer.status, answer.end), (200, End::Open));
                assert!(answer.parts().iter().map(|part| &part.body).eq(&expected));
                bundles.fetch_add(1, Ordering::Relaxed);
            }
        });
        for number in 0..RESTARTS {
            let before = bundles.load(Ordering::Relaxed);
            // One that runs when the end comes, and for some time after it.
            let download = Download::begin(daemon.socket(), stream_target(&["large.bin"]), "slow");
            daemon.signal("TERM");
            manager.hear_where("the drain", |message| message.starts_with("STOPPING=1"));
            assert!(download.finish().body == site.read("large.bin"), "{number}");
            assert!(daemon.wait().success(), "{number}: {}", daemon.log());
            daemon = manager.start(&site, &[&listener], &[]);
            wait_until("a bundle in this life", || bundles.load(Ordering::Relaxed) > before);
        }
        done.store(true, Ordering::Relaxed);
    });

    let report = wrk.report();
    // wrk names these lines only where there is something to count.
    assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{report}");
    let count = report.lines().find_map(|line| line.trim().split_once(" requests in ")).expect("a count").0;
    assert!(count.parse::<usize>().expect("a number") > RESTARTS, "{report}");
    assert_eq!(nginx.error_log(), "");
    let access = fs::read_to_string(nginx.prefix().join("access.log")).expect("an access log");
    assert!(access.lines().count() > RESTARTS);
    let failed: Vec<_> = access.lines().filter(|line| line.contains("\"upstream_status\":\"5")).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
