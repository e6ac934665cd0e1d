//! Scaling curves of simulated programs.

/// The curve of a law of growth.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    pub(super) name: String,
    /// Samples/s at 1, 2, ... nodes.
    pub(super) rates: Vec<f64>,
}

/// Laws of growth up to `nodes` nodes. None is piecewise linear between powers of two, the probed
/// sizes.
pub(super) fn laws(nodes: u32) -> Vec<Named> {
    let law = |name: &str, rate: &dyn Fn(f64) -> f64| Named {
        name: name.to_owned(),
        rates: (1..=nodes).map(|n| 100.0 * rate(f64::from(n))).collect(),
    };
    let most = f64::from(nodes);
    vec![
        law("linear", &|n| n),
        law("Amdahl, 5 % serial", &|n| n / (1.0 + 0.05 * (n - 1.0))),
        law("Amdahl, 20 % serial", &|n| n / (1.0 + 0.2 * (n - 1.0))),
        law("power 0.8", &|n| n.powf(0.8)),
        law("full at 3/8", &|n| n.min(most * 3.0 / 8.0)),
        law("falls from 5/8 on", &|n| {
            n - 1.5 * (n - most * 5.0 / 8.0).max(0.0)
        }),
        law("slow beyond 4 a switch", &|n| {
            if n <= 4.0 { n } else { 0.7 * n + 0.5 }
        }),
    ]
}
