//! The order of renewals. A renewal has the number of control's leadership (the moment at which it
//! began, later than that of any before) and a count within it. A renewal older than one that was
//! received confirms no lease, whether a former leader sends it or another user repeats it.

use std::collections::BTreeMap;

use lacuna_model::{Span, Timestamp};
use lacuna_wire::msg::Renewal;

/// The newest renewal of each subject.
#[derive(Debug)]
pub(crate) struct Order {
    newest: BTreeMap<String, Newest>,
    lease_timeout: Span,
}

#[derive(Debug)]
struct Newest {
    lead: u64,
    number: u64,
    received: Timestamp,
}

impl Order {
    /// No renewal yet. After the lease timeout without a renewal no lease is held, and any number
    /// is accepted again: an emptied bus may have lost the leadership before.
    pub(crate) const fn new(lease_timeout: Span) -> Self {
        Self {
            newest: BTreeMap::new(),
            lease_timeout,
        }
    }

    /// Whether a renewal that is received at `now` (real time) is newer than all of its subject.
    pub(crate) fn accepts(&mut self, subject: &str, renewal: &Renewal, now: Timestamp) -> bool {
        let Renewal { lead, number, .. } = *renewal;
        let older = |newest: &Newest| {
            now.since(newest.received) < self.lease_timeout
                && (lead, number) <= (newest.lead, newest.number)
        };
        if self.newest.get(subject).is_some_and(older) {
            return false;
        }
        let newest = Newest {
            lead,
            number,
            received: now,
        };
        self.newest.insert(subject.to_owned(), newest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_renewal_is_ignored_until_the_lease_timeout() {
        let mut order = Order::new(Span::from_secs(60));
        let mut accepts = |subject: &str, lead, number, at| {
            let leases = Vec::new();
            let renewal = Renewal {
                lead,
                number,
                leases,
                forgotten: Vec::new(),
            };
            order.accepts(subject, &renewal, Timestamp::from_unix(at))
        };
        assert!(accepts("r.1", 7, 4, 100) && accepts("r.1", 7, 5, 110));
        assert!(!accepts("r.1", 7, 5, 111) && !accepts("r.1", 6, 99, 112));
        // Other shards and later leaderships count separately.
        assert!(accepts("r.2", 7, 1, 112) && accepts("r.1", 8, 1, 113));
        assert!(!accepts("r.1", 7, 6, 172));
        assert!(accepts("r.1", 2, 1, 173));
    }
}
