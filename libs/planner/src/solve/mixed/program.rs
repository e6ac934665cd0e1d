//! The dynamic program over both counts, with the options that the bound leaves open.

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

/// The states after one trainer: the key of each, and the option that led there.
type Layer = Vec<(u32, u32)>;

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
    let [nodes_a, nodes_b, ..] = frame.nodes;
    let stride = u64::from(nodes_b) + 1;
    let Ok(cells) = usize::try_from(stride * (u64::from(nodes_a) + 1)) else {
        return Ended::OutOfSteps;
    };
    if cells as u64 > frame.steps || u32::try_from(cells).is_err() {
        return Ended::OutOfSteps;
    }
    let key = |[a, b]: [u64; 2]| (a * stride + b) as usize;
    let (least, most) = rests(&open);
    let mut loss = vec![f64::INFINITY; cells];
    let mut taken = vec![u32::MAX; cells];
    let mut live: Vec<(u32, f64)> = vec![(0, 0.0)];
    let mut layers: Vec<Layer> = Vec::with_capacity(open.len());
    let mut steps = 0_u64;
    for (((_, list), least), most) in open.iter().zip(&least).zip(&most) {
        let mut reached: Vec<u32> = Vec::new();
        for &(state, before) in &live {
            let (a, b) = (u64::from(state) / stride, u64::from(state) % stride);
            steps += list.len() as u64;
            if steps > frame.steps {
                return Ended::OutOfSteps;
            }
            for (at, (choice, more)) in (0_u32..).zip(list) {
                let total = before + more;
                let [more_a, more_b, ..] = choice.mix.map(u64::from);
                let (a, b) = (a + more_a, b + more_b);
                let fits = a + least[0] <= u64::from(nodes_a) && b + least[1] <= u64::from(nodes_b);
                if !fits || total + unused(frame, [a + most[0], b + most[1]]) > bar {
                    continue;
                }
                let place = key([a, b]);
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
    let whole = |&(state, loss): &(u32, f64)| {
        let used = [u64::from(state) / stride, u64::from(state) % stride];
        (state, loss + unused(frame, used))
    };
    let best = live.iter().map(whole).min_by(|x, y| x.1.total_cmp(&y.1));
    match best {
        Some((state, total)) if total < bar => walk_back(lists, &open, &layers, (state, stride)),
        _ => Ended::Proven,
    }
}

/// The price of the nodes that stay free at least if at most `most` are used.
fn unused(frame: &Frame, [a, b]: [u64; 2]) -> f64 {
    let ([p, q, ..], [nodes_a, nodes_b, ..]) = (frame.prices, frame.nodes);
    let free_a = u64::from(nodes_a).saturating_sub(a);
    let free_b = u64::from(nodes_b).saturating_sub(b);
    p * free_a as f64 + q * free_b as f64
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
fn rests(open: &[(usize, Vec<Open>)]) -> (Vec<[u64; 2]>, Vec<[u64; 2]>) {
    let of = |list: &[Open], pick: fn(u64, u64) -> u64| {
        let mixes = list.iter().map(|(choice, _)| {
            let [a, b, ..] = choice.mix.map(u64::from);
            [a, b]
        });
        let both = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [pick(a, c), pick(b, d)];
        mixes.reduce(both).unwrap_or([0, 0])
    };
    let after = |pick: fn(u64, u64) -> u64| {
        let mut sum = [0, 0];
        let mut sums: Vec<[u64; 2]> = Vec::with_capacity(open.len());
        for (_, list) in open.iter().rev() {
            sums.push(sum);
            let [a, b] = of(list, pick);
            let [sum_a, sum_b] = sum;
            sum = [sum_a + a, sum_b + b];
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
    (mut state, stride): (u32, u64),
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
        let [a, b, ..] = choice.mix.map(u64::from);
        state -= (a * stride + b) as u32;
    }
    Ended::Better(chosen)
}
