//! What was found, and whether it is what was aimed at.

use lacuna_layers::Placement;

/// The name of the learner of the goals.
pub(super) const LEARNER: &str = "rl-lstm";

/// Costs are compared within the tolerance of the exact search.
const TOLERANCE: f64 = 1e-4;

/// One run of a scheduler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) cost: f64,
    pub(super) seconds: f64,
    pub(super) evaluations: usize,
}

/// The runs of a scheduler on an instance; none where it does not end.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) runs: Vec<Run>,
}

impl Column {
    /// The median cost.
    fn cost(&self) -> Option<f64> {
        let mut costs: Vec<f64> = self.runs.iter().map(|run| run.cost).collect();
        costs.sort_by(f64::total_cmp);
        costs.get((costs.len().max(1) - 1) / 2).copied()
    }

    /// The least processor seconds: a busy machine makes runs longer, none shorter.
    pub(super) fn seconds(&self) -> Option<f64> {
        let seconds = self.runs.iter().map(|run| run.seconds);
        seconds.min_by(f64::total_cmp)
    }
}

/// How much faster the cost model is than a pipeline whose times vary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Optimism {
    pub(super) by_unit: bool,
    pub(super) variation: f64,
    pub(super) share: f64,
}

/// An instance with all schedulers.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) network: String,
    pub(super) layers: usize,
    pub(super) kinds: usize,
    pub(super) kind_names: Vec<String>,
    pub(super) min_rate: f64,
    pub(super) exact: Placement,
    /// The least processor seconds of several exact searches.
    pub(super) seconds: f64,
    pub(super) columns: Vec<Column>,
    pub(super) optimism: Vec<Optimism>,
}

impl Figures {
    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Median cost over that of the exact placement.
    pub(super) fn ratio(&self, name: &str) -> Option<f64> {
        let cost = self.column(name)?.cost()?;
        Some(cost / self.exact.cost)
    }
}

/// All instances.
#[derive(Debug, Clone)]
pub(super) struct Results {
    pub(super) rows: Vec<Figures>,
    pub(super) seeds: Vec<u64>,
}

/// An aim with what was found.
#[derive(Debug, Clone)]
pub(super) struct Goal {
    pub(super) aim: String,
    pub(super) found: String,
    pub(super) met: bool,
}

impl Results {
    /// The goals that these rows can show.
    pub(super) fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        let gap = self
            .rows
            .iter()
            .map(|row| row.exact.gap())
            .fold(0.0, f64::max);
        goals.push(Goal {
            aim: "proven within 1e-4 on each instance".to_owned(),
            found: format!("{gap:.1e}"),
            met: gap <= TOLERANCE * 1.001,
        });
        let costs = self.rows.iter().flat_map(|row| {
            let runs = row.columns.iter().flat_map(|column| &column.runs);
            runs.map(|run| run.cost / row.exact.cost)
        });
        let least = costs.fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            goals.push(Goal {
                aim: "no run of any scheduler is cheaper, beyond 1e-4".to_owned(),
                found: format!("cheapest over exact {least:.6}"),
                met: least >= 1.0 - TOLERANCE,
            });
        }
        goals.extend(self.against_the_learner());
        for (kinds, most_ms) in [(2, 5.0), (16, 50.0), (64, 500.0)] {
            let of = self
                .rows
                .iter()
                .filter(|row| row.kinds == kinds && row.layers == 16);
            let times: Vec<f64> = of.map(|row| row.seconds * 1e3).collect();
            if !times.is_empty() {
                let slowest = times.into_iter().fold(0.0, f64::max);
                goals.push(Goal {
                    aim: format!("16 layers on {kinds} kinds within {most_ms} ms"),
                    found: format!("{slowest:.2} ms"),
                    met: slowest <= most_ms,
                });
            }
        }
        let steady = self.rows.iter().flat_map(|row| &row.optimism);
        let steady = steady.filter(|one| !one.by_unit && one.variation <= 0.1);
        let most = steady.map(|one| one.share.abs()).fold(0.0, f64::max);
        goals.push(Goal {
            aim: "rate within 5 % of simulated pipelines at a variation of .1 of stages".to_owned(),
            found: format!("{:.1} %", most * 100.0),
            met: most <= 0.05,
        });
        goals
    }

    /// From 16 kinds on.
    fn against_the_learner(&self) -> Vec<Goal> {
        let many: Vec<&Figures> = self.rows.iter().filter(|row| row.kinds >= 16).collect();
        let ratios: Vec<f64> = many.iter().filter_map(|row| row.ratio(LEARNER)).collect();
        if ratios.is_empty() {
            return Vec::new();
        }
        // What the exact placement saves of the learner's cost.
        let saved: Vec<f64> = ratios.iter().map(|ratio| 1.0 - 1.0 / ratio).collect();
        let mean = saved.iter().sum::<f64>() / saved.len() as f64;
        let shares = many.iter().filter_map(|row| {
            let seconds = row.column(LEARNER)?.seconds()?;
            Some(row.seconds / seconds)
        });
        let share = shares.fold(0.0, f64::max);
        vec![
            Goal {
                aim: format!("from 16 kinds on 10 % cheaper than {LEARNER} in the mean"),
                found: format!("{:.1} %", mean * 100.0),
                met: mean >= 0.1,
            },
            Goal {
                aim: format!("from 16 kinds on within 1 % of the time of {LEARNER}"),
                found: format!("{:.2} %", share * 100.0),
                met: share <= 0.01,
            },
        ]
    }

    /// Whether all goals are met.
    pub(super) fn is_good(&self) -> bool {
        self.goals().iter().all(|goal| goal.met)
    }
}
