//! The folder in which a program runs, and the variables that files of its owner hold. Both are
//! looked at under the program's account.

use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use lacuna_model::Directory;
use nix::libc::O_NONBLOCK;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::descendants::complain;

/// Longest file of variables, in bytes.
const LONGEST: u64 = 64 << 10;
/// Permissions of the group and of others.
const OTHERS: u32 = 0o077;
/// The variables of the agent begin with this.
const OURS: &str = "LACUNA_";

/// Where a program runs and what it reads there before its start.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Surroundings {
    /// The folder that its submitter wants.
    pub(crate) directory: Directory,
    /// The trainer's folder on the node.
    pub(crate) own: PathBuf,
    /// Files with further variables.
    pub(crate) environment_from: Vec<String>,
}

impl Surroundings {
    /// The folder in which the program runs: the wanted one or else `other`. A line of the output
    /// says that it is another than the wanted one, if `says`.
    ///
    /// # Errors
    /// In words: the folder cannot be entered, and no other may take its place.
    pub(super) fn folder(&self, other: &Path, says: bool) -> Result<PathBuf, String> {
        let Some(wanted) = self.directory.named().map(Path::new) else {
            return Ok(enterable(other));
        };
        // This needs the permission to enter the folder.
        let Err(error) = fs::metadata(wanted.join(".")) else {
            return Ok(wanted.to_owned());
        };
        let wanted = wanted.display();
        if matches!(self.directory, Directory::Required(_)) {
            return Err(format!("cannot enter its directory {wanted}: {error}"));
        }
        let other = enterable(other);
        if says {
            complain(format_args!(
                "lacuna: cannot enter {wanted}, the folder of the submit file: {error}; the program \
                 runs in {}",
                other.display()
            ));
        }
        Ok(other)
    }

    /// The variables of its files. Of one name the last counts.
    ///
    /// # Errors
    /// In words, without any of their values.
    pub(super) fn variables(&self) -> Result<Vec<(String, String)>, String> {
        let read = |file: &String| {
            variables(Path::new(file)).map_err(|why| format!("environment_from: {file}: {why}"))
        };
        let all: Result<Vec<_>, String> = self.environment_from.iter().map(read).collect();
        all.map(|all| all.into_iter().flatten().collect())
    }
}

fn enterable(folder: &Path) -> PathBuf {
    // A guard without a folder stays in its own.
    if folder.as_os_str().is_empty() {
        return PathBuf::from(".");
    }
    match fs::metadata(folder.join(".")) {
        Ok(_) => folder.to_owned(),
        Err(_) => PathBuf::from("/"),
    }
}

fn variables(path: &Path) -> Result<Vec<(String, String)>, String> {
    // A pipe is not waited for.
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(O_NONBLOCK).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if found.uid() != geteuid().as_raw() {
        return Err("it is another user's".to_owned());
    }
    if found.mode() & OTHERS != 0 {
        return Err(format!(
            "other users can read it: chmod 600 {}",
            path.display()
        ));
    }
    let mut text = String::new();
    let read = file.take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let numbered = text.lines().map(str::trim).zip(1..);
    let lines = numbered.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(line, number)| variable(line).map_err(|why| format!("line {number} {why}")))
        .collect()
}

/// A variable of a line, which may begin with `export` and have its value in quotes.
fn variable(line: &str) -> Result<(String, String), String> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("is no NAME=value")?;
    let (name, value) = (name.trim(), value.trim());
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins_well = !name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || !name.chars().all(is_letter) || !begins_well || value.contains('\0') {
        return Err("is no NAME=value".to_owned());
    }
    if name.starts_with(OURS) {
        return Err(format!("sets {name}, which the agent sets"));
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner)
    });
    Ok((name.to_owned(), quoted.unwrap_or(value).to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_of_variables_is_its_owners_alone_and_errors_show_no_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets.env");
        let said = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            variables(&path)
        };
        let text = "# keys\n\nWANDB_API_KEY=hush=7\r\nexport HF_TOKEN = \"a b\"\nEMPTY=\nQ='\n";
        let found = said(text, 0o600).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (&**n, &**v)).collect();
        let expected = [
            ("WANDB_API_KEY", "hush=7"),
            ("HF_TOKEN", "a b"),
            ("EMPTY", ""),
            ("Q", "'"),
        ];
        assert_eq!(found, expected);
        for (text, mode, why) in [
            ("A=hush\n", 0o640, "chmod 600"),
            ("A=hush\n", 0o604, "chmod 600"),
            ("A=1\nhush\n", 0o600, "line 2 is no NAME=value"),
            ("9A=hush\n", 0o600, "line 1 is no NAME=value"),
            ("A B=hush\n", 0o600, "line 1 is no NAME=value"),
            ("LACUNA_RUN=hush\n", 0o600, "sets LACUNA_RUN"),
            (&"A=hush\n".repeat(10_000), 0o600, "longer than"),
        ] {
            let error = said(text, mode).unwrap_err();
            assert!(error.contains(why) && !error.contains("hush"), "{error}");
        }
        assert!(
            variables(dir.path())
                .unwrap_err()
                .contains("no regular file")
        );
        assert!(variables(&dir.path().join("none")).is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_entered_is_an_error_or_has_another() {
        let dir = tempfile::tempdir().unwrap();
        let (here, file) = (dir.path().to_owned(), dir.path().join("file"));
        fs::write(&file, "").unwrap();
        let of = |directory: Directory| {
            let surroundings = Surroundings {
                directory,
                ..Surroundings::default()
            };
            surroundings.folder(&here, false)
        };
        let text = |path: &Path| path.display().to_string();
        assert_eq!(of(Directory::OfNode), Ok(here.clone()));
        assert_eq!(
            of(Directory::Required("/tmp".to_owned())),
            Ok("/tmp".into())
        );
        assert_eq!(
            of(Directory::Preferred("/nonexistent".to_owned())),
            Ok(here.clone())
        );
        assert_eq!(of(Directory::Preferred(text(&file))), Ok(here.clone()));
        let error = of(Directory::Required(text(&file))).unwrap_err();
        assert!(error.starts_with("cannot enter its directory"), "{error}");
    }
}
