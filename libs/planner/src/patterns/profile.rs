//! How many nodes of a set are alive when, in one scenario, and what that is worth.

/// A node set in one scenario: how many of its nodes leave when, and how many stay.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// Moments within the horizon, ascending, with the nodes that leave then.
    leaves: Vec<(f64, u32)>,
    /// All nodes at first.
    nodes: u32,
}

impl Clone for Profile {
    fn clone(&self) -> Self {
        Self {
            leaves: self.leaves.clone(),
            nodes: self.nodes,
        }
    }

    fn clone_from(&mut self, other: &Self) {
        self.leaves.clone_from(&other.leaves);
        self.nodes = other.nodes;
    }
}

/// What is worth how much at which size: `sum of weight * P(base + m)` for m more nodes.
#[derive(Debug, Default)]
pub(crate) struct Spectrum {
    /// Weight in seconds by base size.
    weight: Vec<f64>,
    /// Base sizes that occur, as they came.
    bases: Vec<u32>,
    marked: Vec<bool>,
    /// What does not depend on m.
    pub(crate) constant: f64,
}

impl Spectrum {
    fn add(&mut self, base: u32, weight: f64) {
        let at = base as usize;
        if self.weight.len() <= at {
            self.weight.resize(at + 1, 0.0);
            self.marked.resize(at + 1, false);
        }
        if let (Some(slot), Some(mark)) = (self.weight.get_mut(at), self.marked.get_mut(at)) {
            if !*mark {
                *mark = true;
                self.bases.push(base);
            }
            *slot += weight;
        }
    }

    /// Adds what `1..=values.len()` more nodes are worth by the rates to each of the values,
    /// and starts anew. Rates go on as they end.
    pub(crate) fn pour(&mut self, rates: &[f64], values: &mut [f64]) {
        for value in values.iter_mut() {
            *value += self.constant;
        }
        self.constant = 0.0;
        for base in self.bases.drain(..) {
            let at = base as usize;
            let (Some(weight), Some(mark)) = (self.weight.get_mut(at), self.marked.get_mut(at))
            else {
                continue;
            };
            let weight = std::mem::take(weight);
            *mark = false;
            let rates = rates.get(at + 1..).unwrap_or_default();
            for (value, rate) in values.iter_mut().zip(rates) {
                *value += weight * rate;
            }
        }
    }
}

/// The rate at a size; rates go on as they end.
pub(crate) fn rate(rates: &[f64], nodes: u32) -> f64 {
    let at = (nodes as usize).min(rates.len().saturating_sub(1));
    rates.get(at).copied().unwrap_or(0.0)
}

impl Profile {
    /// No nodes.
    pub(crate) fn clear(&mut self) {
        self.leaves.clear();
        self.nodes = 0;
    }

    /// Adds nodes that leave at `leave` seconds.
    pub(crate) fn add(&mut self, leave: f64, nodes: u32, horizon: f64) {
        if nodes == 0 {
            return;
        }
        self.nodes = self.nodes.saturating_add(nodes);
        if leave >= horizon {
            return;
        }
        match self.leaves.binary_search_by(|at| at.0.total_cmp(&leave)) {
            Ok(at) => {
                if let Some(entry) = self.leaves.get_mut(at) {
                    entry.1 = entry.1.saturating_add(nodes);
                }
            }
            Err(at) => self.leaves.insert(at, (leave, nodes)),
        }
    }

    /// What the set is worth: rates over the horizon, less `stall` seconds at the rate before
    /// for each moment at which nodes leave.
    pub(crate) fn value(&self, rates: &[f64], horizon: f64, stall: f64) -> f64 {
        let (mut alive, mut now, mut value) = (self.nodes, 0.0, 0.0);
        for &(at, nodes) in &self.leaves {
            value += (at - now - stall) * rate(rates, alive);
            alive = alive.saturating_sub(nodes);
            now = at;
        }
        value + (horizon - now) * rate(rates, alive)
    }

    /// Adds to the spectrum, by `share`, what the set is worth with m >= 1 further nodes that
    /// leave at `leave`: up to then every size is larger by m, from then on none.
    pub(crate) fn spread(
        &self,
        leave: f64,
        rates: &[f64],
        horizon: f64,
        stall: f64,
        share: f64,
        spectrum: &mut Spectrum,
    ) {
        let (mut alive, mut now) = (self.nodes, 0.0);
        let mut leaves = self.leaves.iter().copied().peekable();
        while let Some((at, nodes)) = leaves.next_if(|&(at, _)| at < leave) {
            spectrum.add(alive, share * (at - now - stall));
            alive = alive.saturating_sub(nodes);
            now = at;
        }
        if leave >= horizon {
            spectrum.add(alive, share * (horizon - now));
            return;
        }
        spectrum.add(alive, share * (leave - now - stall));
        now = leave;
        if let Some((_, nodes)) = leaves.next_if(|&(at, _)| at == leave) {
            alive = alive.saturating_sub(nodes);
        }
        for (at, nodes) in leaves {
            spectrum.constant += share * (at - now - stall) * rate(rates, alive);
            alive = alive.saturating_sub(nodes);
            now = at;
        }
        spectrum.constant += share * (horizon - now) * rate(rates, alive);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 8] = [0.0, 10.0, 19.0, 27.0, 34.0, 40.0, 45.0, 49.0];

    #[test]
    fn a_set_is_worth_its_rates_less_a_stall_a_departure() {
        let mut profile = Profile::default();
        profile.add(30.0, 1, 100.0);
        profile.add(30.0, 1, 100.0);
        profile.add(100.0, 1, 100.0);
        profile.add(f64::INFINITY, 2, 100.0);
        // Five for 30 s, one stall of 2 s at the rate of five, three for 70 s.
        let right = 28.0 * 40.0 + 70.0 * 27.0;
        assert_eq!(profile.value(&RATES, 100.0, 2.0), right);
    }

    #[test]
    fn a_spectrum_says_what_each_further_node_makes_of_a_set() {
        let horizon = 60.0;
        for leave in [0.0, 5.0, 20.0, 33.0, 40.0, 60.0, f64::INFINITY] {
            let mut base = Profile::default();
            base.add(20.0, 1, horizon);
            base.add(40.0, 2, horizon);
            base.add(70.0, 1, horizon);
            let mut spectrum = Spectrum::default();
            base.spread(leave, &RATES, horizon, 3.0, 0.5, &mut spectrum);
            let mut values = [0.0; 3];
            spectrum.pour(&RATES, &mut values);
            for (m, value) in (1..).zip(values) {
                let mut with = base.clone();
                with.add(leave, m, horizon);
                let right = 0.5 * with.value(&RATES, horizon, 3.0);
                assert!((value - right).abs() < 1e-9, "{leave} {m}: {value} {right}");
            }
            // It is empty again.
            let mut none = [0.0; 3];
            spectrum.pour(&RATES, &mut none);
            assert_eq!(none, [0.0; 3]);
        }
    }
}
