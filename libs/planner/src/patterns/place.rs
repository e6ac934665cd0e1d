//! From counts by cell to nodes.

use crate::patterns::cells::Cells;
use crate::patterns::column::Column;
use crate::patterns::family::Deed;

/// Carries out a choice: whose each place is from now on. `held` are the places of each
/// trainer's nodes, `loose` who gives up all that it holds, and `plans` the plans whose node sets
/// columns may name.
pub(crate) fn place(
    chosen: &[Column],
    cells: &Cells,
    held: &[Vec<usize>],
    loose: &[bool],
    plans: &[Vec<Option<u32>>],
) -> Vec<Option<u32>> {
    let mut owners: Vec<Option<u32>> = vec![None; cells.of.len()];
    let set = |owners: &mut Vec<Option<u32>>, place: usize, to: Option<u32>| {
        if let Some(owner) = owners.get_mut(place) {
            *owner = to;
        }
    };
    for ((column, held), loose) in chosen.iter().zip(held).zip(loose) {
        let given = match Deed::of(column.tag) {
            _ if *loose => held.len(),
            Deed::Shrink(to) => held.len().saturating_sub(to as usize),
            Deed::Keep | Deed::Run | Deed::Set(_) => 0,
        };
        for &place in held.iter().skip(given) {
            set(&mut owners, place, Some(column.trainer));
        }
    }
    let mut wanted: Vec<(&Column, Vec<(u32, i32)>)> = Vec::new();
    for column in chosen {
        let mut left = column.take.clone();
        left.retain(|&(_, nodes)| nodes > 0);
        if let Deed::Set(plan) = Deed::of(column.tag)
            && let Some(plan) = plans.get(plan as usize)
        {
            // The very nodes of the plan, as far as nobody has them.
            for ((now, owner), &cell) in owners.iter_mut().zip(plan).zip(&cells.of) {
                let slot = left.iter_mut().find(|(k, nodes)| *k == cell && *nodes > 0);
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
    // In a cell, those that came from the cell before stand in front, those that go on to the
    // next at the back.
    let rank = |column: &Column, cell: u32| {
        let first = column.take.first().map_or(cell, |&(k, _)| k);
        let last = column.take.last().map_or(cell, |&(k, _)| k);
        (first >= cell, last > cell, first, column.trainer)
    };
    let mut vacant: Vec<Vec<usize>> = vec![Vec::new(); cells.classes()];
    for (place, (owner, &cell)) in owners.iter().zip(&cells.of).enumerate() {
        if owner.is_none()
            && let Some(vacant) = vacant.get_mut(cell as usize)
        {
            vacant.push(place);
        }
    }
    for (cell, vacant) in (0_u32..).zip(vacant) {
        let of = |left: &[(u32, i32)]| left.iter().find(|(k, _)| *k == cell).map(|&(_, n)| n);
        let mut here: Vec<(&Column, usize)> = wanted
            .iter()
            .filter_map(|(column, left)| Some((*column, of(left)? as usize)))
            .collect();
        here.sort_by_key(|(column, _)| rank(column, cell));
        let goes_on = |column: &Column| rank(column, cell).1;
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
