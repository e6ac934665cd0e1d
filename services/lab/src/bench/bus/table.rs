//! The results of `lacuna-lab bench bus` as tables.

use lacuna_cli::output::latency as seconds;
use lacuna_cli::table::{Side, key_values, render};

use super::Outcome;
use super::quantiles::Quantiles;
use super::sustained::Account;

/// All tables.
#[must_use]
pub(crate) fn table(outcome: &Outcome) -> String {
    let heading = format!(
        "{} nodes, {} of them in training by {} trainers; seed {}; up after {:.1} s, all leased after {:.1} s",
        outcome.nodes,
        outcome.training,
        outcome.trainers,
        outcome.seed,
        outcome.start_s,
        outcome.fill_s
    );
    [
        heading,
        latencies("QUIET", &outcome.quiet),
        latencies(
            &format!("AT {} EVENTS/S", outcome.rate),
            &outcome.sustained.latencies,
        ),
        beside(outcome),
        memory(outcome),
        load(outcome),
        key_values(&account(&outcome.account)),
    ]
    .join("\n")
}

fn latencies(heading: &str, list: &[Quantiles]) -> String {
    let row = |q: &Quantiles| {
        vec![
            q.what.to_owned(),
            q.samples.to_string(),
            seconds(q.p50_s),
            seconds(q.p99_s),
            seconds(q.max_s),
        ]
    };
    let columns = [
        (heading, Side::Left),
        ("SAMPLES", Side::Right),
        ("P50", Side::Right),
        ("P99", Side::Right),
        ("MAX", Side::Right),
    ];
    render(&columns, &list.iter().map(row).collect::<Vec<_>>())
}

/// The ratio of two values; a dash if one is missing.
fn times(ours: Option<f64>, theirs: Option<f64>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2} x", ours / theirs),
        _ => "-".to_owned(),
    }
}

/// Events a second of the median burst that the queue keeps, and that reach the pool.
fn burst_rates(outcome: &Outcome) -> (Option<f64>, Option<f64>) {
    let median = |mut list: Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list.get(list.len() / 2).copied()
    };
    let bursts = outcome.bursts.iter();
    let kept = bursts.clone().map(|b| b.events as f64 / b.kept_s);
    let pooled = bursts.filter_map(|b| b.pooled_s.map(|s| b.events as f64 / s));
    (median(kept.collect()), median(pooled.collect()))
}

/// The comparison with NATS alone.
fn beside(outcome: &Outcome) -> String {
    let (kept, pooled) = burst_rates(outcome);
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |r| format!("{r:.0}/s"));
    let found = |name: &str| {
        let all = outcome.sustained.latencies.iter();
        all.clone().find(|q| q.what == name)
    };
    let mut columns = vec![
        ("BESIDE PLAIN NATS", Side::Left),
        ("BURST", Side::Right),
        ("P50", Side::Right),
        ("P99", Side::Right),
    ];
    let headings: Vec<String> = outcome
        .plain
        .iter()
        .map(|plain| format!("TO {}", plain.what.to_uppercase()))
        .collect();
    columns.extend(headings.iter().map(|h| (h.as_str(), Side::Right)));
    let ours = [
        ("event -> kept in the queue", kept),
        ("event -> pool with forecasts", pooled),
        ("event -> plan", None),
        ("event -> command", None),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (what, burst) in ours {
        let (p50, p99) = found(what).map_or((None, None), |q| (q.p50_s, q.p99_s));
        let mut row = vec![what.to_owned(), rate(burst), seconds(p50), seconds(p99)];
        row.extend(outcome.plain.iter().map(|plain| {
            let latency = times(p50, plain.latency.p50_s);
            match burst {
                Some(_) => format!("{latency}, rate {}", times(burst, Some(plain.per_s))),
                None => latency,
            }
        }));
        rows.push(row);
    }
    for plain in &outcome.plain {
        let latency = &plain.latency;
        let mut row = vec![
            latency.what.to_owned(),
            rate(Some(plain.per_s)),
            seconds(latency.p50_s),
            seconds(latency.p99_s),
        ];
        row.extend(outcome.plain.iter().map(|_| String::new()));
        rows.push(row);
    }
    render(&columns, &rows)
}

