//! The snapshot that a browser gets: the present state of the cluster.

use std::fmt::Write as _;

use lacuna_model::{
    Cause, KindName, KindUse, NodeId, Outcome, Plan, Timestamp, TrainerId, TrainerRecord, Work,
};
use lacuna_planner::explain;
use lacuna_trainer::measure;
use lacuna_wire::msg::{Leader, Totals};
use serde::Serialize;

use crate::answers::{Answers, answers, is_silent};
use crate::controls::{Wanted, wanted};
use crate::history::Code;
use crate::learnt::Line;
use crate::recent::EventRow;
use crate::view::{Arrived, View};

/// Times ahead for which the page shows the number of holes still open, in seconds.
const AHEAD_S: [f64; 13] = [
    0.0, 30.0, 60.0, 120.0, 180.0, 300.0, 450.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// The names of all nodes, in the order of [`crate::change::Whole`]'s cells.
#[derive(Debug, Serialize)]
pub(crate) struct Names<'a> {
    version: u64,
    nodes: Vec<&'a NodeId>,
}

/// The data of the page. Times are milliseconds since 1970, lengths are seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Snapshot<'a> {
    cluster: &'a str,
    now: i64,
    /// Cluster seconds per second; 1 in a real cluster.
    rate: f64,
    /// The newest moment of the history.
    until: i64,
    pool: u32,
    training: u32,
    unusable: u32,
    answers: Answers,
    totals: Option<TotalsRow>,
    trainers: Vec<TrainerRow<'a>>,
    plan: Option<PlanRow>,
    forecast: Option<ForecastRow<'a>>,
    harm: HarmRow<'a>,
    /// By kind of node; empty where fewer than two kinds are known.
    kinds: Vec<KindRow<'a>>,
    controls: Option<Wanted<'a>>,
    services: Vec<ServiceRow<'a>>,
    events: Vec<&'a EventRow>,
    ages: Ages,
}

/// Seconds since the newest message of each kind; nothing if there was none.
#[derive(Debug, Serialize)]
struct Ages {
    pool: Option<f64>,
    trainers: Option<f64>,
    plan: Option<f64>,
    totals: Option<f64>,
}

#[derive(Debug, Serialize)]
struct TotalsRow {
    since: i64,
    idle_node_h: f64,
    harvested_node_h: f64,
    /// Nothing if no node was idle.
    idle_share_used: Option<f64>,
    /// Nothing if it is unknown.
    efficiency: Option<f64>,
    efficiency_unknown: &'static str,
    samples: f64,
    /// Shares lost: samples lost over samples done.
    lost_to_rescaling: Option<f64>,
    lost_to_preemption: Option<f64>,
    lost_to_restarts: Option<f64>,
    preemptions: u64,
    rescales: u64,
    done: u64,
    queued: u32,
    active: u32,
}

#[derive(Debug, Serialize)]
struct TrainerRow<'a> {
    name: &'a TrainerId,
    code: Option<Code>,
    /// As in `lacuna trainers`.
    state: &'static str,
    /// Why it is so, in one line.
    reason: String,
    owner: Option<&'a str>,
    nodes: usize,
    min: u32,
    max: u32,
    samples: f64,
    of: Option<f64>,
    rate: f64,
    preemptions: u64,
    rescales: u64,
    loss: Option<f64>,
    why: Option<String>,
    /// Where the time of its steps goes, and what its batch is worth.
    notes: Vec<String>,
    /// The same over time.
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct PlanRow {
    generation: u64,
    at: i64,
    used: usize,
    holes: usize,
    proven: bool,
    solver: String,
    latency_s: f64,
    lines: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ForecastRow<'a> {
    predictor: &'a str,
    /// (seconds ahead, expected number of the present holes that are still open)
    open: Vec<(f64, f64)>,
}

#[derive(Debug, Serialize)]
struct HarmRow<'a> {
    /// Number of nodes that were given back recently.
    count: usize,
    median_s: Option<f64>,
    longest_s: Option<f64>,
    /// The newest ones: when, which node, how long it took.
    newest: Vec<(i64, &'a NodeId, f64)>,
}

