//! The time at each size of the pool: in all, by part of the trace, and by hour of the week.

use super::types::{Idle, PoolColumn, SizeBin};

/// Number of columns of the timeline.
const COLUMNS: usize = 480;
const HOUR_MS: i64 = 3_600_000;
/// 1970-01-01 was a Thursday, the fourth day of the week.
const EPOCH_DAY: i64 = 3;

/// A column of the timeline.
#[derive(Debug, Clone, Copy)]
struct Column {
    node_ms: f64,
    min: u32,
    max: u32,
}

/// Sums of intervals in which the pool does not change.
#[derive(Debug, Clone)]
pub(super) struct PoolTime {
    start_ms: i64,
    length_ms: i64,
    offset_ms: i64,
    /// Milliseconds at each size.
    at_size: Vec<i64>,
    /// Node-milliseconds and milliseconds of each quarter of the time.
    quarters: [(f64, i64); 4],
    columns: Vec<Column>,
    /// Node-milliseconds and milliseconds of each hour of the week.
    week: Vec<(f64, i64)>,
}

impl PoolTime {
    pub(super) fn new(start_ms: i64, end_ms: i64, utc_offset_s: i64) -> Self {
        let blank = Column {
            node_ms: 0.0,
            min: u32::MAX,
            max: 0,
        };
        Self {
            start_ms,
            length_ms: end_ms.saturating_sub(start_ms).max(0),
            offset_ms: utc_offset_s.saturating_mul(1000),
            at_size: Vec::new(),
            quarters: Default::default(),
            columns: vec![blank; COLUMNS],
            week: vec![(0.0, 0); 7 * 24],
        }
    }

    /// Adds an interval `[from, until)`, Unix milliseconds, with this size of the pool.
    pub(super) fn add(&mut self, from_ms: i64, until_ms: i64, size: u32) {
        if until_ms <= from_ms {
            return;
        }
        let place = size as usize;
        if self.at_size.len() <= place {
            self.at_size.resize(place + 1, 0);
        }
        if let Some(time) = self.at_size.get_mut(place) {
            *time += until_ms - from_ms;
        }
        for (at, (nodes, all)) in (0..).zip(&mut self.quarters) {
            let border = |at: i64| self.start_ms + self.length_ms * at / 4;
            let time = until_ms.min(border(at + 1)) - from_ms.max(border(at));
            if time > 0 {
                *nodes += time as f64 * f64::from(size);
                *all += time;
            }
        }
        self.add_to_columns(from_ms - self.start_ms, until_ms - self.start_ms, size);
        let local = |at_ms: i64| at_ms.saturating_add(self.offset_ms);
        self.add_to_week(local(from_ms), local(until_ms), size);
    }

    fn add_to_columns(&mut self, from: i64, until: i64, size: u32) {
        let width = self.length_ms as f64 / COLUMNS as f64;
        if width <= 0.0 {
            return;
        }
        let first = (from as f64 / width) as usize;
        for (at, column) in self.columns.iter_mut().enumerate().skip(first) {
            let (left, right) = (at as f64 * width, (at + 1) as f64 * width);
            if left >= until as f64 {
                break;
            }
            let time = (until as f64).min(right) - (from as f64).max(left);
            if time > 0.0 {
                column.node_ms += time * f64::from(size);
                column.min = column.min.min(size);
                column.max = column.max.max(size);
            }
        }
    }

    fn add_to_week(&mut self, from: i64, until: i64, size: u32) {
        let mut at = from;
        while at < until {
            let hour = at.div_euclid(HOUR_MS);
            let next = (hour + 1).saturating_mul(HOUR_MS).min(until);
            let day = hour.div_euclid(24);
            let place = (day + EPOCH_DAY).rem_euclid(7) * 24 + hour.rem_euclid(24);
            if let Some((nodes, time)) = self.week.get_mut(place as usize) {
                *nodes += (next - at) as f64 * f64::from(size);
                *time += next - at;
            }
            at = next;
        }
    }

    /// Milliseconds and node-milliseconds of the sizes that meet a condition.
    pub(super) fn sum(&self, keep: impl Fn(u32) -> bool) -> (i64, f64) {
        let sizes = (0_u32..).zip(&self.at_size).filter(|(size, _)| keep(*size));
        sizes.fold((0, 0.0), |(time, nodes), (size, &ms)| {
            (time + ms, nodes + f64::from(size) * ms as f64)
        })
    }

