//! Where a request is handed to, and whether that is Axon's socket.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use crate::{check::nginx::tree::Directive, transport::Address};

/// A server that a request may be handed to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Target {
    /// A place that can be compared.
    Known(Address),
    /// A name that only a resolver knows, or a variable.
    Unknown(String),
}

/// The servers behind the argument of `uwsgi_pass` or one of its kin.
///
/// `groups` are the `upstream` blocks.
pub(super) fn targets(argument: &str, groups: &[&Directive]) -> Vec<Target> {
    let (scheme, rest) = argument.split_once("://").map_or(("", argument), |(scheme, rest)| (scheme, rest));
    // Of proxy_pass: a path behind the host, and with a unix socket behind a colon.
    let is_http = matches!(scheme, "http" | "https");
    let host = match rest.strip_prefix("unix:") {
        Some(path) if is_http => format!("unix:{}", path.split(':').next().unwrap_or(path)),
        Some(_) => rest.to_owned(),
        None => rest.split('/').next().unwrap_or(rest).to_owned(),
    };
    let group = groups.iter().find(|group| group.argument(0).eq_ignore_ascii_case(&host));
    let Some(group) = group else { return vec![target(&host)] };
    group.items().iter().filter(|item| item.name == "server").map(|server| target(server.argument(0))).collect()
}

/// Whether a target is one of the places where Axon listens.
pub(super) fn is_one_of(target: &Target, addresses: &[Address]) -> bool {
    let Target::Known(wanted) = target else { return false };
    addresses.iter().any(|address| match (wanted, address) {
        (Address::Unix(wanted), Address::Unix(path)) => resolved(wanted) == resolved(path),
        (Address::Tcp(wanted), Address::Tcp(ip)) => {
            wanted == ip || (ip.ip().is_unspecified() && wanted.port() == ip.port())
        }
        _ => false,
    })
}

fn target(host: &str) -> Target {
    let known = if let Some(path) = host.strip_prefix("unix:") {
        (!path.contains('$')).then(|| Address::Unix(path.into()))
    } else if let Some(port) = host.strip_prefix("localhost:") {
        port.parse().ok().map(|port| Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
    } else {
        // Without a port nginx would take 80, where Axon is not.
        host.parse().ok().map(Address::Tcp)
    };
    known.map_or_else(|| Target::Unknown(host.to_owned()), Target::Known)
}

/// A path as the kernel would find it: /var/run is /run.
fn resolved(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (directory.canonicalize(), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::nginx::tree::parse;

    #[test]
    fn groups_schemes_and_paths_lead_to_servers() {
        let items = parse(
            &"f".into(),
            "upstream axon { least_conn; server unix:/s weight=2; server 127.0.0.1:3031; } upstream x { server a:1; }",
        );
        let items = items.expect("a tree");
        let groups: Vec<&Directive> = items.iter().collect();
        let known = |text: &str| Target::Known(text.parse().expect("an address"));
        let unknown = |text: &str| Target::Unknown(text.into());
        for (argument, expected) in [
            ("axon", vec![known("unix:/s"), known("127.0.0.1:3031")]),
            ("uwsgi://AXON", vec![known("unix:/s"), known("127.0.0.1:3031")]),
            ("x", vec![unknown("a:1")]),
            ("unix:/run/axon.sock", vec![known("unix:/run/axon.sock")]),
            ("suwsgi://unix:/run/axon.sock", vec![known("unix:/run/axon.sock")]),
            ("http://unix:/run/axon.sock:/api/", vec![known("unix:/run/axon.sock")]),
            ("http://unix:/run/axon.sock", vec![known("unix:/run/axon.sock")]),
            ("http://axon/api/$1", vec![known("unix:/s"), known("127.0.0.1:3031")]),
            ("localhost:3031", vec![known("127.0.0.1:3031")]),
            ("[::1]:3031", vec![known("[::1]:3031")]),
            ("$backend", vec![unknown("$backend")]),
            ("unix:/run/$x.sock", vec![unknown("unix:/run/$x.sock")]),
            ("axon.example", vec![unknown("axon.example")]),
        ] {
            assert_eq!(targets(argument, &groups), expected, "{argument}");
        }
    }

    #[test]
    fn a_target_is_where_axon_listens() {
        let dir = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).expect("a link");
        let unix = |name: &str| Address::Unix(dir.path().join(name));
        let tcp = |text: &str| text.parse::<Address>().expect("an address");
        for (target, address, same) in [
            (unix("a.sock"), unix("a.sock"), true),
            (unix("link/a.sock"), unix("a.sock"), true),
            (unix("a.sock"), unix("b.sock"), false),
            (unix("none/a.sock"), unix("none/a.sock"), true),
            (tcp("127.0.0.1:1"), tcp("127.0.0.1:1"), true),
            (tcp("127.0.0.1:1"), tcp("0.0.0.0:1"), true),
            (tcp("127.0.0.1:1"), tcp("127.0.0.1:2"), false),
            (tcp("127.0.0.1:1"), unix("a.sock"), false),
        ] {
            assert_eq!(
                is_one_of(&Target::Known(target.clone()), std::slice::from_ref(&address)),
                same,
                "{target} {address}"
            );
        }
        assert!(!is_one_of(&Target::Unknown("a".into()), &[unix("a.sock")]));
    }
}