/// What nodes of one kind offered and gave.
#[derive(Debug, Serialize)]
struct KindRow<'a> {
    kind: &'a KindName,
    idle_node_h: f64,
    harvested_node_h: f64,
    /// Nothing if no node was idle.
    idle_share_used: Option<f64>,
    /// Times that a node was given back to the main scheduler.
    given_back: u64,
    /// How long the main scheduler waited then, in the mean and at most; nothing before the first.
    harm_mean_s: Option<f64>,
    harm_longest_s: Option<f64>,
}

/// The active instance of a service.
#[derive(Debug, Serialize)]
struct ServiceRow<'a> {
    name: &'a str,
    /// The address on which it listens.
    seat: &'a str,
    /// When it became the active one.
    since: i64,
    /// `active`, `failing`: a check of it fails, `silent`, or `gone`: it has resigned.
    state: &'static str,
    silent_s: f64,
}

/// The names of all nodes.
pub(crate) fn names(view: &View) -> Names<'_> {
    let (version, nodes) = view.history.nodes();
    Names {
        version,
        nodes: nodes.collect(),
    }
}

/// The snapshot of the present state.
pub(crate) fn snapshot<'a>(
    view: &'a View,
    cluster: &'a str,
    now: Timestamp,
    rate: f64,
) -> Snapshot<'a> {
    let unusable = |code: &Code| *code == crate::history::code::UNUSABLE;
    let records = view.trainers.as_ref().map(|t| t.value.trainers.as_slice());
    let of_trainers = view.history.codes();
    let trainers = records
        .unwrap_or_default()
        .iter()
        .map(|record| trainer(view, record, of_trainers.get(&record.spec.id).copied()))
        .collect();
    let present = view.present;
    Snapshot {
        cluster,
        now: now.unix_ms(),
        rate,
        until: view.history.until().unix_ms(),
        pool: present.map_or(0, |r| r.idle),
        training: present.map_or(0, |r| r.training),
        unusable: view.history.present().filter(unusable).count() as u32,
        answers: answers(view, now),
        totals: view.totals.as_ref().map(|t| totals(&t.value)),
        trainers,
        plan: plan(view),
        forecast: forecast(view),
        harm: harm(view),
        kinds: kinds(view),
        controls: view.controls.as_ref().and_then(wanted),
        services: view.leaders.iter().map(service).collect(),
        events: view.events.lines().collect(),
        ages: Ages {
            pool: view.pool.as_ref().map(|h| h.arrived.seconds()),
            trainers: view.trainers.as_ref().map(|h| h.arrived.seconds()),
            plan: view.plan.as_ref().map(|h| h.arrived.seconds()),
            totals: view.totals.as_ref().map(|h| h.arrived.seconds()),
        },
    }
}

fn service<'a>((name, arrived): (&'a String, &'a Arrived<Leader>)) -> ServiceRow<'a> {
    let leader = &arrived.value;
    let silent_s = arrived.arrived.seconds();
    ServiceRow {
        name,
        seat: leader.seat.rsplit('/').next().unwrap_or_default(),
        since: leader.since.unix_ms(),
        state: if leader.resigned {
            "gone"
        } else if is_silent(leader, silent_s) {
            "silent"
        } else if !leader.failing.is_empty() {
            "failing"
        } else {
            "active"
        },
        silent_s,
    }
}

fn totals(totals: &Totals) -> TotalsRow {
    let lost =
        |cost, stall| measure::share_lost(measure::samples_lost(cost, stall), totals.samples);
    let stalls = &totals.stalls;
    TotalsRow {
        since: totals.since.unix_ms(),
        idle_node_h: totals.idle_node_s / 3600.0,
        harvested_node_h: totals.harvested_node_s / 3600.0,
        idle_share_used: measure::idle_share_used(totals.harvested_node_s, totals.idle_node_s),
        efficiency: totals.efficiency.known(),
        efficiency_unknown: totals.efficiency.why_not(),
        samples: totals.samples,
        lost_to_rescaling: lost(totals.rescale_cost, &stalls.rescale),
        lost_to_preemption: lost(totals.preempt_cost, &stalls.preempt),
        lost_to_restarts: lost(totals.restart_cost, &stalls.restart),
        preemptions: totals.preemptions,
        rescales: totals.rescales,
        done: totals.trainers_done,
        queued: totals.queued,
        active: totals.active,
    }
}

