//! What a trainer's steps cost and teach over time, for the small lines of the page.

use lacuna_model::{Cause, Span, Timestamp, TrainerRecord};
use lacuna_rates::Rates;
use serde::Serialize;

use crate::thinned::{At, Thinned};

/// Most points of a line, and the least time between two.
const POINTS: usize = 40;
const EVERY: Span = Span::from_secs(10);
/// A cause that never costs this share of a step has no line.
const LEAST: f32 = 1.0;

/// What is known of a trainer at a moment.
#[derive(Debug, Clone)]
struct Point {
    at: Timestamp,
    /// Per cent of a step that each cause costs, in the order of [`Cause::ALL`].
    costs: Option<Vec<f32>>,
    learning: Option<[f32; 3]>,
    /// Samples of the user's batch a second; unknown before the noise scale.
    goodput: Option<f32>,
}

impl At for Point {
    fn at(&self) -> Timestamp {
        self.at
    }
}

/// A line of the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Line {
    name: String,
    values: Vec<f32>,
}

/// The points of a trainer.
#[derive(Debug)]
pub(crate) struct Learnt {
    points: Thinned<Point>,
}

impl Learnt {
    pub(crate) const fn new() -> Self {
        Self {
            points: Thinned::new(POINTS, EVERY),
        }
    }

    /// Takes what a trainer that trains reports.
    pub(crate) fn take(&mut self, at: Timestamp, record: &TrainerRecord) {
        let trusted = record.step_costs.as_ref().filter(|costs| costs.trusted);
        if record.nodes.is_empty() || (trusted.is_none() && record.learning.is_none()) {
            return;
        }
        let costs = trusted.map(|costs| {
            let share = |cause| (100.0 * costs.cost(cause) / costs.measured) as f32;
            Cause::ALL.into_iter().map(share).collect()
        });
        let learning = record.learning.as_ref().map(|learning| {
            [
                learning.noise_scale as f32,
                learning.efficiency as f32,
                learning.batch as f32,
            ]
        });
        self.points.push(Point {
            at,
            costs,
            learning,
            goodput: (record.learning.as_ref())
                .map(|learning| (Rates::of(record).present() * learning.worth_of_counted()) as f32),
        });
    }

    /// The lines: causes that cost something, and what is learnt; none of a single point.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let points = self.points.kept();
        let line = |name: String, of: &dyn Fn(&Point) -> Option<f32>| Line {
            name,
            values: points.iter().filter_map(of).collect(),
        };
        let causes = Cause::ALL.into_iter().enumerate().map(|(at, cause)| {
            let name = format!("{}, % of a step", cause.name());
            line(name, &|point| point.costs.as_ref()?.get(at).copied())
        });
        let causes = causes.filter(|line| line.values.iter().any(|share| *share >= LEAST));
        let names = ["noise scale", "worth of a sample", "batch"];
        let learning = names
            .into_iter()
            .enumerate()
            .map(|(at, name)| line(name.to_owned(), &|point| point.learning?.get(at).copied()));
        let goodput = line("samples of the user's batch/s".to_owned(), &|point| {
            point.goodput
        });
        let all = causes.chain(learning).chain([goodput]);
        all.filter(|line| line.values.len() > 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_what_was_reported_over_time() {
        let mut record = lacuna_testkit::reporting("t");
        let mut learnt = Learnt::new();
        for second in [0, 3, 10, 20] {
            if let Some(learning) = &mut record.learning {
                learning.batch = 32 + second;
            }
            learnt.take(Timestamp::from_unix(second as i64), &record);
        }
        let lines = learnt.lines();
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        let expected = [
            "link, % of a step",
            "noise scale",
            "worth of a sample",
            "batch",
            "samples of the user's batch/s",
        ];
        assert_eq!(names, expected);
        assert_eq!(lines[0].values, [25.0; 3]);
        assert_eq!(lines[3].values, [32.0, 42.0, 52.0]);
        // Its program counts plain samples, and each of them is worth 0.9.
        assert_eq!(
            lines[4].values,
            [(0.9 * Rates::of(&record).present()) as f32; 3]
        );
        // A trainer that waits for nodes, or reports nothing, has no further point.
        record.nodes.clear();
        learnt.take(Timestamp::from_unix(90), &record);
        assert_eq!(learnt.lines(), lines);
        let mut none = Learnt::new();
        none.take(Timestamp::from_unix(1), &record);
        assert!(none.lines().is_empty());
    }
}
