//! The rate of each user's requests: a bucket of tokens for each, which fills with time.

use std::collections::BTreeMap;

use lacuna_model::{Span, Timestamp};
use lacuna_trainer::settings::Rate;

use crate::access::Denied;

/// Most users with a bucket of their own. Beyond them the fullest buckets are dropped, which
/// costs their users least.
const MOST_USERS: usize = 10_000;
/// The most trainers of one request, so that one token buys no hour of work.
const MOST_TRAINERS: usize = 1_000;

/// The buckets.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    /// Tokens of each user as of a moment of real time. An absent user has a full bucket.
    users: BTreeMap<String, (f64, Timestamp)>,
}

impl Rates {
    pub(crate) const fn new(rate: Rate) -> Self {
        Self {
            rate,
            users: BTreeMap::new(),
        }
    }

    fn tokens(&self, (tokens, at): (f64, Timestamp), wall: Timestamp) -> f64 {
        let filled = wall.since(at).max(Span::ZERO).as_secs_f64() * self.rate.per_second;
        (tokens + filled).min(f64::from(self.rate.burst))
    }

    /// Takes a token of the user's at a moment of real time.
    ///
    /// # Errors
    /// When to try again, if there is none.
    pub(crate) fn take(&mut self, user: &str, wall: Timestamp) -> Result<(), Denied> {
        let burst = f64::from(self.rate.burst);
        let had = self.users.get(user).copied().unwrap_or((burst, wall));
        let tokens = self.tokens(had, wall);
        if tokens < 1.0 {
            let wait = Span::from_secs_f64((1.0 - tokens) / self.rate.per_second);
            return Err(Denied {
                code: "L0026",
                reason: format!(
                    "{user} asks more than {} times a second: nothing was done, try again in {wait}",
                    self.rate.per_second
                ),
            });
        }
        if !self.users.contains_key(user) {
            self.make_room(wall);
        }
        self.users.insert(user.to_owned(), (tokens - 1.0, wall));
        Ok(())
    }

    /// Forgets the fuller half when there are too many.
    fn make_room(&mut self, wall: Timestamp) {
        if self.users.len() < MOST_USERS {
            return;
        }
        let all = std::mem::take(&mut self.users).into_iter();
        let mut by_tokens: Vec<(f64, String)> = all
            .map(|(user, had)| (self.tokens(had, wall), user))
            .collect();
        by_tokens.sort_by(|a, b| a.0.total_cmp(&b.0));
        by_tokens.truncate(MOST_USERS / 2);
        let left = by_tokens.into_iter();
        self.users = left.map(|(tokens, user)| (user, (tokens, wall))).collect();
    }
}

/// Whether one request may carry this number of trainers.
///
/// # Errors
/// How many it may.
pub(crate) fn few_enough(trainers: usize) -> Result<(), Denied> {
    if trainers <= MOST_TRAINERS {
        return Ok(());
    }
    Err(Denied {
        code: "L0027",
        reason: format!(
            "{trainers} trainers in one request, and {MOST_TRAINERS} may be: nothing was done, \
             submit them in parts"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(1_700_000_000_000 + ms)
    }

    #[test]
    fn a_fast_user_learns_when_to_try_again_and_stops_no_other() {
        let mut rates = Rates::new(Rate {
            per_second: 2.0,
            burst: 3,
        });
        for _ in 0..3 {
            rates.take("ann", at(0)).unwrap();
        }
        let denied = rates.take("ann", at(100)).unwrap_err();
        assert_eq!(denied.code, "L0026");
        assert!(denied.reason.contains("400ms"), "{}", denied.reason);
        rates.take("bob", at(100)).unwrap();
        rates.take("ann", at(500)).unwrap();
        assert!(rates.take("ann", at(900)).is_err());
        // No more than the burst gathers.
        for _ in 0..3 {
            rates.take("ann", at(3_600_000)).unwrap();
        }
        assert!(rates.take("ann", at(3_600_000)).is_err());
    }

    #[test]
    fn many_names_fill_no_memory_and_reset_no_bucket() {
        let mut rates = Rates::new(Rate {
            per_second: 1.0,
            burst: 5,
        });
        for _ in 0..5 {
            rates.take("ann", at(0)).unwrap();
        }
        for n in 0..3 * MOST_USERS {
            rates.take(&format!("u{n}"), at(0)).unwrap();
        }
        assert!(rates.users.len() <= MOST_USERS, "{}", rates.users.len());
        assert!(rates.take("ann", at(0)).is_err());
    }

    #[test]
    fn one_request_carries_no_more_than_a_thousand_trainers() {
        assert!(few_enough(1_000).is_ok());
        assert_eq!(few_enough(1_001).unwrap_err().code, "L0027");
    }
}
