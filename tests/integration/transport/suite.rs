//! What every connection promises, whatever the socket does.

use std::{
    fs::File,
    future::ready,
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    process::Command,
};

use axon::{
    message::Service,
    transport::{Cut, Outcome, StreamSocket, send},
};
use bytes::Bytes;
use http::Method;

use super::{
    trickle::{Manners, Trickle},
    *,
};
use crate::harness::{noise, program};

/// Every way in which file content can leave.
fn send_paths() -> Vec<(&'static str, TransportOptions, Manners)> {
    let options = TransportOptions::default();
    let copying = TransportOptions { sendfile: false, ..options };
    let manners = Manners::default();
    vec![
        ("sendfile", options, manners),
        ("copy", copying, manners),
        ("sendfile refused", options, Manners { takes_files: false, ..manners }),
        ("small chunks", TransportOptions { chunk_size: 4096, ..options }, manners),
    ]
}

/// Bytes, small files and large ones in turn, and what they amount to.
fn mixed_body() -> (Body, Vec<u8>) {
    let mut body = Body::empty();
    let mut content = Vec::new();
    for len in [0, 1, 300, 16_384, 16_385, 65_535, 65_536, 65_537, 200_000] {
        let bytes = noise(len);
        body.push_bytes(Bytes::from(bytes.clone()));
        body.push_file(OpenFile::holding(&bytes), len as u64);
        content.extend_from_slice(&bytes);
        content.extend_from_slice(&bytes);
    }
    (body, content)
}

#[tokio::test]
async fn the_answer_is_the_same_however_the_request_is_split() {
    for gives in [1, 2, 3, 5, 64, usize::MAX] {
        for hesitates in [false, true] {
            let socket = Trickle::new(get(), Manners { gives, hesitates, ..Manners::default() });
            let service = |request: Request| ready(ok(Body::from(request.path)));
            let exchange = serve_one(&socket, service, &TransportOptions::default()).await;
            assert_eq!(socket.output(), expected(b"/"));
            assert!(matches!(exchange.outcome, Outcome::Complete));
        }
    }
}

#[tokio::test]
async fn a_body_arrives_whole_however_it_is_taken() {
    let (body, content) = mixed_body();
    for (path, options, manners) in send_paths() {
        for takes in [7001, 65_536, usize::MAX] {
            for hesitates in [false, true] {
                let socket = Trickle::new(get(), Manners { takes, hesitates, ..manners });
                let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
                assert!(socket.output() == expected(&content), "{path}, {takes} at once");
                assert_eq!(exchange.bytes_sent, content.len() as u64);
                assert!(matches!(exchange.outcome, Outcome::Complete));
            }
        }
    }
}

#[tokio::test]
async fn a_reader_may_take_one_byte_at_a_time() {
    for (path, options, manners) in send_paths() {
        let content = noise(20_000);
        let mut body = Body::from(Bytes::from_static(b"head"));
        body.push_file(OpenFile::holding(&content), 20_000);
        let socket = Trickle::new(get(), Manners { takes: 1, hesitates: true, ..manners });
        serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
        assert!(socket.output() == expected(&[&b"head"[..], &content].concat()), "{path}");
    }
}

#[tokio::test]
async fn any_slice_of_a_body_can_be_sent() {
    let (body, content) = mixed_body();
    for (path, options, manners) in send_paths() {
        for (start, end) in [(0, 1), (1, 700), (16_000, 90_000), (content.len() - 5, content.len()), (33_000, 33_000)] {
            let socket = Trickle::new(Vec::new(), manners);
            let mut slice = body.slice(start as u64..end as u64);
            send(&socket, &mut slice, &options, &Activity::default(), |_| {}).await.expect("sent");
            assert!(socket.output() == content[start..end], "{path}, {start} to {end}");
        }
    }
}

#[tokio::test]
async fn cold_files_arrive_whole() {
    let content = noise(300_000);
    for (path, options, manners) in send_paths() {
        for (len, start, end) in
            [(5000, 0, 5000), (300_000, 0, 300_000), (300_000, 0, 128_000), (300_000, 128_000, 300_000)]
        {
            let file = OpenFile::holding(&content[..len]);
            // Out of the page cache, whole or in part: the next read there has to wait for the disk.
            let cold = std::num::NonZeroU64::new(end - start);
            rustix::fs::fadvise(&file.descriptor, start, cold, rustix::fs::Advice::DontNeed).expect("advice");
            let mut body = Body::empty();
            body.push_file(file, len as u64);
            let socket = Trickle::new(get(), Manners { takes: 50_000, hesitates: true, ..manners });
            let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
            assert!(socket.output() == expected(&content[..len]), "{path}, {len} bytes");
            let activity = exchange.activity();
            assert_eq!(activity.bytes_sent(), len as u64, "{path}: {activity:?}");
        }
    }
}

