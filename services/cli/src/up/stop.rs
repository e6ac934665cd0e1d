//! Signals that end a command.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first SIGINT, SIGTERM or SIGHUP cancels. The second one ends the process at
/// once; the kernel then ends its children.
#[must_use]
pub fn stop_token() -> CancellationToken {
    let token = CancellationToken::new();
    let cancel = token.clone();
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    // The handlers are registered before this returns, so that no early signal is missed.
    let streams: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| signal(kind).ok())
        .collect();
    tokio::spawn(async move {
        let mut streams = streams;
        for round in 0..2 {
            let waits = streams.iter_mut().map(|s| Box::pin(s.recv()));
            let _ = futures::future::select_all(waits).await;
            if round == 0 {
                cancel.cancel();
            }
        }
        let _ = console::Term::stdout().show_cursor();
        std::process::exit(130);
    });
    token
}
