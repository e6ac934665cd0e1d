//! From counts by class to nodes.

use super::classes::Classes;
use super::column::Column;
use super::generator::ColumnKind;

/// Applies a choice: the new owner of each place. `held` are the places of each trainer's nodes.
/// `flexible` trainers give up all of theirs. Columns may name node sets of `plans`.
pub(crate) fn place(
    chosen: &[Column],
    classes: &Classes,
    held: &[Vec<usize>],
    flexible: &[bool],
    plans: &[Vec<Option<u32>>],
) -> Vec<Option<u32>> {
    let mut owners: Vec<Option<u32>> = vec![None; classes.of.len()];
    let set = |owners: &mut Vec<Option<u32>>, place: usize, to: Option<u32>| {
        if let Some(owner) = owners.get_mut(place) {
            *owner = to;
        }
    };
    for ((column, held), flexible) in chosen.iter().zip(held).zip(flexible) {
        let kind = ColumnKind::of(column.tag);
        let given = match kind {
            _ if *flexible => held.len(),
            ColumnKind::Shrink(to) => held.len().saturating_sub(to as usize),
            ColumnKind::Keep | ColumnKind::Interval | ColumnKind::Set(_) => 0,
        };
        // A plan may give back other nodes than the first.
        let shrinks = column.take.iter().any(|&(_, nodes)| nodes < 0);
        let plan = match kind {
            ColumnKind::Set(plan) if shrinks => plans.get(plan as usize),
            _ => None,
        };
        for &place in held.iter().skip(given) {
            let named = |plan: &Vec<Option<u32>>| plan.get(place) == Some(&Some(column.trainer));
            if plan.is_none_or(named) {
                set(&mut owners, place, Some(column.trainer));
            }
        }
    }
    let mut wanted: Vec<(&Column, Vec<(u32, i32)>)> = Vec::new();
    for column in chosen {
        let mut left = column.take.clone();
        left.retain(|&(class, nodes)| nodes > 0 && (class as usize) < classes.count_with_gaps());
        if let ColumnKind::Set(plan) = ColumnKind::of(column.tag)
            && let Some(plan) = plans.get(plan as usize)
        {
            // The very nodes of the plan, as far as they are free.
            for ((now, owner), &class) in owners.iter_mut().zip(plan).zip(&classes.of) {
                let slot = left.iter_mut().find(|(k, nodes)| *k == class && *nodes > 0);
                let named = now.is_none() && *owner == Some(column.trainer);
                if let (true, Some((_, nodes))) = (named, slot) {
                    *nodes -= 1;
                    *now = Some(column.trainer);
                }
            }
        }
        left.retain(|&(_, nodes)| nodes > 0);
        if !left.is_empty() {
            wanted.push((column, left));
        }
    }
    // In a class, intervals from the class before take nodes in front; intervals that go on to the
    // next class take nodes at the back.
    let rank = |column: &Column, class: u32| {
        let first = column.take.first().map_or(class, |&(k, _)| k);
        let of_nodes = |&&(k, _): &&(u32, i32)| (k as usize) < classes.count_with_gaps();
        let last = column
            .take
            .iter()
            .rfind(of_nodes)
            .map_or(class, |&(k, _)| k);
        (first >= class, last > class, first, column.trainer)
    };
    let mut vacant: Vec<Vec<usize>> = vec![Vec::new(); classes.count_with_gaps()];
    for (place, (owner, &class)) in owners.iter().zip(&classes.of).enumerate() {
        if owner.is_none()
            && let Some(vacant) = vacant.get_mut(class as usize)
        {
            vacant.push(place);
        }
    }
    for (class, vacant) in (0_u32..).zip(vacant) {
        let of = |left: &[(u32, i32)]| left.iter().find(|(k, _)| *k == class).map(|&(_, n)| n);
        let mut here: Vec<(&Column, usize)> = wanted
            .iter()
            .filter_map(|(column, left)| Some((*column, of(left)? as usize)))
            .collect();
        here.sort_by_key(|(column, _)| rank(column, class));
        let goes_on = |column: &Column| rank(column, class).1;
        let mut front = vacant.iter();
        for &(column, nodes) in here.iter().filter(|(column, _)| !goes_on(column)) {
            for &place in front.by_ref().take(nodes) {
                set(&mut owners, place, Some(column.trainer));
            }
        }
        let mut back = front.rev();
        for &(column, nodes) in here.iter().rev().filter(|(column, _)| goes_on(column)) {
            for &place in back.by_ref().take(nodes) {
                set(&mut owners, place, Some(column.trainer));
            }
        }
    }
    owners
}
