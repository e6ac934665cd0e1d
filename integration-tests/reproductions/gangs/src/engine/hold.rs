//! The time for which a job has its GPUs.

/// How a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The job is done.
    Finished,
    /// The lease is over: expired at the end of a chunk, or ended by the look-ahead.
    Lease { expired: bool },
}

/// One hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hold {
    /// Its start, seconds.
    pub(super) from_s: f64,
    /// The end of its lease by its length alone, seconds.
    pub(super) lease_until_s: Option<f64>,
    /// How it ends, unless a plan ends it.
    pub(super) end: End,
    /// Start of the work, after the stall of a restart, seconds.
    works_from_s: f64,
    /// Until when time and work are counted, seconds.
    settled_s: f64,
    /// The end of the lease at the end of a chunk, seconds, and whether it expires there.
    lease_end: Option<(f64, bool)>,
}

impl Hold {
    /// A hold from now on that works from later on. A lease has its end by length, its end at the
    /// end of a chunk, and whether it expires there.
    pub(super) fn new(now_s: f64, works_from_s: f64, lease: Option<(f64, f64, bool)>) -> Self {
        Self {
            from_s: now_s,
            lease_until_s: lease.map(|(until_s, _, _)| until_s),
            end: End::Finished,
            works_from_s,
            settled_s: now_s,
            lease_end: lease.map(|(_, end_s, expired)| (end_s, expired)),
        }
    }

    /// Lets time pass: seconds held and seconds worked since the last call.
    pub(super) fn pass(&mut self, now_s: f64) -> (f64, f64) {
        let held_s = now_s - self.settled_s;
        let worked_s = (now_s - self.works_from_s.max(self.settled_s)).max(0.0);
        self.settled_s = now_s;
        (held_s, worked_s)
    }

    /// Its end, if the job needs this much more time to work, seconds.
    pub(super) fn end_at(&mut self, work_s: f64) -> f64 {
        let done_s = self.works_from_s.max(self.settled_s) + work_s;
        match self.lease_end {
            Some((end_s, expired)) if end_s < done_s => {
                self.end = End::Lease { expired };
                end_s
            }
            _ => {
                self.end = End::Finished;
                done_s
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_held_and_not_worked() {
        let mut hold = Hold::new(100.0, 110.0, None);
        assert_eq!(hold.end_at(50.0), 160.0);
        assert_eq!(hold.pass(105.0), (5.0, 0.0));
        assert_eq!(hold.pass(130.0), (25.0, 20.0));
        assert_eq!(hold.end_at(30.0), 160.0);
        assert_eq!(hold.end, End::Finished);
    }

    #[test]
    fn the_earlier_of_work_and_lease_ends_a_hold() {
        let mut hold = Hold::new(0.0, 0.0, Some((100.0, 104.0, true)));
        assert_eq!(
            (hold.end_at(500.0), hold.end),
            (104.0, End::Lease { expired: true })
        );
        assert_eq!((hold.end_at(104.0), hold.end), (104.0, End::Finished));
    }
}
