//! The list of users and their public keys, as `users.toml` keeps it.

use lacuna_model::{ClusterId, NodeId, Timestamp};
use lacuna_wire::access::{Holder, Role};
use serde::{Deserialize, Serialize};

use crate::output::parse_time;

/// A user who has, or had, a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    /// The cluster of the user.
    pub(crate) cluster: ClusterId,
    /// The name of the user, unique within the cluster.
    pub(crate) name: String,
    /// The role, which decides the permissions.
    #[serde(with = "role")]
    pub(crate) role: Role,
    /// The one node that an agent speaks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<NodeId>,
    /// The public key.
    pub(crate) key: String,
    /// The time at which the key was made, ISO-8601.
    pub(crate) created: String,
    /// The end of the key, ISO-8601; none if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    /// The time at which the key was revoked, ISO-8601; none while it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked: Option<String>,
    /// For an agent, the keys of control that its identity names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) control: Vec<String>,
}

impl User {
    /// Whether the time of the key is over.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        let end = self.until.as_deref().map(parse_time);
        end.is_some_and(|end| end.is_ok_and(|end| end <= now))
    }

    /// The user as the bus knows it.
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

/// All users of the clusters of one nats-server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KeyRing {
    /// The address of nats-server, for identities.
    pub(crate) url: String,
    /// The host names of the server's certificate.
    pub(crate) hosts: Vec<String>,
    /// The clusters for which accounts are made.
    pub(crate) clusters: Vec<ClusterId>,
    /// All users, revoked ones included.
    pub(crate) users: Vec<User>,
}

impl KeyRing {
    /// The valid public keys of control in a cluster.
    pub(super) fn control(&self, cluster: &ClusterId) -> Vec<String> {
        let users = self.users.iter();
        let of = users.filter(|u| u.role == Role::Control && u.cluster == *cluster);
        let valid = of.filter(|u| u.revoked.is_none());
        valid.map(|u| u.key.clone()).collect()
    }
}
