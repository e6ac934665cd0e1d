//! One table of figures, with which the tests of all displays compare.

use lacuna_model::{Efficiency, Stall, Stalls, Timestamp};
use lacuna_wire::msg::Totals;

/// Totals, and the figures that are displayed for them.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Totals in the form that control publishes. Two trainers like those of [`crate::spec`] did
    /// the work.
    pub totals: Totals,
    /// Mean number of idle nodes.
    pub equivalent_nodes: f64,
    /// Efficiency U.
    pub efficiency: f64,
    /// Harvested over idle node-seconds.
    pub idle_share_used: f64,
    /// For each cause: its name, samples lost, and these over samples done.
    pub lost: [(&'static str, f64, f64); 3],
}

/// Ten nodes are idle for 1,000 s. Dedicated nodes do 100 samples/s each.
#[must_use]
pub fn figures() -> Figures {
    Figures {
        totals: Totals {
            since: Timestamp::from_unix(1000),
            now: Timestamp::from_unix(2000),
            idle_node_s: 10_000.0,
            harvested_node_s: 9_000.0,
            samples: 800_000.0,
            rescale_cost: 8_000.0,
            preempt_cost: 15_000.0,
            restart_cost: 3_000.0,
            stalls: Stalls {
                rescale: Stall {
                    seconds: 40.0,
                    redone: 0.0,
                },
                preempt: Stall {
                    seconds: 50.0,
                    redone: 1_000.0,
                },
                restart: Stall {
                    seconds: 6.5,
                    redone: 1_000.0,
                },
            },
            efficiency: Efficiency::Known(0.8),
            preemptions: 3,
            rescales: 4,
            ..Totals::default()
        },
        equivalent_nodes: 10.0,
        efficiency: 0.8,
        idle_share_used: 0.9,
        lost: [
            ("rescale", 8_000.0, 0.01),
            ("preempt", 16_000.0, 0.02),
            ("restart", 4_000.0, 0.005),
        ],
    }
}
