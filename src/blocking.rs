//! Where calls wait for a disk, so that no worker does.
//!
//! They run on threads of the runtime's blocking pool. How many there are is bounded for the process, and for each
//! [`Disk`] apart: a file system beneath the root that hangs holds up neither the root's own nor what is in memory. A
//! request waits for one call at a time; one more may fetch what it will need next, while most threads are free.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::body::Disk;

/// The most threads that wait for one disk. Enough to keep any disk busy, and twice as many as slow downloads that
/// others must not notice; each holds one chunk.
pub const MAX_THREADS: usize = 128;

/// How long a call waits for one of them: so long only where they hang. Less than the minute after which nginx gives
/// up (`uwsgi_read_timeout`), so that the client hears of it, and connections do not pile up.
const PATIENCE: Duration = Duration::from_secs(30);

/// For the root's own file system and for all that are mounted beneath it.
static THREADS: [Semaphore; 2] = [const { Semaphore::const_new(MAX_THREADS) }; 2];

/// Why a call was not made. Worth another try.
#[derive(Debug, Error)]
pub enum NotRun {
    /// The threads for this disk are all waiting for it.
    #[error("{MAX_THREADS} reads of this file system hang, and none ended within {} s", PATIENCE.as_secs())]
    Hangs,
    /// The system gives no thread, or the process is ending.
    #[error("there is no thread to wait for the disk")]
    NoThread,
}

/// Makes a call that may wait for a disk, on a thread that may wait. Must run within a tokio runtime.
///
/// Cancel safety: dropping the future leaves a call that has begun to its thread; its result is lost.
pub async fn run<T: Send + 'static>(disk: Disk, call: impl FnOnce() -> T + Send + 'static) -> Result<T, NotRun> {
    let permit = if let Ok(permit) = threads(disk).try_acquire() {
        permit
    } else {
        let permit = timeout(PATIENCE, threads(disk).acquire()).await;
        permit.map_err(|_| NotRun::Hangs)?.map_err(|_| NotRun::NoThread)?
    };
    start(permit, call)?.await.map_err(|_| NotRun::NoThread)
}

/// Makes a call that nobody waits for, unless half of the disk's threads are busy; whether it does. Must run within a
/// tokio runtime.
pub fn run_if_idle(disk: Disk, call: impl FnOnce() + Send + 'static) -> bool {
    if threads(disk).available_permits() <= MAX_THREADS / 2 {
        return false;
    }
    threads(disk).try_acquire().is_ok_and(|permit| start(permit, call).is_ok())
}

fn threads(disk: Disk) -> &'static Semaphore {
    &THREADS[match disk {
        Disk::Root => 0,
        Disk::Mounted => 1,
    }]
}

/// The permit is given back when the call ends, also where nobody waits for it any more.
fn start<T: Send + 'static>(
    permit: SemaphorePermit<'static>,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NotRun> {
    let call = move || {
        let _permit = permit;
        call()
    };
    // It panics where the system refuses the pool its first thread (EAGAIN): that is no fault of the request.
    catch_unwind(AssertUnwindSafe(|| spawn_blocking(call))).map_err(|_| NotRun::NoThread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_given_up_and_the_other_goes_on() {
        let hung: Vec<_> = (0..MAX_THREADS)
            .map(|_| {
                let (release, hang) = std::sync::mpsc::channel::<()>();
                (release, tokio::spawn(run(Disk::Mounted, move || hang.recv().is_err())))
            })
            .collect();
        while THREADS[1].available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(run(Disk::Root, || 7).await, Ok(7)));
        assert!(!run_if_idle(Disk::Mounted, || {}));
        assert!(run_if_idle(Disk::Root, || {}));
        let next = tokio::spawn(run(Disk::Mounted, || 7));
        tokio::task::yield_now().await;
        tokio::time::advance(PATIENCE / 2).await;
        assert!(!next.is_finished());
        tokio::time::advance(PATIENCE).await;
        assert!(matches!(next.await, Ok(Err(NotRun::Hangs))));
        for (release, hung) in hung {
            drop(release);
            assert!(matches!(hung.await, Ok(Ok(true))));
        }
        assert!(matches!(run(Disk::Mounted, || 7).await, Ok(7)));
    }

    #[tokio::test]
    async fn a_call_that_panics_gives_its_thread_back() {
        for _ in 0..2 * MAX_THREADS {
            let ended = run(Disk::Mounted, || panic!("as a test")).await;
            assert!(matches!(ended, Err::<(), _>(NotRun::NoThread)));
        }
    }
}
