//! Accounts under which programs of owners run.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{chown, fchown};
use std::path::{Path, PathBuf};

use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{Gid, Uid, User, getresgid, getresuid, initgroups, setgid, setuid};
use serde::{Deserialize, Serialize};

/// The account of files and processes that belong to no account of this machine.
const NOBODY: u32 = 65_534;

/// Why a program has no account to run under.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAccount {
    /// The node has no account of this name.
    #[error(
        "the owner {0} has no account on this node, under which the program would run: its users \
         must be known there, by /etc/passwd or a directory"
    )]
    Unknown(String),
    /// The account is one of the system's.
    #[error(
        "the program would run under {name}, an account of the system (user {uid}, group {gid}): \
         the user id must be min_uid ({least}) or more, and the group another than root's"
    )]
    System {
        /// The account.
        name: String,
        /// Its user id.
        uid: u32,
        /// The id of its first group.
        gid: u32,
        /// The least user id.
        least: u32,
    },
    /// The accounts cannot be read.
    #[error("the account of the owner {owner} cannot be looked up: {reason}")]
    Lookup {
        /// The owner.
        owner: String,
        /// The system's message.
        reason: String,
    },
}

/// A local account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// The id of its first group.
    pub gid: u32,
    /// Its home.
    pub home: PathBuf,
    /// Its login shell.
    pub shell: PathBuf,
}

impl Account {
    /// The account with the name of an owner, if its user id is `least` or more. Asks the
    /// directory of users, which may take its time.
    ///
    /// # Errors
    /// [`NoAccount`], with the remedy.
    pub fn of(owner: &str, least: u32) -> Result<Self, NoAccount> {
        let found = User::from_name(owner).map_err(|error| NoAccount::Lookup {
            owner: owner.to_owned(),
            reason: error.to_string(),
        })?;
        // A directory that ignores case would give two owners one account.
        let found = found.filter(|found| found.name == owner);
        let found = found.ok_or_else(|| NoAccount::Unknown(owner.to_owned()))?;
        let (uid, gid) = (found.uid.as_raw(), found.gid.as_raw());
        if uid < least.max(1) || uid == NOBODY || gid == 0 {
            return Err(NoAccount::System {
                name: found.name,
                uid,
                gid,
                least,
            });
        }
        Ok(Self {
            name: found.name,
            uid,
            gid,
            home: found.dir,
            shell: found.shell,
        })
    }

    /// Gives a file to the account.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn give(&self, file: &File) -> io::Result<()> {
        fchown(file, Some(self.uid), Some(self.gid))
    }

    /// Gives a folder or a socket to the account. No other user may be able to replace it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn give_path(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }

    /// Makes this process the account's for good, with its groups. No program that it becomes gets
    /// more rights (`sudo` and other set-user-id programs have no effect).
    ///
    /// # Errors
    /// If the kernel refuses, or the process is not the account's alone afterwards.
    pub fn enter(&self) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        initgroups(&CString::new(self.name.as_str())?, gid)?;
        setgid(gid)?;
        setuid(uid)?;
        set_no_new_privs()?;
        let (users, groups) = (getresuid()?, getresgid()?);
        let all = [users.real, users.effective, users.saved] == [uid; 3]
            && [groups.real, groups.effective, groups.saved] == [gid; 3];
        if all {
            return Ok(());
        }
        Err(io::Error::other("the process keeps another account"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_the_system_and_unknown_owners_run_nothing() {
        for unknown in ["no-such-user", "", "0", "../root"] {
            let error = Account::of(unknown, 1000).unwrap_err();
            assert_eq!(error, NoAccount::Unknown(unknown.to_owned()));
        }
        // Whatever the least is, no program runs under these two.
        for (name, uid) in [("root", 0), ("nobody", NOBODY)] {
            let error = Account::of(name, 0).unwrap_err();
            assert!(
                matches!(error, NoAccount::System { uid: found, .. } if found == uid),
                "{error}"
            );
        }
        let error = Account::of("daemon", 1000).unwrap_err();
        assert!(error.to_string().contains("min_uid (1000)"), "{error}");
    }
}
