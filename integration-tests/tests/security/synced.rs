//! Acknowledged events of `lacuna up` are on the disk.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lacuna_runtime::nats_server::find;
use lacuna_testkit::{Need, or_skip};

use super::keyed_server::until;
use super::whole::Up;

/// Events, each acknowledged before the next.
const EVENTS: usize = 20;

/// nats-server, with a record of its fsync calls.
fn watched(dir: &Path, calls: &Path) -> String {
    let script = dir.join("nats-server");
    let text = format!(
        "#!/bin/sh\nexec strace -D -f -y -e trace=fsync,fdatasync -o {calls:?} {:?} \"$@\"\n",
        find().unwrap()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

#[tokio::test]
async fn each_event_that_is_acknowledged_has_been_synced() {
    let works = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    let works = works.is_ok_and(|done| done.status.success());
    or_skip!(Need::Strace.given(works, "no strace that works here"));
    let dir = tempfile::Builder::new()
        .prefix("lacuna-synced-")
        .tempdir()
        .unwrap();
    let calls = dir.path().join("calls");
    let server = watched(dir.path(), &calls);
    let up = Up::start(
        &dir.path().join("data"),
        &[],
        &[("LACUNA_NATS_SERVER", &server)],
    )
    .await;
    let synced = || {
        let calls = std::fs::read_to_string(&calls).unwrap_or_default();
        calls
            .lines()
            .filter(|call| call.contains("lac_main_in/msgs"))
            .count()
    };
    let before = synced();
    for event in 0..EVENTS {
        up.lacuna(&["events", "publish", "node.idle", &format!("n{event}")])
            .unwrap();
    }
    until("as many syncs as events are written down", || {
        synced() >= before + EVENTS
    })
    .await;
    up.stop();
}
