//! Signals that end a command.

use std::io;
use std::sync::{Arc, Weak};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::{CliError, Exit, Result};

/// Handlers of SIGINT, SIGTERM and SIGHUP in the present runtime.
struct Signals(Vec<Signal>);

impl Signals {
    fn new() -> Self {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        Self(
            kinds
                .into_iter()
                .filter_map(|kind| signal(kind).ok())
                .collect(),
        )
    }

    async fn next(&mut self) {
        let waits = self.0.iter_mut().map(|s| Box::pin(s.recv()));
        let _ = futures::future::select_all(waits).await;
    }
}

fn end() -> ! {
    let _ = console::Term::stdout().show_cursor();
    std::process::exit(Exit::Interrupted.number().into())
}

/// A token that the first SIGINT, SIGTERM or SIGHUP cancels. The second one ends the process at
/// once; the kernel then ends its children.
#[must_use]
pub fn stop_token() -> CancellationToken {
    let token = CancellationToken::new();
    let cancel = token.clone();
    // The handlers are registered before this returns, so that no early signal is missed.
    let mut signals = Signals::new();
    tokio::spawn(async move {
        signals.next().await;
        cancel.cancel();
        signals.next().await;
        end()
    });
    token
}

/// Runs a command that starts programs. SIGINT, SIGTERM and SIGHUP drop it, so that its programs are
/// killed and its temporary files removed. Once it is over they end the process at once.
///
/// # Errors
/// Those of the command; [`Exit::Interrupted`], without a message, after a signal.
pub(crate) async fn until_stopped<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let stop = Arc::new(Notify::new());
    watch(Arc::downgrade(&stop))
        .map_err(|e| CliError::failed(format!("cannot watch for signals: {e}")))?;
    tokio::select! {
        biased;
        () = stop.notified() => Err(CliError::interrupted()),
        done = command => done,
    }
}

/// Watches for signals on a thread of its own, as long as the process lives: a handler cannot be taken
/// back.
fn watch(running: Weak<Notify>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::new()
    };
    std::thread::spawn(move || {
        runtime.block_on(async move {
            loop {
                signals.next().await;
                match running.upgrade() {
                    Some(stop) => stop.notify_one(),
                    None => end(),
                }
            }
        });
    });
    Ok(())
}
