//! What stands in front of torchrun: a module that its Python imports at its start, with a rendezvous
//! of ours. PyTorch's own unpickles what lies in the store.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::untrusted;

/// The name of the rendezvous.
pub(super) const RENDEZVOUS: &str = "lacuna";
/// Where Python looks for modules, folders separated by colons.
pub(super) const SEARCHED: &str = "PYTHONPATH";

const MODULE: &str = include_str!("../../../../libs/lacuna-py/src/lacuna/torchrun_site.py");

/// Makes the folder, of which none is there, with the module, which every account can read and only this one change.
///
/// # Errors
/// If it cannot be made.
pub(super) fn prepare(folder: &Path) -> io::Result<()> {
    untrusted::folder(folder)?;
    let file = folder.join("sitecustomize.py");
    untrusted::write(&file, MODULE, None)?;
    fs::set_permissions(&file, Permissions::from_mode(0o644))?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// The folders in which Python looks: this one, then the submitter's, or without those the agent's.
pub(super) fn searched(
    folder: &Path,
    theirs: &BTreeMap<String, String>,
    passed: &[(OsString, OsString)],
) -> String {
    let own = passed.iter().find(|(name, _)| name == SEARCHED);
    let own = own.and_then(|(_, value)| value.to_str());
    let others = theirs.get(SEARCHED).map(String::as_str).or(own);
    let folder = folder.display().to_string();
    let parts = [
        Some(folder.as_str()),
        others.filter(|others| !others.is_empty()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_comes_first_and_hides_no_other_folder() {
        let front = Path::new("/agent/front");
        let of = |value: &str| BTreeMap::from([(SEARCHED.to_owned(), value.to_owned())]);
        let passed = [(OsString::from(SEARCHED), OsString::from("/agents"))];
        assert_eq!(searched(front, &BTreeMap::new(), &[]), "/agent/front");
        assert_eq!(
            searched(front, &BTreeMap::new(), &passed),
            "/agent/front:/agents"
        );
        assert_eq!(searched(front, &of("/a:/b"), &passed), "/agent/front:/a:/b");
        assert_eq!(searched(front, &of(""), &passed), "/agent/front");
    }

    #[test]
    fn every_account_reads_the_module() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("front");
        prepare(&folder).unwrap();
        let names: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        assert_eq!(names.len(), 1);
        let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o755);
    }
}
