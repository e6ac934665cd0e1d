//! Identities: a file of `lacuna keys` with everything that a service or a person needs to connect
//! to one cluster in their own name.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lacuna_model::{ClusterId, NodeId, Timestamp};
use lacuna_wire::access::{Access, Holder, Role, access};
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The environment variable with the path of the file.
pub const VARIABLE: &str = "LACUNA_IDENTITY";

/// The version of the file.
const VERSION: u32 = 1;

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("cannot read the identity {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Other users can read the key.
    #[error(
        "the identity {path} can be read by others (mode {mode:03o}): its key may be known to \
         them; `chmod 600 {path}`, and if others use this machine, `lacuna keys add-user --force`",
        path = path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// It is an agent's identity without a public key of control.
    #[error(
        "the identity {path} does not name control's key, by which an agent knows true commands: \
         `lacuna keys init DIR --cluster ID` writes it again with that key, and changes no key",
        path = path.display()
    )]
    NoControl {
        /// The file.
        path: PathBuf,
    },
    /// The file is no identity.
    #[error("{path} is no identity of `lacuna keys`: {reason}", path = path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The reason, without any of the file's contents.
        reason: String,
    },
}

/// The form of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    cluster: ClusterId,
    user: String,
    role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    url: String,
    seed: String,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    control: Vec<String>,
}

/// The identity of a service or a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The cluster of the identity.
    pub cluster: ClusterId,
    /// Name, role, and the node of an agent of one node.
    pub holder: Holder,
    /// The address of nats-server.
    pub url: String,
    /// The private key.
    pub seed: Secret,
    /// The end of the key; none if it has none.
    pub until: Option<Timestamp>,
    /// The authority of the server's certificate, in PEM. Without one the connection is not
    /// encrypted.
    pub ca: Option<String>,
    /// For an agent: the public keys of control. It accepts commands signed by these only.
    pub control: Vec<String>,
}

impl Identity {
    /// Reads a file, which only its owner may be able to read.
    ///
    /// # Errors
    /// [`IdentityError`] with the file and the remedy.
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let identity = Self::read(path)?;
        if identity.holder.role == Role::Agent && identity.control.is_empty() {
            return Err(IdentityError::NoControl {
                path: path.to_owned(),
            });
        }
        Ok(identity)
    }

    /// Like [`Identity::load`], but also for an agent without control's key: for `lacuna keys`.
    ///
    /// # Errors
    /// Those of [`Identity::load`].
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let read = |source| IdentityError::Read {
            path: path.to_owned(),
            source,
        };
        let mode = std::fs::metadata(path).map_err(read)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::Open {
                path: path.to_owned(),
                mode,
            });
        }
        let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(read)?);
        Self::parse(&text).map_err(|reason| IdentityError::Wrong {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        // The parser's own message may show a line of the file.
        let file: File = toml::from_str(text).map_err(|e| {
            let before = text
                .get(..e.span().map_or(0, |s| s.start))
                .unwrap_or_default();
            format!("line {}", before.matches('\n').count() + 1)
        })?;
        if file.version != VERSION {
            let version = file.version;
            return Err(format!("version {version}, expected {VERSION}"));
        }
        let role: Role = file.role.parse().map_err(|e| format!("{e}"))?;
        Ok(Self {
            cluster: file.cluster,
            holder: Holder {
                user: file.user,
                role,
                node: file.node,
            },
            url: file.url,
            seed: Secret::from(file.seed),
            until: file.until,
            ca: file.ca,
            control: file.control,
        })
    }

    /// The text of the file, including the key.
    ///
    /// # Errors
    /// If it cannot be written as TOML, which cannot happen.
    pub fn text(&self) -> Result<Secret, toml::ser::Error> {
        let file = File {
            version: VERSION,
            cluster: self.cluster.clone(),
            user: self.holder.user.clone(),
            role: self.holder.role.to_string(),
            node: self.holder.node.clone(),
            url: self.url.clone(),
            seed: self.seed.reveal().to_owned(),
            until: self.until,
            ca: self.ca.clone(),
            control: self.control.clone(),
        };
        let head = "# Made by `lacuna keys`. Every holder of this file can act under this name: \
                    keep it to yourself (mode 600).\n";
        toml::to_string_pretty(&file).map(|text| Secret::from(format!("{head}{text}")))
    }

    /// The permissions of the holder in a cluster.
    #[must_use]
    pub fn access(&self, cluster: &ClusterId) -> Access {
        access(cluster, &self.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            cluster: ClusterId::new("c").unwrap(),
            holder: Holder {
                user: "agent-a.1".to_owned(),
                role: Role::Agent,
                node: Some(NodeId::new("a.1").unwrap()),
            },
            url: "nats://bus:4222".to_owned(),
            seed: Secret::from("SUGEHEIM".to_owned()),
            until: Some(Timestamp::from_unix(1_800_000_000)),
            ca: Some("-----BEGIN CERTIFICATE-----\nAA==\n".to_owned()),
            control: vec!["UCONTROL".to_owned()],
        }
    }

    fn write(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn an_identity_reads_back_and_does_not_show_its_key() {
        let (_dir, path) = write(identity().text().unwrap().reveal(), 0o600);
        let read = Identity::load(&path).unwrap();
        assert_eq!(read, identity());
        assert!(!format!("{read:?}").contains("GEHEIM"));
    }

    #[test]
    fn an_agent_without_controls_key_gets_a_remedy() {
        let old = Identity {
            control: Vec::new(),
            ..identity()
        };
        let (_dir, path) = write(old.text().unwrap().reveal(), 0o600);
        let error = Identity::load(&path).unwrap_err().to_string();
        assert!(error.contains("lacuna keys init"), "{error}");
        assert_eq!(Identity::read(&path).unwrap(), old);
        // No other role needs control's key.
        let mut other = old;
        (other.holder.role, other.holder.node) = (Role::Planner, None);
        let (_dir, path) = write(other.text().unwrap().reveal(), 0o600);
        assert_eq!(Identity::load(&path).unwrap(), other);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let text = identity().text().unwrap();
        for mode in [0o640, 0o604, 0o620, 0o660] {
            let (_dir, path) = write(text.reveal(), mode);
            let error = Identity::load(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
            assert!(error.contains(&format!("mode {mode:03o}")), "{error}");
        }
    }

    #[test]
    fn a_broken_file_is_refused_without_showing_its_contents() {
        let good = identity().text().unwrap();
        let broken = [
            good.reveal().replace("seed = \"", "seed = \"\\q"),
            good.reveal().replace("version = 1", "version = 9"),
            good.reveal().replace("\"agent\"", "\"root\""),
            format!("SUGEHEIM\n{}", good.reveal()),
        ];
        for text in broken {
            let (_dir, path) = write(&text, 0o600);
            let error = Identity::load(&path).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("GEHEIM"), "{error}");
        }
        let missing = Identity::load(Path::new("/nonexistent/i.toml")).unwrap_err();
        assert!(missing.to_string().contains("cannot read the identity"));
    }
}
