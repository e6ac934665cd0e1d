//! Whatever a program has left in its folder is removed, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use lacuna_agent_service::REMOVE;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// More than a thread's stack or a process's open files have room for.
const LEVELS: usize = 20_000;
const FILES: usize = 3_000;

fn remove(folder: &Path) -> bool {
    let script = "ulimit -n 32; exec \"$0\" \"$@\"";
    let status = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_lacuna-agent"), REMOVE])
        .arg(folder)
        .arg("null")
        .status();
    status.unwrap().success()
}

#[test]
fn deep_full_and_forbidden_folders_are_removed_and_no_link_is_followed() {
    // In memory: a busy disk takes longer than the removal may.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let precious = dir.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "precious").unwrap();
    let folder = dir.path().join("folder");
    let (deep, next) = (dir.path().join("deep"), dir.path().join("next"));
    fs::create_dir(&deep).unwrap();
    fs::write(deep.join("last"), "").unwrap();
    for _ in 0..LEVELS {
        fs::create_dir(&next).unwrap();
        fs::rename(&deep, next.join("deep")).unwrap();
        fs::rename(&next, &deep).unwrap();
    }
    fs::create_dir(&folder).unwrap();
    fs::rename(&deep, folder.join("deep")).unwrap();
    for name in ["closed", "closed/below", "closed/below/again", "-rf"] {
        fs::create_dir(folder.join(name)).unwrap();
        symlink(&precious, folder.join(name).join("link")).unwrap();
        mkfifo(&folder.join(name).join("pipe"), Mode::S_IRWXU).unwrap();
    }
    for number in 0..FILES {
        fs::write(folder.join(format!("closed/{number}")), "").unwrap();
    }
    symlink(&precious, folder.join("link")).unwrap();
    let _socket = UnixListener::bind(folder.join("socket")).unwrap();
    for name in ["closed/below", "closed", ""] {
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o000)).unwrap();
    }
    assert!(remove(&folder));
    assert!(!folder.exists());
    // A link in the place of the folder is not followed either.
    symlink(&precious, &folder).unwrap();
    assert!(!remove(&folder));
    assert_eq!(
        fs::read_to_string(precious.join("file")).unwrap(),
        "precious"
    );
}
