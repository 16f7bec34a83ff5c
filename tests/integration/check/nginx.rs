//! Configurations with a mistake each. A line that something is to be said of ends in what: `# error gzip`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::Report;
use crate::harness::{NGINX_CONF, NginxOptions, Site, axon, empty_prefix, nginx_command, run_as_tests_do};

/// Where the configurations are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/check/nginx")
}

/// A copy of that folder at a site: nginx, and whoever runs the tests' programs, may not be let into the sources.
fn copied_folder(site: &Site) -> PathBuf {
    let copies = site.beside("configurations");
    for part in ["", "sites"] {
        fs::create_dir_all(copies.join(part)).expect("a directory");
        for entry in fs::read_dir(folder().join(part)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                fs::copy(&path, copies.join(part).join(path.file_name().expect("a name"))).expect("a copy");
            }
        }
    }
    copies
}

/// What is to be said, and what was: file, line, severity and subject.
type Said = (String, u64, String, String);

/// The marks of a file.
fn marks(path: &Path) -> Vec<Said> {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut said = Vec::new();
    for (line, text) in (1..).zip(fs::read_to_string(path).expect("a file").lines()) {
        // The comment of the first line tells what the file is.
        let Some((_, mark)) = text.split_once("; # ") else { continue };
        for mark in mark.split(", ") {
            let (severity, subject) = mark.split_once(' ').expect("a severity and a subject");
            said.push((name.clone(), line, severity.to_owned(), subject.to_owned()));
        }
    }
    said
}

