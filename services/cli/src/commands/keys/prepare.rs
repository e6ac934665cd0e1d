//! The keys of `lacuna up --secure`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lacuna_model::ClusterId;
use lacuna_runtime::nats_conf::ServerKeys;
use lacuna_wire::access::{Holder, Role};

use super::folder::KeyFolder;
use super::{accounts, services, tls, with_local};
use crate::error::Result;

/// The keys of one `lacuna up --secure`.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The identity file of each service, by its name.
    pub(crate) services: BTreeMap<String, PathBuf>,
    /// The identity file of the operator who runs `lacuna up`.
    pub(crate) operator: PathBuf,
    /// The name of that operator.
    pub(crate) user: String,
    /// The files for nats-server.
    pub(crate) server: ServerKeys,
}

/// Makes missing keys in this folder, for one cluster at this address. A missing identity file gets
/// a new key.
///
/// # Errors
/// Files cannot be written.
pub(crate) fn prepare(dir: &Path, cluster: &ClusterId, url: &str, user: &str) -> Result<Prepared> {
    let mut keys = KeyFolder::open(dir, true)?;
    keys.ring.hosts = with_local(&[]);
    url.clone_into(&mut keys.ring.url);
    tls::ensure(&keys.dir, &keys.ring.hosts, false)?;
    // The certificate is renewed for each run, so it never expires.
    tls::renew(&keys.dir, &keys.ring.hosts)?;
    keys.ring.clusters = vec![cluster.clone()];
    let fits = |c: &char| c.is_ascii_alphanumeric() || "_-".contains(*c);
    let user: String = user.chars().filter(fits).take(32).collect();
    let operator = Holder {
        user: format!("operator-{user}"),
        role: Role::Operator,
        node: None,
    };
    let mut found = BTreeMap::new();
    for holder in services(&[]).iter().chain([&operator]) {
        let missing = !keys.identity_path(cluster, &holder.user).is_file();
        let entry = keys.add(cluster, holder, missing, None)?;
        found.insert(entry.user, entry.file);
    }
    keys.save()?;
    let server = ServerKeys {
        include: Path::new("keys").join(accounts::SERVER),
        folder: dir.join(accounts::SERVER),
    };
    let user = operator.user;
    let operator = found.remove(&user).unwrap_or_default();
    Ok(Prepared {
        services: found,
        operator,
        user,
        server,
    })
}
