//! What is known of when present nodes leave, and scenarios drawn from it.

use lacuna_model::Forecast;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Scenarios;

/// Survival curves by number.
pub trait Curves {
    /// Seconds from now at which the probability of being open has fallen to `open`, infinite if
    /// the curve does not reach so low.
    fn quantile(&self, curve: u32, open: f64) -> f64;

    /// Probability that a hole of this curve is open after so many seconds.
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

/// What is known of when the nodes of a pool leave. All lists are in the order in which nodes
/// are expected to leave, first that which is expected first.
pub struct Outlook<'a> {
    /// The curves that the nodes share.
    pub curves: &'a dyn Curves,
    /// The curve of each node.
    pub curve: &'a [u32],
    /// For each node but the last: probability that it and the next leave in the same event.
    /// None if shorter.
    pub link: &'a [f32],
    /// Seconds from now at which each node is known to leave, infinite if that is not known. May
    /// be empty.
    pub known: &'a [f64],
    /// Nobody who is not known to leave leaves within so many seconds.
    pub complete_s: f64,
}

/// What the scheduler says of when it wants a node, and how often such words came true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Promise {
    /// Seconds from now at which it wants the node; infinite if it says nothing.
    pub at_s: f64,
    /// Probability that the node leaves before that, other than by a little.
    pub early: f64,
    /// Probability that the node leaves then.
    pub kept: f64,
}

impl Promise {
    /// Nothing is said.
    pub const NONE: Self = Self {
        at_s: f64::INFINITY,
        early: 0.0,
        kept: 0.0,
    };
}

/// How like the fates of neighbouring runs are: the correlation of the normal deviates behind
/// their leave times. A scheduler that takes from the front comes to a node not before those in
/// front of it, so they are alike; the value is a choice and not learnt.
const KINSHIP: f64 = 0.5;

impl Outlook<'_> {
    /// Draws scenarios. Walking along the order, a run ends between two nodes with the
    /// probability that they do not leave together; each run leaves at one time, drawn from the
    /// curve of its middle node. The deviates of neighbouring runs are correlated (a Gaussian
    /// copula), which leaves every run its own distribution.
    #[must_use]
    pub fn draw(&self, scenarios: u32, seed: u64) -> Scenarios {
        self.draw_promised(&[], scenarios, seed)
    }

    /// As [`draw`](Self::draw), where the scheduler has said of some nodes when it wants them;
    /// `promised` is in the same order and may be shorter. In each scenario a promise is kept,
    /// or the node leaves before or after it by its curve, with the probabilities that belong to
    /// it. Nodes that stand together and are promised for one moment are wanted for one job and
    /// share their fate. What is known goes before what is promised, and a promise for a time in
    /// which nobody leaves who is not known to is none.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "hot path; a run lies within the nodes that have a curve"
    )]
    pub fn draw_promised(&self, promised: &[Promise], scenarios: u32, seed: u64) -> Scenarios {
        let nodes = self.curve.len();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = scenarios as usize;
        let mut all = vec![0.0; nodes * count];
        for s in 0..count {
            let mut z = normal(&mut rng);
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
                for (node, leave) in
                    (at..end).zip(all.iter_mut().skip(at * count + s).step_by(count))
                {
                    let known = self.known.get(node).copied().unwrap_or(f64::INFINITY);
                    if known.is_finite() {
                        *leave = known;
                        continue;
                    }
                    let promise = promised.get(node).filter(|promise| {
                        promise.at_s.is_finite() && promise.at_s > self.complete_s
                    });
                    *leave = match (promise, last) {
                        (None, _) => time,
                        (Some(promise), Some((of, time))) if of == promise.at_s => time,
                        (Some(promise), _) => {
                            let time = self.fate_s(self.curve[node], promise, &mut rng);
                            last = Some((promise.at_s, time));
                            time
                        }
                    };
                }
                z = KINSHIP * z + (1.0 - KINSHIP * KINSHIP).sqrt() * normal(&mut rng);
                at = end;
            }
        }
        Scenarios::by_node(nodes, all)
    }

    /// When a promised node leaves in one scenario.
    fn fate_s(&self, curve: u32, promise: &Promise, rng: &mut impl Rng) -> f64 {
        let (which, share): (f64, f64) = (rng.random(), rng.random());
        let open = |at_s: f64| self.curves.open_after(curve, at_s).clamp(0.0, 1.0);
        let from = if self.complete_s > 0.0 {
            open(self.complete_s)
        } else {
            1.0
        };
        let then = open(promise.at_s).min(from);
        let at = |open: f64| self.curves.quantile(curve, open);
        if which < promise.early {
            at(from - share * (from - then)).clamp(self.complete_s, promise.at_s)
        } else if which < promise.early + promise.kept {
            promise.at_s
        } else {
            at(then * share).max(promise.at_s)
        }
    }

    /// When a hole leaves if a share `open` of its like outlive it, given that it does not leave
    /// within the time that is completely known.
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

