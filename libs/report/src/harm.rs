//! The statement on harm to batch jobs: the replay's part of it, and the part outside its model.

use lacuna_sim::HarvestOfKind;
use lacuna_sim::pool_stats::PoolStats;

use super::svg::{count, percent, share};

/// Input of the statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct HarmInput<'a> {
    /// The pool of the trace.
    pub(super) pool: &'a PoolStats,
    /// Departures that hit a trainer.
    pub(super) preemptions: u64,
    /// Samples lost to departures, over samples done.
    pub(super) preempt_fraction: f64,
    /// The nodes of each kind, where trainers tell kinds apart.
    pub(super) kinds: &'a [HarvestOfKind],
    /// Whether the starts of batch jobs come from a simulated scheduler.
    pub(super) simulated: bool,
}

/// The statement, one paragraph each.
pub(super) fn statement(input: HarmInput<'_>) -> Vec<String> {
    let pool = input.pool;
    let leaves = pool.leaves_per_hour * pool.hours;
    let nodes = leaves * pool.nodes_per_leave;
    let jobs = if input.simulated {
        "as the simulated batch scheduler starts them, which knows nothing of trainers"
    } else {
        "as recorded"
    };
    // All nodes that leave, with or without a trainer, each a second late.
    let second_hours = nodes / 3600.0;
    let machine_hours = pool.hours * f64::from(pool.nodes);
    let mut text = vec![
        format!(
            "The replay harms no batch job, by construction: batch jobs run {jobs}, and a trainer \
             gives a node back in the same moment in which the batch scheduler wants it. Over the \
             whole trace idle nodes were wanted back at {} moments, {} nodes in all. Until the \
             replay's end trainers lost nodes {} times. Trainers bear the cost: {} of the work \
             done was lost to it.",
            count(leaves),
            count(nodes),
            count(input.preemptions as f64),
            percent(input.preempt_fraction, 2)
        ),
        format!(
            "On a real machine a node is free again when its training process has stopped and the \
             scheduler's own clean-up has run. This delay is not modelled. Each second of it \
             delays the jobs concerned by a second. It costs at most {:.1} node-hours over this \
             trace, {} of the machine's time, if every node that leaves is training.",
            second_hours,
            percent(share(second_hours, machine_hours), 4)
        ),
        "Four more effects are not modelled and need a trial: the load of training on shared file \
         systems and networks, the power and heat of nodes that would have idled, failures of \
         nodes while they train, and changed submissions by users since fewer nodes look idle."
            .to_owned(),
    ];
    if !input.kinds.is_empty() {
        let kinds = input.kinds.iter().map(|of| {
            let (left, taken) = (count(of.left_nodes as f64), count(of.taken_nodes as f64));
            format!("{left} of kind {}, of which trainers had {taken}", of.kind)
        });
        let kinds: Vec<String> = kinds.collect();
        let all = kinds.join("; ");
        text.insert(
            1,
            format!("By kind, until the replay's end nodes were wanted back: {all}."),
        );
    }
    text
}
