//! A placement as a pipeline in virtual time, to judge the cost model.
//!
//! Batches pass the stages in order. A stage has a link and its units: batch n is received and
//! summed on the link (DT of the batch) while batch n - 1 is computed (CT of the batch). Between
//! two servers is a queue of fixed length. A server that cannot hand its batch on keeps it and stops.
//! With `a(n, s)` the time at which batch n leaves server s, services `v(n, s)` and queues of length q:
//!
//! ```text
//! done(n, s) = max(a(n, s-1), a(n-1, s)) + v(n, s)
//! a(n, s)    = max(done(n, s), a(n-1-q, s+1))
//! ```
//!
//! since batch n enters the queue of s+1 when batch n-1-q has left that server. Services are drawn
//! log-normally with a given coefficient of variation. The model has the greatest of the means, the
//! pipeline waits for the latest: the model is optimistic, the more so the more times vary.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use lacuna_layers::Placement;

/// What varies by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jitter {
    /// The whole stage: its units balance what one of them loses.
    Stage,
    /// Each unit: a stage waits for its slowest unit at each batch.
    Unit,
}

/// How the pipeline runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pipeline {
    /// Samples of a batch.
    pub(super) batch: f64,
    /// Batches that are counted, after as many again divided by ten.
    pub(super) batches: usize,
    /// Batches that wait before a server.
    pub(super) queue: usize,
    /// Standard deviation over mean of a service.
    pub(super) variation: f64,
    /// What varies.
    pub(super) jitter: Jitter,
    /// The seed.
    pub(super) seed: u64,
}

/// The rate of a placement in virtual time, samples/s.
#[must_use]
pub(super) fn simulate(placement: &Placement, pipeline: &Pipeline) -> f64 {
    let servers: Vec<(f64, u32)> = placement
        .stages
        .iter()
        .flat_map(|stage| [(stage.communication_s, 1), (stage.compute_s, stage.units)])
        .filter(|(seconds, _)| *seconds > 0.0)
        .map(|(seconds, units)| (seconds * pipeline.batch, units))
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(pipeline.seed);
    let spread = (pipeline.variation * pipeline.variation).ln_1p();
    // The slowest of k: all are below it with a chance that is the k-th power of one's.
    let mut draw = |units: u32| {
        let units = match pipeline.jitter {
            Jitter::Stage => 1,
            Jitter::Unit => units,
        };
        let all_below: f64 = random.random_range(f64::MIN_POSITIVE..1.0);
        let above = -(all_below.ln() / f64::from(units)).exp_m1();
        (normal_above(above) * spread.sqrt() - spread / 2.0).exp()
    };
    let warm = pipeline.batches / 10;
    let total = warm + pipeline.batches;
    // By server, when each batch left it.
    let mut left: Vec<Vec<f64>> = vec![Vec::with_capacity(total); servers.len()];
    for n in 0..total {
        let mut arrived = 0.0_f64;
        for (s, &(seconds, units)) in servers.iter().enumerate() {
            let last = |left: &[Vec<f64>], s: usize, back: usize| {
                let of = left.get(s).zip(n.checked_sub(back));
                of.and_then(|(of, n)| of.get(n).copied()).unwrap_or(0.0)
            };
            let done = arrived.max(last(&left, s, 1)) + seconds * draw(units);
            let away = done.max(last(&left, s + 1, pipeline.queue + 1));
            if let Some(of) = left.get_mut(s) {
                of.push(away);
            }
            arrived = away;
        }
    }
    let end = |n: usize| left.last().and_then(|of| of.get(n).copied());
    let times = end(total.saturating_sub(1)).zip(end(warm.saturating_sub(1)));
    let (end, start) = times.unwrap_or((0.0, 0.0));
    let counted = total.saturating_sub(warm.max(1)) as f64;
    counted * pipeline.batch / (end - start)
}

/// The value that a standard normal variable exceeds with this chance, within 1.2e-9 of itself.
/// Source: P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution
/// function" (2003).
fn normal_above(chance: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] = [
        7.784695709041462e-3,
        3.224671290700398e-1,
        2.445134137142996,
        3.754408661907416,
        1.0,
    ];
    const TAIL: f64 = 0.02425;
    let horner = |of: &[f64], x: f64| of.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |chance: f64| {
        let q = (-2.0 * chance.max(f64::MIN_POSITIVE).ln()).sqrt();
        horner(&C, q) / horner(&D, q)
    };
    if chance < TAIL {
        -tail(chance)
    } else if chance > 1.0 - TAIL {
        tail(1.0 - chance)
    } else {
        let q = 0.5 - chance;
        horner(&A, q * q) * q / horner(&B, q * q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_values_are_those_of_tables() {
        for (chance, value) in [
            (0.5, 0.0),
            (0.158_655_253_931, 1.0),
            (0.841_344_746_069, -1.0),
            (0.001_349_898_032, 3.0),
            (0.998_650_101_968, -3.0),
            (2.866_515_719e-7, 5.0),
        ] {
            let off = normal_above(chance) - value;
            assert!(off.abs() < 1e-7, "{chance}: {off}");
        }
    }
}
