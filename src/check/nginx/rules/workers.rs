//! Whether nginx's workers may connect to Axon's socket.

use std::os::unix::fs::MetadataExt as _;

use crate::{
    check::{
        Finding,
        nginx::{Examined, Facts, sockets, tree::Directive},
        system,
    },
    transport::Address,
};

/// Needs write permission (unix(7)), by the same three triads as for any file.
const MAY_WRITE: u32 = 0o2;

/// Compares the user of the workers with the mode, owner and group of the socket.
///
/// Nothing is said where the configuration names no user: then it depends on who starts nginx.
pub(in crate::check::nginx) fn workers(
    facts: &Facts<'_>,
    items: &[Directive],
    places: &[&Examined<'_>],
) -> Vec<Finding> {
    let Some(user) = items.iter().find(|item| item.name == "user") else { return Vec::new() };
    let name = user.argument(0);
    let Some(account) = uzers::get_user_by_name(name) else {
        let message = format!("there is no user {name} here, whom nginx's workers should run as");
        let fix = "user www-data; or one of getent passwd";
        return vec![Finding::warning("nginx-user", message, fix).at(&user.place)];
    };
    let group = match user.argument(1) {
        "" => name,
        group => group,
    };
    // As initgroups(3) does it: the one that is named, and all that the user is in.
    let mut groups: Vec<u32> = uzers::get_user_groups(name, account.primary_group_id())
        .unwrap_or_default()
        .iter()
        .map(uzers::Group::gid)
        .collect();
    groups.extend(uzers::get_group_by_name(group).map(|group| group.gid()));
    let judge = |address: &Address| {
        let Address::Unix(path) = address else { return None };
        let socket = Socket::of(path, facts)?;
        if account.uid() == 0 || socket.lets_in(account.uid(), &groups) {
            return Some(Finding::ok("nginx-user", format!("{name} may connect to {address}")).at(&user.place));
        }
        let group = system::group_name(socket.gid);
        let message = format!(
            "nginx's workers run as {name}, who may not connect to {address} (mode {:04o}, group {group}): every answer is \
             502, \"failed (13: Permission denied)\"",
            socket.mode
        );
        let fix = format!(
            "axon serve --socket-group {0}; or in the socket unit: SocketGroup={0}",
            system::group_name(account.primary_group_id())
        );
        // One that is not there yet may be made by another user than the one who checks.
        let finding = if socket.exists { Finding::error } else { Finding::warning };
        Some(finding("nginx-user", message, fix).at(&user.place))
    };
    sockets(places).iter().filter_map(judge).collect()
}

struct Socket {
    uid: u32,
    gid: u32,
    mode: u32,
    exists: bool,
}

impl Socket {
    /// The socket that is there, or else the one that `axon serve` would make; None where that is not known.
    fn of(path: &std::path::Path, facts: &Facts<'_>) -> Option<Self> {
        if let Ok(found) = path.symlink_metadata() {
            return Some(Self { uid: found.uid(), gid: found.gid(), mode: found.mode() & 0o777, exists: true });
        }
        let config = &facts.subject.config;
        if !config.addresses.contains(&Address::Unix(path.to_owned())) {
            return None;
        }
        let group = config.socket.group.as_deref().map(system::group_id);
        let own = rustix::process::getegid().as_raw();
        let gid = group.map_or(Some(own), |found| found)?;
        Some(Self { uid: rustix::process::geteuid().as_raw(), gid, mode: config.socket.mode, exists: false })
    }

    fn lets_in(&self, uid: u32, groups: &[u32]) -> bool {
        let triad = if uid == self.uid {
            6
        } else if groups.contains(&self.gid) {
            3
        } else {
            0
        };
        self.mode >> triad & MAY_WRITE != 0
    }
}
