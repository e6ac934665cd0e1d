//! Who may do what, and how much of it.

use std::collections::BTreeMap;

use lacuna_model::SettingError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much one user may have; what is absent has no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Most trainers that are not over yet, waiting or active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainers: Option<u32>,
    /// Most nodes at a time, of all of the user's trainers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
}

/// How fast one user may ask control.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rate {
    /// Requests a second.
    pub per_second: f64,
    /// Requests at once, after a pause.
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

/// Who may do what. The bus proves who asks where it runs with keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// Users who may change the controls, stop pilots, and end anybody's trainer; by default
    /// `operator`, for whom `lacuna keys init` makes an identity: in an emergency somebody must.
    pub operators: Vec<String>,
    /// Whether the rules of this section are enforced; by default if the bus proves who asks. Without
    /// it anybody may do anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce: Option<bool>,
    /// How fast each user may ask, operators too.
    pub rate: Rate,
    /// The highest priority that users who are no operators may give a trainer. The queue of all
    /// users goes by it.
    pub max_priority: i32,
    /// How much each user may have whom `users` does not name.
    pub quota: Quota,
    /// How much certain users may have, in place of `quota`.
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
    /// How much this user may have.
    #[must_use]
    pub fn quota_of(&self, user: &str) -> Quota {
        self.users.get(user).copied().unwrap_or(self.quota)
    }

    /// Whether anybody's nodes are bounded.
    pub(crate) fn bounds_nodes(&self) -> bool {
        self.quotas().any(|quota| quota.nodes.is_some())
    }

    fn quotas(&self) -> impl Iterator<Item = &Quota> {
        std::iter::once(&self.quota).chain(self.users.values())
    }

    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let mut quotas = self
            .quotas()
            .flat_map(|quota| [quota.trainers, quota.nodes]);
        SettingError::unless(
            quotas.all(|most| most != Some(0)),
            "control.access",
            "a quota of 0",
            "1 or more; leave out what has no bound",
        )?;
        let Rate { per_second, burst } = self.rate;
        SettingError::unless(
            per_second > 0.0 && per_second.is_finite() && burst > 0,
            "control.access.rate",
            format!("{per_second} a second, {burst} at once"),
            "more than nothing of both, else nobody can ask for anything",
        )?;
        SettingError::unless(
            self.enforce != Some(true) || !self.operators.is_empty(),
            "control.access.operators",
            "empty",
            "at least one user where control.access.enforce is true, else nobody can change the \
             controls",
        )
    }
}
