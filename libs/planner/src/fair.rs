//! Max-min fairness between users: no user can be served better without serving one worse
//! who is served no better (Luss 1999, "On equitable resource allocation problems", Operations
//! Research 47(3); Ogryczak and Śliwiński 2006).
//!
//! **Sets.** Trainers j, users u, `J_u` the trainers of u; sizes `S_j` as in [`crate::counts`].
//!
//! **Constants.** N nodes; `G_j(n)` net gain over the horizon T ([`crate::Item::gain`], the
//! cost of changing taken off); `w_u > 0` the share of u, scaled so that the mean is 1; the
//! worth of a node to j, `r_j = T O_j(min_j) / min_j`.
//!
//! **Levels.** The scaled speed-up of a user is `L_u = sum_{j in J_u} G_j(n_j) / (r_j w_u)`: how
//! many nodes' worth of training it gets per share, with costs paid, whatever its networks are.
//! Levels are counted in millionths, so that what differs by less is equal.
//!
//! **Maximise** the levels in leximin order: first the smallest level, then the second
//! smallest, and so on; among equals `sum_j G_j(n_j)`; subject to `sum_j n_j <= N`.
//!
//! **How.** Users are separable, so three steps are exact:
//!
//! 1. `f_u(m)`, the best (level, gain) of u on at most m nodes, by dynamic programming over its
//!    trainers; it never falls with m. `c_u` is its largest level.
//! 2. The water level: the largest `l` such that `m_u = min {m : f_u(m) >= min(l, c_u)}` fit,
//!    `sum_u m_u <= N`. Every leximin optimum gives each user `m_u` at least: of one that has a
//!    user below `min(l, c_u)`, take the lowest such level b. The answer of step 2 has no more
//!    users at any level under b, and fewer at b, since its users at or under b have all they
//!    can ever get. So it is better.
//! 3. The `N - sum m_u` nodes that remain do not lift all of the lowest together. A dynamic
//!    programme over users hands them out; its states are sorted lists of levels. That is
//!    right because leximin order does not change when both sides get the same further level.
//!    Few nodes remain: less than one step for each of the users who are lowest.

mod deal;
mod profile;

use crate::{Problem, Sizes};

use profile::Profile;

/// The leximin optimum. `users` names the user of each trainer (those beyond the list have one
/// user in common), `shares` the share of each user, by its number; a share that is missing or
/// not a positive finite number counts as 1. A limit on changes that leaves no choice is
/// ignored.
#[must_use]
pub fn solve(problem: &Problem, users: &[u32], shares: &[f64]) -> Sizes {
    let groups = groups(problem, users, shares);
    let profiles = profiles(problem, &groups, problem.max_change)
        .or_else(|| profiles(problem, &groups, None))
        .unwrap_or_default();
    let base = water_level(&profiles, problem.nodes);
    let given = deal::deal(&profiles, &base, problem.nodes);
    let mut counts = vec![0; problem.trainers.len()];
    for ((group, profile), nodes) in groups.iter().zip(&profiles).zip(given) {
        for (&j, n) in group.trainers.iter().zip(profile.sizes(nodes)) {
            if let Some(count) = counts.get_mut(j) {
                *count = n;
            }
        }
    }
    problem.sizes(counts)
}

/// The level of each user under these sizes, in units of one node's worth per share; users in
/// ascending order of their numbers. This is what [`solve`] makes as even as it can.
#[must_use]
pub fn levels(problem: &Problem, users: &[u32], shares: &[f64], counts: &[u32]) -> Vec<f64> {
    groups(problem, users, shares)
        .iter()
        .map(|group| {
            let level = |&j: &usize| {
                let (item, &n) = (problem.trainers.get(j)?, counts.get(j)?);
                Some(profile::level(problem, item, n, group.share))
            };
            let sum: i64 = group.trainers.iter().filter_map(level).sum();
            sum as f64 * profile::QUANTUM
        })
        .collect()
}

/// A user.
struct Group {
    user: u32,
    /// Its share; the mean over users is 1.
    share: f64,
    /// Its trainers, by their places in the problem.
    trainers: Vec<usize>,
}

/// The users, in order of their numbers.
fn groups(problem: &Problem, users: &[u32], shares: &[f64]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for j in 0..problem.trainers.len() {
        let user = users.get(j).copied().unwrap_or(u32::MAX);
        match groups.iter_mut().find(|group| group.user == user) {
            Some(group) => group.trainers.push(j),
            None => groups.push(Group {
                user,
                share: shares
                    .get(user as usize)
                    .copied()
                    .filter(|share| share.is_finite() && *share > 0.0)
                    .unwrap_or(1.0),
                trainers: vec![j],
            }),
        }
    }
    groups.sort_by_key(|group| group.user);
    let mean = groups.iter().map(|g| g.share).sum::<f64>() / groups.len().max(1) as f64;
    for group in &mut groups {
        group.share /= mean;
    }
    groups
}

/// The profile of each user, or nothing if the limit leaves no choice that fits.
fn profiles(problem: &Problem, groups: &[Group], limit: Option<u32>) -> Option<Vec<Profile>> {
    let profiles: Vec<Profile> = groups
        .iter()
        .map(|group| {
            let items = group
                .trainers
                .iter()
                .filter_map(|&j| problem.trainers.get(j));
            Profile::new(problem, items, group.share, limit)
        })
        .collect::<Option<_>>()?;
    let least: u64 = profiles.iter().map(|p| u64::from(p.least())).sum();
    (least <= u64::from(problem.nodes)).then_some(profiles)
}

/// The nodes of each user at the highest level that all can have (step 2).
fn water_level(profiles: &[Profile], nodes: u32) -> Vec<u32> {
    let mut levels: Vec<i64> = profiles.iter().flat_map(Profile::levels).collect();
    levels.sort_unstable();
    levels.dedup();
    let at = |level: i64| profiles.iter().map(move |p| p.nodes_for(level));
    let fits = |level: &i64| at(*level).map(u64::from).sum::<u64>() <= u64::from(nodes);
    let reached = levels.partition_point(fits);
    let level = reached.checked_sub(1).and_then(|last| levels.get(last));
    match level {
        Some(&level) => at(level).collect(),
        None => profiles.iter().map(Profile::least).collect(),
    }
}
