//! Removes folders that a program could fill, however deep and full they are.
//!
//! A child of the agent does it, under the account of the program if that is not the agent's, so it
//! removes nothing that the program could not. It holds one folder open, and moves what lies deeper up
//! into that one: the standard library's way takes a stack frame and an open file for each level. The
//! agent waits for nothing here. What is left when [`LIMIT`] is over stays, and the log names it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lacuna_model::NodeId;
use lacuna_owner::Account;
use lacuna_runtime::Stopwatch;
use nix::libc::{O_DIRECTORY, O_NOFOLLOW};
use nix::unistd::fchdir;

use crate::descendants::complain;
use crate::safety::{Safety, Ward};

/// The first argument of the agent's program when it removes folders.
pub const REMOVE: &str = "remove-folders";

/// Longest work of the child, after which the agent kills it.
const LIMIT: Duration = Duration::from_secs(10);
const KILL_AFTER: Duration = Duration::from_secs(11);
/// Time between two looks whether the child has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Removes the folders of the programs of one trainer on one node.
#[derive(Debug, Clone)]
pub(crate) struct Remover {
    /// The agent's own program.
    program: PathBuf,
    /// It ends the child in time, and knows it as the agent's.
    safety: Safety,
    node: NodeId,
}

/// A temporary folder, which is removed with this value.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
    account: Option<Account>,
    remover: Remover,
}

impl Temporary {
    /// Makes one that only the account, or without one the agent, may enter. Its path is short, since
    /// the name of a Unix socket in it has at most 107 bytes.
    ///
    /// # Errors
    /// If it cannot be made or given away.
    pub(crate) fn new(remover: &Remover, account: Option<&Account>) -> io::Result<Self> {
        let made = tempfile::Builder::new()
            .prefix("lacuna-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        Ok(Self {
            path: made.keep(),
            account: account.cloned(),
            remover: remover.clone(),
        })
    }

    /// Gives it to its account, whose programs may replace what lies in it from then on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn give(&self) -> io::Result<()> {
        let account = self.account.as_ref();
        account.map_or(Ok(()), |account| account.give_path(&self.path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        self.remover.begin(path, self.account.as_ref());
    }
}

impl Remover {
    /// Of a node, with the agent's own program.
    pub(crate) const fn new(program: PathBuf, safety: Safety, node: NodeId) -> Self {
        Self {
            program,
            safety,
            node,
        }
    }

    /// Removes a folder of the agent's, if it exists, whose content may be an account's. Another one may
    /// be made in its place at once.
    pub(crate) fn set_aside(&self, folder: &Path, account: Option<&Account>) -> io::Result<()> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mut aside = folder.to_owned().into_os_string();
        aside.push(format!(".{}-{number}", std::process::id()));
        let aside = PathBuf::from(aside);
        match fs::rename(folder, &aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.begin(aside, account);
                Ok(())
            }
        }
    }

    fn begin(&self, folder: PathBuf, account: Option<&Account>) {
        let ward = self.safety.ward(&self.node);
        let started = ward.start(|| {
            let mut command = Command::new(&self.program);
            command
                .arg(REMOVE)
                .arg(&folder)
                .arg(serde_json::to_string(&account)?)
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .process_group(0);
            let child = command.spawn()?;
            let pid = child.id();
            Ok::<_, io::Error>((child, Some(pid)))
        });
        match started {
            Ok(child) => drop(std::thread::spawn(move || watch(child, &ward, &folder))),
            Err(error) => {
                ward.finish();
                tracing::warn!(folder = %folder.display(), %error, "folder not removed");
            }
        }
    }
}

/// Waits for the child, and kills it when its time is over.
fn watch(mut child: Child, ward: &Ward, folder: &Path) {
    let begun = Stopwatch::start();
    while let Ok(None) = child.try_wait() {
        if begun.seconds() > KILL_AFTER.as_secs_f64() {
            ward.kill();
        }
        std::thread::sleep(LOOK);
    }
    ward.finish();
    // An account cannot remove it from a folder of the agent's.
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "folder not removed");
        }
        _ => {}
    }
}

/// Removes a folder; `arguments` are those after [`REMOVE`].
pub fn remove_folder(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(folder), Some(account)) = (arguments.next(), arguments.next()) else {
        complain(format_args!("{REMOVE}: expected <folder> <account>"));
        return ExitCode::from(64);
    };
    let account = serde_json::from_slice::<Option<Account>>(account.as_encoded_bytes());
    let emptied = account
        .map_err(io::Error::from)
        .and_then(|account| account.map_or(Ok(()), |account| account.enter()))
        .and_then(|()| empty(Path::new(&folder), LIMIT));
    if let Err(error) = emptied {
        complain(format_args!("{}: {error}", Path::new(&folder).display()));
        return ExitCode::FAILURE;
    }
    let _ = fs::remove_dir(&folder);
    ExitCode::SUCCESS
}

/// Empties a folder, which becomes this process's own.
///
/// # Errors
/// If something cannot be removed, or not in time.
fn empty(folder: &Path, limit: Duration) -> io::Result<()> {
    // Its program may have forbidden itself to enter it.
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    let opened = File::options()
        .read(true)
        .custom_flags(O_DIRECTORY | O_NOFOLLOW)
        .open(folder)?;
    fchdir(&opened)?;
    let mut work = Work {
        begun: Stopwatch::start(),
        limit,
        moved: 0,
    };
    work.empty(Path::new("."))
}

struct Work {
    begun: Stopwatch,
    limit: Duration,
    /// Number of folders that were moved up.
    moved: u64,
}

impl Work {
    fn empty(&mut self, folder: &Path) -> io::Result<()> {
        let is_top = folder == Path::new(".");
        loop {
            let mut is_empty = true;
            let mut failed = None;
            let mut has_changed = false;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                is_empty = false;
                if self.begun.seconds() > self.limit.as_secs_f64() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let name = entry.file_name();
                let done = match (entry.file_type()?.is_dir(), is_top) {
                    (true, true) => self.level(&name),
                    (true, false) => self.move_up(&folder.join(name)),
                    (false, _) => fs::remove_file(folder.join(name)),
                };
                match done {
                    Ok(()) => has_changed = true,
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                _ if is_empty => return Ok(()),
                Some(error) if !has_changed => return Err(error),
                _ => {}
            }
        }
    }

    /// Removes a folder of the top, whose own folders come to the top.
    fn level(&mut self, name: &OsStr) -> io::Result<()> {
        let folder = Path::new(name);
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        self.empty(folder)?;
        fs::remove_dir(folder)
    }

    fn move_up(&mut self, folder: &Path) -> io::Result<()> {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        loop {
            self.moved += 1;
            match fs::rename(folder, format!("{}.{}", std::process::id(), self.moved)) {
                Err(error) if is_taken(&error) => {}
                done => return done,
            }
        }
    }
}

/// Whether something of that name is there.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(
        error.kind(),
        AlreadyExists | DirectoryNotEmpty | NotADirectory
    )
}