/// A standard normal deviate (Box and Muller 1958).
fn normal(rng: &mut impl Rng) -> f64 {
    let (a, b): (f64, f64) = (rng.random(), rng.random());
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

    fn outlook<'a>(
        curve: &'a [u32],
        link: &'a [f32],
        known: &'a [f64],
        complete_s: f64,
    ) -> Outlook<'a> {
        Outlook {
            curves: &Exponential,
            curve,
            link,
            known,
            complete_s,
        }
    }

    #[test]
    fn draws_keep_the_curve_and_what_is_known() {
        let curve = [0; 4];
        let known = [f64::INFINITY, 7.0, f64::INFINITY, f64::INFINITY];
        let drawn = outlook(&curve, &[], &known, 50.0).draw(4000, 1);
        let mean = |node: usize| (0..4000).map(|s| drawn.of(node)[s]).sum::<f64>() / 4000.0;
        // Memoryless: 50 s that are known, and 100 s more.
        assert!((mean(0) - 150.0).abs() < 6.0, "{}", mean(0));
        assert!((mean(3) - 150.0).abs() < 6.0, "{}", mean(3));
        assert!((0..4000).all(|s| drawn.of(1)[s] == 7.0 && drawn.of(0)[s] >= 50.0));
    }

    #[test]
    fn promises_are_kept_as_often_as_they_were() {
        let curve = [0; 5];
        let said = |at_s| Promise {
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
        let promised = [said(60.0), said(60.0), said(60.0), said(5.0), Promise::NONE];
        let outlook = outlook(&curve, &[], &known, 10.0);
        let drawn = outlook.draw_promised(&promised, 4000, 3);
        let share = |is: &dyn Fn(&[f64]) -> bool| {
            let leave = |s: usize| -> Vec<f64> { (0..5).map(|node| drawn.of(node)[s]).collect() };
            (0..4000).filter(|&s| is(&leave(s))).count() as f64 / 4000.0
        };
        let near = |share: f64, expected: f64| (share - expected).abs() < 0.03;
        // What is known goes before what is promised.
        assert_eq!(share(&|leave| leave[0] == 9.0), 1.0);
        assert!(near(share(&|leave| leave[1] == 60.0), 0.5));
        assert!(near(share(&|leave| leave[1] < 60.0), 0.2));
        assert_eq!(share(&|leave| leave[1] == leave[2]), 1.0);
        assert_eq!(share(&|leave| leave[1] >= 10.0), 1.0);
        // Nobody leaves at 5 s who is not known to; so that was no promise.
        assert_eq!(share(&|leave| leave[3] >= 10.0), 1.0);
        assert!(near(share(&|leave| leave[3] > 110.0), (-1.0_f64).exp()));
        // Those that were not asked for leave as ever.
        assert!(near(share(&|leave| leave[4] > 110.0), (-1.0_f64).exp()));
        assert_eq!(
            outlook.draw(50, 3),
            outlook.draw_promised(&[Promise::NONE; 5], 50, 3)
        );
    }

    #[test]
    fn linked_nodes_leave_together() {
        let curve = [0; 3];
        let drawn = outlook(&curve, &[0.9, 0.0], &[], 0.0).draw(2000, 1);
        let together = |a: usize, b: usize| {
            (0..2000)
                .filter(|&s| drawn.of(a)[s] == drawn.of(b)[s])
                .count() as f64
                / 2000.0
        };
        assert!((together(0, 1) - 0.9).abs() < 0.03);
        assert_eq!(together(1, 2), 0.0);
        assert_eq!(drawn, outlook(&curve, &[0.9, 0.0], &[], 0.0).draw(2000, 1));
    }
}
