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
    /// The newest comparison of rules, and whether the newest decision made it.
    newest: Option<Followed>,
    is_followed: bool,
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
        self.is_followed = followed.is_some();
        if let Some(followed) = followed {
            self.newest = Some(followed.clone());
        }
    }

    fn pass(&mut self, at_s: f64) {
        if let Some(newest) = self.newest.as_ref().filter(|_| self.is_followed) {
            *self.seconds.entry(newest.rule.name()).or_default() += at_s - self.since_s;
        }
        self.since_s = at_s;
    }

    /// The rules followed until a moment; nothing if rules were never compared.
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

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_model::{Rule, Timestamp};

    #[test]
    fn decisions_without_a_rule_hide_neither_times_nor_changes() {
        let followed = |rule| Followed {
            rule,
            since: Timestamp::default(),
            brought: Vec::new(),
        };
        let mut times = RuleTimes::default();
        times.take(0.0, Some(&followed(Rule::Forecasts)));
        times.take(30.0, None);
        times.take(50.0, Some(&followed(Rule::Dp)));
        times.take(60.0, None);
        let found = times.finish(100.0).unwrap();
        let shares = [("dp", 0.25), ("forecasts", 0.75)];
        assert_eq!(
            found.shares,
            shares.map(|(rule, share)| (rule.to_owned(), share)).into()
        );
        assert_eq!(found.changes, 1);
        assert_eq!(RuleTimes::default().finish(9.0), None);
    }
}
