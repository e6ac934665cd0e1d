//! The cheapest resource that does a work in time.
//!
//! Candidates c are kinds of node, node counts n, near or spread nodes, and loader workers w. The
//! batch of a step stays the user's, so each of n members has `share = n0/n` of the traced share, and
//! S steps stay S steps:
//!
//! ```text
//! T_c   = replay(n, w, share, link_c, device_c)                    seconds of a step
//! t_c   = u_c + S T_c                                              u_c: seconds until it trains
//! cost  = n price_c t_c / 3600                                     price of a node and hour
//! min over c of cost   subject to   u_c + S T_c (1 + margin) <= budget
//! ```
//!
//! The margin stands for the spread of T. If nothing is in time, the fastest is the answer. Times of a
//! share are taken as proportional to its samples, but for the site's `fixed` share of computing.
//!
//! Source: the question is that of Stash (arXiv 2208.14344); the candidates are enumerated here, and
//! their steps replayed from one traced run.

use lacuna_model::Cause;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::error::Error;
use crate::steps::Steps;

/// What a site offers, and at which price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Seconds from the order until training begins.
    #[serde(default)]
    pub start: f64,
    /// The share of a member's computing that depends neither on its samples nor on the device.
    #[serde(default)]
    pub fixed: f64,
    /// Kinds of node.
    pub kind: Vec<Kind>,
}

/// A kind of node: one member trains on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Price of a node for an hour, in the site's unit; 0 in holes.
    pub price: f64,
    /// Node counts that may be had.
    pub nodes: Vec<u32>,
    /// Worker processes of a member's loader that it has cores for.
    pub workers: Vec<u32>,
    /// How fast its device is, over that of the traced run.
    #[serde(default = "one")]
    pub speed: f64,
    /// Bandwidth between near nodes, over that of the traced run.
    #[serde(default = "one")]
    pub link: f64,
    /// The same between spread nodes; without, all nodes are near.
    #[serde(default)]
    pub spread: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Steps that are left.
    pub steps: f64,
    /// Seconds within which they are to be done.
    pub budget: f64,
    /// By which share a step may take longer than it is replayed.
    pub margin: f64,
}

/// One resource, and what the work takes there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Name of its kind.
    pub kind: String,
    /// Nodes.
    pub nodes: u32,
    /// Whether they may be far apart.
    pub spread: bool,
    /// Workers of each loader.
    pub workers: u32,
    /// A step, in seconds.
    pub step: f64,
    /// All of the work, in seconds.
    pub seconds: f64,
    /// In the site's unit.
    pub cost: f64,
    /// Whether it is in time, with the margin.
    pub is_in_time: bool,
    /// The cause whose removal would save the most, and seconds of a step; none below 5 % of it.
    pub limit: Option<(Cause, f64)>,
}

/// All candidates: those in time first, the cheapest first, and the others the fastest first. So the
/// first one is the answer.
///
/// # Errors
/// [`Error::Change`] and [`Error::Limit`] for numbers that no resource has, [`Error::LinkUnknown`] for
/// several nodes after a run of one, [`Error::NoOffer`] without candidates.
pub fn recommend(steps: &Steps, site: &Site, work: &Work) -> Result<Vec<Candidate>, Error> {
    for (what, value) in [
        ("the number of steps", work.steps),
        ("the budget", work.budget),
        ("1 + the margin", 1.0 + work.margin),
        ("1 + the seconds until training begins", 1.0 + site.start),
    ] {
        crate::change::positive(what, value)?;
    }
    let mut found = Vec::new();
    for kind in &site.kind {
        crate::change::positive("1 + the price", 1.0 + kind.price)?;
        let near = Some((false, kind.link));
        let places = near.into_iter().chain(kind.spread.map(|link| (true, link)));
        for (spread, link) in places {
            // A node alone is near itself.
            let sizes = kind.nodes.iter().filter(|nodes| **nodes > 1 || !spread);
            for &nodes in sizes {
                for &workers in &kind.workers {
                    let change = changed(steps, kind, nodes, link)?;
                    let change = change.fixed(site.fixed)?.workers(workers)?;
                    let step = steps.replay(&change)?;
                    let seconds = site.start + work.steps * step;
                    let latest = site.start + work.steps * step * (1.0 + work.margin);
                    found.push(Candidate {
                        kind: kind.name.clone(),
                        nodes,
                        spread,
                        workers,
                        step,
                        seconds,
                        cost: f64::from(nodes) * kind.price * seconds / 3600.0,
                        is_in_time: latest <= work.budget,
                        limit: limit(steps, &change, step)?,
                    });
                }
            }
        }
    }
    // Of equal cost, as in holes that cost nothing, the fastest; of equal speed the fewest nodes.
    found.sort_by(|a, b| {
        let by_time = a.seconds.total_cmp(&b.seconds);
        let by_cost = match a.is_in_time {
            true => a.cost.total_cmp(&b.cost),
            false => by_time,
        };
        let late = a.is_in_time.cmp(&b.is_in_time).reverse();
        late.then(by_cost).then(by_time).then(a.nodes.cmp(&b.nodes))
    });
    if found.is_empty() {
        return Err(Error::NoOffer);
    }
    Ok(found)
}

fn changed(steps: &Steps, kind: &Kind, nodes: u32, link: f64) -> Result<Change, Error> {
    let change = Change::none()
        .members(nodes)?
        .share(f64::from(steps.members()) / f64::from(nodes))?
        .device(kind.speed)?;
    // A node alone has no link, and so none that must be known.
    if nodes == 1 {
        Ok(change)
    } else {
        change.link(link)
    }
}

fn limit(steps: &Steps, change: &Change, step: f64) -> Result<Option<(Cause, f64)>, Error> {
    let mut most: Option<(Cause, f64)> = None;
    for cause in Cause::ALL {
        let saved = step - steps.replay(&change.clone().without(cause))?;
        if saved >= 0.05 * step && most.is_none_or(|(_, other)| saved > other) {
            most = Some((cause, saved));
        }
    }
    Ok(most)
}
