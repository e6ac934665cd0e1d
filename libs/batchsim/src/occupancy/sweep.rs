//! The holes and the shares of time of one node.

use super::summary::Shares;

/// Walks over the jobs and outages of one node, each `[from, until)`, within a window. `hole` gets
/// the holes in order.
pub(super) fn sweep(
    jobs: &[(i64, i64)],
    outages: &[(i64, i64)],
    window: (i64, i64),
    mut hole: impl FnMut(i64, i64),
) -> Shares {
    let (from, until) = window;
    let mut shares = Shares::default();
    // Times with the change in the number of jobs and of outages.
    let mut changes: Vec<(i64, i32, i32)> = Vec::with_capacity(2 * (jobs.len() + outages.len()));
    for (intervals, job, outage) in [(jobs, 1, 0), (outages, 0, 1)] {
        for &(start, end) in intervals {
            let (start, end) = (start.max(from), end.min(until));
            if start < end {
                changes.push((start, job, outage));
                changes.push((end, -job, -outage));
            }
        }
    }
    changes.sort_unstable_by_key(|change| change.0);
    let (mut running, mut out) = (0, 0);
    let mut at = from;
    let mut idle_since = None;
    for (moment, job, outage) in changes.into_iter().chain([(until, 0, 0)]) {
        if moment > at {
            let length = moment.abs_diff(at);
            if running == 0 && out == 0 {
                shares.hole_node_ms = shares.hole_node_ms.saturating_add(length);
                idle_since = idle_since.or(Some(at));
            } else {
                if let Some(since) = idle_since.take() {
                    hole(since, at);
                }
                let share = if running > 0 {
                    &mut shares.busy_node_ms
                } else {
                    &mut shares.down_node_ms
                };
                *share = share.saturating_add(length);
            }
            if running > 1 {
                shares.doubled_node_ms = shares.doubled_node_ms.saturating_add(length);
            }
            at = moment;
        }
        running += job;
        out += outage;
    }
    if let Some(since) = idle_since {
        hole(since, until);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holes(jobs: &[(i64, i64)], outages: &[(i64, i64)]) -> (Vec<(i64, i64)>, Shares) {
        let mut found = Vec::new();
        let shares = sweep(jobs, outages, (0, 100), |from, until| {
            found.push((from, until));
        });
        (found, shares)
    }

    #[test]
    fn a_hole_needs_no_job_at_all() {
        let (found, shares) = holes(&[(10, 40), (20, 30), (35, 60), (60, 70)], &[]);
        assert_eq!(found, [(0, 10), (70, 100)]);
        let expected = Shares {
            busy_node_ms: 60,
            hole_node_ms: 40,
            down_node_ms: 0,
            doubled_node_ms: 15,
        };
        assert_eq!(shares, expected);
    }

    #[test]
    fn an_outage_cuts_a_hole_and_not_a_job() {
        let (found, shares) = holes(&[(-50, 20), (90, 900)], &[(10, 40), (60, 61)]);
        assert_eq!(found, [(40, 60), (61, 90)]);
        let expected = Shares {
            busy_node_ms: 30,
            hole_node_ms: 49,
            down_node_ms: 21,
            doubled_node_ms: 0,
        };
        assert_eq!(shares, expected);
    }

    #[test]
    fn nothing_at_all_is_one_hole_and_an_empty_job_does_not_split_it() {
        assert_eq!(holes(&[], &[]).0, [(0, 100)]);
        assert_eq!(holes(&[(50, 50)], &[]).0, [(0, 100)]);
        assert_eq!(holes(&[(0, 100)], &[]).0, []);
    }
}
