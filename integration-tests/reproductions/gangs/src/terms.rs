//! The terms under which jobs have GPUs.

/// A lease: GPUs return at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lease {
    /// Its length, seconds.
    pub length_s: f64,
    /// Samples per GPU between two moments at which a job can lose its lease.
    pub chunk: f64,
}

impl Lease {
    /// The number of chunks of a lease for a gang, and whether the lease expired at the end of the
    /// last one; else the published engine's look-ahead ended it. `chunk_s` is the time of a chunk.
    ///
    /// The look-ahead divides the next chunk by the number of GPUs once too often.
    pub(crate) fn chunks(self, chunk_s: f64, gpus: u32) -> (f64, bool) {
        let expired = (self.length_s / chunk_s).ceil();
        let ahead = ((self.length_s - chunk_s / f64::from(gpus)) / chunk_s).floor() + 1.0;
        let chunks = expired.min(ahead).max(1.0);
        (chunks, chunks * chunk_s >= self.length_s)
    }
}

/// What a start after the first costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The next round comes later; the GPUs are free in the meantime.
    Delay,
    /// The gang holds its GPUs and makes no progress.
    Stall,
}

/// Links that gangs share: how many gangs have a link's full speed at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contention {
    /// On the links of a machine, gangs over several machines of a rack.
    pub machine: f64,
    /// On the uplink of a rack, gangs over several racks.
    pub rack: f64,
}

/// The terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The lease; without one, jobs keep their GPUs until a plan stops them.
    pub lease: Option<Lease>,
    /// What a restart costs.
    pub restart: Restart,
    /// Its cost, seconds per GPU of the gang.
    pub restart_s: f64,
    /// Contention between gangs; none in the published model.
    pub contention: Option<Contention>,
    /// The published defect: running jobs bid too, and what they win lies idle until they end.
    pub published: bool,
    /// The first shape that is seen of a number of GPUs and a level gives the speed of all, as in
    /// the published Gandiva.
    pub first_shape: bool,
}

impl Terms {
    /// The published engine: leases of an hour, chunks of 1,000 samples a GPU, a second's delay per
    /// GPU.
    pub const LEASED: Self = Self {
        lease: Some(Lease {
            length_s: 3600.0,
            chunk: 1000.0,
        }),
        restart: Restart::Delay,
        restart_s: 1.0,
        contention: None,
        published: false,
        first_shape: false,
    };

    /// No lease; a restart stalls the gang for a second per GPU.
    pub const PLANNED: Self = Self {
        lease: None,
        restart: Restart::Stall,
        ..Self::LEASED
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_at_the_end_of_a_chunk() {
        let lease = Lease {
            length_s: 100.0,
            chunk: 1.0,
        };
        // One GPU: the look-ahead sees the whole chunk, so the lease never exceeds its length.
        assert_eq!(lease.chunks(30.0, 1), (3.0, false));
        assert_eq!(lease.chunks(25.0, 1), (4.0, true));
        // Eight GPUs: an eighth of the chunk fits, so the lease exceeds its length.
        assert_eq!(lease.chunks(30.0, 8), (4.0, true));
        assert_eq!(lease.chunks(33.0, 8), (3.0, false));
        assert_eq!(lease.chunks(500.0, 8), (1.0, true));
    }
}
