//! Files in folders that programs can change.
//!
//! A program owns its folder, and may put anything there: a FIFO without a writer, a link to
//! another place, a device, an endless file. So files of the work folder are opened only through
//! this module: without following a last link, without blocking, and only if it is a regular file
//! of the agent's user, or one that the agent has given to an owner's account in a folder of its
//! own. At most a limited number of bytes is read.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::Uid;

use lacuna_owner::Account;

/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The owner of files whose owner has no name in a container (user_namespaces(7)).
const UNNAMED: u32 = 65_534;

/// Opens a file for reading.
///
/// # Errors
/// If there is none, or it is no regular file that this user has put there.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    careful(OpenOptions::new().read(true), path)
}

/// Opens a file for appending, and makes it if it does not exist.
///
/// # Errors
/// If it is no regular file that this user has put there, or cannot be made.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    careful(OpenOptions::new().append(true).create(true), path)
}

/// The text of a file up to a length.
///
/// # Errors
/// Those of [`open`]; also if it is longer, or not text.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other("longer than it may be"));
    }
    Ok(text)
}

/// Replaces a file as a whole: a new file is written and renamed over it. It is given to an
/// account, if one is named.
///
/// # Errors
/// If an obstacle cannot be removed.
pub(crate) fn write(path: &Path, text: &str, account: Option<&Account>) -> io::Result<()> {
    let mut beside = path.to_owned().into_os_string();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    remove(&beside)?;
    let mut options = OpenOptions::new();
    let mut file = careful(options.write(true).create_new(true), &beside)?;
    file.write_all(text.as_bytes())?;
    if let Some(account) = account {
        account.give(&file)?;
    }
    fs::rename(&beside, path)
}

/// Removes a file, a link or anything but a folder, if it exists.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder that only its owner can read, since users of later batch jobs may look around on
/// the node. An existing one must be a folder of this user and no link.
///
/// # Errors
/// If it is not, or cannot be made.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(refused(path, "it is no folder"));
    }
    own(path, &found)
}

/// Lets other users enter a folder of this user, whose names they cannot read.
///
/// # Errors
/// If its permissions cannot be changed.
pub(crate) fn open_to_entry(path: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.mode() & 0o777;
    if mode & 0o011 == 0o011 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode | 0o011))
}

/// Makes the work folder, or checks that only this user can change it: no other user may write to
/// it or replace it.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if another user can; else if it cannot be made.
pub(crate) fn work_folder(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    if let Some(above) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(above)?;
    }
    for above in path.ancestors().skip(1) {
        // Both a link and its target are checked.
        let link = fs::symlink_metadata(above)?;
        let found = fs::metadata(above)?;
        for found in [&link, &found] {
            let sound = [0, UNNAMED, Uid::effective().as_raw()].contains(&found.uid());
            let open_to_all = found.mode() & 0o002 != 0 && found.mode() & STICKY == 0;
            if !sound || (found.is_dir() && open_to_all) {
                return Err(refused(above, "another user may change its contents"));
            }
        }
    }
    folder(&path)?;
    let found = fs::symlink_metadata(&path)?;
    if found.mode() & OTHERS_WRITE != 0 {
        fs::set_permissions(&path, Permissions::from_mode(found.mode() & 0o755))?;
    }
    Ok(())
}

fn careful(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options
        .mode(0o600)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        let kind = if found.file_type().is_fifo() {
            "it is a pipe"
        } else {
            "it is no regular file"
        };
        return Err(refused(path, kind));
    }
    placed(path, &found)?;
    Ok(file)
}

/// Refuses a file that another user may have put there.
fn placed(path: &Path, found: &Metadata) -> io::Result<()> {
    own(path, found).or_else(|refused| {
        let folder = path.parent().map(fs::symlink_metadata).transpose()?;
        let only_ours = folder.is_some_and(|folder| {
            folder.uid() == Uid::effective().as_raw() && folder.mode() & OTHERS_WRITE == 0
        });
        if only_ours { Ok(()) } else { Err(refused) }
    })
}

fn own(path: &Path, found: &Metadata) -> io::Result<()> {
    if found.uid() == Uid::effective().as_raw() {
        return Ok(());
    }
    Err(refused(path, "it is another user's"))
}

fn refused(path: &Path, why: &str) -> io::Error {
    let text = format!("{}: {why}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use lacuna_testkit::{Need, or_skip};

    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "12345").unwrap();
        assert_eq!(read(&path("file"), 5).unwrap(), "12345");
        assert!(read(&path("file"), 4).is_err(), "longer than the limit");
        symlink(path("file"), path("link")).unwrap();
        symlink("/dev/zero", path("endless")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(path("pipe"))
            .status();
        assert!(made.unwrap().success());
        fs::create_dir(path("folder")).unwrap();
        for name in ["link", "endless", "pipe", "folder"] {
            assert!(read(&path(name), 1 << 20).is_err(), "{name} was read");
            assert!(append(&path(name)).is_err(), "{name} was opened");
        }
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "12345");
        // Files beside and below are replaced, and the target of a link is never touched.
        symlink(path("file"), path("code.new")).unwrap();
        symlink(path("file"), path("code")).unwrap();
        write(&path("code"), "7", None).unwrap();
        assert_eq!(read(&path("code"), 9).unwrap(), "7");
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "12345");
    }

    #[test]
    fn only_its_user_may_change_a_work_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        work_folder(&path("a/b")).unwrap();
        let mode = |name: &str| fs::metadata(path(name)).unwrap().mode() & 0o777;
        assert_eq!(mode("a/b"), 0o700);
        // A folder of an older release, made under a loose umask.
        fs::set_permissions(path("a/b"), Permissions::from_mode(0o777)).unwrap();
        work_folder(&path("a/b")).unwrap();
        assert_eq!(mode("a/b"), 0o755);
        // A user who can rename it can replace it.
        fs::set_permissions(path("a"), Permissions::from_mode(0o777)).unwrap();
        let error = work_folder(&path("a/b")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("another user may"), "{error}");
        fs::set_permissions(path("a"), Permissions::from_mode(0o1777)).unwrap();
        work_folder(&path("a/b")).unwrap();
        // A link in its place is not followed.
        symlink(path("a/b"), path("c")).unwrap();
        assert!(work_folder(&path("c")).is_err());
        fs::write(path("file"), "").unwrap();
        assert!(work_folder(&path("file")).is_err());
    }

    #[test]
    fn files_of_another_user_are_refused() {
        let root = Uid::effective().is_root();
        or_skip!(Need::Root.given(root, "only root can give a folder to another user"));
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("work"), dir.path().join("file"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "1").unwrap();
        for path in [&folder, &file] {
            std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
        }
        let error = work_folder(&folder).unwrap_err();
        assert!(error.to_string().contains("another user's"), "{error}");
        // Only the agent can have put a file into a folder of its own.
        assert_eq!(read(&file, 9).unwrap(), "1");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(read(&file, 9).is_err());
        assert!(append(&file).is_err());
    }
}
