//! Fair shares of nodes between the owners of trainers.
//!
//! The value of an owner's trainers ([`crate::objective`]) and their number matter within the
//! owner's share alone, by any policy. So an owner cannot take nodes from others by the description
//! of its own trainers.
//!
//! **Constants.** N nodes; for each owner u its weight `w_u > 0`, its present nodes `h_u`, and the
//! set `R_u` of the node counts that its trainers can use together, each on none or on `min..=max`
//! nodes.
//!
//! **The max-min share** `m_u` is that of water-filling: all shares rise together, by weight, up to
//! the most that an owner can use (`max R_u`), until no node is left. A remainder below one node
//! each goes first to the owner that holds it already, then to the earliest owner.
//!
//! **The allotment** `g_u` lies in `R_u`. It begins with the largest usable count up to `m_u`. Then
//! the unusable rest of all shares goes on, the least served owner first, in the steps that `R_u`
//! allows, until no step fits. So
//!
//! 1. `g_u >= max { n in R_u : n <= m_u }`: an owner has less than its share only as far as the
//!    sizes of its trainers do not fit into it, whatever others ask for;
//! 2. nodes beyond an owner's share are unusable within the shares of all others;
//! 3. no owner can use more of the nodes that are then left.
//!
//! An owner that needs more nodes at once than its share waits for nodes that others leave.
//! Otherwise the largest `min_nodes` would have the largest share.
//!
//! **When an owner leaves nodes** that it can use (a change costs more than it brings), it is
//! closed with its used nodes, and the shares are computed again, a few rounds at most.
//!
//! **Complexity.** `O((J + U) N)` steps for a decision on J trainers of U owners. A single owner
//! needs no shares.

pub(crate) mod kinds;

use crate::Item;

/// Rounds of a decision. Nodes idle after the last one stay so until the next decision.
const ROUNDS: usize = 4;

/// The claim of an owner on nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    part: f64,
    held: u32,
    /// For 0, 1, 2, ... nodes: whether the owner can use exactly this number.
    usable: Vec<bool>,
}

impl Claim {
    /// The claim of an owner on `nodes` nodes. `part` is its weight; a weight that is not positive
    /// and finite counts as 1. `items` are its trainers, and `apart` nodes stay with it in any
    /// case.
    #[must_use]
    pub fn new<'a>(
        nodes: u32,
        part: f64,
        items: impl Iterator<Item = &'a Item>,
        apart: u32,
    ) -> Self {
        let mut claim = Self {
            part: if part.is_finite() && part > 0.0 {
                part
            } else {
                1.0
            },
            held: apart,
            usable: (0..=nodes).map(|n| n == apart.min(nodes)).collect(),
        };
        for item in items {
            claim.held = claim.held.saturating_add(item.current);
            claim.widen(item);
        }
        claim
    }

    /// Adds the sizes of one more trainer.
    fn widen(&mut self, item: &Item) {
        let table = (item.value.len() as u32).saturating_sub(1);
        let low = item.min as usize;
        let high = item.max.min(table) as usize;
        let old = self.usable.clone();
        let was = |n: Option<usize>| n.and_then(|n| old.get(n)) == Some(&true);
        // Number of usable counts among n - high ..= n - low.
        let mut within = 0_u32;
        for (n, usable) in self.usable.iter_mut().enumerate() {
            if low <= high {
                within += u32::from(was(n.checked_sub(low)));
                within -= u32::from(was(n.checked_sub(high + 1)));
            }
            *usable = within > 0 || was(Some(n));
        }
    }

    /// The largest usable count up to `n`; if all are larger, the smallest.
    fn within(&self, n: u32) -> u32 {
        let mut counts = self.usable.iter().take(n as usize + 1);
        let most = counts.rposition(|&usable| usable);
        most.map_or_else(|| self.least(), |most| most as u32)
    }

    fn least(&self) -> u32 {
        self.usable.iter().position(|&usable| usable).unwrap_or(0) as u32
    }

    fn most(&self) -> u32 {
        self.within(u32::MAX - 1)
    }

    /// The smallest usable count above `n`.
    fn next(&self, n: u32) -> Option<u32> {
        let more = self.usable.iter().skip(n as usize + 1);
        let step = more.take_while(|&&usable| !usable).count() as u32;
        let next = n.saturating_add(step).saturating_add(1);
        ((next as usize) < self.usable.len()).then_some(next)
    }

    /// Fixes the claim to this number of nodes.
    fn close(&mut self, nodes: u32) {
        for (n, usable) in self.usable.iter_mut().enumerate() {
            *usable = n == nodes as usize;
        }
    }

    /// Rank of an owner with `nodes` nodes: the least served first, then the one that holds more
    /// already.
    fn place(&self, nodes: u32) -> (f64, bool) {
        (f64::from(nodes) / self.part, self.held <= nodes)
    }
}

