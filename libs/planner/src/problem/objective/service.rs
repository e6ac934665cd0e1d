//! The service that each owner has attained.

use std::collections::HashMap;

use lacuna_model::{Attained, Timestamp};

/// Service below this makes no difference, seconds on one node: an hour.
pub const SERVICE_UNIT_S: f64 = 3600.0;

/// The service that each owner has [`Attained`], over all its trainers. Control keeps it in the
/// trainers' records, a replay here.
///
/// The factor of an owner is `(a_min + h) / (a + h)` with `a` its service, `a_min` the least of
/// all owners present, `h` an hour: 1 for the one that has got least, a half for one that has
/// got twice as much. This is least attained service (Nuyens and Wierman 2008; for training
/// jobs Gu et al., "Tiresias", NSDI 2019) as a weight rather than an order.
#[derive(Debug, Clone, Default)]
pub struct Service {
    owners: HashMap<String, usize>,
    attained: Vec<Attained>,
}

impl Service {
    /// The number of an owner; a new one has attained nothing.
    pub fn owner(&mut self, name: &str) -> usize {
        if let Some(&number) = self.owners.get(name) {
            return number;
        }
        let number = self.attained.len();
        self.owners.insert(name.to_owned(), number);
        self.attained.push(Attained::default());
        number
    }

    /// Books service, seconds; an owner without a number has none.
    pub fn add(&mut self, owner: usize, service_s: f64, now: Timestamp) {
        if let Some(attained) = self.attained.get_mut(owner) {
            attained.add(service_s, now);
        }
    }

    /// Attained service of an owner at `now`, seconds.
    #[must_use]
    pub fn attained(&self, owner: usize, now: Timestamp) -> f64 {
        self.attained
            .get(owner)
            .map_or(0.0, |attained| attained.by(now))
    }

    /// The factor of an owner that has attained `own`, where the least of those present is
    /// `least`.
    #[must_use]
    pub fn factor(own: f64, least: f64) -> f64 {
        (least.min(own) + SERVICE_UNIT_S) / (own + SERVICE_UNIT_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_kept_by_owner() {
        let now = Timestamp::from_unix(0);
        let mut service = Service::default();
        let (a, b) = (service.owner("a"), service.owner("b"));
        assert_eq!((service.owner("a"), service.owner("b")), (a, b));
        service.add(a, 1000.0, now);
        assert_eq!(service.attained(a, now), 1000.0);
        assert_eq!(service.attained(b, now), 0.0);
        assert_eq!(Service::factor(3600.0, 0.0), 0.5);
        assert_eq!(Service::factor(0.0, 0.0), 1.0);
    }
}
