//! The departure model of present nodes, and scenarios drawn from it.

use lacuna_model::Forecast;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scenarios::Scenarios;

/// Survival curves by number.
pub trait Curves {
    /// Seconds from now until the probability of being open has fallen to `open`; infinite if the
    /// curve stays above it.
    fn quantile(&self, curve: u32, open: f64) -> f64;

    /// Probability that a hole of this curve is open after `after_s` seconds.
    fn open_after(&self, curve: u32, after_s: f64) -> f64;
}

impl Curves for [Forecast] {
    fn quantile(&self, curve: u32, open: f64) -> f64 {
        let forecast = self.get(curve as usize);
        forecast
            .and_then(|forecast| forecast.quantile(open))
            .unwrap_or(f64::INFINITY)
    }

    fn open_after(&self, curve: u32, after_s: f64) -> f64 {
        self.get(curve as usize)
            .map_or(1.0, |forecast| forecast.open_after(after_s))
    }
}

/// A model of when the nodes of a pool leave. All lists are in departure order, the first to leave
/// first.
pub struct DepartureModel<'a> {
    /// The curves that the nodes share.
    pub curves: &'a dyn Curves,
    /// The curve of each node.
    pub curve: &'a [u32],
    /// For each node but the last: probability that it and the next leave in the same event; 0
    /// where the list is shorter.
    pub link: &'a [f32],
    /// Known leave time of each node, seconds from now, infinite if unknown. May be empty.
    pub known: &'a [f64],
    /// A node without a known end stays for at least this many seconds.
    pub complete_s: f64,
}

/// An announced end of a node: a planned start or a reservation, and how often such ends came true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeighedEnd {
    /// Announced end, seconds from now; infinite if none is announced.
    pub at_s: f64,
    /// Probability that the node leaves clearly before that.
    pub early: f64,
    /// Probability that the node leaves then.
    pub kept: f64,
}

impl WeighedEnd {
    /// No end is announced.
    pub const NONE: Self = Self {
        at_s: f64::INFINITY,
        early: 0.0,
        kept: 0.0,
    };
}

/// Correlation of the normal deviates behind the leave times of neighbouring intervals. A scheduler
/// that takes nodes from the front reaches a node after those in front of it, so their leave times
/// are alike. The value is a choice and not learnt.
const CORRELATION: f64 = 0.5;

impl DepartureModel<'_> {
    /// Draws scenarios. Along the order, an interval ends between two nodes with the probability
    /// that they do not leave together. Each interval leaves at one time, drawn from the curve of
    /// its middle node. The deviates of neighbouring intervals are correlated (a Gaussian copula),
    /// and every interval keeps its own distribution.
    #[must_use]
    pub fn draw(&self, scenarios: u32, seed: u64) -> Scenarios {
        self.draw_with_announced(&[], scenarios, seed)
    }

    /// As [`draw`](Self::draw), with announced ends in the same order; the list may be shorter. In
    /// each scenario an announced end comes true, or the node leaves before or after it by its
    /// curve, with the probabilities of the announcement. Neighbours with the same announced end go
    /// to one job and leave together. A known end overrides an announced one. An announced end
    /// within `complete_s` is ignored, since only known ends lie there.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "hot path; an interval lies within the nodes that have a curve"
    )]
    pub fn draw_with_announced(
        &self,
        announced_ends: &[WeighedEnd],
        scenarios: u32,
        seed: u64,
    ) -> Scenarios {
        let nodes = self.curve.len();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = scenarios as usize;
        let plain = self.known.is_empty() && announced_ends.is_empty();
        // Scenario by scenario.
        let mut all = vec![0.0; nodes * count];
        for leave in all.chunks_exact_mut(nodes.max(1)) {
            let mut z = normal(rng.random());
            let mut at = 0;
            let mut last: Option<(f64, f64)> = None;
            while at < nodes {
                let mut end = at + 1;
                while end < nodes {
                    let link = self.link.get(end - 1).copied().unwrap_or(0.0);
                    if rng.random::<f32>() >= link {
                        break;
                    }
                    end += 1;
                }
                let middle = self.curve[(at + end - 1) / 2];
                let time = self.leave_s(middle, below(z));
                leave[at..end].fill(time);
                for node in if plain { end..end } else { at..end } {
                    let leave = &mut leave[node];
                    let known = self.known.get(node).copied().unwrap_or(f64::INFINITY);
                    if known.is_finite() {
                        *leave = known;
                        continue;
                    }
                    let announced_end = announced_ends
                        .get(node)
                        .filter(|end| end.at_s.is_finite() && end.at_s > self.complete_s);
                    *leave = match (announced_end, last) {
                        (None, _) => time,
                        (Some(announced_end), Some((of, time))) if of == announced_end.at_s => time,
                        (Some(announced_end), _) => {
                            let time = self.announced_s(self.curve[node], announced_end, &mut rng);
                            last = Some((announced_end.at_s, time));
                            time
                        }
                    };
                }
                let uniform = rng.random();
                if end < nodes {
                    z = CORRELATION * z
                        + (1.0 - CORRELATION * CORRELATION).sqrt() * normal(uniform);
                }
                at = end;
            }
        }
        Scenarios::new(nodes, all)
    }

    /// Leave time of a node with an announced end in one scenario, seconds.
    fn announced_s(&self, curve: u32, end: &WeighedEnd, rng: &mut impl Rng) -> f64 {
        let (which, share): (f64, f64) = (rng.random(), rng.random());
        let open = |at_s: f64| self.curves.open_after(curve, at_s).clamp(0.0, 1.0);
        let from = if self.complete_s > 0.0 {
            open(self.complete_s)
        } else {
            1.0
        };
        let then = open(end.at_s).min(from);
        let at = |open: f64| self.curves.quantile(curve, open);
        if which < end.early {
            at(from - share * (from - then)).clamp(self.complete_s, end.at_s)
        } else if which < end.early + end.kept {
            end.at_s
        } else {
            at(then * share).max(end.at_s)
        }
    }

    /// Leave time of a node that a share `open` of its like outlive, seconds, given that it stays
    /// for `complete_s`.
    fn leave_s(&self, curve: u32, open: f64) -> f64 {
        let given = if self.complete_s > 0.0 {
            self.curves.open_after(curve, self.complete_s)
        } else {
            1.0
        };
        if given <= 0.0 {
            return self.complete_s;
        }
        self.curves
            .quantile(curve, open * given)
            .max(self.complete_s)
    }
}

