//! Processes of a test.

use std::fmt::Display;
use std::ops::{Deref, DerefMut};
use std::process::Child;

/// A child that is killed with the test.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process lives. A zombie does not: only its parent has not collected it yet.
#[must_use]
pub fn lives(pid: impl Display) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|s| !s.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}
