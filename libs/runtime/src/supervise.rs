//! Supervised tasks. Each task has a policy for its failure.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::task;

/// Any error that ends a service or a task.
pub type ServiceError = Box<dyn std::error::Error + Send + Sync>;

/// The policy for a task that ends with an error or panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Stop the service; it exits with code 70.
    Shutdown,
    /// Start the task again, after 100 ms, doubled with each failure up to 5 s.
    Restart,
    /// Only log it.
    Log,
}

/// The tasks of a service. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    all: Arc<Mutex<Vec<JoinHandle<()>>>>,
    stop: CancellationToken,
    failure: Arc<Mutex<Option<String>>>,
}

impl Tasks {
    /// No tasks yet. `stop` is the token of the service.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            ..Self::default()
        }
    }

    /// Starts a task. `make` is called with the token that tells it to stop, and again for each
    /// restart.
    pub fn spawn<F, Fut>(&self, name: &'static str, on_error: OnError, mut make: F)
    where
        F: FnMut(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), ServiceError>> + Send + 'static,
    {
        let stop = self.stop.clone();
        let failure = Arc::clone(&self.failure);
        let supervised = async move {
            let mut wait = Duration::from_millis(100);
            loop {
                // A separate task, so that a panic is caught.
                let reason = match task::spawn(make(stop.clone())).await {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(join) if join.is_cancelled() => return,
                    Err(join) => format!("panicked: {join}"),
                };
                if stop.is_cancelled() {
                    tracing::debug!(task = name, reason, "task failed while stopping");
                    return;
                }
                match on_error {
                    OnError::Log => {
                        tracing::warn!(task = name, reason, "task failed");
                        return;
                    }
                    OnError::Shutdown => {
                        tracing::error!(task = name, reason, "task failed, stopping");
                        let mut slot = failure.lock().unwrap_or_else(|e| e.into_inner());
                        slot.get_or_insert_with(|| format!("task {name}: {reason}"));
                        stop.cancel();
                        return;
                    }
                    OnError::Restart => {
                        tracing::warn!(task = name, reason, ?wait, "task failed, restarting");
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => return,
                            () = tokio::time::sleep(wait) => {}
                        }
                        wait = (wait * 2).min(Duration::from_secs(5));
                    }
                }
            }
        };
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|task| !task.is_finished());
        all.push(task::spawn(supervised));
    }

    /// Waits until all tasks have ended. Tasks that have not ended within `grace` are aborted.
    pub async fn finish(&self, grace: Duration) {
        let mut all = {
            let mut shared = self.all.lock().unwrap_or_else(|e| e.into_inner());
            std::mem::take(&mut *shared)
        };
        let ended = futures::future::join_all(&mut all);
        if tokio::time::timeout(grace, ended).await.is_err() {
            tracing::warn!(?grace, "tasks did not end in time");
            for task in all {
                task.abort();
            }
        }
    }

    /// The failure that stopped the service, if one did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_restarted_task_runs_again_after_error_and_panic() {
        let tasks = Tasks::new(CancellationToken::new());
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        tasks.spawn("flaky", OnError::Restart, move |_| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match run {
                    0 => Err("first".into()),
                    1 => panic!("second"),
                    _ => Ok(()),
                }
            }
        });
        tasks.finish(Duration::from_secs(5)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        assert_eq!(tasks.failure(), None);
    }

    #[tokio::test]
    async fn a_vital_task_stops_the_service() {
        let stop = CancellationToken::new();
        let tasks = Tasks::new(stop.clone());
        tasks.spawn("vital", OnError::Shutdown, |_| async { Err("gone".into()) });
        stop.cancelled().await;
        tasks.finish(Duration::from_secs(1)).await;
        assert_eq!(tasks.failure().as_deref(), Some("task vital: gone"));
    }
}
