//! The predictors on the trace of Summit (from Unix 1612915732, 11.5 days).
//!
//! Reads `LACUNA_DATA`, by default `../shared/data` beside the workspace; skipped without it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::fs::File;

use flate2::read::GzDecoder;
use lacuna_forecast::{Calibration, Curve, Forecasts, HORIZONS_S, Predictor, Settings, Survival};
use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, Timestamp};
use lacuna_pool::{Change, HoleEnd, PoolKeeper, UnknownNodes};
use lacuna_skip::{Missing, data, or_skip};

/// Day 5 of the trace, from which forecasts are tested.
const DAY_5: i64 = 1_613_347_732;
/// The number of events of the test days to one that is tested.
const EVERY: usize = 3;
/// The largest number of holes at each event, so that events weigh about the same.
const HOLES: usize = 40;

struct Record {
    node: NodeId,
    from: i64,
    until: i64,
    censored: bool,
}

fn trace() -> Result<Vec<Record>, Missing> {
    let file = File::open(data("summit-2021-02/holes.csv.gz")?).unwrap();
    let mut names: BTreeMap<String, NodeId> = BTreeMap::new();
    let records = csv::Reader::from_reader(GzDecoder::new(file))
        .into_records()
        .map(|row| {
            let row = row.unwrap();
            let node = names
                .entry(row[0].to_owned())
                .or_insert_with(|| NodeId::new(&row[0]).unwrap())
                .clone();
            Record {
                node,
                from: row[1].parse().unwrap(),
                until: row[2].parse().unwrap(),
                censored: &row[3] == "1",
            }
        })
        .collect();
    Ok(records)
}

/// The trace as events, grouped by time; at each, holes end before others open.
fn moments(records: &[Record]) -> BTreeMap<i64, Vec<NodeEvent>> {
    let mut moments: BTreeMap<i64, Vec<(bool, NodeId)>> = BTreeMap::new();
    for record in records {
        moments
            .entry(record.from)
            .or_default()
            .push((true, record.node.clone()));
        if !record.censored {
            moments
                .entry(record.until)
                .or_default()
                .push((false, record.node.clone()));
        }
    }
    let mut seq = 0;
    moments
        .into_iter()
        .map(|(at, mut changes)| {
            changes.sort();
            let events = changes
                .into_iter()
                .map(|(opens, node)| {
                    seq += 1;
                    let kind = if opens {
                        EventKind::NodeIdle { node }
                    } else {
                        EventKind::NodeBusy { node }
                    };
                    let at = Timestamp::from_unix(at);
                    NodeEvent { seq, at, kind }
                })
                .collect();
            (at, events)
        })
        .collect()
}

fn tell(predictor: &mut dyn Predictor, change: &Change) {
    match change {
        Change::Opened { hole, seen } => predictor.opened(hole, *seen),
        Change::Closed { hole, at, end } => match end {
            HoleEnd::Seen => predictor.closed(hole, *at),
            HoleEnd::Unseen { last_seen } => predictor.lost(hole, *last_seen),
        },
    }
}

/// Runs a predictor over the trace; `look` gets the pool after the events of each time.
fn run(
    moments: &BTreeMap<i64, Vec<NodeEvent>>,
    predictor: &mut dyn Predictor,
    mut look: impl FnMut(i64, &[Change], &[Hole], &mut dyn Predictor),
) {
    let mut keeper = PoolKeeper::new(UnknownNodes::Accept);
    for (&at, events) in moments {
        let mut changes = Vec::new();
        for event in events {
            changes.extend(keeper.step(event).list);
        }
        for change in &changes {
            tell(predictor, change);
        }
        look(at, &changes, &keeper.holes(), predictor);
    }
}

/// One forecast and its outcome.
struct Sample {
    moment: i64,
    expected: f64,
    open: [f64; 4],
    remaining: f64,
    censored: bool,
}

/// The pairs of samples that are compared.
#[derive(Clone, Copy)]
enum Pairs {
    All,
    WithinMoment,
}

/// The known order of the remaining lengths of two holes; `None` if unknown.
fn longer(a: &Sample, b: &Sample) -> Option<bool> {
    if a.remaining > b.remaining && !b.censored {
        Some(true)
    } else if a.remaining < b.remaining && !a.censored {
        Some(false)
    } else {
        None
    }
}

/// Harrell's concordance over up to `limit` pairs, drawn by a fixed sequence.
fn concordance(samples: &[Sample], which: Pairs, limit: usize) -> f64 {
    let (mut right, mut pairs) = (0.0, 0.0);
    let mut state = 88_172_645_463_325_252u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut by_moment: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    for (place, sample) in samples.iter().enumerate() {
        by_moment.entry(sample.moment).or_insert((place, place)).1 = place;
    }
    for _ in 0..limit {
        let a = draw(samples.len());
        let b = match which {
            Pairs::All => draw(samples.len()),
            Pairs::WithinMoment => {
                let (first, last) = by_moment[&samples[a].moment];
                first + draw(last - first + 1)
            }
        };
        if let Some(a_longer) = longer(&samples[a], &samples[b]) {
            let difference = samples[a].expected - samples[b].expected;
            pairs += 1.0;
            right += if difference == 0.0 {
                0.5
            } else if (difference > 0.0) == a_longer {
                1.0
            } else {
                0.0
            };
        }
    }
    right / pairs
}

fn skills(samples: &[Sample], shares: [f64; 4]) -> [f64; 4] {
    std::array::from_fn(|horizon| {
        let (mut own, mut constant) = (0.0, 0.0);
        for sample in samples {
            let after = HORIZONS_S[horizon];
            if sample.censored && sample.remaining < after {
                continue;
            }
            let open = if sample.remaining > after { 1.0 } else { 0.0 };
            own += (sample.open[horizon] - open).powi(2);
            constant += (shares[horizon] - open).powi(2);
        }
        1.0 - own / constant
    })
}