fn trainer<'a>(view: &View, record: &'a TrainerRecord, code: Option<Code>) -> TrainerRow<'a> {
    let spec = &record.spec;
    let newest = view
        .progress
        .get(&spec.id)
        .filter(|newest| record.is_reported_by(newest));
    let of_run = newest.map_or(record.samples_run, |p| p.samples.max(record.samples_run));
    let owed = newest.map_or(record.owed, |p| p.owed);
    let state = match record.state() {
        // The record is older than the report.
        "resuming" if owed <= 0.0 => "training",
        state => state,
    };
    let plan = view.plan.as_ref().map(|plan| &plan.value.plan);
    TrainerRow {
        name: &spec.id,
        code,
        state,
        reason: reason(record, plan),
        owner: spec.owner.as_deref(),
        nodes: record.nodes.len(),
        min: spec.min_nodes,
        max: spec.max_nodes,
        samples: record.samples_before + of_run,
        of: match spec.work {
            Work::Samples(samples) => Some(samples),
            Work::UntilExit => None,
        },
        rate: lacuna_rates::Rates::of(record).present(),
        preemptions: record.preemptions,
        rescales: record.rescales,
        loss: newest.and_then(|p| p.loss).or(record.loss),
        why: plan.and_then(|plan| explain::trainer(plan, &spec.id)),
        notes: of_step(record)
            .into_iter()
            .chain(of_batch(record))
            .collect(),
        lines: view.lines(&spec.id),
    }
}

/// Why a trainer is in its state: what failed, else what the plan says.
fn reason(record: &TrainerRecord, plan: Option<&Plan>) -> String {
    if record.failures > 0 {
        let times = match record.failures {
            1 => String::new(),
            many => format!(" {many} times in a row"),
        };
        return format!("failed{times}: {}", record.reason);
    }
    plan.and_then(|plan| explain::brief(plan, &record.spec))
        .unwrap_or_else(|| record.reason.clone())
}

/// Where the time of a step goes, if its replay is to be trusted.
fn of_step(record: &TrainerRecord) -> Option<String> {
    let costs = record.step_costs.as_ref().filter(|costs| costs.trusted)?;
    let of_step = |seconds: f64| 100.0 * seconds / costs.measured;
    let mut text = format!(
        "a step of {:.0} ms computes for {:.0} % of it",
        1e3 * costs.measured,
        of_step(costs.computes)
    );
    for cause in Cause::ALL {
        let share = of_step(costs.cost(cause));
        if share >= 1.0 {
            let _ = write!(text, ", {} costs {share:.0} %", cause.name());
        }
    }
    Some(text)
}

/// What its batch is worth, if it is measured.
fn of_batch(record: &TrainerRecord) -> Option<String> {
    let learning = record.learning.as_ref()?;
    Some(format!(
        "batch {}, its user's {}: a sample is worth {:.2}",
        learning.batch, learning.user_batch, learning.efficiency
    ))
}

fn plan(view: &View) -> Option<PlanRow> {
    let state = &view.plan.as_ref()?.value;
    let plan = &state.plan;
    Some(PlanRow {
        generation: plan.generation.0,
        at: plan.as_of.unix_ms(),
        used: plan.allocations.iter().map(|a| a.nodes.len()).sum(),
        holes: plan.report.holes.len(),
        proven: plan.report.solve.outcome == Outcome::Optimal,
        solver: plan.report.solve.solver.clone(),
        latency_s: state.latency_s,
        lines: explain::forecast(plan).lines().map(str::to_owned).collect(),
    })
}

