//! The dynamic program over counts of all kinds, with the options that the bound leaves open.

use lacuna_model::MOST_KINDS;

use crate::problem::Mix;

use super::{Choice, FREE, Prices, best_at};

/// What bounds the program.
pub(super) struct Frame {
    pub(super) nodes: Mix,
    pub(super) prices: Prices,
    /// Distance of the known answer from the bound, objective units.
    pub(super) gap: f64,
    pub(super) tolerance: f64,
    /// Most steps.
    pub(super) steps: u64,
}

/// How the program ended.
pub(super) enum Ended {
    /// With a better answer, which is the optimum.
    Better(Vec<Choice>),
    /// There is no better answer than the known one.
    Proven,
    /// It was too large.
    OutOfSteps,
}

/// An option that may be in a better answer, with its loss.
pub(super) type Open = (Choice, f64);

/// Nodes of each kind.
type Nodes = [u64; MOST_KINDS];

/// The states after one trainer: the key of each, and the option that led there.
type Layer = Vec<(u32, u32)>;

/// The most states, of 12 bytes each.
const MOST_CELLS: u64 = 1 << 24;

/// Looks for an answer better than the known one.
pub(super) fn improve(lists: &[Vec<Choice>], frame: &Frame) -> Ended {
    let bar = frame.gap - frame.tolerance;
    let mut open: Vec<(usize, Vec<Open>)> = lists
        .iter()
        .map(|list| peg(list, frame.prices, bar))
        .enumerate()
        .collect();
    // Trainers with few options first, so that losses add up before the states do.
    open.sort_by_key(|(_, list)| list.len());
    let radix = frame.nodes.map(|nodes| u64::from(nodes) + 1);
    let cells = radix.into_iter().try_fold(1_u64, u64::checked_mul);
    let Some(cells) = cells.filter(|cells| *cells <= frame.steps.min(MOST_CELLS)) else {
        return Ended::OutOfSteps;
    };
    let cells = cells as usize;
    let (least, most) = rests(&open);
    let mut loss = vec![f64::INFINITY; cells];
    let mut taken = vec![u32::MAX; cells];
    let mut live: Vec<(u32, f64)> = vec![(0, 0.0)];
    let mut layers: Vec<Layer> = Vec::with_capacity(open.len());
    let mut steps = 0_u64;
    for (((_, list), least), most) in open.iter().zip(&least).zip(&most) {
        let mut reached: Vec<u32> = Vec::new();
        for &(state, before) in &live {
            let used = mix_of(state, radix);
            steps += list.len() as u64;
            if steps > frame.steps {
                return Ended::OutOfSteps;
            }
            for (at, (choice, more)) in (0_u32..).zip(list) {
                let total = before + more;
                let after = plus(used, choice.mix.map(u64::from));
                let rest = plus(after, *least);
                let fits = rest.iter().zip(radix).all(|(used, radix)| *used < radix);
                if !fits || total + unused(frame, plus(after, *most)) > bar {
                    continue;
                }
                let place = key(after, radix) as usize;
                let (Some(known), Some(option)) = (loss.get_mut(place), taken.get_mut(place))
                else {
                    continue;
                };
                if total < *known {
                    if known.is_infinite() {
                        reached.push(place as u32);
                    }
                    (*known, *option) = (total, at);
                }
            }
        }
        live.clear();
        let mut layer = Layer::with_capacity(reached.len());
        for state in reached {
            let place = state as usize;
            let (Some(known), Some(option)) = (loss.get_mut(place), taken.get_mut(place)) else {
                continue;
            };
            live.push((state, *known));
            layer.push((state, *option));
            *known = f64::INFINITY;
        }
        layers.push(layer);
    }
    let whole = |&(state, loss): &(u32, f64)| (state, loss + unused(frame, mix_of(state, radix)));
    let best = live.iter().map(whole).min_by(|x, y| x.1.total_cmp(&y.1));
    match best {
        Some((state, total)) if total < bar => walk_back(lists, &open, &layers, (state, radix)),
        _ => Ended::Proven,
    }
}

/// The number of a state, by one more than the nodes of each kind.
fn key(used: Nodes, radix: Nodes) -> u64 {
    let digits = used.iter().zip(radix);
    digits.fold(0, |key, (used, radix)| key * radix + used)
}

/// The nodes of a state.
fn mix_of(state: u32, radix: Nodes) -> Nodes {
    let (mut left, mut used) = (u64::from(state), [0; MOST_KINDS]);
    for (used, radix) in used.iter_mut().zip(radix).rev() {
        (left, *used) = (left / radix, left % radix);
    }
    used
}

fn plus(a: Nodes, b: Nodes) -> Nodes {
    let (mut sum, b) = (a, b.iter());
    sum.iter_mut().zip(b).for_each(|(sum, b)| *sum += b);
    sum
}

/// The price of the nodes that stay free at least if at most `used` are used.
fn unused(frame: &Frame, used: Nodes) -> f64 {
    let each = frame.prices.iter().zip(frame.nodes).zip(used);
    each.fold(0.0, |sum, ((price, nodes), used)| {
        sum + price * u64::from(nodes).saturating_sub(used) as f64
    })
}

/// The options that lose no more than `bar`, the least loss first.
pub(super) fn peg(list: &[Choice], prices: Prices, bar: f64) -> Vec<Open> {
    let best = best_at(list, prices).reduced(prices);
    let losses = list
        .iter()
        .map(|choice| (*choice, best - choice.reduced(prices)));
    let mut open: Vec<Open> = losses.filter(|(_, loss)| *loss <= bar).collect();
    open.sort_by(|x, y| x.1.total_cmp(&y.1));
    open
}

/// The least and the most nodes of each kind that the trainers after each one take.
fn rests(open: &[(usize, Vec<Open>)]) -> (Vec<Nodes>, Vec<Nodes>) {
    let of = |list: &[Open], pick: fn(u64, u64) -> u64| {
        let mixes = list.iter().map(|(choice, _)| choice.mix.map(u64::from));
        let each = |a: Nodes, b: Nodes| {
            let mut picked = a;
            picked.iter_mut().zip(b).for_each(|(a, b)| *a = pick(*a, b));
            picked
        };
        mixes.reduce(each).unwrap_or_default()
    };
    let after = |pick: fn(u64, u64) -> u64| {
        let mut sum = Nodes::default();
        let mut sums: Vec<Nodes> = Vec::with_capacity(open.len());
        for (_, list) in open.iter().rev() {
            sums.push(sum);
            sum = plus(sum, of(list, pick));
        }
        sums.reverse();
        sums
    };
    (after(u64::min), after(u64::max))
}

/// The options that led to a state.
fn walk_back(
    lists: &[Vec<Choice>],
    open: &[(usize, Vec<Open>)],
    layers: &[Layer],
    (mut state, radix): (u32, Nodes),
) -> Ended {
    let none = lists.iter().map(|list| best_at(list, FREE));
    let mut chosen: Vec<Choice> = none.collect();
    for ((j, list), layer) in open.iter().zip(layers).rev() {
        let option = layer.iter().find(|(key, _)| *key == state);
        let choice = option.and_then(|(_, at)| list.get(*at as usize));
        let (Some((choice, _)), Some(place)) = (choice, chosen.get_mut(*j)) else {
            return Ended::OutOfSteps;
        };
        *place = *choice;
        state -= key(choice.mix.map(u64::from), radix) as u32;
    }
    Ended::Better(chosen)
}