/// The results of a test of one way of learning.
struct Samples {
    samples: Vec<Sample>,
    /// The share of present holes that stayed open, for each horizon, on days 0-5.
    shares: [f64; 4],
}

/// Forecasts every ten minutes from day 5 on, learnt until day 5 or until the present.
fn sampled(records: &[Record], online: bool) -> Samples {
    let ends: BTreeMap<(&NodeId, i64), &Record> =
        records.iter().map(|r| ((&r.node, r.from), r)).collect();
    let moments = moments(records);
    let mut survival = Survival::new(Settings {
        half_life: None,
        ..Settings::default()
    });
    let mut keeper = PoolKeeper::new(UnknownNodes::Accept);
    let mut frozen: Option<Curve> = None;
    let mut samples = Vec::new();
    let (mut open, mut asked) = ([0.0; 4], 0.0);
    for (number, (&at, events)) in moments.iter().enumerate() {
        for event in events {
            for change in keeper.step(event).list {
                tell(&mut survival, &change);
            }
        }
        let now = Timestamp::from_unix(at);
        let holes = keeper.holes();
        if at >= DAY_5 && frozen.is_none() {
            frozen = Some(survival.curve(now, &holes));
        }
        if number % EVERY != 0 {
            continue;
        }
        let live = (at >= DAY_5 && online).then(|| survival.curve(now, &holes));
        let curve = live.as_ref().or(frozen.as_ref());
        let stride = holes.len().div_ceil(HOLES).max(1);
        for hole in holes.iter().skip(number % stride).step_by(stride) {
            let since = hole.since.unix_ms() / 1000;
            let record = ends[&(&hole.node, since)];
            let remaining = (record.until - at) as f64;
            let Some(curve) = curve else {
                asked += 1.0;
                for (sum, after) in open.iter_mut().zip(HORIZONS_S) {
                    *sum += if remaining > after { 1.0 } else { 0.0 };
                }
                continue;
            };
            let age = (at - since) as f64;
            samples.push(Sample {
                moment: at,
                expected: (1..=48)
                    .map(|step| curve.open_after(age, f64::from(step) * 300.0))
                    .sum(),
                open: HORIZONS_S.map(|after| curve.open_after(age, after)),
                remaining,
                censored: record.censored,
            });
        }
    }
    Samples {
        samples,
        shares: open.map(|sum| sum / asked),
    }
}

#[test]
fn kaplan_meier_has_the_measured_concordance_and_skill() {
    let records = or_skip!(trace());
    let ways = [
        ("learnt on days 0-5", false, [0.039, 0.080, 0.085, 0.117]),
        ("learning on", true, [0.039, 0.080, 0.087, 0.123]),
    ];
    for (name, online, measured) in ways {
        let Samples { samples, shares } = sampled(&records, online);
        let all = concordance(&samples, Pairs::All, 4_000_000);
        let within = concordance(&samples, Pairs::WithinMoment, 4_000_000);
        let skills = skills(&samples, shares);
        println!(
            "{name}: {} samples, concordance {all:.3} over all, {within:.3} within a moment, \
             Brier skill over the share of days 0-5 at 1, 5, 15, 60 min: {skills:.3?}",
            samples.len()
        );
        assert!((0.60..0.70).contains(&all), "{all}");
        assert!((0.60..0.70).contains(&within), "{within}");
        for (skill, expected) in skills.into_iter().zip(measured) {
            assert!((skill - expected).abs() < 0.01, "{skill} for {expected}");
        }
    }
}

#[test]
fn the_online_scores_show_the_skill() {
    let records = or_skip!(trace());
    let moments = moments(&records);
    let mut calibration = Calibration::new();
    let mut survival = Survival::new(Settings::default());
    run(&moments, &mut survival, |at, changes, holes, predictor| {
        for change in changes {
            if let Change::Closed { hole, at, .. } = change {
                calibration.closed(&hole.node, *at);
            }
        }
        let now = Timestamp::from_unix(at);
        let forecasts: Forecasts = predictor.forecast(now, holes);
        calibration.observe(now, now, holes, &forecasts, None);
    });
    for (score, horizon) in calibration.scores().iter().zip(HORIZONS_S) {
        println!(
            "{horizon} s: {} answered, Brier {:.4}, skill {:.3}",
            score.answered,
            score.brier().unwrap(),
            score.skill().unwrap()
        );
        // The constant is that of the last hours and so follows the machine. Against it, age alone
        // has skill at five minutes and next to none elsewhere.
        let skill = score.skill().unwrap();
        assert!(
            skill
                > if horizon > 299.0 && horizon < 301.0 {
                    0.01
                } else {
                    -0.03
                },
            "{skill}"
        );
    }
}

#[test]
fn no_forecast_depends_on_the_future() {
    let records = or_skip!(trace());
    let moments = moments(&records);
    let cut = DAY_5 - 3 * 86_400;
    let forecasts_until_cut = |moments: &BTreeMap<i64, Vec<NodeEvent>>| {
        let mut survival = Survival::new(Settings::default());
        let mut given = Vec::new();
        run(moments, &mut survival, |at, _, holes, predictor| {
            if at < cut && at % 50 == 0 {
                given.push(predictor.forecast(Timestamp::from_unix(at), holes));
            }
        });
        given
    };
    // The same trace without the events after the cut.
    let past: BTreeMap<i64, Vec<NodeEvent>> = moments
        .range(..cut)
        .map(|(at, e)| (*at, e.clone()))
        .collect();
    let whole = forecasts_until_cut(&moments);
    assert!(whole.len() > 10, "{}", whole.len());
    assert!(whole == forecasts_until_cut(&past));
}
