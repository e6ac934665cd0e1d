//! The folder of keys: the list of users, their identity files, the certificates, and the files
//! that nats-server reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lacuna_model::{ClusterId, Timestamp};
use lacuna_runtime::{Identity, Secret};
use lacuna_wire::access::{Holder, Role};
use serde::Serialize;

use super::ring::{KeyRing, User};
use super::{accounts, files, tls};
use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{iso, iso_short};

/// The file of the list of users. It holds no secret.
const FILE: &str = "users.toml";

/// One key after a change, as `lacuna keys` prints it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// The cluster of the user.
    pub(crate) cluster: String,
    /// The name of the user.
    pub(crate) user: String,
    /// The role of the user.
    pub(crate) role: &'static str,
    /// The path of the identity file, which may have been moved away already.
    pub(crate) file: PathBuf,
    /// Whether the key is new.
    pub(crate) new: bool,
    /// The end of a new key, ISO-8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
}

/// A folder of keys, locked against a second `lacuna keys`.
#[derive(Debug)]
pub(crate) struct KeyFolder {
    /// The path of the folder.
    pub(crate) dir: PathBuf,
    /// The users and their public keys.
    pub(crate) ring: KeyRing,
    /// Identity files of agents that are missing here and do not name control's present keys.
    /// [`KeyFolder::save`] cannot write them again.
    pub(crate) stale: Vec<PathBuf>,
    /// Identities that [`KeyFolder::save`] will write.
    identities: BTreeMap<PathBuf, Identity>,
    _lock: std::fs::File,
}

impl KeyFolder {
    /// Opens and locks the folder; with `make` a missing folder is made.
    ///
    /// # Errors
    /// `L0040` without keys, `L0006` when another process holds the lock, `L0011` for files.
    pub(crate) fn open(dir: &Path, make: bool) -> Result<Self> {
        let path = dir.join(FILE);
        if make {
            std::fs::create_dir_all(dir).map_err(|e| file_error("make", dir, &e))?;
        } else if !path.is_file() {
            return Err(CliError::new(
                "L0040",
                Exit::Failed,
                format!("{} has no keys", dir.display()),
            )
            .remedy(format!(
                "make them: lacuna keys init {} --cluster ID",
                dir.display()
            )));
        }
        let lock = files::lock(dir)?;
        let ring = match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|e| {
                CliError::new(
                    "L0040",
                    Exit::Failed,
                    format!("{} cannot be read: {e}", path.display()),
                )
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => KeyRing::default(),
            Err(e) => return Err(file_error("read", &path, &e)),
        };
        Ok(Self {
            dir: dir.to_owned(),
            ring,
            stale: Vec::new(),
            identities: BTreeMap::new(),
            _lock: lock,
        })
    }

    /// The path of the identity file of a user.
    pub(crate) fn identity_path(&self, cluster: &ClusterId, name: &str) -> PathBuf {
        place(&self.dir, cluster, name)
    }

    /// Gives a user a key, unless the user has one. With `force` the user gets a new key, and the
    /// old one ends with the server's next reload. A new key may have an end. [`KeyFolder::save`]
    /// makes the change permanent.
    ///
    /// # Errors
    /// `L0041` if the user has another role; `L0011` for files.
    pub(crate) fn add(
        &mut self,
        cluster: &ClusterId,
        holder: &Holder,
        force: bool,
        until: Option<Timestamp>,
    ) -> Result<Entry> {
        let path = self.identity_path(cluster, &holder.user);
        let entry = |new| Entry {
            cluster: cluster.to_string(),
            user: holder.user.clone(),
            role: holder.role.name(),
            file: path.clone(),
            new,
            until: until.filter(|_| new).map(iso_short),
        };
        let known = self
            .ring
            .users
            .iter()
            .position(|u| u.cluster == *cluster && u.name == holder.user);
        let valid = known
            .and_then(|at| self.ring.users.get(at))
            .filter(|user| user.revoked.is_none());
        if let Some(user) = valid
            && !force
        {
            if user.holder() != *holder {
                return Err(CliError::new(
                    "L0041",
                    Exit::Failed,
                    format!(
                        "{} of cluster {cluster} has a key already, as {}",
                        user.name, user.role
                    ),
                )
                .remedy("take another name, or --force for a new key in its place"));
            }
            return Ok(entry(false));
        }
        let (seed, key) = new_key()?;
        let identity = Identity {
            cluster: cluster.clone(),
            holder: holder.clone(),
            url: self.ring.url.clone(),
            seed,
            until,
            ca: Some(tls::authority(&self.dir)?),
            control: Vec::new(),
        };
        // If a user is added twice, the last key counts.
        self.identities.insert(path.clone(), identity);
        if let Some(at) = known {
            self.ring.users.remove(at);
        }
        self.ring.users.push(User {
            cluster: cluster.clone(),
            name: holder.user.clone(),
            role: holder.role,
            node: holder.node.clone(),
            key,
            created: now(),
            until: until.map(iso_short),
            revoked: None,
            control: Vec::new(),
        });
        Ok(entry(true))
    }

