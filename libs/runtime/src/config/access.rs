//! Who may do what, and how much of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::ConfigError;

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
    /// Whether that is enforced; by default if the bus proves who asks. Without it anybody may do
    /// anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce: Option<bool>,
    /// How fast each user may ask, operators too.
    pub rate: Rate,
    /// The highest priority of a trainer that who is no operator submits. The queue of all users
    /// goes by it, so by default nobody may raise it above 0.
    pub max_priority: i32,
    /// How much everybody may have for whom `users` says nothing.
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
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let quotas = std::iter::once(&self.quota).chain(self.users.values());
        if quotas
            .flat_map(|quota| [quota.trainers, quota.nodes])
            .any(|most| most == Some(0))
        {
            return Err(ConfigError::Value {
                key: "control.access",
                value: "a quota of 0".to_owned(),
                expected: "1 or more; leave out what has no bound",
            });
        }
        let Rate { per_second, burst } = self.rate;
        if !(per_second > 0.0 && per_second.is_finite()) || burst == 0 {
            return Err(ConfigError::Value {
                key: "control.access.rate",
                value: format!("{per_second} a second, {burst} at once"),
                expected: "more than nothing of both, else nobody can ask for anything",
            });
        }
        if self.enforce == Some(true) && self.operators.is_empty() {
            return Err(ConfigError::Value {
                key: "control.access.operators",
                value: "empty".to_owned(),
                expected: "at least one user where control.access.enforce is true, else nobody \
                           can change the controls",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    fn refused(text: &str) -> String {
        Config::parse(text, Path::new("x"))
            .and_then(|c| c.check())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn quotas_are_read_and_printed_and_nonsense_is_refused() {
        let text = "[control.access]\noperators = [\"op\"]\nenforce = true\n\
                    quota = { trainers = 10 }\n[control.access.users.ann]\nnodes = 64\n";
        let config = Config::parse(text, Path::new("x")).unwrap();
        config.check().unwrap();
        let access = &config.control.access;
        assert_eq!(access.quota.trainers, Some(10));
        assert_eq!(access.users.get("ann").and_then(|q| q.nodes), Some(64));
        let again = Config::parse(&config.print().unwrap(), Path::new("x")).unwrap();
        assert_eq!(again, config);
        assert!(refused("[control.access]\nquota = { nodes = 0 }\n").contains("quota of 0"));
        assert!(refused("[control.access.rate]\nburst = 0\n").contains("control.access.rate"));
        assert!(refused("[control.access.rate]\nper_second = nan\n").contains("nobody can ask"));
        let nobody = "[control.access]\nenforce = true\noperators = []\n";
        assert!(refused(nobody).contains("operators"));
    }

    #[test]
    fn the_operator_of_the_first_keys_is_one_by_default() {
        for text in ["", "[control.access]\nenforce = true\n"] {
            let config = Config::parse(text, Path::new("x")).unwrap();
            config.check().unwrap();
            assert_eq!(config.control.access.operators, ["operator"], "{text}");
        }
    }
}
