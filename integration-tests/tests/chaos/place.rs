//! A disk that can be filled, and a clock that can be wrong.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The path of libfaketime, which gives a process a wrong clock, if it is installed.
pub(super) fn faketime() -> Option<PathBuf> {
    let dirs = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    let at = |dir| format!("/usr/lib/{dir}/faketime/libfaketime.so.1");
    dirs.iter()
        .map(|d| PathBuf::from(at(d)))
        .find(|p| p.is_file())
}

/// A folder on a small disk of its own, where a tmpfs may be mounted.
pub(super) struct SmallDisk {
    pub(super) dir: tempfile::TempDir,
    pub(super) mounted: bool,
}

impl SmallDisk {
    pub(super) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("lacuna-chaos-")
            .tempdir()
            .unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256m", "lacuna-chaos"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success());
        Self { dir, mounted }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(self.dir.path())
                .status();
        }
    }
}
