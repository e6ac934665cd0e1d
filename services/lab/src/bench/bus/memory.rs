//! The memory of processes over time, and its slope.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use lacuna_cli::up::RuntimeFile;

use super::scrape::status_mib;

/// The number of parts for the uncertainty of a slope. Neighbouring readings are dependent, means
/// of parts nearly independent.
const PARTS: usize = 12;
/// Student's t for ten degrees of freedom, 95 % on both sides.
const STUDENT: f64 = 2.228;
/// The warm-up share of the time, which is not in the slope.
const WARMING: f64 = 1.0 / 3.0;
/// The width of a sparkline in characters.
const WIDE: usize = 32;

/// The memory of one process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Memory {
    /// Resident at the first reading, MiB.
    pub(crate) first_mib: f64,
    /// Resident at the last reading, MiB.
    pub(crate) last_mib: f64,
    /// The peak by the kernel (`VmHWM`), MiB.
    pub(crate) peak_mib: f64,
    /// Growth over the last two thirds of the load, MB an hour; none if that was too short.
    pub(crate) slope_mb_h: Option<f64>,
    /// Half the width of the 95 % confidence interval of the growth.
    pub(crate) slope_error_mb_h: Option<f64>,
    /// The readings under load as a sparkline, from the lowest to the highest.
    pub(crate) line: String,
}

#[derive(Debug, Default)]
struct Readings {
    points: Vec<(f64, f64)>,
    peak: f64,
}

/// Reads the memory of all children of a running `lacuna up`.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    all: BTreeMap<String, Readings>,
}

impl Watch {
    /// Reads all processes, at `at_s` seconds of the load.
    pub(crate) fn read(&mut self, data_dir: &Path, at_s: f64) {
        let children = RuntimeFile::read(data_dir).map(|file| file.children);
        for (name, pid) in children.into_iter().flatten() {
            let Some((resident, peak)) = status_mib(pid) else {
                continue;
            };
            let readings = self.all.entry(name).or_default();
            readings.points.push((at_s, resident));
            readings.peak = readings.peak.max(peak);
        }
    }

    /// The results by process.
    pub(crate) fn end(self) -> BTreeMap<String, Memory> {
        let each = self.all.into_iter();
        each.filter_map(|(name, readings)| Some((name, memory(&readings)?)))
            .collect()
    }
}

fn memory(readings: &Readings) -> Option<Memory> {
    let points = &readings.points;
    let (first, last) = (points.first()?, points.last()?);
    let from = first.0 + (last.0 - first.0) * WARMING;
    let steady = points.partition_point(|point| point.0 < from);
    let slope = slope(points.get(steady..)?);
    // MiB a second to MB an hour.
    let scaled = |value: f64| value * 1.048_576 * 3600.0;
    Some(Memory {
        first_mib: first.1,
        last_mib: last.1,
        peak_mib: readings.peak,
        slope_mb_h: slope.map(|(slope, _)| scaled(slope)),
        slope_error_mb_h: slope.map(|(_, error)| scaled(error)),
        line: sparkline(points),
    })
}

/// The slope of a straight line through the means of [`PARTS`] parts, and half the width of its
/// confidence interval. None for too few points.
fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let means = means(points, PARTS);
    if means.len() < PARTS {
        return None;
    }
    let count = means.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| means.iter().map(of).sum::<f64>() / count;
    let (middle, level) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = means.iter().map(|p| (p.0 - middle).powi(2)).sum();
    let both: f64 = means.iter().map(|p| (p.0 - middle) * (p.1 - level)).sum();
    let slope = both / spread;
    let off = |p: &(f64, f64)| (p.1 - level - slope * (p.0 - middle)).powi(2);
    let residue: f64 = means.iter().map(off).sum();
    let error = (residue / (count - 2.0) / spread).sqrt() * STUDENT;
    (slope.is_finite() && error.is_finite()).then_some((slope, error))
}

/// The means of `parts` parts of equal length, or all points if those are fewer.
fn means(points: &[(f64, f64)], parts: usize) -> Vec<(f64, f64)> {
    let parts = parts.min(points.len());
    (0..parts)
        .filter_map(|part| {
            let (from, to) = (
                part * points.len() / parts,
                (part + 1) * points.len() / parts,
            );
            let part = points.get(from..to).filter(|part| !part.is_empty())?;
            let count = part.len() as f64;
            let sum = |of: fn(&(f64, f64)) -> f64| part.iter().map(of).sum::<f64>();
            Some((sum(|p| p.0) / count, sum(|p| p.1) / count))
        })
        .collect()
}

/// Eight heights between the lowest and the highest reading, at least 4 MiB apart, so that noise
/// looks flat.
fn sparkline(points: &[(f64, f64)]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let means = means(points, WIDE);
    let values = || means.iter().map(|p| p.1);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max).max(low + 4.0);
    values()
        .filter_map(|value| {
            let place = ((value - low) / (high - low) * 7.0).round();
            HEIGHTS.get(place as usize)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..600).map(|s| (f64::from(s), of(f64::from(s)))).collect()
    }

    #[test]
    fn a_slope_is_found_with_its_uncertainty() {
        let wave = |s: f64| (s * 1.7).sin();
        let (slope, error) = super::slope(&points(|s| 40.0 + 0.01 * s + wave(s))).unwrap();
        assert!((slope - 0.01).abs() <= error, "{slope} {error}");
        assert!(error < 0.002, "{error}");
        let (slope, error) = super::slope(&points(|s| 40.0 + wave(s))).unwrap();
        assert!(slope.abs() <= error, "{slope} {error}");
        assert_eq!(super::slope(&[(0.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn warming_up_is_not_growth() {
        let readings = Readings {
            points: points(|s| if s < 150.0 { s } else { 150.0 }),
            peak: 151.0,
        };
        let memory = memory(&readings).unwrap();
        assert_eq!((memory.first_mib, memory.last_mib), (0.0, 150.0));
        assert_eq!(memory.slope_mb_h, Some(0.0));
        assert!(memory.line.starts_with('▁') && memory.line.ends_with('█'));
        assert_eq!(memory.line.chars().count(), WIDE);
    }

    #[test]
    fn noise_looks_flat() {
        let line = sparkline(&points(|s| 40.0 + 0.1 * s.sin()));
        assert_eq!(line, "▁".repeat(WIDE));
    }
}