    /// The size that the pool does not exceed for a share of the time.
    fn quantile(&self, share: f64) -> u32 {
        let total = self.sum(|_| true).0 as f64;
        let mut before = 0;
        let sizes = (0..).zip(&self.at_size);
        for (size, &ms) in sizes.filter(|(_, ms)| **ms > 0) {
            before += ms;
            if before as f64 >= share * total {
                return size;
            }
        }
        0
    }

    /// The mean of each quarter of the time; 0 without time.
    pub(super) fn quarters(&self) -> [f64; 4] {
        self.quarters.map(|(nodes, ms)| nodes / ms.max(1) as f64)
    }

    pub(super) fn idle(&self) -> Idle {
        let max = self.at_size.iter().rposition(|&ms| ms > 0);
        Idle {
            min: self.quantile(0.0),
            p10: self.quantile(0.1),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            max: max.unwrap_or(0) as u32,
        }
    }

    pub(super) fn timeline(&self) -> Vec<PoolColumn> {
        let width_ms = self.length_ms as f64 / COLUMNS as f64;
        if width_ms <= 0.0 {
            return Vec::new();
        }
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(at, column)| PoolColumn {
                from_s: at as f64 * width_ms / 1000.0,
                mean: column.node_ms / width_ms,
                min: column.min.min(column.max),
                max: column.max,
            })
            .collect()
    }

    /// Ranges of sizes that grow by 1, 2, 5, 10, ...
    pub(super) fn sizes(&self) -> Vec<SizeBin> {
        let (time, node_time) = self.sum(|_| true);
        let most = self.idle().max;
        let mut starts = vec![0_u32, 1];
        let mut power = 1_u32;
        while starts.last().is_some_and(|&last| last <= most) {
            for factor in [2, 5, 10] {
                starts.push(power.saturating_mul(factor));
            }
            power = power.saturating_mul(10);
        }
        let ranges = starts.iter().zip(starts.iter().skip(1));
        ranges
            .take_while(|(from, _)| **from <= most)
            .map(|(&from, &next)| {
                let (part, nodes) = self.sum(|size| size >= from && size < next);
                SizeBin {
                    from,
                    to: next.saturating_sub(1),
                    time: part as f64 / time.max(1) as f64,
                    node_time: nodes / node_time.max(f64::MIN_POSITIVE),
                }
            })
            .collect()
    }

    pub(super) fn week(&self) -> Vec<Vec<Option<f64>>> {
        let mean = |&(nodes, time): &(f64, i64)| (time > 0).then(|| nodes / time as f64);
        let days = self.week.chunks(24);
        days.map(|hours| hours.iter().map(mean).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_the_hour_and_day_that_it_belongs_to() {
        // Friday 2021-02-12 22:30 UTC to Saturday 00:30.
        let from = 1_613_169_000_000;
        let mut time = PoolTime::new(from, from + 2 * HOUR_MS, 0);
        time.add(from, from + 2 * HOUR_MS, 7);
        let week = time.week();
        let seen: Vec<(usize, usize)> = (0..7)
            .flat_map(|day| (0..24).map(move |hour| (day, hour)))
            .filter(|&(day, hour)| week[day][hour].is_some())
            .collect();
        assert_eq!(seen, [(4, 22), (4, 23), (5, 0)]);
        assert_eq!(week[4][23], Some(7.0));
    }

    #[test]
    fn ranges_of_sizes_hold_all_time_once() {
        let mut time = PoolTime::new(0, 1000, 0);
        for (at, size) in [(0, 0), (100, 1), (200, 9), (300, 10), (400, 4654)] {
            time.add(at, if at == 400 { 1000 } else { at + 100 }, size);
        }
        let sizes = time.sizes();
        assert!((sizes.iter().map(|bin| bin.time).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((sizes.iter().map(|bin| bin.node_time).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(sizes.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
        let idle = time.idle();
        assert_eq!(
            (idle.min, idle.p10, idle.p50, idle.p90, idle.max),
            (0, 0, 4654, 4654, 4654)
        );
        assert_eq!(time.timeline().len(), COLUMNS);
        let first = (100.0 * 1.0 + 50.0 * 9.0) / 250.0;
        let second = (50.0 * 9.0 + 100.0 * 10.0 + 100.0 * 4654.0) / 250.0;
        assert_eq!(time.quarters(), [first, second, 4654.0, 4654.0]);
    }
}