    /// Updates the identities of agents that do not name control's present keys. Such an identity
    /// is older than signatures, or control has another key since. Agents keep their own keys.
    fn update_agents(&mut self) {
        let ring = self.ring.clone();
        self.stale.clear();
        let users = self.ring.users.iter_mut();
        for user in users.filter(|u| u.role == Role::Agent && u.revoked.is_none()) {
            let control = ring.control(&user.cluster);
            let path = place(&self.dir, &user.cluster, &user.name);
            let identity = self.identities.remove(&path);
            if identity.is_none() && user.control == control {
                continue;
            }
            let Some(identity) = identity.or_else(|| Identity::read(&path).ok()) else {
                self.stale.push(path);
                continue;
            };
            user.control.clone_from(&control);
            self.identities.insert(
                path,
                Identity {
                    control,
                    ..identity
                },
            );
        }
    }

    /// Revokes the keys of these users and returns the users. [`KeyFolder::forget`] removes their
    /// identity files, after [`KeyFolder::save`].
    pub(crate) fn revoke(&mut self, which: impl Fn(&User) -> bool) -> Vec<User> {
        let users = self.ring.users.iter_mut();
        let valid = users.filter(|user| user.revoked.is_none() && which(user));
        valid
            .map(|user| {
                user.revoked = Some(now());
                user.clone()
            })
            .collect()
    }

    /// Removes the identity file of a user whose key was revoked, if the file is still here.
    ///
    /// # Errors
    /// `L0011`.
    pub(crate) fn forget(&self, user: &User) -> Result<()> {
        let path = self.identity_path(&user.cluster, &user.name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(file_error("remove", &path, &e))
            }
            _ => Ok(()),
        }
    }

    /// Updates the identities of agents, then writes all identities, the accounts and the list of
    /// users. Temporary files come first: if one cannot be written, nothing changes. Identities
    /// are renamed first and the list last. An interrupted run may leave keys without rights, but
    /// no user without a key, and no user in the list that nats-server does not know.
    ///
    /// # Errors
    /// `L0011`, whose text says whether a file has changed.
    pub(crate) fn save(&mut self) -> Result<()> {
        self.update_agents();
        self.ring
            .users
            .sort_by(|a, b| (&a.cluster, a.role, &a.name).cmp(&(&b.cluster, b.role, &b.name)));
        let text =
            toml::to_string_pretty(&self.ring).map_err(|e| CliError::failed(e.to_string()))?;
        let head =
            "# Made by `lacuna keys`: the users and their public keys. It holds no secret.\n";
        let all = files::Readers::All;
        let accounts = files::Staged::new(
            &self.dir.join(accounts::SERVER).join(accounts::FILE),
            &accounts::text(&self.ring),
            all,
        )
        .map_err(unchanged)?;
        let users = files::Staged::new(&self.dir.join(FILE), &format!("{head}{text}"), all)
            .map_err(unchanged)?;
        let mut staged = Vec::new();
        for (path, identity) in &self.identities {
            let text = identity
                .text()
                .map_err(|e| CliError::failed(e.to_string()))?;
            let whole = files::Staged::new(path, text.reveal(), files::Readers::Owner);
            staged.push(whole.map_err(unchanged)?);
        }
        staged.extend([accounts, users]);
        for file in staged {
            file.commit().map_err(|e| {
                e.remedy("the keys are written in part: correct that, and run the command again")
            })?;
        }
        self.identities.clear();
        Ok(())
    }
}

fn place(dir: &Path, cluster: &ClusterId, name: &str) -> PathBuf {
    dir.join(cluster.to_string()).join(format!("{name}.toml"))
}

/// Adds to the error of an unwritable file that nothing has changed.
fn unchanged(mut error: CliError) -> CliError {
    error.message.push_str("; no user has changed");
    error.remedy("run it as the owner of the folder; for the keys of `make up`: deploy/up.sh keys")
}

/// The present time, ISO-8601.
fn now() -> String {
    iso(lacuna_runtime::clock::wall())
}

/// A new key of a user: its seed and its public part.
fn new_key() -> Result<(Secret, String)> {
    let pair = nkeys::KeyPair::new_user();
    let seed = pair
        .seed()
        .map_err(|e| CliError::failed(format!("cannot make a key: {e}")))?;
    Ok((Secret::from(seed), pair.public_key()))
}
