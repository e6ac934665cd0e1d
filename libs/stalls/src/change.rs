//! What a replay changes.

use lacuna_model::Cause;

use crate::error::Error;

/// Most workers of a loader, and most batches that one reads ahead.
pub(crate) const MOST_WORKERS: u32 = 1024;
/// Most members that are replayed.
pub(crate) const MOST_MEMBERS: u32 = 65_536;

/// How replayed steps differ from the traced ones. The default changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    away: Vec<Cause>,
    workers: Option<u32>,
    members: Option<u32>,
    link: f64,
    share: f64,
    reading: f64,
    device: f64,
    fixed: f64,
}

impl Default for Change {
    fn default() -> Self {
        Self {
            away: Vec::new(),
            workers: None,
            members: None,
            link: 1.0,
            share: 1.0,
            reading: 1.0,
            device: 1.0,
            fixed: 0.0,
        }
    }
}

impl Change {
    /// Nothing is changed.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A cause is taken away, too.
    #[must_use]
    pub fn without(mut self, cause: Cause) -> Self {
        self.away.push(cause);
        self
    }

    /// Each member's loader has another number of workers; 0: the program reads itself.
    ///
    /// # Errors
    /// [`Error::Limit`] for more than 1024.
    pub fn workers(mut self, workers: u32) -> Result<Self, Error> {
        self.workers = Some(within("the number of workers", workers, MOST_WORKERS)?);
        Ok(self)
    }

    /// Another number of members train, each with as many samples as now.
    ///
    /// # Errors
    /// [`Error::Change`] for none, [`Error::Limit`] for more than 65536.
    pub fn members(mut self, members: u32) -> Result<Self, Error> {
        positive("the number of members", f64::from(members))?;
        self.members = Some(within("the number of members", members, MOST_MEMBERS)?);
        Ok(self)
    }

    /// The link has `factor` times its bandwidth; its latency stays.
    ///
    /// # Errors
    /// [`Error::Change`] unless the factor is positive and finite.
    pub fn link(mut self, factor: f64) -> Result<Self, Error> {
        self.link = positive("the factor of the link", factor)?;
        Ok(self)
    }

    /// Each member has `factor` times the samples of a step. The time of reading and computing is
    /// taken as proportional, but for what [`Change::fixed`] says.
    ///
    /// # Errors
    /// [`Error::Change`] unless the factor is positive and finite.
    pub fn share(mut self, factor: f64) -> Result<Self, Error> {
        self.share = positive("the factor of a member's samples", factor)?;
        Ok(self)
    }

    /// A sample takes its reader `factor` times as long, as where loaders read for more members.
    ///
    /// # Errors
    /// [`Error::Change`] unless the factor is positive and finite.
    pub fn reading(mut self, factor: f64) -> Result<Self, Error> {
        self.reading = positive("the factor of a reader's time", factor)?;
        Ok(self)
    }

    /// Members compute `factor` times as fast; reading takes as long as before.
    ///
    /// # Errors
    /// [`Error::Change`] unless the factor is positive and finite.
    pub fn device(mut self, factor: f64) -> Result<Self, Error> {
        self.device = positive("the speed of the device", factor)?;
        Ok(self)
    }

    /// This share of a member's computing stays as it is at another share of samples, and on another
    /// device: what a step starts, and what the program does beside it. [`Steps::fixed_part`] finds it.
    ///
    /// [`Steps::fixed_part`]: crate::Steps::fixed_part
    ///
    /// # Errors
    /// [`Error::Change`] unless it is from 0 to 1.
    pub fn fixed(mut self, share: f64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::Change {
                what: "the fixed share of computing",
                value: share,
                expected: "a number from 0 to 1",
            });
        }
        self.fixed = share;
        Ok(self)
    }

    /// What a member's computing is multiplied by.
    pub(crate) fn computing(&self) -> f64 {
        (1.0 - self.fixed) * self.share / self.device + self.fixed
    }

    /// What its time after the sums is multiplied by, which knows no samples.
    pub(crate) fn after(&self) -> f64 {
        (1.0 - self.fixed) / self.device + self.fixed
    }

    pub(crate) fn lacks(&self, cause: Cause) -> bool {
        self.away.contains(&cause)
    }

    pub(crate) fn new_workers(&self) -> Option<u32> {
        self.workers
    }

    pub(crate) fn new_members(&self) -> Option<u32> {
        self.members
    }

    pub(crate) fn link_factor(&self) -> f64 {
        self.link
    }

    /// What the reading of a batch is multiplied by.
    pub(crate) fn read_factor(&self) -> f64 {
        self.share * self.reading
    }
}

pub(crate) fn within(what: &'static str, value: u32, most: u32) -> Result<u32, Error> {
    if value <= most {
        Ok(value)
    } else {
        Err(Error::Limit { what, value, most })
    }
}

pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Error::Change {
            what,
            value,
            expected: "a positive number",
        })
    }
}
