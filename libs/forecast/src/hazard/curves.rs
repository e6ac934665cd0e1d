//! Curves shared by holes with nearly equal forecasts.

use super::model::{EDGES_S, INTERVALS, PerInterval};

/// The number of points of a curve.
pub(crate) const GRID: usize = INTERVALS + 6;

/// The times of the points of a curve, seconds from now.
pub const GRID_S: [f64; GRID] = [
    60.0, 150.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 57_600.0,
    115_200.0, 230_400.0, 460_800.0,
];

/// The largest number of distinct curves, which bounds the size of a pool message.
pub(crate) const CURVES: usize = 256;

/// The finest number of steps of probability on each axis of the grid.
const STEPS: usize = 128;

/// Groups nearly equal curves. Two curves are in one group if they fall into one cell of a grid
/// over the probabilities of being open after five minutes and after an hour. The curve of a cell
/// is the mean of its members, so grouping adds no bias. Cells are as fine as the number of
/// distinct curves allows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grouping {
    /// The cell of each hole.
    cells: Vec<u32>,
    /// Sums and counts of the curves that share a cell.
    sums: Vec<(PerInterval, u32)>,
    /// The curve of each cell.
    number: Vec<u32>,
    pub(crate) index: Vec<u32>,
    pub(crate) curves: Vec<[f32; GRID]>,
}

/// The interval that ends after five minutes.
const SOON: usize = 2;
/// The interval that ends after an hour.
const LATE: usize = 4;

impl Grouping {
    pub(crate) fn clear(&mut self) {
        self.index.clear();
        self.curves.clear();
    }

    /// Groups the curves of all holes. `index` has the curve of each hole in `curves`.
    pub(crate) fn group(&mut self, open: &[PerInterval]) {
        self.clear();
        let mut steps = STEPS;
        loop {
            let step = |p: f32| ((p * steps as f32) as usize).min(steps - 1) as u32;
            self.cells.clear();
            self.cells.extend(open.iter().map(|open| {
                let [_, _, soon, _, late, _, _, _] = open;
                step(*soon) * steps as u32 + step(*late)
            }));
            self.number.clear();
            self.number.resize(steps * steps, u32::MAX);
            let mut found = 0;
            for &cell in &self.cells {
                if let Some(number) = self.number.get_mut(cell as usize)
                    && *number == u32::MAX
                {
                    *number = found;
                    found += 1;
                }
            }
            if found as usize <= CURVES {
                self.sums.clear();
                self.sums.resize(found as usize, ([0.0; INTERVALS], 0));
                break;
            }
            steps /= 2;
        }
        for (&cell, open) in self.cells.iter().zip(open) {
            let number = self.number.get(cell as usize).copied().unwrap_or(0);
            self.index.push(number);
            if let Some((sum, count)) = self.sums.get_mut(number as usize) {
                *count += 1;
                for (sum, open) in sum.iter_mut().zip(open) {
                    *sum += open;
                }
            }
        }
        let curves = self.sums.iter().map(|(sum, count)| {
            let open = sum.map(|sum| (sum / (*count).max(1) as f32).clamp(0.0, 1.0));
            extend(&open)
        });
        self.curves.extend(curves);
    }
}

const _: () = assert!(EDGES_S[SOON] == 300.0 && EDGES_S[LATE] == 3600.0);

/// The points of a curve from the ends of its intervals. The hazard is constant within an interval,
/// and that of the last one goes on after it.
fn extend(open: &PerInterval) -> [f32; GRID] {
    let &[a, b, c, quarter, hour, four, sixteen, last] = open;
    // The survival at a share of the way between two points, with a constant hazard.
    let within = |from: f32, to: f32, share: f32| {
        if from > 1e-9 {
            from * (to.max(1e-12) / from).powf(share)
        } else {
            0.0
        }
    };
    [
        a,
        b,
        c,
        within(c, quarter, 0.5),
        quarter,
        within(quarter, hour, 1.0 / 3.0),
        hour,
        within(hour, four, 1.0 / 3.0),
        four,
        within(four, sixteen, 1.0 / 3.0),
        sixteen,
        within(sixteen, last, 1.0 / 3.0),
        last,
        within(sixteen, last, 7.0 / 3.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_curves_are_grouped_without_bias() {
        let open: Vec<PerInterval> = (0..10_000u32)
            .map(|hole| {
                let hazard = 0.002 + f64::from(hole) / 40_000.0;
                let shape = 1.0 + f64::from(hole % 7) / 7.0;
                std::array::from_fn(|k| (1.0 - hazard).powf((k + 1) as f64 * shape) as f32)
            })
            .collect();
        let mut grouping = Grouping::default();
        grouping.group(&open);
        assert_eq!(grouping.index.len(), open.len());
        let curves = grouping.curves.len();
        assert!((64..=CURVES).contains(&curves), "{curves}");
        let point = |k: usize| {
            let edge = f64::from(EDGES_S[k]);
            GRID_S.iter().position(|&at| at == edge).unwrap()
        };
        let mean = |k: usize| {
            let own: f64 = open.iter().map(|open| f64::from(open[k])).sum();
            let given: f64 = grouping
                .index
                .iter()
                .map(|&at| f64::from(grouping.curves[at as usize][point(k)]))
                .sum();
            (own, given)
        };
        for k in 0..INTERVALS {
            let (own, given) = mean(k);
            assert!((own - given).abs() < 1.0, "{k}: {own} {given}");
        }
        for curve in &grouping.curves {
            assert!(curve.windows(2).all(|pair| pair[1] <= pair[0]), "{curve:?}");
        }
    }

    #[test]
    fn few_holes_keep_their_own_curves() {
        let open: Vec<PerInterval> = (1..6).map(|n| [n as f32 / 8.0; INTERVALS]).collect();
        let mut grouping = Grouping::default();
        grouping.group(&open);
        assert_eq!(grouping.index, [0, 1, 2, 3, 4]);
    }
}
