//! Skipping of tests.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Need;

/// Why a test, or a part of one, is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a skipped test must report it: or_skip!"]
pub struct Missing {
    need: Need,
    what: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.need.remedy())
    }
}

impl Missing {
    pub(crate) fn new(need: Need, what: String) -> Self {
        Self { need, what }
    }

    /// Reports that the test of this thread is skipped. For [`or_skip`](crate::or_skip).
    ///
    /// # Panics
    /// If `LACUNA_REQUIRE` names the missing requirement.
    pub fn skip(&self, file: &str) {
        self.report("test", file);
    }

    /// Reports that a part of the test of this thread is skipped. The rest of it runs.
    ///
    /// # Panics
    /// If `LACUNA_REQUIRE` names the missing requirement.
    #[track_caller]
    pub fn skip_part(&self) {
        self.report("part", std::panic::Location::caller().file());
    }

    #[expect(clippy::panic, reason = "for tests alone")]
    fn report(&self, which: &str, file: &str) {
        let thread = std::thread::current();
        // The name of a runtime's worker thread does not name a test; then only the file is known.
        let test = thread.name().filter(|name| !name.starts_with("tokio"));
        let test = test.unwrap_or("?");
        let required = std::env::var("LACUNA_REQUIRE").unwrap_or_default();
        match requires(&required, self.need) {
            Ok(false) => {}
            Ok(true) => panic!("LACUNA_REQUIRE={required}: {self}"),
            Err(unknown) => panic!("LACUNA_REQUIRE names {unknown:?}, which no test needs"),
        }
        println!("SKIPPED {which} {test}: {}: {self}", self.need.name());
        let Some(list) = std::env::var_os("LACUNA_SKIPPED").filter(|v| !v.is_empty()) else {
            return;
        };
        let line = self.line(which, file, test);
        // One write of a line at the end, so that concurrent tests do not mix their lines.
        let opened = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&list);
        if let Err(error) = opened.and_then(|mut list| list.write_all(line.as_bytes())) {
            panic!("cannot write to {}: {error}", Path::new(&list).display());
        }
    }

    /// A line of the list, in the form that `integration-tests/not_run.py` reads.
    fn line(&self, which: &str, file: &str, test: &str) -> String {
        let what = self.what.replace(['\t', '\n', '\r'], " ");
        let (need, remedy) = (self.need.name(), self.need.remedy());
        format!("{which}\t{need}\t{file}\t{test}\t{what}\t{remedy}\n")
    }
}

/// A Python that has PyTorch: `LACUNA_PYTHON`, `python3` or `/usr/bin/python3`.
///
/// # Errors
/// [`Missing`] if there is none.
pub fn torch_python() -> Result<String, Missing> {
    let candidates = match std::env::var("LACUNA_PYTHON") {
        Ok(named) => vec![named],
        Err(_) => vec!["python3".to_owned(), "/usr/bin/python3".to_owned()],
    };
    let has_torch = |python: &&String| {
        let mut import = Command::new(python);
        let import = import.args(["-c", "import torch"]).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let missing = || Need::Torch.missing(format!("no torch in {}", candidates.join(", ")));
    candidates
        .iter()
        .find(has_torch)
        .cloned()
        .ok_or_else(missing)
}

impl Need {
    /// That this need is not met. `what` names the missing thing.
    pub fn missing(self, what: impl Into<String>) -> Missing {
        Missing::new(self, what.into())
    }

    /// Checks that this need is met.
    ///
    /// # Errors
    /// [`Missing`] if it is not.
    pub fn given(self, there: bool, what: impl Into<String>) -> Result<(), Missing> {
        if there {
            Ok(())
        } else {
            Err(self.missing(what))
        }
    }
}

/// Whether a list such as `torch,docker` or `all` contains a need. An unknown name is the error.
fn requires(list: &str, need: Need) -> Result<bool, String> {
    let mut found = false;
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        if name != "all" && !Need::ALL.iter().any(|need| need.name() == name) {
            return Err(name.to_owned());
        }
        found |= name == "all" || name == need.name();
    }
    Ok(found)
}

/// A file or folder of the recordings: in `LACUNA_DATA`, else in `../shared/data` beside the
/// workspace.
///
/// # Errors
/// [`Missing`] if it does not exist.
pub fn data(name: &str) -> Result<PathBuf, Missing> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder =
        std::env::var_os("LACUNA_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(Need::Data.missing(format!("{} is not there", path.display())))
    }
}

/// The value of a `Result<T, Missing>`. Without it the test reports that it is skipped, and
/// returns. To be used in the test itself.
///
/// ```
/// fn on_recorded_holes() {
///     let path = lacuna_skip::or_skip!(lacuna_skip::data("summit-2021-02/holes.csv.gz"));
///     assert!(path.is_file());
/// }
/// ```
#[macro_export]
macro_rules! or_skip {
    ($wanted:expr) => {
        match $wanted {
            Ok(found) => found,
            Err(missing) => {
                $crate::Missing::skip(&missing, file!());
                return;
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_unknown_ones_are_refused() {
        assert_eq!(requires("", Need::Torch), Ok(false));
        assert_eq!(requires("data, torch", Need::Torch), Ok(true));
        assert_eq!(requires("data,docker", Need::Torch), Ok(false));
        assert_eq!(requires("all", Need::Torch), Ok(true));
        assert_eq!(
            requires("torch,dokcer", Need::Torch),
            Err("dokcer".to_owned())
        );
    }

    #[test]
    fn a_line_has_six_fields_whatever_the_text_contains() {
        let missing = Need::Docker.missing("no engine:\n\tit is down");
        let line = missing.line("test", "a/b.rs", "b::c");
        let fields: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
        let [which, need, file, test, what, remedy] = fields.as_slice() else {
            panic!("{line}");
        };
        assert_eq!(
            (*which, *need, *file, *test),
            ("test", "docker", "a/b.rs", "b::c")
        );
        assert_eq!(
            (*what, *remedy),
            ("no engine:  it is down", Need::Docker.remedy())
        );
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn every_need_has_a_name_of_its_own_and_a_remedy() {
        let names: std::collections::BTreeSet<_> = Need::ALL.iter().map(|n| n.name()).collect();
        assert_eq!(names.len(), Need::ALL.len());
        assert!(Need::ALL.iter().all(|n| !n.remedy().is_empty()));
    }
}
