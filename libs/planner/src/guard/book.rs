//! What each rule brought in a fading window, and which one is followed.

use lacuna_model::{Followed, Rule, RuleGain, Timestamp};

/// Time over which gains fade to 1/e, seconds.
pub(super) const WINDOW_S: f64 = 8.0 * 3600.0;

/// Time over which a difference of gains is one observation, seconds. Shorter ones depend on each
/// other: a stall and the rate that paid for it lie minutes apart.
const OBSERVATION_S: f64 = 900.0;

/// Departures in the window before another rule can be followed. Without them any growth pays.
const FEWEST_DEPARTURES: f64 = 4.0;

/// The least lead of another rule, as a part of what the followed one brought.
const LEAST_LEAD: f64 = 0.003;

/// The least lead of a simple rule, in standard errors of the difference. Four observations at least
/// have to agree.
const ERRORS_TO_LEAVE: f64 = 2.0;

/// The same for the way back to forecasts.
const ERRORS_TO_COME_BACK: f64 = 1.0;

/// One of a thing for each rule.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PerRule<T> {
    forecasts: T,
    dp: T,
    equal_share: T,
}

impl<T> PerRule<T> {
    pub(super) const fn of(&self, rule: Rule) -> &T {
        match rule {
            Rule::Forecasts => &self.forecasts,
            Rule::Dp => &self.dp,
            Rule::EqualShare => &self.equal_share,
        }
    }

    pub(super) const fn of_mut(&mut self, rule: Rule) -> &mut T {
        match rule {
            Rule::Forecasts => &mut self.forecasts,
            Rule::Dp => &mut self.dp,
            Rule::EqualShare => &mut self.equal_share,
        }
    }

    pub(super) fn map<U>(&self, f: impl Fn(&T) -> U) -> PerRule<U> {
        PerRule {
            forecasts: f(&self.forecasts),
            dp: f(&self.dp),
            equal_share: f(&self.equal_share),
        }
    }
}

/// What each rule brought. Gains are in node-seconds of the best rate per node.
#[derive(Debug, Clone, Default)]
pub(super) struct Book {
    rule: Rule,
    since: Timestamp,
    now: Timestamp,
    /// Node-seconds that the pool offered in the window.
    offered: f64,
    /// Departures in the window that hit a trainer.
    departures: f64,
    gained: PerRule<f64>,
    /// What each rule gained since the newest whole observation, and how long that is, seconds.
    newest: PerRule<f64>,
    newest_s: f64,
    /// The variance of the difference between the gains of two rules: the sum of its squares by
    /// observation.
    noise: PerRule<PerRule<f64>>,
}

impl Book {
    /// The followed rule.
    pub(super) const fn rule(&self) -> Rule {
        self.rule
    }

    /// Lets time pass until `now`: each rule gains at its rate, and the pool offers `nodes` nodes.
    pub(super) fn pass(&mut self, now: Timestamp, rates: &PerRule<f64>, nodes: usize) {
        let seconds = now.since(self.now).as_secs_f64().max(0.0);
        if self.now == Timestamp::default() {
            self.since = now;
        }
        self.now = now;
        let kept = (-seconds / WINDOW_S).exp();
        let counted_s = WINDOW_S * (1.0 - kept);
        for rule in Rule::ALL {
            let gained = self.gained.of_mut(rule);
            *gained = *gained * kept + rates.of(rule) * counted_s;
            *self.newest.of_mut(rule) += rates.of(rule) * counted_s;
            for other in Rule::ALL {
                *self.noise.of_mut(rule).of_mut(other) *= kept * kept;
            }
        }
        self.offered = self.offered * kept + nodes as f64 * counted_s;
        self.departures *= kept;
        self.newest_s += seconds;
    }

    /// Charges a rule with the cost of changes or departures.
    pub(super) fn charge(&mut self, rule: Rule, cost: f64) {
        *self.gained.of_mut(rule) -= cost;
        *self.newest.of_mut(rule) -= cost;
    }

    /// Follows another rule if that one brought clearly more. `departed` says whether a departure hit
    /// a trainer since the newest decision.
    pub(super) fn judge(&mut self, departed: bool) {
        self.departures += f64::from(departed);
        let gained = |rule| *self.gained.of(rule);
        let better = |best, rule| {
            if gained(rule) > gained(best) {
                rule
            } else {
                best
            }
        };
        let best = Rule::ALL.into_iter().fold(self.rule, better);
        let lead = gained(best) - gained(self.rule);
        let errors = match best {
            Rule::Forecasts => ERRORS_TO_COME_BACK,
            Rule::Dp | Rule::EqualShare => ERRORS_TO_LEAVE,
        };
        let noise = self.noise.of(best).of(self.rule) + self.newest_lead(best, self.rule).powi(2);
        let least = LEAST_LEAD * gained(self.rule).abs() + errors * noise.sqrt();
        if self.departures >= FEWEST_DEPARTURES && lead > least {
            (self.rule, self.since) = (best, self.now);
        }
        if self.newest_s >= OBSERVATION_S {
            self.observe();
        }
    }

    /// By how much one rule gained more than another one since the newest whole observation.
    fn newest_lead(&self, rule: Rule, other: Rule) -> f64 {
        self.newest.of(rule) - self.newest.of(other)
    }

    /// Ends an observation.
    fn observe(&mut self) {
        for rule in Rule::ALL {
            for other in Rule::ALL {
                let lead = self.newest_lead(rule, other);
                *self.noise.of_mut(rule).of_mut(other) += lead * lead;
            }
        }
        (self.newest, self.newest_s) = (PerRule::default(), 0.0);
    }

    /// The followed rule, and what each rule brought.
    pub(super) fn followed(&self) -> Followed {
        let share = |rule| {
            if self.offered > 0.0 {
                self.gained.of(rule) / self.offered
            } else {
                0.0
            }
        };
        let gain = |rule| RuleGain {
            rule,
            share: share(rule),
        };
        Followed {
            rule: self.rule,
            since: self.since,
            brought: Rule::ALL.map(gain).to_vec(),
        }
    }
}
