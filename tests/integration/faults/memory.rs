//! Memory has a bound: the load that the limits allow fits it.

use std::{fs::File, io::Write as _, thread, time::Duration};

use crate::harness::{Daemon, DaemonOptions, Packet, STREAM, Site, connect, noise, stream_target, wait_until};

use super::ask;

/// The most address space, in KiB: a tenth of what any one of the stalled bundles would need if it were held.
const ADDRESS_SPACE_KIB: u64 = 700_000;

/// The most memory in use.
const MAX_RESIDENT_KIB: u64 = 128 * 1024;

#[test]
fn a_crowd_of_every_kind_fits_a_limit_of_memory() {
    const STALLED: usize = 500;
    const LARGE_SETS: usize = 50;
    const BODIES: usize = 20;
    let site = Site::empty();
    File::create(site.path("sparse.bin")).and_then(|file| file.set_len(7 << 30)).expect("a sparse file");
    site.write("solid.bin", noise(3_000_000));
    site.write("small.txt", vec![b'x'; 4096]);
    let shell = format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$@\"");
    let arguments = &["--head-timeout", "60s", "--workers", "2"];
    let mut daemon =
        Daemon::start_with(&site, DaemonOptions { arguments, shell: Some(&shell), ..DaemonOptions::default() });
    let idle = daemon.idle_descriptors();

    let bundle = stream_target(&["sparse.bin", "solid.bin", "sparse.bin"]);
    let mut held: Vec<_> = (0..STALLED).map(|_| ask(&daemon, &bundle)).collect();
    let set = Packet::get(format!("{STREAM}?{}", vec!["file=small.txt"; 1000].join("&")));
    for _ in 0..LARGE_SETS {
        let mut stream = connect(daemon.socket());
        stream.write_all(&set.to_bytes()).expect("room for a packet");
        held.push(stream);
    }
    // Bodies that lack their last byte: all of it is held until it comes.
    let body =
        Packet::new("POST", STREAM).with("CONTENT_TYPE", "application/json").body(vec![b' '; 1 << 20]).to_bytes();
    thread::scope(|scope| {
        let begun: Vec<_> = (0..BODIES)
            .map(|_| {
                let (mut stream, body) = (connect(daemon.socket()), &body);
                scope.spawn(move || {
                    stream.write_all(&body[..body.len() - 1]).expect("room for a body");
                    stream
                })
            })
            .collect();
        held.extend(begun.into_iter().map(|begun| begun.join().expect("no panic")));
    });
    wait_until("all are accepted", || daemon.descriptors() >= idle + STALLED + LARGE_SETS + BODIES);
    daemon.assert_cpu_idle();
    let (resident, address_space) = (daemon.resident_kib(), daemon.address_space_kib());
    println!("{resident} KiB resident, {address_space} KiB of address space");
    assert!(resident < MAX_RESIDENT_KIB, "{resident} KiB");

    // And with all that it still serves.
    for _ in 0..20 {
        let answer = daemon.get(stream_target(&["solid.bin", "small.txt"]));
        assert!(answer.parts()[0].body == site.read("solid.bin"));
        assert!(answer.duration < Duration::from_secs(2), "{:?}", answer.duration);
    }
    drop(held);
    daemon.assert_alive(idle);
    assert!(daemon.address_space_kib() <= ADDRESS_SPACE_KIB);
    let errors: Vec<_> = daemon.records().into_iter().filter(|record| record["level"] == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:?}");
}
