//! Through a real nginx with the project's own nginx.conf.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `cache` | answers that nginx keeps, with the block of nginx.conf that is off by default |
//! | `content` | what arrives: bytes, lengths, order of parts |
//! | `partial` | ranges, conditions, a download that is taken up again |
//! | `requests` | what is asked: methods, bodies, large heads, and what both logs say of it |
//! | `faults` | what goes wrong meanwhile: a file that shrinks, a reader that stalls, a restart, a crowd |
//! | `resume` | downloads that were cut and go on, conditions, HEAD, several ranges: with curl |
//! | `slices` | large answers that nginx keeps in pieces |
//! | `troubleshooting` | what nginx says in its error log, and what docs/operations.md says of it |
//!
//! Here: the file itself.

mod cache;
mod content;
mod faults;
mod partial;
mod requests;
mod resume;
mod slices;
mod troubleshooting;

use std::fs;

use crate::harness::{NGINX_CONF, Site, Stack, empty_prefix, nginx_command, run_as_tests_do};

#[test]
fn the_configuration_as_it_is_suits_any_user_and_an_empty_directory() {
    let site = Site::empty();
    let prefix = empty_prefix(&site, "prefix");
    let configuration = site.beside("as-shipped.conf");
    fs::write(&configuration, NGINX_CONF).expect("a file");
    let mut command = nginx_command(&prefix, &configuration);
    let output = run_as_tests_do(command.arg("-t")).output().expect("nginx runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Before it has read the file, nginx tries the log of its own build, which belongs to root, and says so.
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains("could not open error log file"))
        .filter(|line| !line.ends_with("syntax is ok") && !line.ends_with("test is successful"))
        .collect();
    assert_eq!(complaints, Vec::<&str>::new());
}

#[test]
fn everything_nginx_writes_lies_in_its_directory_one_level_deep() {
    let stack = Stack::awkward();
    assert_eq!(stack.nginx.connect().get("/api/health").text(), "{\"status\":\"available\"}");
    let mut found: Vec<String> = fs::read_dir(stack.nginx.prefix())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    found.sort();
    let logs = ["access.log", "error.log", "nginx.pid"];
    let temporary = ["client_body_temp", "fastcgi_temp", "proxy_temp", "scgi_temp", "uwsgi_temp"];
    let mut expected = [&logs[..], &temporary[..]].concat();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(stack.nginx.error_log(), "", "nothing to complain of");
}