fn memory(outcome: &Outcome) -> String {
    let columns = [
        ("MEMORY", Side::Left),
        ("FIRST", Side::Right),
        ("LAST", Side::Right),
        ("PEAK", Side::Right),
        ("SLOPE", Side::Right),
        ("OVER THE LOAD", Side::Left),
    ];
    let rows: Vec<Vec<String>> = outcome
        .sustained
        .memory
        .iter()
        .map(|(name, memory)| {
            let mib = |value: f64| format!("{value:.1} MiB");
            let slope = memory.slope_mb_h.zip(memory.slope_error_mb_h).map_or_else(
                || "too short".to_owned(),
                |(slope, error)| format!("{slope:+.0} ± {error:.0} MB/h"),
            );
            vec![
                name.clone(),
                mib(memory.first_mib),
                mib(memory.last_mib),
                mib(memory.peak_mib),
                slope,
                memory.line.clone(),
            ]
        })
        .collect();
    render(&columns, &rows)
}

fn load(outcome: &Outcome) -> String {
    let s = &outcome.sustained;
    let mut lines: Vec<(&str, String)> = outcome
        .bursts
        .iter()
        .map(|b| {
            let kept = seconds(Some(b.kept_s));
            let pooled = seconds(b.pooled_s);
            let text = format!(
                "{} events: kept after {kept}, in the pool after {pooled}",
                b.events
            );
            ("burst", text)
        })
        .collect();
    let (rate, waits) = (s.published as f64 / s.seconds, s.queue_max);
    lines.extend([
        (
            "load",
            format!("{} events in {:.1} s ({rate:.0}/s)", s.published, s.seconds),
        ),
        (
            "caught up",
            format!("{} after the last event", seconds(s.catch_up_s)),
        ),
        (
            "behind",
            format!(
                "at most {waits} events wait for ingest; pool at most {} events behind",
                s.pool_lag_max
            ),
        ),
        (
            "followed by",
            format!("{} plans, {} commands", s.plans, s.commands),
        ),
    ]);
    if outcome.deaths > 0 {
        lines.push(("restarts", format!("{} services died", outcome.deaths)));
    }
    let counted = s.metrics.iter();
    lines.extend(counted.map(|(name, value)| (name.as_str(), value.to_string())));
    key_values(&lines)
}

fn account(a: &Account) -> Vec<(&'static str, String)> {
    let ingest: Vec<String> = a
        .ingest
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    vec![
        (
            "account",
            format!(
                "{} events published, {} acknowledged",
                a.published, a.acknowledged
            ),
        ),
        ("at ingest", ingest.join(", ")),
        (
            "numbered",
            format!("{}, {} gaps, {} lost", a.numbered, a.gaps, a.lost),
        ),
        (
            "stream",
            format!("has grown by {}; {} left in the queue", a.stream, a.queue),
        ),
        (
            "pool",
            format!(
                "of event {} of {}; {} nodes idle, {} of them missing, {} wrong",
                a.pool_seq, a.last_seq, a.idle, a.pool_lacks, a.pool_wrong
            ),
        ),
        (
            "hits",
            format!(
                "{} nodes taken from trainers; {} without a plan, {} without a command",
                a.hits, a.unplanned, a.untold
            ),
        ),
        (
            "verdict",
            if a.holds() {
                "every event is accounted for".to_owned()
            } else {
                "NOT every event is accounted for".to_owned()
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_need_both_values() {
        assert_eq!(times(Some(3.0), Some(2.0)), "1.50 x");
        assert_eq!(times(None, Some(2.0)), "-");
        assert_eq!(times(Some(3.0), Some(0.0)), "-");
    }

    #[test]
    fn one_missing_event_fails_the_account() {
        let mut account = Account {
            published: 3,
            acknowledged: 3,
            ingest: [("taken".to_owned(), 3)].into(),
            numbered: 3,
            stream: 3,
            last_seq: 9,
            pool_seq: 9,
            ..Account::default()
        };
        assert!(account.holds());
        account.pool_lacks = 1;
        assert!(!account.holds());
        account.pool_lacks = 0;
        account.numbered = 2;
        assert!(!account.holds());
        assert!(
            super::account(&account)
                .last()
                .unwrap()
                .1
                .starts_with("NOT")
        );
    }
}
