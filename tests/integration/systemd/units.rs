//! The units and the settings file that the project ships. `scripts/test` lets systemd itself judge them.

use std::{fs, process::Command, time::Duration};

use axon::{server::ServerOptions, transport::Address};

use crate::{
    cli::OPTIONS,
    harness::{NGINX_CONF, Packet, STREAM, Site, binary, exchange, run_as_tests_do, wait_until},
};

const SOCKET: &str = include_str!("../../../systemd/axon.socket");
const SERVICE: &str = include_str!("../../../systemd/axon.service");
const SYSUSERS: &str = include_str!("../../../systemd/sysusers.conf");
const SETTINGS: &str = include_str!("../../../systemd/axon.env");

/// The values that a unit gives a key.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let of_key = |line: &'a str| line.split_once('=').filter(|(name, _)| *name == key);
    unit.lines().filter_map(of_key).map(|(_, value)| value).collect()
}

/// The one value that a unit gives a key.
#[track_caller]
fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    let values = values(unit, key);
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values[0]
}

/// Name and value of each setting that is commented out, and whether nothing else is there.
fn commented_out() -> Vec<(&'static str, &'static str)> {
    let lines = SETTINGS.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let pair = |line: &'static str| line.strip_prefix('#').and_then(|line| line.split_once('='));
    lines.filter(|line| *line != "#").map(|line| pair(line).unwrap_or_else(|| panic!("no setting: {line}"))).collect()
}

#[test]
fn the_units_fit_nginx_and_each_other() {
    let path = value(SOCKET, "ListenStream");
    assert!(NGINX_CONF.contains(&format!("unix:{path}")), "nginx asks elsewhere than {path}");
    assert!(format!("unix:{path}").parse::<Address>().is_ok());
    assert_eq!((value(SOCKET, "SocketMode"), value(SOCKET, "Backlog")), ("0660", "4096"));
    assert_eq!(value(SOCKET, "FileDescriptorName"), "uwsgi");
    // A directory of the service's would go with it, and the socket in it.
    assert_eq!(values(SERVICE, "RuntimeDirectory"), [""; 0]);
    assert_eq!(value(SERVICE, "Requires"), "axon.socket");
    // With one of these systemd takes openat2 away.
    assert_eq!((values(SERVICE, "DynamicUser"), values(SERVICE, "RestrictSUIDSGID")), (vec![], vec![]));
    assert!(SYSUSERS.contains(&format!("u {} ", value(SERVICE, "User"))));
    // No address: the socket unit's is the only one.
    assert!(!value(SERVICE, "ExecStart").contains("--uwsgi") && !SERVICE.contains("AXON_UWSGI"));
}

#[test]
fn the_units_fit_the_defaults() {
    let defaults = ServerOptions::default();
    let secs = |key| Duration::from_secs(value(SERVICE, key).parse().expect("seconds"));
    // After the deadline of the drain, those that are cut get a second to leave their record.
    assert!(secs("TimeoutStopSec") >= defaults.drain_timeout + Duration::from_secs(5));
    // nginx waits for the next life at least as long as this one may take to end.
    let read_timeout = NGINX_CONF.lines().find_map(|line| line.trim().strip_prefix("uwsgi_read_timeout "));
    let read_timeout = read_timeout.and_then(|value| value.strip_suffix("s;")?.parse().ok()).expect("seconds");
    assert!(Duration::from_secs(read_timeout) > secs("TimeoutStopSec"), "{read_timeout}");
    // Each connection has its socket and at most 16 files; 128 are to spare.
    let descriptors: usize = value(SERVICE, "LimitNOFILE").parse().expect("a number");
    assert_eq!(descriptors, defaults.max_connections * (1 + 16) + 128);
}

#[test]
fn the_settings_file_has_every_setting_with_its_default() {
    let mut settings = commented_out();
    for (option, default) in OPTIONS {
        let (option, _) = option.split_once(' ').unwrap_or((option, ""));
        let name = format!("AXON_{}", option.trim_start_matches('-').replace('-', "_").to_uppercase());
        let place = settings.iter().position(|(known, _)| *known == name);
        let (_, value) = settings.remove(place.unwrap_or_else(|| panic!("{name} is missing")));
        if let Some(default) = default.strip_prefix("[default: ").and_then(|rest| rest.strip_suffix(']'))
            && !default.contains(' ')
        {
            assert_eq!(value, default, "{name}");
        }
    }
    assert_eq!(settings, [], "there are no such settings, or they are there twice");
}

#[test]
fn the_settings_of_the_file_and_of_the_unit_are_understood() {
    let site = Site::awkward();
    let mut command = Command::new(binary());
    run_as_tests_do(&mut command).arg("serve").stderr(fs::File::create(site.beside("axon.log")).expect("a log"));
    // The same places as they are named there, beside the site's root.
    let place = |value: &str| match value {
        "/var/www/axon-api/examples" => site.root().display().to_string(),
        "unix:/run/axon/axon.sock" => format!("unix:{}", site.beside("axon.sock").display()),
        "/var/lib/axon/secret" => site.beside("secret").display().to_string(),
        "/var/log/axon/axon.log" => site.beside("own.log").display().to_string(),
        "/etc/axon/axon.env" => site.beside("axon.env").display().to_string(),
        value => value.to_owned(),
    };
    // The group is there where nginx is installed, and not the tests' own.
    let settings = commented_out().into_iter().filter(|(name, _)| *name != "AXON_SOCKET_GROUP");
    let of_unit = values(SERVICE, "Environment").into_iter().filter_map(|setting| setting.split_once('='));
    for (name, value) in settings.chain(of_unit) {
        command.env(name, place(value));
    }
    let mut child = command.spawn().expect("it runs");
    let socket = site.beside("axon.sock");
    wait_until("it listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    assert_eq!(exchange(&socket, &Packet::get(format!("{STREAM}?file=a.txt")).to_bytes()).text(), "0123456789");
    assert!(Command::new("kill").arg(child.id().to_string()).status().is_ok_and(|status| status.success()));
    assert!(child.wait().expect("it ends").success());
    assert!(site.beside("secret").exists() && site.beside("own.log").exists());
}
