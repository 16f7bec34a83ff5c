//! How the kernel shares a processor between a worker and whatever else runs there.

use preempt_rt::sched::{Pid, Scheduler, SchedulerParams, get_scheduler, set_scheduler};
use tracing::debug;

/// Has the kernel run this thread when its processor is free, rather than at once in the place of what runs there.
///
/// Where they share a processor, that is the front end, each time it has handed over a request or taken a piece of an
/// answer: it was interrupted more than once in a request, before it had served its other connections, and both found
/// the caches filled by the other. Under `SCHED_BATCH` (sched(7)) a worker's share is the same, but it does the work of
/// many connections at a time. On a processor with nothing else to do it runs as soon as ever.
///
/// A policy that somebody has chosen for this process stays. Where the kernel refuses, as under a filter of system calls,
/// only the gain is lost.
pub(super) fn wait_for_the_processor() {
    let thread = Pid::current_thread();
    let set = match get_scheduler(thread) {
        Ok(Scheduler::SCHED_NORMAL) => set_scheduler(thread, Scheduler::SCHED_BATCH, SchedulerParams { priority: 0 }),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(cause) = set {
        debug!(%cause, "this worker keeps its scheduling policy");
    }
}
