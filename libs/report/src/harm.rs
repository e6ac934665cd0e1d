//! What a replay can say about harm to batch jobs, and what it cannot.

use lacuna_sim::pool_stats::PoolStats;

use super::svg::{count, percent, share};

/// What the statement is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// The pool of the trace.
    pub(super) pool: &'a PoolStats,
    /// Times that a trainer lost nodes unasked.
    pub(super) preemptions: u64,
    /// Samples lost to that, over samples done.
    pub(super) preempt_fraction: f64,
    /// Whether the starts of batch jobs come from a simulated scheduler.
    pub(super) simulated: bool,
}

/// The statement, one paragraph each.
pub(super) fn statement(facts: Facts<'_>) -> Vec<String> {
    let pool = facts.pool;
    let leaves = pool.leaves_per_hour * pool.hours;
    let nodes = leaves * pool.nodes_per_leave;
    let jobs = if facts.simulated {
        "as the simulated batch scheduler starts them, which knows nothing of trainers"
    } else {
        "as recorded"
    };
    // All nodes that leave, held by a trainer or not, each a second late.
    let second_hours = nodes / 3600.0;
    let machine_hours = pool.hours * f64::from(pool.nodes);
    vec![
        format!(
            "In the replay nobody, by construction: batch jobs run {jobs}, and a node that the batch scheduler wants \
             is given back in the same moment, whatever it trains. Over the whole \
             recording idle nodes were wanted back at {} moments, {} nodes in all; until the replay's \
             end this took nodes from a trainer {} times. The trainers \
             bear the cost: {} of the work done was lost to it.",
            count(leaves),
            count(nodes),
            count(facts.preemptions as f64),
            percent(facts.preempt_fraction, 2)
        ),
        format!(
            "On a real machine a node is free again only when its training process has stopped and \
             the scheduler's own clean-up has run, which is not modelled here. Each second of that \
             delays the jobs concerned by a second, and costs at most {:.1} node-hours over this \
             recording, {} of the machine's time, if every node that leaves is training.",
            second_hours,
            percent(share(second_hours, machine_hours), 4)
        ),
        "Not modelled either, and to be watched in a trial: load that training puts on shared file \
         systems and on the network beside running jobs, power and heat of nodes that would have \
         idled, nodes that fail while they train, and users who change what they submit because \
         fewer nodes look idle."
            .to_owned(),
    ]
}
