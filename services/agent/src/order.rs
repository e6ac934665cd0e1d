//! Renewals in their order: they have the number of control's lead (the moment at which it was
//! taken, later than that of the lead before) and count within it. A renewal older than one that
//! was heard holds no lease, whether a former leader sends it or somebody repeats it.

use std::collections::BTreeMap;

use lacuna_model::{Span, Timestamp};
use lacuna_wire::msg::Renewal;

/// The newest renewal of each subject.
#[derive(Debug)]
pub(crate) struct Order {
    newest: BTreeMap<String, Newest>,
    dead_man: Span,
}

#[derive(Debug)]
struct Newest {
    lead: u64,
    number: u64,
    heard: Timestamp,
}

impl Order {
    /// Nothing heard yet. After the dead man's time without a renewal no lease is held, and any
    /// order begins anew: a bus that was emptied may have forgotten the lead before.
    pub(crate) const fn new(dead_man: Span) -> Self {
        Self {
            newest: BTreeMap::new(),
            dead_man,
        }
    }

    /// Whether a renewal that is heard at `now` (real time) is newer than all of its subject.
    pub(crate) fn heeds(&mut self, subject: &str, renewal: &Renewal, now: Timestamp) -> bool {
        let Renewal { lead, number, .. } = *renewal;
        let older = |newest: &Newest| {
            now.since(newest.heard) < self.dead_man
                && (lead, number) <= (newest.lead, newest.number)
        };
        if self.newest.get(subject).is_some_and(older) {
            return false;
        }
        let heard = Newest {
            lead,
            number,
            heard: now,
        };
        self.newest.insert(subject.to_owned(), heard);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_renewal_is_not_heeded_before_the_dead_man_is_over() {
        let mut order = Order::new(Span::from_secs(60));
        let mut heeds = |subject: &str, lead, number, at| {
            let leases = Vec::new();
            let renewal = Renewal {
                lead,
                number,
                leases,
            };
            order.heeds(subject, &renewal, Timestamp::from_unix(at))
        };
        assert!(heeds("r.1", 7, 4, 100) && heeds("r.1", 7, 5, 110));
        assert!(!heeds("r.1", 7, 5, 111) && !heeds("r.1", 6, 99, 112));
        // Other shards and later leads count by themselves.
        assert!(heeds("r.2", 7, 1, 112) && heeds("r.1", 8, 1, 113));
        assert!(!heeds("r.1", 7, 6, 172));
        assert!(heeds("r.1", 2, 1, 173));
    }
}