fn forecast(view: &View) -> Option<ForecastRow<'_>> {
    let state = &view.pool.as_ref()?.value;
    let pool = &state.pool;
    let mut holes = vec![0_u32; pool.forecasts.len()];
    for pooled in &pool.holes {
        if let Some(count) = holes.get_mut(pooled.forecast as usize) {
            *count += 1;
        }
    }
    let expected = |after_s: f64| {
        let each = pool.forecasts.iter().zip(&holes);
        each.map(|(forecast, &holes)| forecast.open_after(after_s) * f64::from(holes))
            .sum()
    };
    Some(ForecastRow {
        predictor: &state.predictor,
        open: AHEAD_S.map(|ahead_s| (ahead_s, expected(ahead_s))).to_vec(),
    })
}

fn harm(view: &View) -> HarmRow<'_> {
    let mut took: Vec<f64> = view
        .given_back
        .iter()
        .map(|given| given.took.as_secs_f64())
        .collect();
    took.sort_by(f64::total_cmp);
    HarmRow {
        count: took.len(),
        median_s: took.get(took.len() / 2).copied(),
        longest_s: took.last().copied(),
        newest: view
            .given_back
            .iter()
            .rev()
            .take(8)
            .map(|given| (given.at.unix_ms(), &given.node, given.took.as_secs_f64()))
            .collect(),
    }
}

fn kinds(view: &View) -> Vec<KindRow<'_>> {
    let totals = view.totals.iter().flat_map(|totals| &totals.value.kinds);
    let row = |(kind, sums): (_, &KindUse)| {
        let was = sums.given_back > 0;
        KindRow {
            kind,
            idle_node_h: sums.idle_node_s / 3600.0,
            harvested_node_h: sums.harvested_node_s / 3600.0,
            idle_share_used: measure::idle_share_used(sums.harvested_node_s, sums.idle_node_s),
            given_back: sums.given_back,
            harm_mean_s: was.then(|| sums.harm_s / sums.given_back as f64),
            harm_longest_s: was.then_some(sums.longest_harm_s),
        }
    };
    totals.map(row).collect()
}

#[cfg(test)]
mod tests {
    use lacuna_model::{AgentStatus, Span};
    use lacuna_testkit::{events, node, pool, record, spec};
    use lacuna_wire::msg::{PoolState, TrainersState};
    use serde_json::{Value, json};

    use super::*;

    fn shown(view: &View) -> Value {
        serde_json::to_value(snapshot(view, "c", Timestamp::from_unix(20), 1.0)).unwrap()
    }

