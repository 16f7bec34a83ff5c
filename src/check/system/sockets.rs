//! Where Axon listens, or is to listen.

use std::{
    error::Error,
    fs,
    net::{SocketAddr, TcpStream},
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::Path,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};

use crate::{
    check::{
        Finding, Subject, USUAL_SOCKET,
        system::{is_served, may_write},
    },
    client::{self, ClientRequest},
    server::SocketOptions,
    transport::{Address, MAX_SOCKET_PATH_LEN},
};

/// What is asked of one that listens.
const HEALTH: &str = "/api/health";

/// How long it may take for that.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything about the addresses. Without any, they are those of a socket unit.
pub(super) fn examine(subject: &Subject) -> Vec<Finding> {
    let config = &subject.config;
    if config.addresses.is_empty() {
        let usual = Path::new(USUAL_SOCKET);
        if usual.exists() {
            return listening(&Address::Unix(usual.to_owned()));
        }
        if subject.nginx.is_some() {
            // Those that nginx names are looked at.
            return Vec::new();
        }
        let message = format!("no --uwsgi was given, and there is none of a socket unit at {USUAL_SOCKET}");
        let fix = "systemctl enable --now axon.socket, or axon check --uwsgi ADDR";
        return vec![Finding::warning("socket", message, fix)];
    }
    let mut findings = group(&config.socket);
    for address in &config.addresses {
        let found = match address {
            Address::Unix(path) => unix(address, path, &config.socket),
            Address::Tcp(_) => tcp(address),
        };
        findings.extend(found);
        if let Address::Unix(path) = address
            && subject.has_root
            && is_served(path, Some(&config.root))
        {
            let message = format!("{address} lies in the root, whose owner may take it away");
            findings.push(Finding::warning("socket", message, "--uwsgi unix:/run/axon/axon.sock"));
        }
    }
    findings
}

/// Looks at a socket that should be there already.
pub(in crate::check) fn listening(address: &Address) -> Vec<Finding> {
    match connect(address) {
        Ok(()) | Err(Errno::AGAIN) => vec![alive(address)],
        Err(error) => {
            let why = match error {
                Errno::NOENT => "there is no such socket, \"failed (2: No such file or directory)\"".to_owned(),
                Errno::CONNREFUSED => "nobody listens there, \"failed (111: Connection refused)\"".to_owned(),
                Errno::ACCESS => return vec![no_access(address, false)],
                error => error.to_string(),
            };
            let message = format!("{address}: {why}: every answer of nginx is 502");
            vec![Finding::error(
                "socket",
                message,
                "systemctl start axon.socket axon.service, or axon serve --uwsgi ADDR",
            )]
        }
    }
}

/// A group's number from its name, or from the number itself.
pub(in crate::check) fn group_id(group: &str) -> Option<u32> {
    group.parse().ok().or_else(|| uzers::get_group_by_name(group).map(|found| found.gid()))
}

/// A group's name, or its number where it has none.
pub(in crate::check) fn group_name(gid: u32) -> String {
    let name = uzers::get_group_by_gid(gid).map(|group| group.name().to_string_lossy().into_owned());
    name.unwrap_or_else(|| gid.to_string())
}

