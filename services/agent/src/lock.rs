//! The lock that gives a node one agent only. Two agents with one folder would end each other's
//! programs and overwrite each other's files.
//!
//! The folder `.locks` of the work folder has a file for each node and one for all nodes. (No
//! trainer's folder has a dot in its name.) An agent of named nodes locks the files of its nodes,
//! and the file for all nodes in shared mode. An agent of all nodes locks that file exclusively.
//! The kernel frees a lock when its process ends.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use lacuna_model::NodeId;
use lacuna_wire::token::escape;

use crate::untrusted;

const FOLDER: &str = ".locks";
/// The file for all nodes. No node's file has this name, since names are escaped.
const ALL: &str = "_all";

/// Why the nodes cannot be locked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// Another agent has locked them.
    #[error(
        "another agent serves {node} with the work folder {dir}: stop it, or give this one \
         another agent.work_dir", dir = dir.display()
    )]
    Taken {
        /// The node, or `every node`, or `a node` if this agent wants all.
        node: String,
        /// The work folder.
        dir: PathBuf,
    },
    /// Other users can change the folder.
    #[error(
        "agent.work_dir is not this user's alone: {source}: name another folder, or have it owned \
         by the user of the agent, below folders that no other user may change"
    )]
    Foreign {
        /// The reason, with the folder.
        source: io::Error,
    },
    /// The folder cannot be written to, or its file system has no locks.
    #[error("cannot lock {path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Locks nodes for one agent until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _files: Vec<File>,
}

impl Lock {
    /// Locks these nodes, or all nodes (`None`).
    ///
    /// # Errors
    /// If another agent has locked one of them, or the folder has no locks.
    pub(crate) fn take(
        work_dir: &Path,
        nodes: Option<&BTreeSet<NodeId>>,
    ) -> Result<Self, LockError> {
        let work_dir = std::path::absolute(work_dir).unwrap_or_else(|_| work_dir.to_owned());
        let folder = work_dir.join(FOLDER);
        let made = untrusted::work_folder(&work_dir).and_then(|()| untrusted::folder(&folder));
        made.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied if source.get_ref().is_some() => {
                LockError::Foreign { source }
            }
            _ => LockError::Io {
                path: folder.clone(),
                source,
            },
        })?;
        let lock = |name: &str, how: fn(&File) -> Result<(), TryLockError>, node: &str| {
            let path = folder.join(name);
            let open = untrusted::append(&path);
            let failed = |path: PathBuf, source| LockError::Io { path, source };
            let file = open.map_err(|source| failed(path.clone(), source))?;
            match how(&file) {
                Ok(()) => Ok(file),
                Err(TryLockError::WouldBlock) => Err(LockError::Taken {
                    node: node.to_owned(),
                    dir: work_dir.clone(),
                }),
                Err(TryLockError::Error(source)) => Err(failed(path, source)),
            }
        };
        let files = match nodes {
            None => vec![lock(ALL, File::try_lock, "a node")?],
            Some(nodes) => {
                let mut files = vec![lock(ALL, File::try_lock_shared, "every node")?];
                for node in nodes {
                    let name = escape(node.as_str());
                    files.push(lock(&name, File::try_lock, node.as_str())?);
                }
                files
            }
        };
        Ok(Self { _files: files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> BTreeSet<NodeId> {
        names.iter().map(|n| NodeId::new(*n).unwrap()).collect()
    }

    fn taken(dir: &Path, wanted: Option<&BTreeSet<NodeId>>) -> Option<String> {
        match Lock::take(dir, wanted) {
            Ok(_) => None,
            Err(error @ LockError::Taken { .. }) => Some(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_locked_node_has_one_agent_and_other_nodes_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let first = Lock::take(dir, Some(&nodes(&["n1", "n2.example"]))).unwrap();
        let text = taken(dir, Some(&nodes(&["n0", "n2.example"]))).unwrap();
        assert!(text.contains("serves n2.example with"), "{text}");
        assert!(text.contains(&dir.display().to_string()), "{text}");
        assert_eq!(taken(dir, Some(&nodes(&["n0", "n3"]))), None);
        assert!(taken(dir, None).unwrap().contains("serves a node with"));
        drop(first);
        assert_eq!(taken(dir, Some(&nodes(&["n2.example"]))), None);
        let all = Lock::take(dir, None).unwrap();
        let text = taken(dir, Some(&nodes(&["n9"]))).unwrap();
        assert!(text.contains("serves every node with"), "{text}");
        assert!(taken(dir, None).is_some());
        drop(all);
        assert_eq!(taken(dir, None), None);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_not_reported_as_another_agent() {
        let dir = tempfile::tempdir().unwrap();
        let error = Lock::take(Path::new("/proc/none/work"), None).unwrap_err();
        assert!(matches!(error, LockError::Io { .. }), "{error}");
        // A folder that is not the agent's own is refused.
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Lock::take(&file, None).unwrap_err();
        assert!(matches!(error, LockError::Foreign { .. }), "{error}");
    }
}
