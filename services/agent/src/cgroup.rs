//! A control group (cgroups(7), version 2) for each program. The kernel keeps its processes in the
//! group wherever they go, and ends them by one write (`cgroup.kill`, Linux 5.14).
//!
//! This requires an agent that may divide its own group, as under systemd with `Delegate=yes`. A
//! pilot does not divide its group: the main scheduler counts and ends what is in it. Guards and
//! the safety thread do not rely on cgroups, since a program of the agent's own user may leave its
//! group.
//!
//! Several agents may divide one group. Each holds a lock on its folder there, which ends with its
//! process. Only a folder without a lock is left by a killed agent. Numbers of processes would not
//! tell, since they are used again and differ between containers.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::unistd::Pid;

const KILL: &str = "cgroup.kill";
const NAME: &str = "lacuna-";

/// Most tries to make a folder of one's own.
const MOST: u32 = 16;

/// The place for groups of programs.
#[derive(Debug)]
pub(crate) struct Cgroups {
    folder: PathBuf,
    /// The lock on the folder.
    lock: Mutex<Option<File>>,
    made: AtomicU64,
}

impl Cgroups {
    /// Divides the group of this process.
    ///
    /// # Errors
    /// If there is no group of version 2, or this user may not divide it.
    pub(crate) fn divide() -> io::Result<Self> {
        let own = own_group(
            &fs::read_to_string("/proc/self/cgroup")?,
            &fs::read_to_string("/proc/self/mountinfo")?,
        );
        let own = own.ok_or_else(|| io::Error::other("no cgroup of version 2 is mounted"))?;
        let above = Self::within(&own)?;
        if !above.folder.join(KILL).exists() {
            return Err(io::Error::other(
                "this kernel has no cgroup.kill (Linux 5.14)",
            ));
        }
        above.probe()
    }

    /// Makes the place of this agent in a group, and removes those of killed agents.
    fn within(own: &Path) -> io::Result<Self> {
        for entry in fs::read_dir(own)?.flatten() {
            let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
            // The lock is held while the folder is removed.
            if is_ours && let Some(_lock) = lock(&entry.path()) {
                remove(&entry.path());
            }
        }
        // Containers number their processes alike.
        let name = format!("{NAME}{}", std::process::id());
        let folder = (0..=MOST)
            .map(|again| match again {
                0 => own.join(&name),
                again => own.join(format!("{name}-{again}")),
            })
            .find(|folder| !folder.exists())
            .ok_or_else(|| io::Error::other("the group is full of agents of this number"))?;
        let above = Self {
            folder,
            lock: Mutex::new(None),
            made: AtomicU64::new(0),
        };
        above.settle()?;
        Ok(above)
    }

    /// Makes the folder and locks it. An agent that starts at the same time may remove it between
    /// the two.
    fn settle(&self) -> io::Result<()> {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MOST {
            if let Err(error) = fs::create_dir(&self.folder)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(error);
            }
            *held = lock(&self.folder);
            if held.is_some() && self.folder.exists() {
                return Ok(());
            }
        }
        Err(io::Error::other(
            "another process removes the agent's group",
        ))
    }

    /// Checks, with a guard that starts nothing, that processes can be moved into a group.
    fn probe(self) -> io::Result<Self> {
        let group = self.make()?;
        let mut child = std::process::Command::new("/proc/self/exe")
            .args([crate::GUARD, "0", "1", "", "true"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let moved = i32::try_from(child.id())
            .map_err(io::Error::other)
            .and_then(|pid| group.take(Pid::from_raw(pid)));
        child.wait()?;
        group.end();
        moved.map(|()| self)
    }

    /// Removes all empty groups.
    pub(crate) fn remove(&self) {
        remove(&self.folder);
    }

    /// Makes a group for one program.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn make(&self) -> io::Result<Cgroup> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(number.to_string());
        match fs::create_dir(&folder) {
            // An older agent, or an administrator, has removed the folder above.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.settle()?;
                fs::create_dir(&folder)?;
            }
            made => made?,
        }
        Ok(Cgroup(folder))
    }
}

/// The group of one program.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// Moves a process into the group; its later children follow.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn take(&self, process: Pid) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
    }

    /// Sends SIGKILL to all processes of the group.
    pub(crate) fn kill(&self) {
        if let Err(error) = fs::write(self.0.join(KILL), "1") {
            tracing::warn!(group = %self.0.display(), %error, "cgroup not killed");
        }
    }

    /// Whether any process of the group runs.
    pub(crate) fn populated(&self) -> bool {
        fs::read_to_string(self.0.join("cgroup.events"))
            .is_ok_and(|text| text.lines().any(|line| line == "populated 1"))
    }

    /// Kills the remaining processes, and removes the group.
    pub(crate) fn end(self) {
        if self.populated() {
            self.kill();
        }
        remove(&self.0);
    }
}

/// Locks a folder, until the file is closed; nothing if another process holds the lock.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    file.try_lock().ok().map(|()| file)
}

/// Removes a group and the groups below it, if they are empty.
fn remove(folder: &Path) {
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove(&entry.path());
    }
    let _ = fs::remove_dir(folder);
}

/// The folder of a process's group, by its `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_group(cgroup: &str, mounts: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_starts_removes_no_folder_of_one_that_lives() {
        let own = tempfile::TempDir::new().unwrap();
        let left = own.path().join("lacuna-1");
        fs::create_dir_all(left.join("7")).unwrap();
        let other = own.path().join("other");
        fs::create_dir(&other).unwrap();
        let first = Cgroups::within(own.path()).unwrap();
        assert!(!left.exists() && other.exists());
        let second = Cgroups::within(own.path()).unwrap();
        assert_ne!(first.folder, second.folder);
        assert!(first.make().is_ok() && second.make().is_ok());

        // What is removed all the same is made again, and locked.
        fs::remove_dir_all(&first.folder).unwrap();
        first.make().unwrap();
        drop(Cgroups::within(own.path()).unwrap());
        assert!(first.folder.join("1").exists());
        // A folder is free for the next agent when its own has ended, and empty then.
        let folder = second.folder.clone();
        assert!(folder.join("0").exists());
        drop(second);
        let third = Cgroups::within(own.path()).unwrap();
        assert!(third.folder == folder && !folder.join("0").exists());
    }

    #[test]
    fn a_process_finds_its_own_group() {
        let mounts = "25 30 0:23 / /sys rw - sysfs sysfs rw\n\
                      31 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let found = own_group("0::/system.slice/lacuna-agent.service\n", mounts);
        let expected = "/sys/fs/cgroup/system.slice/lacuna-agent.service";
        assert_eq!(found, Some(PathBuf::from(expected)));
        // Beside groups of version 1, and in a container that sees only a part of them.
        let hybrid = "8:pids:/x\n0::/box/agent\n";
        let part = "40 25 0:31 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n";
        let found = own_group(hybrid, part);
        let expected = "/sys/fs/cgroup/unified/agent";
        assert_eq!(found, Some(PathBuf::from(expected)));
        assert_eq!(own_group("8:pids:/x\n", part), None);
        let first = "31 25 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        assert_eq!(own_group("0::/\n", first), None);
    }
}