/// The group that sockets are to have.
fn group(options: &SocketOptions) -> Vec<Finding> {
    let (mode, group) = (options.mode, options.group.as_deref());
    let mut findings = Vec::new();
    if mode & 0o002 != 0 {
        let message = format!("mode {mode:04o}: everybody on this machine may make requests in anybody's name");
        findings.push(Finding::warning("socket-mode", message, "--socket-mode 0660 --socket-group www-data"));
    } else if mode & 0o020 == 0 && mode & 0o200 != 0 && group.is_some() {
        let message = format!("mode {mode:04o}: the group may not connect, so --socket-group has no effect");
        findings.push(Finding::warning("socket-mode", message, "--socket-mode 0660"));
    } else if mode & 0o222 == 0 {
        let message = format!("mode {mode:04o}: nobody but root may connect");
        findings.push(Finding::error("socket-mode", message, "--socket-mode 0660"));
    }
    let Some(name) = group else { return findings };
    let Some(gid) = group_id(name) else {
        let message = format!("there is no group {name}, and Axon does not start");
        findings.push(Finding::error("socket-group", message, "--socket-group with one of: getent group"));
        return findings;
    };
    let groups = rustix::process::getgroups().unwrap_or_default();
    let ours = rustix::process::getegid().as_raw() == gid || groups.iter().any(|group| group.as_raw() == gid);
    findings.push(if ours || rustix::process::geteuid().is_root() {
        Finding::ok("socket-group", format!("{name} can be given to the socket"))
    } else {
        let message = format!("this user is not in {name} and may not give it to a socket: Axon does not start");
        Finding::error("socket-group", message, format!("usermod -aG {name} USER, or SupplementaryGroups={name}"))
    });
    findings
}

fn unix(address: &Address, path: &Path, options: &SocketOptions) -> Vec<Finding> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let message = format!("{address}: there is something that is not a socket, and Axon does not start");
            return vec![Finding::error("socket", message, "move it, or choose another --uwsgi")];
        }
        Ok(_) => match connect(address) {
            Ok(()) | Err(Errno::AGAIN) => return vec![alive(address)],
            Err(Errno::CONNREFUSED) => {}
            Err(Errno::ACCESS) => {
                return vec![no_access(address, true)];
            }
            Err(error) => {
                let message = format!("{address}: whether somebody listens cannot be told: {error}");
                return vec![Finding::warning("socket", message, format!("axon request {address} {HEALTH}"))];
            }
        },
        Err(_) => {}
    }
    directory(address, path, options)
}

/// The directory that a socket is to be made in.
fn directory(address: &Address, path: &Path, options: &SocketOptions) -> Vec<Finding> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = directory.display();
    let Ok(found) = fs::metadata(directory) else {
        let message = format!("{address}: there is no directory {shown}, and Axon does not start");
        let fix =
            format!("mkdir -p {shown}; below /run it goes at a reboot: RuntimeDirectory= or axon.socket of systemd");
        return vec![Finding::error("socket", message, fix)];
    };
    if !found.is_dir() {
        return vec![Finding::error("socket", format!("{shown} is no directory"), "another --uwsgi")];
    }
    if !may_write(directory) {
        let message = format!("{address}: this user may not make a socket in {shown}: Axon does not start");
        return vec![Finding::error("socket", message, format!("chown to the user of Axon: {shown}"))];
    }
    let mode = found.mode();
    if mode & 0o002 != 0 {
        let whose = if mode & 0o1000 == 0 {
            "and put another in its place"
        } else {
            "where services with PrivateTmp= have their own"
        };
        let message = format!("{address}: everybody may write to {shown}, {whose}");
        return vec![Finding::warning(
            "socket",
            message,
            "--uwsgi unix:/run/axon/axon.sock, in a directory of Axon's own",
        )];
    }
    // Who is to connect has to get there first.
    let gid = options.group.as_deref().and_then(group_id);
    let closed = mode & 0o001 == 0 && (mode & 0o010 == 0 || gid.is_some_and(|gid| gid != found.gid()));
    if closed {
        let message = format!(
            "{address}: nginx's user may not enter {shown} (mode {:04o}, group {})",
            mode & 0o777,
            group_name(found.gid())
        );
        return vec![Finding::warning("socket", message, format!("chmod o+x {shown}, or give it the socket's group"))];
    }
    let len = path.as_os_str().len();
    let message = format!(
        "{address} can be made: {shown} has mode {:04o}, the path {len} of {MAX_SOCKET_PATH_LEN} bytes",
        mode & 0o777
    );
    vec![Finding::ok("socket", message)]
}