#[tokio::test]
async fn files_behind_one_that_had_to_be_read_are_fetched_meanwhile() {
    let content = noise(100_000);
    let files: Vec<_> = (0..4).map(|_| OpenFile::holding(&content)).collect();
    // Not by RWF_NOWAIT: a read that does not wait starts one that nobody waits for.
    let cached_len = |file: &OpenFile| {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.descriptor.as_raw_fd());
        let mut fincore = Command::new(program("fincore", "util-linux-extra"));
        let output =
            fincore.args(["--bytes", "--noheadings", "--output", "RES", &path]).output().expect("fincore runs");
        let cached = String::from_utf8_lossy(&output.stdout);
        cached.trim().parse::<u64>().unwrap_or_else(|_| panic!("{output:?}"))
    };
    let mut body = Body::empty();
    for file in &files {
        rustix::fs::fadvise(&file.descriptor, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
        assert_eq!(cached_len(file), 0, "TMPDIR must be on a disk, not in memory: nothing there is ever read from one");
        body.push_file(file.clone(), 100_000);
    }
    // The reader takes a little of the first file and no more.
    let socket = Trickle::new(Vec::new(), Manners { full_after: 1000, ..Manners::default() });
    let options = TransportOptions { stall_timeout: Duration::from_secs(60), ..TransportOptions::default() };
    let fetched = async {
        while !files.iter().all(|file| cached_len(file) >= 100_000) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let unwatched = Activity::default();
    tokio::select! {
        sent = send(&socket, &mut body, &options, &unwatched, |_| {}) => panic!("{sent:?}"),
        fetched = tokio::time::timeout(Duration::from_secs(20), fetched) => fetched.expect("all are fetched"),
    }
}

/// Content that is opened by whoever may wait for the disk, and by nobody else.
#[derive(Debug)]
struct OnDisk(Arc<OpenFile>);

impl Content for OnDisk {
    fn open(&self, wait: Wait) -> Result<Arc<OwnedFd>, ContentError> {
        if wait == Wait::Never { Err(ContentError::WouldWait) } else { self.0.open(wait) }
    }

    fn check(&self, descriptor: &OwnedFd) -> Result<(), ContentError> {
        self.0.check(descriptor)
    }

    fn parameter(&self) -> &[u8] {
        self.0.parameter()
    }

    fn measured_len(&self) -> u64 {
        self.0.measured_len()
    }
}

#[tokio::test]
async fn what_has_to_be_read_from_the_disk_is_counted() {
    let content = noise(5000);
    for (path, options, manners) in send_paths() {
        let mut body = Body::empty();
        for _ in 0..3 {
            body.push_file(Arc::new(OnDisk(OpenFile::holding(&content))), 5000);
            body.push_file(OpenFile::holding(&content), 5000);
        }
        let socket = Trickle::new(get(), manners);
        let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
        assert_eq!(exchange.bytes_sent, 30_000, "{path}");
        // Of a file that was opened once, the next chunk is in memory.
        assert_eq!(exchange.activity().cold_reads(), 3, "{path}");
    }
}

#[tokio::test]
async fn a_real_socket_carries_the_same_bytes() {
    let (body, content) = mixed_body();
    for (path, options, _) in send_paths() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a mode");
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            std::io::Read::read_to_end(&mut theirs, &mut received).map(|_| received)
        });
        let socket = StreamSocket::new(ours.into());
        let mut copy = body.clone();
        send(&socket, &mut copy, &options, &Activity::default(), |_| {}).await.expect("sent");
        drop(socket);
        let received = reader.join().expect("no panic").expect("received");
        assert!(received == content, "{path}");
    }
}