/// A standard normal deviate from two uniform ones (Box and Muller 1958).
fn normal((a, b): (f64, f64)) -> f64 {
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Standard normal distribution function, to 1e-7 (Abramowitz and Stegun 26.2.17).
fn below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let density = (-z * z / 2.0).exp() * 0.398_942_280_4;
    let series = t
        * (0.319_381_53
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = density * series;
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exponential;

    impl Curves for Exponential {
        fn quantile(&self, _: u32, open: f64) -> f64 {
            -open.ln() * 100.0
        }

        fn open_after(&self, _: u32, after_s: f64) -> f64 {
            (-after_s / 100.0).exp()
        }
    }

    fn model<'a>(
        curve: &'a [u32],
        link: &'a [f32],
        known: &'a [f64],
        complete_s: f64,
    ) -> DepartureModel<'a> {
        DepartureModel {
            curves: &Exponential,
            curve,
            link,
            known,
            complete_s,
        }
    }

    #[test]
    fn draws_keep_the_curve_and_known_ends() {
        let curve = [0; 4];
        let known = [f64::INFINITY, 7.0, f64::INFINITY, f64::INFINITY];
        let drawn = model(&curve, &[], &known, 50.0).draw(4000, 1);
        let mean = |node: usize| (0..4000).map(|s| drawn.of(node)[s]).sum::<f64>() / 4000.0;
        // Memoryless: 50 s without departures, and 100 s more.
        assert!((mean(0) - 150.0).abs() < 6.0, "{}", mean(0));
        assert!((mean(3) - 150.0).abs() < 6.0, "{}", mean(3));
        assert!((0..4000).all(|s| drawn.of(1)[s] == 7.0 && drawn.of(0)[s] >= 50.0));
    }

    #[test]
    fn announced_ends_come_true_with_their_probability() {
        let curve = [0; 5];
        let announced = |at_s| WeighedEnd {
            at_s,
            early: 0.2,
            kept: 0.5,
        };
        let known = [
            9.0,
            f64::INFINITY,
            f64::INFINITY,
            f64::INFINITY,
            f64::INFINITY,
        ];
        let announced_ends = [
            announced(60.0),
            announced(60.0),
            announced(60.0),
            announced(5.0),
            WeighedEnd::NONE,
        ];
        let model = model(&curve, &[], &known, 10.0);
        let drawn = model.draw_with_announced(&announced_ends, 4000, 3);
        let share = |is: &dyn Fn(&[f64]) -> bool| {
            let leave = |s: usize| -> Vec<f64> { (0..5).map(|node| drawn.of(node)[s]).collect() };
            (0..4000).filter(|&s| is(&leave(s))).count() as f64 / 4000.0
        };
        let near = |share: f64, expected: f64| (share - expected).abs() < 0.03;
        // A known end overrides an announced one.
        assert_eq!(share(&|leave| leave[0] == 9.0), 1.0);
        assert!(near(share(&|leave| leave[1] == 60.0), 0.5));
        assert!(near(share(&|leave| leave[1] < 60.0), 0.2));
        assert_eq!(share(&|leave| leave[1] == leave[2]), 1.0);
        assert_eq!(share(&|leave| leave[1] >= 10.0), 1.0);
        // The announced end at 5 s lies within the 10 s of known ends, so it is ignored.
        assert_eq!(share(&|leave| leave[3] >= 10.0), 1.0);
        assert!(near(share(&|leave| leave[3] > 110.0), (-1.0_f64).exp()));
        // Nodes without an announced end follow their curve.
        assert!(near(share(&|leave| leave[4] > 110.0), (-1.0_f64).exp()));
        assert_eq!(
            model.draw(50, 3),
            model.draw_with_announced(&[WeighedEnd::NONE; 5], 50, 3)
        );
    }

    #[test]
    fn linked_nodes_leave_together() {
        let curve = [0; 3];
        let drawn = model(&curve, &[0.9, 0.0], &[], 0.0).draw(2000, 1);
        let together = |a: usize, b: usize| {
            (0..2000)
                .filter(|&s| drawn.of(a)[s] == drawn.of(b)[s])
                .count() as f64
                / 2000.0
        };
        assert!((together(0, 1) - 0.9).abs() < 0.03);
        assert_eq!(together(1, 2), 0.0);
        assert_eq!(drawn, model(&curve, &[0.9, 0.0], &[], 0.0).draw(2000, 1));
    }
}