fn tcp(address: &Address) -> Vec<Finding> {
    let Address::Tcp(ip) = address else { return Vec::new() };
    let mut findings = Vec::new();
    if !ip.ip().is_loopback() {
        let message =
            format!("{address} is reachable from other machines: whoever connects can make requests in anybody's name");
        findings.push(Finding::warning(
            "socket",
            message,
            "a unix socket, 127.0.0.1, or a firewall that lets only nginx through",
        ));
    }
    match connect(address) {
        Ok(()) => findings.push(alive(address)),
        Err(Errno::CONNREFUSED) => findings.push(match bind(address) {
            Ok(()) => Finding::ok("socket", format!("{address} is free")),
            Err(error) => {
                let fix = "a port of 1024 or above, on an address of this machine";
                Finding::error("socket", format!("{address} cannot be listened on: {error}"), fix)
            }
        }),
        Err(error) => {
            let message = format!("{address}: whether somebody listens cannot be told: {error}");
            findings.push(Finding::warning("socket", message, format!("axon request {address} {HEALTH}")));
        }
    }
    findings
}

/// Somebody listens: is it Axon?
fn alive(address: &Address) -> Finding {
    let request = ClientRequest {
        method: "GET".into(),
        target: HEALTH.into(),
        headers: Vec::new(),
        body: None,
        timeout: Some(HEALTH_TIMEOUT),
    };
    // A full queue would make us wait without an end.
    if connect(address) == Err(Errno::AGAIN) {
        let message = format!("{address}: its queue of connections is full, and nginx answers 502");
        return Finding::warning("socket", message, "more --workers; see the log of the instance that listens");
    }
    let mut body = Vec::new();
    match client::request(address, &request, false, &mut body) {
        Ok(answer) if answer.status == 200 => {
            Finding::ok("socket", format!("{address}: an instance is running there and answers {HEALTH}"))
        }
        Ok(answer) => {
            let message = format!("{address}: something listens there that answers {HEALTH} with {}", answer.status);
            Finding::warning("socket", message, "stop it, or choose another --uwsgi")
        }
        Err(error) => {
            let cause = error.source().map_or_else(String::new, |cause| format!(" ({cause})"));
            let message =
                format!("{address}: something listens there that is not Axon, or does not answer: {error}{cause}");
            Finding::error("socket", message, "stop it, or choose another --uwsgi")
        }
    }
}

/// We may not connect. Where Axon is to make the socket itself, it could not either.
fn no_access(address: &Address, makes_it: bool) -> Finding {
    let whose = match address {
        Address::Unix(path) => fs::symlink_metadata(path).ok(),
        Address::Tcp(_) => None,
    };
    let whose = whose.map_or_else(String::new, |found| {
        format!(" (mode {:04o}, group {})", found.mode() & 0o777, group_name(found.gid()))
    });
    if makes_it {
        let message = format!(
            "{address}: this user may not connect{whose}, so it cannot be told who listens, and an Axon of this user would \
             not start"
        );
        Finding::warning("socket", message, "check as the user of Axon: runuser -u _axon -- axon check ...")
    } else {
        Finding::ok("socket", format!("{address} is there; this user may not connect{whose}, and need not"))
    }
}

/// Whether somebody listens; a unix socket says so at once, another machine may take a while.
fn connect(address: &Address) -> Result<(), Errno> {
    match address {
        Address::Unix(path) => {
            let name = SocketAddrUnix::new(path)?;
            rustix::net::connect(&socket(AddressFamily::UNIX, SocketFlags::NONBLOCK)?, &name)
        }
        Address::Tcp(ip) => match TcpStream::connect_timeout(ip, HEALTH_TIMEOUT) {
            Ok(_) => Ok(()),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::TIMEDOUT)),
        },
    }
}

/// Whether a port could be bound. It is not listened on.
fn bind(address: &Address) -> Result<(), Errno> {
    let Address::Tcp(ip) = address else { return Ok(()) };
    let socket = socket(family(ip), SocketFlags::empty())?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, ip)
}

fn family(ip: &SocketAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn socket(family: AddressFamily, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | flags, None)
}
