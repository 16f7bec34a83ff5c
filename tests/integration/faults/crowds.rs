//! Very many clients that are slow, silent or gone.

use std::{
    env,
    fs::File,
    io::Write as _,
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::harness::{Daemon, Packet, STREAM, Site, connect, noise, stream_target, wait_until};

use super::ask;

/// How many readers stall at once, unless AXON_TEST_READERS says another number.
const READERS: u64 = 2000;

/// Memory for ten thousand of them, in KiB; and what a daemon has before the first one, built for tests.
const MAX_KIB_FOR_TEN_THOUSAND: u64 = 64 * 1024;
const MAX_IDLE_KIB: u64 = 16 * 1024;

/// Raises the limit of open descriptors of this process and of those it starts as far as needed and allowed.
fn descriptors_up_to(needed: u64) -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: Some(needed), maximum: Some(needed.max(maximum.unwrap_or(needed))) };
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        return needed;
    }
    let possible = needed.min(maximum.unwrap_or(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum }).expect("what is allowed");
    possible
}

#[test]
fn thousands_of_stalled_bundles_cost_little_memory_and_no_time() {
    let wanted = env::var("AXON_TEST_READERS").map_or(READERS, |number| number.parse().expect("a number"));
    // A connection and two files each, or one where there are not descriptors enough.
    let possible = descriptors_up_to(3 * wanted + 200).saturating_sub(200);
    let each = if possible < 3 * wanted { 2 } else { 3 };
    let readers = wanted.min(possible / each);
    if readers < wanted {
        println!("{readers} instead of {wanted} readers: there are no descriptors for more");
    }
    let site = Site::empty();
    let names = &["one.bin", "two.bin"][..if each == 3 { 2 } else { 1 }];
    for name in names {
        let file = File::create(site.path(name)).expect("a file");
        file.set_len((1 << 30) / names.len() as u64).expect("a sparse file");
    }
    site.write("solid.bin", noise(3_000_000));
    let connections = (readers + 100).to_string();
    let mut daemon = Daemon::start(&site, &["--max-connections", &connections]);
    let idle = daemon.idle_descriptors();
    let (target, solid) = (format!("{}&format=mixed", stream_target(names)), stream_target(&["solid.bin"]));
    assert_eq!(daemon.get(&solid).status, 200);
    let before = daemon.proportional_kib();
    let started = Instant::now();
    let stalled: Vec<UnixStream> = (0..readers).map(|_| ask(&daemon, &target)).collect();
    wait_until("all are accepted", || daemon.descriptors() as u64 >= idle as u64 + each * readers);
    let accepted_in = started.elapsed();
    daemon.assert_cpu_idle();

    let with_all = daemon.proportional_kib();
    let limit = MAX_IDLE_KIB + MAX_KIB_FOR_TEN_THOUSAND * readers / 10_000;
    assert!(with_all <= limit, "{with_all} KiB with {readers} readers, {before} KiB before");
    let mut health: Vec<Duration> = (0..21).map(|_| daemon.get("/api/health").duration).collect();
    health.sort();
    assert!(health[10] < Duration::from_millis(50), "{health:?}");
    assert!(daemon.get(&solid).body == site.read("solid.bin"));
    let (used, since) = (daemon.cpu_time(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let (used, elapsed) = (daemon.cpu_time().saturating_sub(used), since.elapsed());
    // A thread that spins would use all of it.
    assert!(used < elapsed / 10, "{used:?} of CPU time in {elapsed:?}");
    drop(stalled);
    daemon.assert_alive(idle);
    daemon.assert_cpu_idle();
    println!(
        "{readers} readers of {} files accepted in {accepted_in:?}: {before} KiB, then {with_all} KiB, afterwards {} KiB; health \
         median {:?}, longest {:?}; {used:?} of CPU time in {elapsed:?}",
        names.len(),
        daemon.proportional_kib(),
        health[10],
        health[20],
    );
}

#[test]
fn clients_that_send_little_or_nothing_are_let_go() {
    const EACH: usize = 50;
    let site = Site::empty();
    site.write("a.txt", "0123456789");
    site.write("large.bin", noise(3_000_000));
    let arguments = ["--head-timeout", "500ms", "--stall-timeout", "500ms"];
    let mut daemon = Daemon::start(&site, &arguments);
    let idle = daemon.idle_descriptors();
    let packet = Packet::get(stream_target(&["large.bin"])).to_bytes();
    let list = Packet::new("POST", STREAM).with("CONTENT_TYPE", "application/json").body(vec![b' '; 10_000]).to_bytes();
    let begin = |bytes: &[u8]| {
        let mut stream = connect(daemon.socket());
        stream.write_all(bytes).expect("room for it");
        stream
    };
    let mut open = Vec::new();
    for _ in 0..EACH {
        // Silent; half a packet; half a body; a whole request and never a read; and one that is gone again.
        for bytes in [&packet[..0], &packet[..packet.len() / 2], &list[..list.len() / 2], &packet[..]] {
            open.push(begin(bytes));
        }
        drop(begin(&packet));
    }
    thread::scope(|scope| {
        for _ in 0..EACH {
            let mut stream = connect(daemon.socket());
            let packet = &packet;
            // A byte at a time, for as long as it is taken: the time runs from the first one.
            scope.spawn(move || {
                let sent = packet.iter().take_while(|byte| {
                    thread::sleep(Duration::from_millis(50));
                    stream.write_all(&[**byte]).is_ok()
                });
                assert!(sent.count() < packet.len(), "it never ended");
            });
        }
        for _ in 0..10 {
            let answer = daemon.get(stream_target(&["a.txt"]));
            assert!(answer.duration < Duration::from_secs(1), "others waited {:?}", answer.duration);
            assert_eq!(answer.text(), "0123456789");
        }
    });
    // The clients still hold their ends; the daemon has let go of all of them by itself.
    daemon.assert_alive(idle);
    daemon.assert_cpu_idle();
    let records = daemon.records();
    let count = |holds: &dyn Fn(&serde_json::Value) -> bool| records.iter().filter(|record| holds(record)).count();
    assert_eq!(count(&|record| record["status"] == 408), 4 * EACH, "silent, half, half a body, byte by byte");
    assert_eq!(count(&|record| record["cut"] == "stalled"), EACH);
    assert_eq!(count(&|record| record["cut"] == "client"), EACH);
    assert_eq!(count(&|record| record["level"] == "ERROR"), 0);
    drop(open);
}
