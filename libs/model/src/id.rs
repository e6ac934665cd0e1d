//! Names of clusters, nodes and trainers.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} name {name:?} is not usable: {expected}")]
pub struct IdError {
    /// The kind of name: `cluster`, `node`, `trainer` or `kind`.
    pub kind: &'static str,
    /// The name as it was given.
    pub name: String,
    /// The names that are accepted.
    pub expected: &'static str,
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $accepts:path, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a name after checking it.
            ///
            /// # Errors
            /// [`IdError`] says which names are accepted.
            pub fn new(name: impl AsRef<str>) -> Result<Self, IdError> {
                let name = name.as_ref();
                if $accepts(name) {
                    Ok(Self(Arc::from(name)))
                } else {
                    Err(IdError { kind: $kind, name: name.to_owned(), expected: $expected })
                }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(name: String) -> Result<Self, IdError> {
                Self::new(name)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(name: &str) -> Result<Self, IdError> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

string_id!(
    /// A cluster: one main scheduler and its nodes. Part of every subject, stream and
    /// bucket name, so it is short and has no dots.
    ClusterId,
    "cluster",
    is_cluster,
    "1 to 16 of A-Z a-z 0-9 _ -"
);
string_id!(
    /// A compute node, by its name in the main scheduler. The name appears on command lines (where
    /// Slurm reads a list with `/` as a file), in lists with commas and in columns.
    NodeId,
    "node",
    is_node,
    "1 to 255 of A-Z a-z 0-9 _ - . and no - or . in front"
);
string_id!(
    /// A trainer, by the name that its owner gave it.
    TrainerId,
    "trainer",
    is_trainer,
    "1 to 64 of A-Z a-z 0-9 _ - ."
);

string_id!(
    /// A kind of node: a partition, feature, queue or host type, by the name that a setting or a
    /// list gives it.
    KindName,
    "kind",
    is_trainer,
    "1 to 64 of A-Z a-z 0-9 _ - ."
);

fn is_cluster(name: &str) -> bool {
    (1..=16).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_node(name: &str) -> bool {
    (1..=255).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn is_trainer(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_where_they_enter() {
        assert!(NodeId::new("a01n02.example.org").is_ok());
        assert!(NodeId::new("n".repeat(255)).is_ok());
        let long = "n".repeat(256);
        for name in [
            "",
            "two words",
            "/etc/passwd",
            "a,b",
            "a[1-9]",
            "$x",
            "-n",
            ".",
            "..",
            "nœud",
            "a\n",
            &long,
        ] {
            assert!(NodeId::new(name).is_err(), "{name:?}");
        }
        assert!(ClusterId::new("summit").is_ok());
        assert!(ClusterId::new("with.dot").is_err());
        assert!(ClusterId::new("seventeen-letters").is_err());
        assert!(TrainerId::new("J00001-vgg16").is_ok());
        let refused: Result<TrainerId, _> = serde_json::from_str("\"a b\"");
        assert!(refused.unwrap_err().to_string().contains("trainer name"));
    }
}