/// The first of `steps` (owner, its nodes, its nodes after the step) by rank.
fn first(claims: &[Claim], steps: impl Iterator<Item = (usize, u32, u32)>) -> Option<(usize, u32)> {
    let placed = steps.filter_map(|(u, now, next)| Some((claims.get(u)?.place(now), u, next)));
    let first = placed.min_by(|((a, x), ..), ((b, y), ..)| a.total_cmp(b).then(x.cmp(y)));
    first.map(|(_, u, next)| (u, next))
}

fn left(nodes: u32, given: &[u32]) -> u32 {
    nodes.saturating_sub(given.iter().fold(0, |sum, &n| sum.saturating_add(n)))
}

/// The max-min shares `m_u` of `nodes` nodes. All claims are on this number.
#[must_use]
pub fn max_min(nodes: u32, claims: &[Claim]) -> Vec<u32> {
    let parts: f64 = claims.iter().map(|claim| claim.part).sum();
    let bounds: Vec<(u32, u32)> = claims.iter().map(|c| (c.least(), c.most())).collect();
    // Every owner gets at least its part of all nodes, unless limits on changes bind the others.
    let mut given: Vec<u32> = claims
        .iter()
        .zip(&bounds)
        .map(|(claim, &(least, most))| {
            let even = (f64::from(nodes) / parts * claim.part) as u32;
            even.clamp(least, most)
        })
        .collect();
    if given.iter().map(|&n| u64::from(n)).sum::<u64>() > u64::from(nodes) {
        given = bounds.iter().map(|&(least, _)| least).collect();
    }
    for _ in 0..left(nodes, &given) {
        let open = given.iter().zip(&bounds).enumerate();
        let open = open.filter(|(_, (now, (_, most)))| *now < most);
        let Some((u, next)) = first(claims, open.map(|(u, (&now, _))| (u, now, now + 1))) else {
            break;
        };
        if let Some(given) = given.get_mut(u) {
            *given = next;
        }
    }
    given
}

/// The allotments `g_u` of `nodes` nodes. All claims are on this number.
#[must_use]
pub fn share(nodes: u32, claims: &[Claim]) -> Vec<u32> {
    let mut given = max_min(nodes, claims);
    for (given, claim) in given.iter_mut().zip(claims) {
        *given = claim.within(*given);
    }
    loop {
        let rest = left(nodes, &given);
        let steps = given.iter().zip(claims).enumerate();
        let steps = steps.filter_map(|(u, (&now, claim))| Some((u, now, claim.next(now)?)));
        let fitting = steps.filter(|(_, now, next)| next - now <= rest);
        let Some((u, next)) = first(claims, fitting) else {
            return given;
        };
        if let Some(given) = given.get_mut(u) {
            *given = next;
        }
    }
}

/// Gives out `nodes` nodes in rounds. `decide` gets the allotment of each owner, and whether the
/// owner needs a (new) decision; it returns the used nodes of each. The result is the last
/// allotment.
///
/// # Errors
/// Those of `decide`.
pub(crate) fn settle<E>(
    nodes: u32,
    claims: &mut [Claim],
    mut decide: impl FnMut(&[u32], &[bool]) -> Result<Vec<u32>, E>,
) -> Result<Vec<u32>, E> {
    let mut given = share(nodes, claims);
    let mut again = vec![true; claims.len()];
    for round in 1.. {
        let used = decide(&given, &again)?;
        let mut closed = false;
        for ((claim, given), &used) in claims.iter_mut().zip(&mut given).zip(&used) {
            if used < *given {
                claim.close(used);
                closed = true;
                *given = used;
            }
        }
        let next = share(nodes, claims);
        if !closed || next == given || round == ROUNDS {
            break;
        }
        again = next.iter().zip(&given).map(|(a, b)| a != b).collect();
        given = next;
    }
    Ok(given)
}
