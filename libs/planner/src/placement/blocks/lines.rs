//! Nodes of several kinds in blocks: the nodes of each kind are a line of their own.
//!
//! A flexible trainer takes part in the lines of the kinds that its guide names. On the only one its
//! blocks have the values of this kind alone. If it is to mix two kinds, or to have exactly its
//! guide, its block of each line has the guide's size. One that has no nodes then takes part in each
//! line once more, in turn: counts left it out, or forecasts refused what its guide names. The answer
//! is judged as a whole afterwards.

use crate::placement::{Member, Scenarios};
use crate::problem::{Item, Mix, NO_NODES, count, with_count};

/// A trainer on the line of one kind.
pub(super) struct View {
    item: Item,
    hit: bool,
    start_s: f64,
}

impl View {
    pub(super) const fn member(&self) -> Member<'_> {
        Member {
            item: &self.item,
            hit: self.hit,
            start_s: self.start_s,
        }
    }
}

/// The flexible trainers on the line of a kind, each with its place among the members: by their
/// guides or, where it is known what all hold, those without nodes whatever their guides are.
pub(super) fn views(
    members: &[Member<'_>],
    guide: &[Mix],
    (exactly, held): (bool, Option<&[Mix]>),
    kind: usize,
) -> Vec<(usize, View)> {
    let flexible = members.iter().zip(guide).enumerate();
    let flexible = flexible.filter(|(_, (member, _))| member.is_flexible());
    let view = |(j, (member, guide)): (usize, (&Member<'_>, &Mix))| {
        let item = match held {
            Some(held) if held.get(j) != Some(&NO_NODES) => return None,
            Some(_) => alone(member.item, kind),
            None => on_line(member.item, *guide, exactly, kind),
        }?;
        let (hit, start_s) = (member.hit, member.start_s);
        Some((j, View { item, hit, start_s }))
    };
    flexible.filter_map(view).collect()
}

/// A trainer on the line of a kind; nothing if its guide has no nodes of it.
fn on_line(item: &Item, guide: Mix, exactly: bool, kind: usize) -> Option<Item> {
    let (most, all) = (count(&guide, kind), guide.iter().sum::<u32>());
    if most == 0 {
        return None;
    }
    if !exactly && most == all {
        return alone(item, kind);
    }
    let part = f64::from(most) / f64::from(all);
    let of = |n| {
        if n == most {
            item.value_of(guide) * part
        } else {
            0.0
        }
    };
    with_values(item, (0..=most).map(of).collect())
}

/// A trainer with the values of one kind alone.
fn alone(item: &Item, kind: usize) -> Option<Item> {
    let most = count(&item.kinds.as_ref()?.value.most(), kind);
    let of = |n| item.value_of(with_count(NO_NODES, kind, n)).max(0.0);
    with_values(item, (0..=most).map(of).collect())
}

fn with_values(item: &Item, value: Vec<f64>) -> Option<Item> {
    let min = value.iter().position(|value| *value > 0.0)? as u32;
    Some(Item {
        current: 0,
        min,
        max: (value.len() - 1) as u32,
        value: value.into(),
        rate_now: 0.0,
        kinds: None,
        ..item.clone()
    })
}

/// Takes all nodes from owners outside the request, and from trainers that cannot run on theirs.
pub(super) fn without_impossible(
    members: &[Member<'_>],
    owners: &mut [Option<u32>],
    scenarios: &Scenarios,
) {
    let held = scenarios.mixes(owners, members.len());
    let stays = members.iter().zip(held);
    let stays: Vec<bool> = stays.map(|(member, mix)| member.item.is_mix(mix)).collect();
    for owner in owners {
        *owner = owner.filter(|&j| stays.get(j as usize) == Some(&true));
    }
}
