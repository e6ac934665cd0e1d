//! What trainers learn over the time of a replay: goodput, worth of a sample, batch, and the causes
//! for which steps wait.

use lacuna_model::{Cause, StepsAt};
use lacuna_sim::History;

use super::data::LearningLine;
use super::svg::{count, percent};

/// A cause that costs less of the steps than this all the time has no line.
const LEAST: f64 = 0.01;

/// The lines until the end, when this many samples were done; none if the steps of no trainer are
/// known.
pub(super) fn lines(history: &History, end_s: f64, samples: f64) -> Vec<LearningLine> {
    let points = &history.points;
    if points.iter().all(|point| point.steps.is_none()) {
        return Vec::new();
    }
    let ends = points
        .iter()
        .skip(1)
        .map(|point| (point.at_s, point.samples));
    let goodput = points.iter().zip(ends.chain([(end_s, samples)]));
    let goodput = goodput.filter(|(point, end)| end.0 > point.at_s);
    let goodput = goodput.map(|(from, (until, samples))| {
        (from.at_s, (samples - from.samples) / (until - from.at_s))
    });
    let line = |name: &str, meaning: &str, of: &dyn Fn(&StepsAt) -> f64| LearningLine {
        name: name.to_owned(),
        meaning: meaning.to_owned(),
        steps: (points.iter())
            .map(|point| (point.at_s, point.steps.as_ref().map_or(0.0, of)))
            .collect(),
    };
    let mut lines = vec![
        LearningLine {
            name: "goodput".to_owned(),
            meaning: "samples of the users' batches a second, of all trainers".to_owned(),
            steps: goodput.collect(),
        },
        line(
            "worth of a sample",
            "in samples of the user's batch, the mean over nodes",
            &|at| at.efficiency,
        ),
        line(
            "batch",
            "samples of a step, the mean over trainers",
            &|at| at.batch,
        ),
    ];
    for (at, cause) in Cause::ALL.into_iter().enumerate() {
        let share = move |steps: &StepsAt| steps.waits.get(at).copied().unwrap_or_default();
        let costs = line(
            &format!("waits: {}", cause.name()),
            "what the cause costs of a step, the mean over nodes",
            &share,
        );
        if costs.steps.iter().any(|step| step.1 >= LEAST) {
            lines.push(costs);
        }
    }
    lines
}

/// Means over the time in which trainers whose steps are known train: label and value.
pub(super) fn figures(history: &History, end_s: f64) -> Vec<(String, String)> {
    let points = &history.points;
    let ends = points.iter().skip(1).map(|point| point.at_s).chain([end_s]);
    let (mut time, mut mean) = (0.0, StepsAt::default());
    for (point, end) in points.iter().zip(ends) {
        let (Some(at), length) = (point.steps, (end - point.at_s).max(0.0)) else {
            continue;
        };
        time += length;
        mean.batch += length * at.batch;
        mean.efficiency += length * at.efficiency;
        for (sum, share) in mean.waits.iter_mut().zip(at.waits) {
            *sum += length * share;
        }
    }
    if time <= 0.0 {
        return Vec::new();
    }
    let mut rows = vec![
        (
            "worth of a sample (mean over time)".to_owned(),
            percent(mean.efficiency / time, 1),
        ),
        (
            "batch (mean over time)".to_owned(),
            count(mean.batch / time),
        ),
    ];
    let causes = Cause::ALL.into_iter().zip(mean.waits);
    let causes = causes.filter(|(_, sum)| *sum / time >= LEAST);
    rows.extend(causes.map(|(cause, sum)| {
        (
            format!("of steps, waits: {}", cause.name()),
            percent(sum / time, 1),
        )
    }));
    rows
}
