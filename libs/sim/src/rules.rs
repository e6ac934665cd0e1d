//! Which rules the policy `auto` followed.

use std::collections::BTreeMap;

use lacuna_model::{Followed, RuleGain};
use serde::{Deserialize, Serialize};

/// The rules that the policy `auto` followed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RulesFollowed {
    /// Share of the time in which each rule was followed, by its name.
    pub shares: BTreeMap<String, f64>,
    /// Number of changes to another rule.
    pub changes: u64,
    /// What each rule brought in the last hours of the replay, or would have brought.
    pub brought: Vec<RuleGain>,
}

/// The rules followed so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleTimes {
    newest: Option<Followed>,
    since_s: f64,
    seconds: BTreeMap<&'static str, f64>,
    changes: u64,
}

impl RuleTimes {
    /// Takes the rule of a decision at a moment, seconds since the start.
    pub(crate) fn take(&mut self, at_s: f64, followed: Option<&Followed>) {
        self.pass(at_s);
        if let Some((newest, followed)) = self.newest.as_ref().zip(followed) {
            self.changes += u64::from(newest.rule != followed.rule);
        }
        self.newest = followed.cloned();
    }

    fn pass(&mut self, at_s: f64) {
        if let Some(newest) = &self.newest {
            *self.seconds.entry(newest.rule.name()).or_default() += at_s - self.since_s;
        }
        self.since_s = at_s;
    }

    /// The rules followed until a moment; nothing if no rules were compared.
    pub(crate) fn finish(mut self, at_s: f64) -> Option<RulesFollowed> {
        self.pass(at_s);
        let newest = self.newest?;
        let all: f64 = self.seconds.values().sum();
        let share = |seconds| if all > 0.0 { seconds / all } else { 0.0 };
        let shares = self.seconds.into_iter();
        Some(RulesFollowed {
            shares: shares
                .map(|(rule, s)| (rule.to_owned(), share(s)))
                .collect(),
            changes: self.changes,
            brought: newest.brought,
        })
    }
}
