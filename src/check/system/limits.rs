//! How much of everything there is: descriptors, room in queues and in sockets.

use std::fs;

use rustix::process::{Resource, getrlimit};

use crate::{
    check::Finding,
    server::{BACKLOG, DESCRIPTORS_PER_CONNECTION, MAX_DESCRIPTORS_PER_CONNECTION, SPARE_DESCRIPTORS, ServerOptions},
    transport::SEND_BUFFER_LEN,
};

/// Compares this process's limits and the kernel's settings with what is wanted.
pub(super) fn examine(options: &ServerOptions) -> Vec<Finding> {
    let limits = getrlimit(Resource::Nofile);
    vec![
        descriptors(options.max_connections as u64, limits.current, limits.maximum),
        queue(setting("/proc/sys/net/core/somaxconn")),
        buffer(setting("/proc/sys/net/core/wmem_max")),
    ]
}

fn setting(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// None is no limit.
fn descriptors(connections: u64, soft: Option<u64>, hard: Option<u64>) -> Finding {
    let for_each = |count: u64| connections.saturating_mul(count).saturating_add(SPARE_DESCRIPTORS);
    let (least, most) = (for_each(DESCRIPTORS_PER_CONNECTION), for_each(MAX_DESCRIPTORS_PER_CONNECTION));
    let show = |limit: Option<u64>| limit.map_or_else(|| "no limit".into(), |limit| limit.to_string());
    let limits = format!("soft limit {}, hard {}; Axon raises the soft one", show(soft), show(hard));
    let Some(hard) = hard.filter(|&hard| hard < most) else {
        let message =
            format!("enough for {connections} connections with a bundle each: {most} of this process ({limits})");
        return Finding::ok("descriptors", message);
    };
    let fits = |count: u64| hard.saturating_sub(SPARE_DESCRIPTORS) / count;
    let message = if hard < least {
        format!(
            "too few for {connections} connections (--max-connections) with one file each: from {} on, answers are 503 \
             ({limits})",
            fits(DESCRIPTORS_PER_CONNECTION)
        )
    } else {
        format!(
            "{connections} connections with bundles of many files would need {most}; enough for {} of those at once, then \
             answers are 503 ({limits})",
            fits(MAX_DESCRIPTORS_PER_CONNECTION)
        )
    };
    let fix = format!("LimitNOFILE={most} in axon.service, or a smaller --max-connections");
    Finding::warning("descriptors", message, fix)
}

fn queue(most: Option<u64>) -> Finding {
    let wanted = u64::from(BACKLOG.unsigned_abs());
    match most {
        Some(most) if most >= wanted => {
            Finding::ok("somaxconn", format!("{most}: room for {wanted} connections that wait to be accepted"))
        }
        most => {
            let message = most.map_or_else(
                || format!("cannot be read here; it should be {wanted} or more"),
                |most| {
                    format!(
                        "{most}: that many connections may wait and not {wanted}; nginx answers the next with 502, \
                         \"failed (11: Resource temporarily unavailable)\""
                    )
                },
            );
            let fix = format!("sysctl -w net.core.somaxconn={wanted}, and a line in /etc/sysctl.d/ to keep it");
            Finding::warning("somaxconn", message, fix)
        }
    }
}

fn buffer(most: Option<u64>) -> Finding {
    let wanted = SEND_BUFFER_LEN as u64;
    match most {
        Some(most) if most >= wanted => Finding::ok(
            "wmem-max",
            format!("{most}: room for several chunks in each socket; a client that stalls keeps as much"),
        ),
        most => {
            let message = most.map_or_else(
                || format!("cannot be read here; it should be {wanted} or more"),
                |most| {
                    format!(
                        "{most}: a socket holds less than the {wanted} that Axon asks for, and both wake up more often"
                    )
                },
            );
            let fix = format!("sysctl -w net.core.wmem_max={wanted}, and a line in /etc/sysctl.d/ to keep it");
            Finding::warning("wmem-max", message, fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Severity;

    #[test]
    fn descriptors_are_enough_for_bundles_or_single_files_or_neither() {
        let judge = |hard| {
            let finding = descriptors(100, Some(10), hard);
            (finding.severity, finding.message)
        };
        assert_eq!(judge(None).0, Severity::Ok);
        assert_eq!(judge(Some(100 * 17 + SPARE_DESCRIPTORS)).0, Severity::Ok);
        let (severity, message) = judge(Some(100 * 17 + SPARE_DESCRIPTORS - 1));
        assert_eq!((severity, message.contains("enough for 99 of those")), (Severity::Warning, true), "{message}");
        let (_, message) = judge(Some(100 * 2 + SPARE_DESCRIPTORS - 1));
        assert!(message.contains("too few for 100") && message.contains("from 99 on"), "{message}");
        assert_eq!(descriptors(u64::MAX, None, Some(u64::MAX - 1)).severity, Severity::Warning);
    }

    #[test]
    fn settings_of_the_kernel_are_compared_with_what_is_asked_for() {
        assert_eq!((queue(Some(4096)).severity, queue(Some(4095)).severity), (Severity::Ok, Severity::Warning));
        assert_eq!((buffer(Some(212_992)).severity, buffer(Some(212_991)).severity), (Severity::Ok, Severity::Warning));
        assert!(queue(None).message.contains("cannot be read") && buffer(None).message.contains("cannot be read"));
    }
}
