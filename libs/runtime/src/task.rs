//! Tasks of a service, in real and in virtual time.

use std::convert::Infallible;
use std::future::Future;

use rustix::process::setpriority_process;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::virtual_time;

/// Runs a task of this process concurrently.
pub fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match virtual_time::host() {
        Some(host) => host.spawn(task),
        None => tokio::spawn(task),
    }
}

/// Runs a computation, or a wait for a disk, on a thread of its own; in virtual time at once.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    if virtual_time::is_on() {
        return spawn(async { work() });
    }
    tokio::task::spawn_blocking(work)
}

/// The lowest priority of a thread.
const IDLE: i32 = 19;

/// Runs a computation at the lowest priority, on a thread of its own; in virtual time at once. Without
/// such a thread it is not run, and there is no answer.
pub fn idle<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (answer, receiver) = oneshot::channel();
    let work = move || {
        // Without a receiver the answer is of no use.
        let _ = answer.send(work());
    };
    if virtual_time::is_on() {
        drop(spawn(async { work() }));
        return receiver;
    }
    let thread = std::thread::Builder::new().name("idle".to_owned());
    let started = thread.spawn(move || {
        // On Linux this is the priority of the calling thread, and of the threads that it starts.
        match setpriority_process(None, IDLE) {
            Ok(()) => work(),
            Err(error) => tracing::warn!(%error, "no thread at the lowest priority"),
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "no further thread");
    }
    receiver
}

/// Ends this process at once with an exit code. None of its tasks runs after that.
pub async fn exit(code: u8) -> Infallible {
    match virtual_time::host() {
        Some(host) => host.end(code),
        None => std::process::exit(i32::from(code)),
    }
    std::future::pending().await
}
