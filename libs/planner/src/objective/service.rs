//! What each owner has got so far.

use std::collections::HashMap;

/// Service is forgotten by half in this time, seconds: seven days, as Slurm's fair share
/// (`PriorityDecayHalfLife`).
pub const HALF_LIFE_S: f64 = 7.0 * 86_400.0;

/// Service below this makes no difference, seconds on one node: an hour.
pub const SERVICE_UNIT_S: f64 = 3600.0;

/// The service that each owner has attained: samples done, over samples/s on one node and
/// weight, so seconds of one node for weight 1; decaying with [`HALF_LIFE_S`].
///
/// The factor of an owner is `(a_min + h) / (a + h)` with `a` its service, `a_min` the least of
/// all owners present, `h` an hour: 1 for the one that has got least, a half for one that has
/// got twice as much. This is least attained service (Nuyens and Wierman 2008; for training
/// jobs Gu et al., "Tiresias", NSDI 2019) as a weight rather than an order.
#[derive(Debug, Clone, Default)]
pub struct Service {
    owners: HashMap<String, usize>,
    /// Service and the second at which it was counted.
    attained: Vec<(f64, f64)>,
}

impl Service {
    /// The number of an owner; a new one has attained nothing.
    pub fn owner(&mut self, name: &str) -> usize {
        if let Some(&number) = self.owners.get(name) {
            return number;
        }
        let number = self.attained.len();
        self.owners.insert(name.to_owned(), number);
        self.attained.push((0.0, 0.0));
        number
    }

    /// Books service; `now_s` never decreases.
    pub fn add(&mut self, owner: usize, service: f64, now_s: f64) {
        let before = self.attained(owner, now_s);
        if let Some(entry) = self.attained.get_mut(owner) {
            *entry = ((before + service).max(0.0), now_s);
        }
    }

    /// What an owner has attained by now.
    #[must_use]
    pub fn attained(&self, owner: usize, now_s: f64) -> f64 {
        let Some(&(service, at_s)) = self.attained.get(owner) else {
            return 0.0;
        };
        service * (-(now_s - at_s).max(0.0) / HALF_LIFE_S).exp2()
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
    fn service_decays_and_is_kept_by_owner() {
        let mut service = Service::default();
        let (a, b) = (service.owner("a"), service.owner("b"));
        assert_eq!((service.owner("a"), service.owner("b")), (a, b));
        service.add(a, 1000.0, 0.0);
        service.add(a, 500.0, HALF_LIFE_S);
        assert_eq!(service.attained(a, HALF_LIFE_S), 1000.0);
        assert_eq!(service.attained(b, HALF_LIFE_S), 0.0);
        assert_eq!(Service::factor(3600.0, 0.0), 0.5);
        assert_eq!(Service::factor(0.0, 0.0), 1.0);
    }
}
