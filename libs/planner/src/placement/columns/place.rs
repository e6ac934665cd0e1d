//! From counts by class to nodes.

use super::classes::Classes;
use super::column::Column;
use super::generator::ColumnKind;

/// Applies a choice: the new owner of each place. `held` are the places of each trainer's nodes.
/// A `flexible` trainer gives its nodes up first; its choice may contain them.
pub(crate) fn place(
    chosen: &[Column],
    classes: &Classes,
    held: &[Vec<usize>],
    flexible: &[bool],
) -> Vec<Option<u32>> {
    let mut owners: Vec<Option<u32>> = vec![None; classes.of.len()];
    let set = |owners: &mut Vec<Option<u32>>, place: usize, to: Option<u32>| {
        if let Some(owner) = owners.get_mut(place) {
            *owner = to;
        }
    };
    for ((column, held), flexible) in chosen.iter().zip(held).zip(flexible) {
        let given = match ColumnKind::of(column.tag) {
            ColumnKind::Left => 0,
            _ if *flexible => held.len(),
            ColumnKind::Shrink(to) => held.len().saturating_sub(to as usize),
            ColumnKind::Keep | ColumnKind::Interval => 0,
        };
        for &place in held.iter().skip(given) {
            set(&mut owners, place, Some(column.trainer));
        }
    }
    let mut wanted: Vec<(&Column, Vec<(u32, i32)>)> = Vec::new();
    for column in chosen {
        let mut left = column.take.clone();
        left.retain(|&(class, nodes)| nodes > 0 && (class as usize) < classes.count_with_gaps());
        if ColumnKind::of(column.tag) != ColumnKind::Left && !left.is_empty() {
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