/// What is said of lines, except that they are in order.
fn said(report: &Report) -> Vec<Said> {
    let of_line = |finding: &Value| {
        let text = |name: &str| finding[name].as_str().map(str::to_owned);
        let file = text("file")?;
        let name = Path::new(&file).file_name()?.to_string_lossy().into_owned();
        let severity = text("severity").filter(|severity| severity != "ok")?;
        assert!(finding["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{finding}");
        Some((name, finding["line"].as_u64()?, severity, text("subject")?))
    };
    let mut said: Vec<Said> = report.findings.iter().filter_map(of_line).collect();
    said.sort();
    said
}

#[test]
fn each_mistake_is_found_at_its_line_in_files_and_in_what_nginx_prints() {
    let site = Site::empty();
    let prefix = empty_prefix(&site, "nginx");
    let copies = copied_folder(&site);
    let files =
        fs::read_dir(&copies).expect("a folder").map(|entry| PathBuf::from(entry.expect("an entry").file_name()));
    let mut names: Vec<PathBuf> = files.filter(|name| name.extension().is_some_and(|e| e == "conf")).collect();
    names.sort();
    assert!(names.len() > 40, "{names:?}");
    let secret = site.beside("secret");
    let secret = secret.to_str().expect("a path");
    for name in names {
        let path = copies.join(&name);
        let shown = name.display();
        let mut expected = marks(&folder().join(&name));
        if name == Path::new("included.conf") {
            expected.extend(marks(&folder().join("sites/axon.conf")));
        }
        expected.sort();
        let socket = ["--uwsgi", "unix:/run/axon/axon.sock", "--secret-file", secret];
        let report = Report::of(&[&socket[..], &["--nginx", path.to_str().expect("a path")]].concat());
        assert_eq!(said(&report), expected, "{shown}");
        assert_eq!(expected.is_empty(), report.has("ok", "uwsgi_pass"), "{shown}");

        // nginx itself takes the file: what is found are mistakes that it does not see.
        let mut command = nginx_command(&prefix, &path);
        command.args(["-T", "-g", "pid nginx.pid; error_log stderr;"]);
        let output = run_as_tests_do(&mut command).output().expect("nginx runs");
        assert!(output.status.success(), "{shown}: {}", String::from_utf8_lossy(&output.stderr));
        let mut check = axon();
        check.args(["check", "--json", "--nginx", "-"]).args(socket).write_stdin(output.stdout);
        assert_eq!(said(&Report::from_output(&check.output().expect("it runs"))), expected, "{shown}, from nginx -T");
    }
}

#[test]
fn the_projects_own_configuration_is_as_it_should_be_with_and_without_its_cache() {
    let site = Site::empty();
    let path = site.beside("nginx.conf");
    let secret = site.beside("secret");
    for (blocks, places) in [(&[][..], 2), (&["cache"], 3), (&["cache", "slice"], 3)] {
        let options = NginxOptions { blocks, ..NginxOptions::default() };
        fs::write(&path, NGINX_CONF).expect("a file");
        let configuration = options.apply(&path);
        fs::write(&path, configuration).expect("a file");
        let arguments = ["--uwsgi", "unix:/run/axon/axon.sock", "--secret-file", secret.to_str().expect("a path")];
        let report = Report::of(&[&arguments[..], &["--nginx", path.to_str().expect("a path")]].concat());
        assert_eq!(said(&report), [], "{blocks:?}");
        assert_eq!(report.messages("ok", "uwsgi_pass").count(), places, "{blocks:?}");
    }
    // With a cache, a secret is worth a warning.
    let report = Report::of(&["--nginx", path.to_str().expect("a path")]);
    assert!(report.messages("warning", "cache").all(|message| message.contains("secret")), "{:?}", report.findings);
    assert!(report.has("warning", "cache"));
}

#[test]
fn what_is_asked_of_axon_is_compared_with_what_nginx_does() {
    let site = Site::empty();
    let good = copied_folder(&site).join("good.conf");
    let good = good.to_str().expect("a path");
    for (arguments, subject) in [
        (&["--max-body", "2m"][..], Some("body-size")),
        (&["--stall-timeout", "240s"], Some("send-timeout")),
        (&["--drain-timeout", "60s"], Some("read-timeout")),
        (&["--stall-timeout", "241s", "--drain-timeout", "59s", "--max-body", "1m"], None),
    ] {
        let report = Report::of(&[&["--nginx", good, "--uwsgi", "unix:/run/axon/axon.sock"], arguments].concat());
        let subjects: Vec<String> = said(&report).into_iter().map(|(.., subject)| subject).collect();
        assert_eq!(subjects, subject.into_iter().collect::<Vec<_>>(), "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    let site = Site::empty();
    let write = |text: &str| {
        let path = site.beside("some.conf");
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    for (text, severity, subject, words) in [
        ("", "error", "nginx", "nothing in"),
        ("http {\n", "error", "syntax", "no end"),
        ("http { server { location / { } } }", "error", "uwsgi_pass", "nothing in it hands requests"),
        ("http { include none.conf; }", "warning", "include", "none.conf"),
        ("location / { uwsgi_pass unix:/run/axon/axon.sock; include uwsgi_params; }", "warning", "nginx", "piece"),
    ] {
        let report = Report::of(&["--nginx", &write(text)]);
        let found: Vec<&str> = report.messages(severity, subject).collect();
        assert!(found.iter().any(|message| message.contains(words)), "{text}: {:?}", report.findings);
        // What may be in a file that could not be read is not said to be missing.
        assert!(!report.has("error", "params") && !report.has("warning", "httpoxy"), "{text}: {:?}", report.findings);
    }
    let report = Report::of(&["--nginx", "/no/such/file"]);
    assert!(report.messages("error", "nginx").any(|message| message.contains("/no/such/file")));
}

#[test]
fn nginxs_user_must_be_able_to_connect() {
    let site = Site::empty();
    let configuration = |user: &str| {
        let path = site.beside("user.conf");
        let good = fs::read_to_string(folder().join("good.conf")).expect("a file");
        fs::write(&path, format!("user {user};\n{good}")).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    for name in ["paths.inc", "delivery.inc", "params.inc"] {
        fs::copy(folder().join(name), site.beside(name)).expect("a copy");
    }
    let socket = site.beside("axon.sock");
    let address = format!("unix:{}", socket.display());
    let report = |user: &str, more: &[&str]| {
        let path = configuration(user);
        let text = fs::read_to_string(&path).expect("a file").replace("unix:/run/axon/axon.sock", &address);
        fs::write(&path, text).expect("a file");
        Report::of(&[&["--nginx", &path, "--uwsgi", &address], more].concat())
    };
    let nobody = report("nosuchuser", &[]);
    let (severity, message) = nobody.only("nginx-user");
    assert!(severity == "warning" && message.contains("no user nosuchuser"), "{message}");
    // Not made yet: the mode and the group are those it would get.
    assert_eq!(report("root", &[]).only("nginx-user").0, "ok");
    assert_eq!(report("daemon", &[]).only("nginx-user").0, "warning");
    assert_eq!(report("daemon", &["--socket-mode", "0666"]).only("nginx-user").0, "ok");
    assert_eq!(report("daemon", &["--socket-group", "daemon"]).only("nginx-user").0, "ok");
    assert_eq!(report("daemon daemon", &["--socket-group", "1"]).only("nginx-user").0, "ok");
    // There it is, and it counts as it is.
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    for (mode, severity) in [(0o660, "error"), (0o666, "ok")] {
        fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
        let report = report("daemon", &["--socket-mode", "0666"]);
        let found = report.only("nginx-user");
        assert_eq!(found.0, severity, "{mode:o}: {}", found.1);
    }
}

#[test]
fn what_the_help_says_of_nginx_is_not_wrong_either() {
    let help = String::from_utf8(crate::harness::run_axon(["serve", "--help"]).stdout).expect("text");
    let start = help.find("location /").expect("an example");
    let site = Site::empty();
    let path = site.beside("help.conf");
    fs::write(&path, &help[start..]).expect("a file");
    // A piece, with the parameters elsewhere, and without what belongs in the server.
    let report = Report::of(&["--nginx", path.to_str().expect("a path"), "--uwsgi", "unix:/run/axon/axon.sock"]);
    let subjects: Vec<String> = said(&report).into_iter().map(|(.., subject)| subject).collect();
    assert!(
        subjects.iter().all(|subject| ["nginx", "include", "header-buffers"].contains(&subject.as_str())),
        "{subjects:?}"
    );
    assert!(report.has("warning", "header-buffers"), "{:?}", report.findings);
}