    #[test]
    fn a_page_without_messages_shows_that() {
        let shown = shown(&View::new(Span::from_secs(60)));
        assert_eq!(shown["ages"]["pool"], Value::Null);
        assert_eq!(
            (&shown["plan"], &shown["controls"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(shown["harm"]["count"], 0);
    }

    #[test]
    fn each_kind_has_its_idle_time_its_harvest_and_its_harm() {
        let mut view = View::new(Span::from_secs(60));
        view.take_totals(Totals::default());
        assert_eq!(shown(&view)["kinds"], json!([]), "one kind shows nothing");
        let name = |name| KindName::new(name).unwrap();
        let mut cpu = KindUse {
            idle_node_s: 7200.0,
            harvested_node_s: 3600.0,
            ..KindUse::default()
        };
        let kinds = [
            (name("gpu"), cpu),
            (name("cpu"), {
                cpu.give_back(Span::from_secs(1));
                cpu.give_back(Span::from_secs(3));
                cpu
            }),
        ];
        view.take_totals(Totals {
            kinds: kinds.into(),
            ..Totals::default()
        });
        let row = |kind, given_back, mean: Value, longest: Value| {
            json!({
                "kind": kind, "idle_node_h": 2.0, "harvested_node_h": 1.0, "idle_share_used": 0.5,
                "given_back": given_back, "harm_mean_s": mean, "harm_longest_s": longest,
            })
        };
        let rows = json!([
            row("cpu", 2, json!(2.0), json!(3.0)),
            row("gpu", 0, Value::Null, Value::Null),
        ]);
        assert_eq!(shown(&view)["kinds"], rows);
    }

    #[test]
    fn figures_are_those_of_the_core() {
        let mut figures = lacuna_testkit::figures();
        let mut view = View::new(Span::from_secs(60));
        view.take_totals(figures.totals.clone());
        let row = shown(&view)["totals"].clone();
        assert_eq!(row["efficiency"], json!(figures.efficiency));
        assert_eq!(row["idle_share_used"], json!(figures.idle_share_used));
        let names = [
            "lost_to_rescaling",
            "lost_to_preemption",
            "lost_to_restarts",
        ];
        for (name, (_, _, share)) in names.iter().zip(figures.lost) {
            assert_eq!(row[name], json!(share));
        }
        figures.totals.efficiency = lacuna_model::Efficiency::CurveExceeded;
        view.take_totals(figures.totals);
        let row = shown(&view)["totals"].clone();
        assert_eq!(row["efficiency"], Value::Null);
        let why = "a trainer did more than its scaling curve allows";
        assert_eq!(row["efficiency_unknown"], why);
    }

    #[test]
    fn the_snapshot_counts_nodes_and_holds_expected_ends_and_give_back_times() {
        let mut view = View::new(Span::from_secs(3600));
        view.take_pool(PoolState {
            pool: pool(1, 10, &["a", "b", "c", "d"]),
            predictor: "constant".to_owned(),
        });
        view.take_trainers(TrainersState {
            version: 1,
            as_of: Timestamp::from_unix(10),
            trainers: vec![record(spec("t", 4), 1, &["a", "b"])],
            unusable: vec![node("d")],
            pilot_s: 0.0,
            followed: lacuna_model::Generation(0),
        });
        for event in events(1, &[("idle", "a"), ("busy", "x")]) {
            view.take_event(&event);
        }
        for (name, ms) in [("x", 5), ("y", 9), ("z", 400)] {
            let status = AgentStatus {
                leaving: true,
                gave_back_in: Some(Span::from_ms(ms)),
                ..lacuna_testkit::status(name)
            };
            view.take_agent(status, Timestamp::from_unix(11));
        }
        view.settle();
        let shown = shown(&view);
        assert_eq!(
            (&shown["pool"], &shown["training"], &shown["unusable"]),
            (&json!(4), &json!(2), &json!(1))
        );
        assert_eq!(shown["trainers"][0]["code"], json!(3));
        // Each of them is open for two minutes.
        assert_eq!(shown["forecast"]["open"][3], json!([120.0, 4.0]));
        assert_eq!(shown["forecast"]["open"][5], json!([300.0, 0.0]));
        assert_eq!(shown["harm"]["median_s"], json!(0.009));
        assert_eq!(shown["harm"]["longest_s"], json!(0.4));
        assert_eq!(shown["events"][0]["what"], "taken", "the newest first");
    }

    #[test]
    fn a_trainer_shows_where_its_step_goes_and_what_its_batch_is_worth() {
        let mut record = lacuna_testkit::reporting("t");
        assert_eq!(
            of_step(&record).unwrap(),
            "a step of 200 ms computes for 75 % of it, link costs 25 %"
        );
        assert_eq!(
            of_batch(&record).unwrap(),
            "batch 64, its user's 32: a sample is worth 0.90"
        );
        if let Some(costs) = &mut record.step_costs {
            costs.trusted = false;
        }
        record.learning = None;
        assert_eq!((of_step(&record), of_batch(&record)), (None, None));
    }

    #[test]
    fn the_active_instance_of_a_service_is_named_until_it_is_silent() {
        let mut view = View::new(Span::from_secs(3600));
        let leader = |ttl_ms, resigned| Leader {
            instance: "1".to_owned(),
            seat: "boot/net/127.0.0.1:9101".to_owned(),
            since: Timestamp::from_unix(5),
            ttl_ms,
            resigned,
            failing: Vec::new(),
        };
        view.take_leader("control".to_owned(), leader(60_000, false));
        view.take_leader("planner".to_owned(), leader(60_000, true));
        view.take_leader("ingest".to_owned(), leader(0, false));
        assert!(view.settle());
        view.take_leader("control".to_owned(), leader(60_000, false));
        assert!(!view.settle(), "the same again is no news");
        let shown = shown(&view);
        let states: Vec<&Value> = (0..3).map(|i| &shown["services"][i]["state"]).collect();
        assert_eq!(states, ["active", "silent", "gone"]);
        assert_eq!(shown["services"][0]["seat"], "127.0.0.1:9101");
    }
}
