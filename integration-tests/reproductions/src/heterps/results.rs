//! What was found.

use lacuna_layers::Placement;

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
