//! The section `[control.access]`: rights and quotas of users.

use std::collections::BTreeMap;

use lacuna_model::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much one user may have. Without a value there is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Most trainers that have not ended, waiting or active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainers: Option<u32>,
    /// Most nodes at a time, over all trainers of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
}

/// How fast one user may send requests to control.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rate {
    /// Requests a second.
    pub per_second: f64,
    /// Most requests at once after a pause.
    pub burst: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            per_second: 20.0,
            burst: 200,
        }
    }
}

/// Rights of users. With keys, the bus proves the user of each request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// Users who may change the controls, stop pilots, and end any user's trainers. The default
    /// is `operator`, whose identity `lacuna keys init` makes.
    pub operators: Vec<String>,
    /// Whether the rules of this section are enforced. By default they are if the bus runs with
    /// keys. If they are not, any user may do anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce: Option<bool>,
    /// How fast each user, operators too, may send requests.
    pub rate: Rate,
    /// The highest priority that a user who is no operator may give a trainer. The queue of all
    /// users is ordered by priority.
    pub max_priority: i32,
    /// Quota of each user that `users` does not name.
    pub quota: Quota,
    /// Quotas of single users, in place of `quota`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, Quota>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            operators: vec!["operator".to_owned()],
            enforce: None,
            rate: Rate::default(),
            max_priority: 0,
            quota: Quota::default(),
            users: BTreeMap::new(),
        }
    }
}

impl Access {
    /// The quota of this user.
    #[must_use]
    pub fn quota_of(&self, user: &str) -> Quota {
        self.users.get(user).copied().unwrap_or(self.quota)
    }

    /// Whether a quota bounds the nodes of any user.
    pub(crate) fn bounds_nodes(&self) -> bool {
        self.quotas().any(|quota| quota.nodes.is_some())
    }

    fn quotas(&self) -> impl Iterator<Item = &Quota> {
        std::iter::once(&self.quota).chain(self.users.values())
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let mut quotas = self
            .quotas()
            .flat_map(|quota| [quota.trainers, quota.nodes]);
        SettingError::unless(
            quotas.all(|most| most != Some(0)),
            "control.access",
            "a quota of 0",
            "1 or more; leave out a value without a bound",
        )?;
        let Rate { per_second, burst } = self.rate;
        SettingError::unless(
            per_second > 0.0 && per_second.is_finite() && burst > 0,
            "control.access.rate",
            format!("{per_second} a second, {burst} at once"),
            "more than 0 of both, else no user can send a request",
        )?;
        SettingError::unless(
            self.enforce != Some(true) || !self.operators.is_empty(),
            "control.access.operators",
            "empty",
            "at least one user where control.access.enforce is true, else no user can change the \
             controls",
        )
    }
}
