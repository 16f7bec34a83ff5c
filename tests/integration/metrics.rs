//! What is counted, at `/api/metrics`.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `counts` | numbers after requests that are known |
//! | `cuts` | answers that did not go out whole, readers that stall, records that were lost |
//! | `rules` | what ships beside it: alerts, dashboard, documentation; judged by promtool |
//!
//! Here: the page as an answer.

mod counts;
mod cuts;
mod rules;

use crate::harness::{Daemon, METRICS, Packet, Site, Stack, curl_command};

#[test]
fn the_page_is_an_answer_that_nobody_keeps() {
    let site = Site::empty();
    let mut daemon = Daemon::start(&site, &[]);
    let idle = daemon.idle_descriptors();
    let page = daemon.get(METRICS);
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.content_length(), page.body.len() as u64);
    assert!(page.text().starts_with("# HELP axon_build_info "), "{}", page.text());

    let head = daemon.send(&Packet::new("HEAD", METRICS));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert!(head.content_length() > 1000);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let refused = daemon.send(&Packet::new(method, METRICS));
        assert_eq!(refused.header("allow"), Some("GET, HEAD"), "{method}");
        refused.problem(405);
    }
    assert_eq!(daemon.get("/api/metrics?anything=1").status, 200);
    daemon.get("/api/metrics/").problem(404);
    daemon.assert_alive(idle);
}

#[test]
fn nginx_lets_only_this_machine_see_them() {
    let stack = Stack::awkward();
    let url = stack.nginx.url(METRICS);
    let ask = |from: &str, target: &str| {
        let mut command = curl_command();
        command.args(["--output", "/dev/null", "--write-out", "%{http_code}", "--interface", from]).arg(target);
        let output = command.output().expect("curl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(ask("127.0.0.1", &url), "200");
    // Every address of the loopback network reaches nginx; only the one is allowed.
    for target in
        [&url, &format!("{url}?a=b"), &url.replace("metrics", "%6detrics"), &url.replace("/api", "/x/..//api")]
    {
        assert_eq!(ask("127.0.0.2", target), "403", "{target}");
    }
    // Everything else it may ask for; a name that is only similar leads nowhere.
    assert_eq!(ask("127.0.0.2", &stack.nginx.url("/api/health")), "200");
    for similar in ["/api/metrics/", "/api/Metrics", "/api/metrics;x", "/api/metrics%00"] {
        let status = ask("127.0.0.2", &stack.nginx.url(similar));
        assert!(matches!(&status[..], "400" | "404"), "{similar}: {status}");
    }
}
