//! The history of a replay becomes parts of a report.

use lacuna_model::{Span, Timestamp};
use lacuna_sim::{Day, History, Life};
use lacuna_trainer::measure;

use super::data::{DayRow, Gantt, GanttRow, GanttSegment, PoolPoint, TrainerRow};

/// The pool over time.
pub(super) fn pool(history: &History) -> Vec<PoolPoint> {
    let points = history.points.iter();
    points
        .map(|point| PoolPoint {
            at_s: point.at_s,
            pool: point.pool,
            used: point.used,
        })
        .collect()
}

/// The trainers.
pub(super) fn trainers(history: &History) -> Vec<TrainerRow> {
    let row = |life: &Life| TrainerRow {
        name: life.name.to_string(),
        admitted_s: life.admitted_s,
        ended_s: life.ended_s,
        samples: life.samples,
        preemptions: life.preemptions,
        sizes: life.sizes.clone(),
    };
    history.lives.iter().map(row).collect()
}

/// The days, each named by the date on which it starts.
pub(super) fn days(history: &History, start: Timestamp, utc_offset_s: i64) -> Vec<DayRow> {
    let row = |day: &Day| DayRow {
        label: date(start + Span::from_secs_f64(day.from_s) + Span::from_secs(utc_offset_s)),
        offered_node_hours: day.offered / 3600.0,
        used_node_hours: day.used / 3600.0,
        samples: day.samples,
        rescale: day.rescale,
        preempt: day.preempt,
        efficiency: (day.dedicated > 0.0).then(|| measure::efficiency(day.samples, day.dedicated)),
    };
    history.days.iter().map(row).collect()
}

/// The window node by node. Nodes of a trainer whose work is done count as idle until the next
/// event.
pub(super) fn gantt(history: &History) -> Option<Gantt> {
    let window = history.gantt.as_ref()?;
    let ended = |trainer: Option<u32>| {
        let life = history.lives.get(trainer? as usize)?;
        life.ended_s
    };
    let rows = window.rows.iter().map(|row| GanttRow {
        node: row.name.clone(),
        segments: row
            .segments
            .iter()
            .flat_map(|segment| {
                let cut = ended(segment.trainer).unwrap_or(segment.until_s);
                split(
                    GanttSegment {
                        from_s: segment.from_s,
                        until_s: segment.until_s,
                        trainer: segment.trainer,
                    },
                    cut,
                )
            })
            .collect(),
    });
    Some(Gantt {
        from_s: window.from_s,
        until_s: window.until_s,
        rows: rows.collect(),
    })
}

/// The part of a segment before a moment, and the part after it without its trainer.
fn split(segment: GanttSegment, at_s: f64) -> impl Iterator<Item = GanttSegment> {
    let at_s = at_s.clamp(segment.from_s, segment.until_s.max(segment.from_s));
    let before = GanttSegment {
        until_s: at_s,
        ..segment
    };
    let after = GanttSegment {
        from_s: at_s,
        trainer: None,
        ..segment
    };
    let parts = [before, after].into_iter();
    parts.filter(|part| part.until_s > part.from_s)
}

/// The date of a moment in UTC.
pub(super) fn date(at: Timestamp) -> String {
    let text = at.to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_trainer_whose_work_is_done_are_idle() {
        let segment = GanttSegment {
            from_s: 10.0,
            until_s: 20.0,
            trainer: Some(3),
        };
        let parts = |at| split(segment, at).map(|p| (p.from_s, p.until_s, p.trainer));
        let all: Vec<_> = parts(15.0).collect();
        assert_eq!(all, [(10.0, 15.0, Some(3)), (15.0, 20.0, None)]);
        assert_eq!(parts(5.0).collect::<Vec<_>>(), [(10.0, 20.0, None)]);
        assert_eq!(parts(25.0).collect::<Vec<_>>(), [(10.0, 20.0, Some(3))]);
    }
}
