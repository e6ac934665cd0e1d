//! The list of users and their public keys, as `users.toml` keeps it.

use lacuna_model::{ClusterId, NodeId};
use lacuna_wire::access::{Holder, Role};
use serde::{Deserialize, Serialize};

/// Somebody who has, or had, a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    /// Where.
    pub(crate) cluster: ClusterId,
    /// Who.
    pub(crate) name: String,
    /// What for.
    #[serde(with = "role")]
    pub(crate) role: Role,
    /// The one node that an agent speaks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<NodeId>,
    /// The public key.
    pub(crate) key: String,
    /// Since when, ISO-8601.
    pub(crate) created: String,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked: Option<String>,
    /// Of an agent: the keys of control that its identity names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) control: Vec<String>,
}

impl User {
    /// As the bus knows them.
    pub(crate) fn holder(&self) -> Holder {
        Holder {
            user: self.name.clone(),
            role: self.role,
            node: self.node.clone(),
        }
    }
}

mod role {
    use lacuna_wire::access::Role;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(role: &Role, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(role.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Role, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(de::Error::custom)
    }
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KeyRing {
    /// Where nats-server is, for identities.
    pub(crate) url: String,
    /// The names for which the server's certificate holds.
    pub(crate) hosts: Vec<String>,
    /// Accounts are made for these.
    pub(crate) clusters: Vec<ClusterId>,
    /// Everybody, the revoked too.
    pub(crate) users: Vec<User>,
}

impl KeyRing {
    /// The public keys of control in a cluster.
    pub(super) fn control(&self, cluster: &ClusterId) -> Vec<String> {
        let users = self.users.iter();
        let of = users.filter(|u| u.role == Role::Control && u.cluster == *cluster);
        let valid = of.filter(|u| u.revoked.is_none());
        valid.map(|u| u.key.clone()).collect()
    }
}
