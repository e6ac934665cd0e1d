//! Tasks of a service, in real and in virtual time.

use std::convert::Infallible;
use std::future::Future;

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

/// Ends this process at once with an exit code. None of its tasks runs after that.
pub async fn exit(code: u8) -> Infallible {
    match virtual_time::host() {
        Some(host) => host.end(code),
        None => std::process::exit(i32::from(code)),
    }
    std::future::pending().await
}
