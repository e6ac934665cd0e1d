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
///
/// Days are counted from 0000-03-01, in eras of 400 years: a year that begins in March has its
/// leap day last (H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
pub(super) fn date(at: Timestamp) -> String {
    let days = at.unix_ms().div_euclid(86_400_000) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_612_988_475, "2021-02-10"),
            (1_672_531_199, "2022-12-31"),
            (-1, "1969-12-31"),
        ];
        for (seconds, expected) in dates {
            assert_eq!(date(Timestamp::from_unix(seconds)), expected);
        }
    }

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