#[tokio::test]
async fn a_file_that_shrank_ends_the_answer_at_once() {
    for (path, options, manners) in send_paths() {
        for (len, left) in [(5000, 0), (5000, 4999), (400_000, 100_000), (400_000, 0)] {
            let file = OpenFile::holding(&noise(len));
            let mut body = Body::empty();
            body.push_file(file.clone(), len as u64);
            body.push_bytes(Bytes::from_static(b"THE NEXT PART"));
            File::from(file.descriptor.try_clone().expect("a descriptor")).set_len(left).expect("shorter");
            let socket = Trickle::new(get(), manners);
            let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
            let output = socket.output();
            assert!(!output.windows(13).any(|w| w == b"THE NEXT PART"), "{path}, {len} to {left}");
            assert!(exchange.bytes_sent <= left, "{path}, {len} to {left}");
            let Outcome::Cut(Cut::Content { parameter, error }) = exchange.outcome else { panic!("{path}: not cut") };
            assert_eq!(parameter, "file1");
            let sizes = format!("it had {len} bytes, now {left}");
            assert!(error.to_string().contains(&sizes), "{error}");
        }
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_the_sending() {
    let (body, _) = mixed_body();
    for (path, options, manners) in send_paths() {
        let socket = Trickle::new(get(), Manners { takes: 10_000, gone_after: 100_000, ..manners });
        let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
        assert!(matches!(exchange.outcome, Outcome::Cut(Cut::Client(_))), "{path}: {:?}", exchange.outcome);
        assert!(exchange.bytes_sent < 110_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stalls_is_given_up_after_the_stall_timeout() {
    let (body, _) = mixed_body();
    for (path, options, manners) in send_paths() {
        let started = tokio::time::Instant::now();
        let socket = Trickle::new(get(), Manners { full_after: 100_000, ..manners });
        let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &options).await;
        assert!(matches!(exchange.outcome, Outcome::Cut(Cut::Stalled)), "{path}: {:?}", exchange.outcome);
        let waited = started.elapsed();
        assert!(waited >= options.stall_timeout && waited < options.stall_timeout + 10 * SECOND, "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_counts_as_stalled_after_a_second() {
    let (body, _) = mixed_body();
    let options = TransportOptions { stall_timeout: 3 * SECOND, ..TransportOptions::default() };
    let activity = Arc::new(Activity::default());
    let socket = Trickle::new(get(), Manners { full_after: 100_000, ..Manners::default() });
    let service = |_| ready(ok(body.clone()));
    let mut exchange = Exchange::counted(Arc::clone(&activity));
    tokio::join!(serve(&socket, &service, &options, &mut exchange), async {
        let begin = tokio::time::Instant::now();
        for (at, stalled) in [(500, 0), (990, 0), (1010, 1), (2990, 1)] {
            tokio::time::sleep_until(begin + Duration::from_millis(at)).await;
            assert_eq!((activity.open(), activity.stalled()), (1, stalled), "after {at} ms");
        }
    });
    assert_eq!((activity.open(), activity.stalled()), (1, 0));
    assert!(exchange.first_byte.is_some());
    assert_eq!(activity.bytes_sent(), exchange.bytes_sent);
    drop(exchange);
    assert_eq!(activity.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_cut_while_it_is_stalled_is_no_longer_counted() {
    let (body, _) = mixed_body();
    let activity = Arc::new(Activity::default());
    let socket = Trickle::new(get(), Manners { full_after: 100_000, ..Manners::default() });
    let service = |_| ready(ok(body.clone()));
    let mut exchange = Exchange::counted(Arc::clone(&activity));
    let options = TransportOptions::default();
    let stalled = async {
        tokio::time::sleep(2 * SECOND).await;
        activity.stalled()
    };
    tokio::select! {
        () = serve(&socket, &service, &options, &mut exchange) => panic!("it waits"),
        stalled = stalled => assert_eq!(stalled, 1),
    }
    drop(exchange);
    assert_eq!((activity.open(), activity.stalled()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_arrive_is_answered_with_408() {
    let mut packet = get();
    for len in [1, 3, packet.len() - 1] {
        packet.truncate(len.max(1));
        let started = tokio::time::Instant::now();
        let socket = Trickle::new(packet[..len].to_vec(), Manners::default());
        let exchange = serve_one(&socket, |_| ready(ok(Body::empty())), &TransportOptions::default()).await;
        assert!(socket.output().starts_with(b"HTTP/1.1 408 Request Timeout\r\n"));
        assert!(matches!(exchange.outcome, Outcome::Refused(_)));
        // The head timeout, then the time in which the peer may still read the answer.
        assert!(started.elapsed() >= 10 * SECOND && started.elapsed() < 16 * SECOND, "{:?}", started.elapsed());
        packet = get();
    }
}

#[tokio::test]
async fn what_follows_a_request_is_read_and_never_answered() {
    let second = Packet::get("/second").to_bytes();
    for gives in [1, 100, usize::MAX] {
        for body in [second.clone(), vec![0; 900_000]] {
            let with_length = Packet::new("POST", "/first").body(&body).to_bytes();
            let without_length = [Packet::get("/first").to_bytes(), body].concat();
            for input in [with_length, without_length] {
                let len = input.len();
                let socket = Trickle::new(input, Manners { gives, input_ends: true, ..Manners::default() });
                serve_one(
                    &socket,
                    |request: Request| ready(ok(Body::from(request.path))),
                    &TransportOptions::default(),
                )
                .await;
                assert_eq!(socket.output(), expected(b"/first"));
                assert_eq!(socket.given(), len, "all of it was read");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_announced_body_that_never_comes_is_waited_for_only_so_long() {
    let input = Packet::new("POST", "/").with("CONTENT_LENGTH", "1000").to_bytes();
    let socket = Trickle::new(input, Manners::default());
    let started = tokio::time::Instant::now();
    serve_one(&socket, |_| ready(ok(Body::empty())), &TransportOptions::default()).await;
    assert_eq!(socket.output(), expected(b""));
    assert!(socket.is_shut(), "the peer is told that the answer is complete");
    assert!(started.elapsed() < 10 * SECOND, "{:?}", started.elapsed());
}

/// Wants bodies of up to 100,000 bytes and sends them back.
struct Echo;

impl Service for Echo {
    async fn call(&self, request: Request) -> Response {
        ok(Body::from(request.body))
    }

    fn body_limit(&self, _request: &Request) -> u64 {
        100_000
    }
}

#[tokio::test]
async fn a_body_is_read_where_the_service_wants_it() {
    for gives in [1000, usize::MAX] {
        for (len, echoed) in [(0, 0), (1, 1), (100_000, 100_000), (100_001, 0)] {
            let content = noise(len);
            let input = Packet::new("POST", "/").body(&content).to_bytes();
            let socket = Trickle::new(input, Manners { gives, input_ends: true, ..Manners::default() });
            let mut exchange = Exchange::start();
            serve(&socket, &Echo, &TransportOptions::default(), &mut exchange).await;
            assert!(socket.output() == expected(&content[..echoed]), "{len}");
        }
    }
    let input = Packet::new("POST", "/").with("CONTENT_LENGTH", "10").to_bytes();
    let socket = Trickle::new(input, Manners { input_ends: true, ..Manners::default() });
    serve(&socket, &Echo, &TransportOptions::default(), &mut Exchange::start()).await;
    assert!(socket.output().starts_with(b"HTTP/1.1 400 "), "a body that ends early");
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let input = Packet::new(Method::HEAD.as_str(), "/").to_bytes();
    let socket = Trickle::new(input, Manners::default());
    let (body, content) = mixed_body();
    let exchange = serve_one(&socket, |_| ready(ok(body.clone())), &TransportOptions::default()).await;
    assert_eq!(socket.output(), format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()).into_bytes());
    assert_eq!(exchange.bytes_sent, 0);
}

#[tokio::test]
async fn a_fast_reader_does_not_starve_the_others() {
    let content = noise(10_000_000);
    let file = OpenFile::holding(&content);
    for (path, options, manners) in send_paths() {
        let mut body = Body::empty();
        body.push_file(file.clone(), file.len);
        let greedy = Trickle::new(get(), manners);
        let modest = Trickle::new(get(), manners);
        let sent_before = std::sync::atomic::AtomicUsize::new(usize::MAX);
        tokio::join!(serve_one(&greedy, |_| ready(ok(body.clone())), &options), async {
            serve_one(&modest, |_| ready(ok(Body::empty())), &options).await;
            sent_before.store(greedy.output().len(), std::sync::atomic::Ordering::Relaxed);
        });
        let sent_before = sent_before.into_inner();
        assert!(sent_before < 2_000_000, "{path}: {sent_before} bytes went out before the other had a turn");
        assert_eq!(greedy.waits(), 0, "it was always ready");
        assert!(greedy.output() == expected(&content));
    }
}
