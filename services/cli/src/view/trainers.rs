//! Trainers as rows.

use serde::Serialize;

use lacuna_model::{Launch, Phase, Program, Span, Stall, Stalls, Timestamp, TrainerRecord, Work};

use lacuna_wire::msg::{Activity, NodeView};

use crate::output::{iso, iso_short, short};
use crate::table::{Side, key_values, parsable, render};
use crate::view::profile::{ProfileRow, distance_details, profile_details};
use crate::view::program::program_details;
use crate::view::trouble::hindrances;

/// One trainer, as `lacuna trainers --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TrainerRow {
    /// The name of the trainer.
    pub(crate) trainer: String,
    /// The owner.
    pub(crate) owner: Option<String>,
    /// The user who submitted it; empty if unknown.
    pub(crate) user: String,
    /// Priority; a higher one goes first.
    pub(crate) priority: i32,
    /// Phase in its life: `queued`, `active`, `done`, `cancelled`, `failed`.
    pub(crate) phase: Phase,
    /// State: `queued`, `waiting` (admitted, without nodes), `starting` (no agent has begun its
    /// program yet), `resuming` (stalled by a change of its nodes), `training`, `retrying` (its program failed and
    /// will be started again), `ending` (its work is done, its programs still end), `done`,
    /// `cancelled`, `failed`.
    pub(crate) state: &'static str,
    /// Its present nodes.
    pub(crate) nodes: Vec<String>,
    /// Fewest nodes.
    pub(crate) min_nodes: u32,
    /// Most nodes.
    pub(crate) max_nodes: u32,
    /// Samples done.
    pub(crate) samples: f64,
    /// Samples to do; none if it runs until its program ends.
    pub(crate) samples_total: Option<f64>,
    /// Share of its work done, in `[0, 1]`.
    pub(crate) progress: Option<f64>,
    /// Present throughput, samples/s.
    pub(crate) rate: f64,
    /// Seconds of cluster time to its end at the present rate.
    pub(crate) remaining_s: Option<f64>,
    /// Expected end at the present rate (ISO-8601 UTC).
    pub(crate) estimated_end: Option<String>,
    /// Earliest time of its admission: `not_before` of its owner, else its submission.
    pub(crate) eligible: String,
    /// Time of its first node.
    pub(crate) started: Option<String>,
    /// Time at which it reached a final phase.
    pub(crate) ended: Option<String>,
    /// Number of preemptions: losses of nodes that no plan asked for.
    pub(crate) preemptions: u64,
    /// Number of size changes by the planner.
    pub(crate) rescales: u64,
    /// Stall cost of rescaling, in samples.
    pub(crate) rescale_cost: f64,
    /// Stall cost of preemption, in samples.
    pub(crate) preempt_cost: f64,
    /// Stall cost of restarts of its program on the same nodes, in samples.
    pub(crate) restart_cost: f64,
    /// Seconds stalled and samples redone, by cause.
    pub(crate) stalls: Stalls,
    /// Newest reported loss.
    pub(crate) loss: Option<f64>,
    /// Newest reported checkpoint.
    pub(crate) checkpoint: Option<String>,
    /// Reason for the end of its last process, or for its phase.
    pub(crate) reason: String,
    /// Seconds of cluster time for which its program has trained without a report of samples, from
    /// [`SILENT_S`] on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) silent_s: Option<f64>,
    /// Its measurements, if it was submitted without a curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<ProfileRow>,
}

/// Seconds without a report of samples after which a row says so.
const SILENT_S: f64 = 60.0;

/// How long the program of the present incarnation has reported no samples, if it is long.
fn silent_s(record: &TrainerRecord, now: Timestamp) -> Option<f64> {
    let is_program = record.spec.launch != Launch::Simulated;
    let trains = record.phase == Phase::Active && !record.nodes.is_empty();
    let silent_s = now.since(record.run_since).as_secs_f64();
    (is_program && trains && record.samples_run == 0.0 && silent_s >= SILENT_S).then_some(silent_s)
}

/// One record as a row; `now` is the cluster's time.
#[must_use]
pub(crate) fn trainer_row(record: &TrainerRecord, now: Timestamp) -> TrainerRow {
    let spec = &record.spec;
    let total = match spec.work {
        Work::Samples(total) => Some(total),
        Work::UntilExit => None,
    };
    let samples = record.samples();
    let rate = if record.phase == Phase::Active {
        lacuna_rates::Rates::of(record).present()
    } else {
        0.0
    };
    let remaining = total
        .filter(|_| rate > 0.0)
        .map(|total| ((total - samples).max(0.0) + record.owed) / rate);
    TrainerRow {
        trainer: spec.id.to_string(),
        owner: spec.owner.clone(),
        user: record.user.clone(),
        priority: spec.priority,
        phase: record.phase,
        state: record.state(),
        nodes: record.nodes.iter().map(ToString::to_string).collect(),
        min_nodes: spec.min_nodes,
        max_nodes: spec.max_nodes,
        samples,
        samples_total: total,
        progress: total
            .filter(|t| *t > 0.0)
            .map(|t| (samples / t).clamp(0.0, 1.0)),
        rate,
        remaining_s: remaining,
        estimated_end: remaining.map(|s| iso_short(now + Span::from_secs_f64(s))),
        eligible: iso(spec.submit),
        started: record.started.map(iso),
        ended: record.ended.map(iso),
        preemptions: record.preemptions,
        rescales: record.rescales,
        rescale_cost: record.rescale_cost,
        preempt_cost: record.preempt_cost,
        restart_cost: record.restart_cost,
        stalls: record.stalls,
        loss: record.loss,
        checkpoint: record.checkpoint.clone(),
        reason: match failed_on(record) {
            Some(failed) => format!("{}; {failed}", record.reason),
            None => record.reason.clone(),
        },
        silent_s: silent_s(record, now),
        profile: ProfileRow::of(record),
    }
}

/// Of a trainer that is done: where its program failed, and was sound neither there nor since.
#[must_use]
pub(crate) fn failed_on(record: &TrainerRecord) -> Option<String> {
    let failed = record.tries.failed().map(|(_, failed)| failed);
    let failed: Vec<_> = failed.filter(|failed| failed.failures > 0).collect();
    let last = failed.iter().max_by_key(|failed| failed.at)?;
    (record.phase == Phase::Done).then(|| match failed.len() {
        1 => format!("its program failed on one node: {}", last.reason),
        nodes => format!(
            "its program failed on {nodes} nodes, the last: {}",
            last.reason
        ),
    })
}

impl TrainerRow {
    /// That its program reports no samples, if it has for long; a program that fails has a better
    /// reason.
    pub(crate) fn silence(&self) -> Option<String> {
        let silent_s = self.silent_s.filter(|_| self.state != "retrying")?;
        let length = Span::from_secs(silent_s as i64);
        Some(format!("no samples reported for {length}"))
    }

    /// The same trainer in a state in which its rate is 0.
    fn idle_as(self, state: &'static str) -> Self {
        Self {
            state,
            rate: 0.0,
            remaining_s: None,
            estimated_end: None,
            ..self
        }
    }
}

/// Whether the states of nodes say more of a trainer than its record: it has none, or has reported no
/// samples on those that it has.
#[must_use]
pub(crate) fn depends_on_nodes(record: &TrainerRecord) -> bool {
    let is_program = record.spec.launch != Launch::Simulated;
    let is_new = is_program && record.samples_run == 0.0;
    record.phase == Phase::Active && (record.nodes.is_empty() || is_new)
}

/// Whether no agent has begun the present incarnation of a trainer.
fn starts(record: &TrainerRecord, nodes: &[NodeView]) -> bool {
    let mut own = nodes
        .iter()
        .filter(|view| record.nodes.contains(&view.node));
    let begun = |view: &NodeView| match &view.activity {
        Some(Activity::Running { trainer, run } | Activity::Exited { trainer, run, .. }) => {
            *trainer == record.spec.id && *run == record.run
        }
        Some(Activity::Prepared { .. } | Activity::Free) | None => false,
    };
    let known = own.clone().next().is_some();
    known && depends_on_nodes(record) && !own.any(begun)
}

/// Records as rows, in their order. `nodes` is used only for trainers that [`depends_on_nodes`].
#[must_use]
pub(crate) fn trainer_rows(
    records: &[TrainerRecord],
    now: Timestamp,
    nodes: &[NodeView],
) -> Vec<TrainerRow> {
    let row = |record| {
        let mut row = trainer_row(record, now);
        if starts(record, nodes) {
            row = row.idle_as("starting");
        }
        let hindered = hindrances(record, nodes);
        // The first line says of whom it speaks, the next one has the cause.
        if let Some(cause) = hindered.get(1)
            && record.failures == 0
        {
            row.reason.clone_from(cause);
        }
        row
    };
    records.iter().map(row).collect()
}

const COLUMNS: [(&str, Side); 12] = [
    ("TRAINER", Side::Left),
    ("OWNER", Side::Left),
    ("PRIO", Side::Right),
    ("STATE", Side::Left),
    ("NODES", Side::Right),
    ("MIN-MAX", Side::Right),
    ("SAMPLES", Side::Right),
    ("OF", Side::Right),
    ("DONE", Side::Right),
    ("RATE/s", Side::Right),
    ("END", Side::Left),
    ("REASON", Side::Left),
];

/// The owner, and the user who submitted it if that is another one.
fn owner_text(row: &TrainerRow) -> Option<String> {
    let user = Some(&row.user).filter(|user| !user.is_empty());
    match (&row.owner, user) {
        (Some(owner), Some(user)) if owner != user => Some(format!("{owner} (by {user})")),
        (Some(owner), _) => Some(owner.clone()),
        (None, user) => user.cloned(),
    }
}

/// The table of `lacuna trainers`.
#[must_use]
pub(crate) fn trainer_table(rows: &[TrainerRow], style: crate::commands::Style) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            let dash = || "-".to_owned();
            let end = match (&r.ended, &r.estimated_end) {
                (Some(ended), _) => ended.clone(),
                (None, Some(end)) => format!("~{end}"),
                (None, None) => dash(),
            };
            let assumed = r.profile.as_ref().is_some_and(ProfileRow::is_assumed);
            let rate = if assumed && r.rate > 0.0 {
                format!("~{}", short(r.rate))
            } else {
                short(r.rate)
            };
            vec![
                r.trainer.clone(),
                owner_text(r).unwrap_or_else(dash),
                r.priority.to_string(),
                r.state.to_owned(),
                r.nodes.len().to_string(),
                format!("{}-{}", r.min_nodes, r.max_nodes),
                short(r.samples),
                r.samples_total.map_or_else(dash, short),
                r.progress
                    .map_or_else(dash, |p| format!("{:.1}%", p * 100.0)),
                rate,
                end,
                r.silence().unwrap_or_else(|| r.reason.clone()),
            ]
        })
        .collect();
    match style {
        crate::commands::Style::Table => render(&COLUMNS, &cells),
        crate::commands::Style::Parsable => parsable(&COLUMNS, &cells),
    }
}

/// Whether a change of nodes keeps only the samples in the newest checkpoint that was reported.
fn keeps_only_checkpoints(launch: &Launch) -> bool {
    let Launch::Command(Program { checkpoint_dir, .. }) = launch else {
        return false;
    };
    checkpoint_dir.is_some() && !launch.regroups()
}

/// The losses by one cause of change.
fn lost(cost: f64, stall: &Stall) -> String {
    format!(
        "stalled {:.1} s (stall cost {} samples), {} samples redone",
        stall.seconds,
        short(cost),
        short(stall.redone)
    )
}

/// All details of one trainer, for `lacuna explain`; `row` is made of `record`.
#[must_use]
pub(crate) fn trainer_details(record: &TrainerRecord, row: TrainerRow, now: Timestamp) -> String {
    let dash = || "-".to_owned();
    let done = match (row.samples_total, row.progress) {
        (Some(total), Some(share)) => {
            format!(
                "{} of {} samples ({:.1}%)",
                short(row.samples),
                short(total),
                share * 100.0
            )
        }
        _ => format!(
            "{} samples; runs until its program ends",
            short(row.samples)
        ),
    };
    let mut rows = vec![
        ("trainer", row.trainer.clone()),
        ("owner", owner_text(&row).unwrap_or_else(dash)),
        ("state", row.state.to_owned()),
    ];
    rows.extend(program_details(&record.spec.launch));
    rows.extend([
        (
            "nodes",
            format!(
                "{} (of {} to {})",
                row.nodes.len(),
                row.min_nodes,
                row.max_nodes
            ),
        ),
        ("work", done),
        ("rate", format!("{} samples/s", short(row.rate))),
        (
            "end",
            row.ended
                .clone()
                .or(row.estimated_end.as_ref().map(|e| format!("~{e}")))
                .unwrap_or_else(dash),
        ),
        ("eligible", row.eligible.clone()),
        ("started", row.started.clone().unwrap_or_else(dash)),
        (
            "preempted",
            format!(
                "{} times, {}",
                row.preemptions,
                lost(row.preempt_cost, &row.stalls.preempt)
            ),
        ),
        (
            "rescaled",
            format!(
                "{} times, {}",
                row.rescales,
                lost(row.rescale_cost, &row.stalls.rescale)
            ),
        ),
    ]);
    if row.stalls.restart != Stall::default() {
        rows.push(("restarted", lost(row.restart_cost, &row.stalls.restart)));
    }
    rows.extend(profile_details(record, now));
    rows.extend(distance_details(record));
    if let Some(loss) = row.loss {
        rows.push(("loss", loss.to_string()));
    }
    let forgets = row.samples > 0.0 && keeps_only_checkpoints(&record.spec.launch);
    let unsaved =
        "none is reported, so a change of nodes loses what the program has done since its start";
    if let Some(checkpoint) = row
        .checkpoint
        .or_else(|| forgets.then(|| unsaved.to_owned()))
    {
        rows.push(("checkpoint", checkpoint));
    }
    if !row.reason.is_empty() {
        rows.push(("reason", row.reason));
    }
    key_values(&rows)
}

#[cfg(test)]
mod tests {
    use lacuna_model::Elastic;

    use super::*;
    use crate::commands::Style;
    use crate::view::tests::record;

    #[test]
    fn trainers_are_listed_like_squeue_does() {
        let mut training = record("hpo-001", Phase::Active, 4);
        training.samples_before = 250_000.0;
        training.samples_run = 50_000.0;
        let mut done = record("hpo-000", Phase::Done, 0);
        done.samples_before = 1e6;
        done.ended = Some(Timestamp::from_unix(1_612_990_000));
        done.reason = "all samples done".into();
        let mut resuming = record("mixed.7", Phase::Active, 2);
        resuming.owed = 3000.0;
        resuming.spec.work = Work::UntilExit;
        resuming.spec.owner = Some("ada".into());
        let rows = trainer_rows(
            &[
                done,
                training,
                resuming,
                record("hpo-002", Phase::Queued, 0),
            ],
            Timestamp::from_unix(1_612_988_475),
            &[],
        );
        insta::assert_snapshot!(trainer_table(&rows, Style::Table));
        insta::assert_snapshot!("parsable", trainer_table(&rows, Style::Parsable));
        insta::assert_json_snapshot!("json", rows[1]);
    }

    #[test]
    fn a_program_that_reports_nothing_is_named_after_a_minute() {
        let mut silent = record("a", Phase::Active, 2);
        silent.spec.launch = Launch::Command(Program {
            program: "train.sh".into(),
            elastic: Elastic::Torchrun {
                workers_per_node: 1,
            },
            ..Program::default()
        });
        silent.run_since = Timestamp::from_unix(1000);
        let said =
            |record: &TrainerRecord, at| trainer_row(record, Timestamp::from_unix(at)).silence();
        assert_eq!(said(&silent, 1059), None);
        assert_eq!(
            said(&silent, 1060).as_deref(),
            Some("no samples reported for 1m00s")
        );
        let mut reporting = silent.clone();
        reporting.samples_run = 1.0;
        assert_eq!(said(&reporting, 9999), None);
        let simulated = TrainerRecord {
            spec: record("a", Phase::Active, 2).spec,
            ..silent
        };
        assert_eq!(said(&simulated, 9999), None);
    }

    #[test]
    fn the_estimate_includes_stall_debt() {
        let mut r = record("a", Phase::Active, 2);
        r.samples_before = 0.0;
        r.owed = 2000.0;
        // 200 samples/s at two nodes: (1,000,000 + 2,000) / 200 s.
        let row = trainer_row(&r, Timestamp::from_unix(0));
        assert_eq!(row.remaining_s, Some(5010.0));
        assert_eq!(row.estimated_end.as_deref(), Some("1970-01-01T01:23:30Z"));
        r.nodes.clear();
        assert_eq!(trainer_row(&r, Timestamp::default()).remaining_s, None);
    }

    #[test]
    fn details_show_all_of_one_trainer() {
        let mut r = record("hpo-001", Phase::Active, 3);
        r.preemptions = 2;
        r.preempt_cost = 12_345.0;
        r.stalls.preempt = Stall {
            seconds: 24.0,
            redone: 32.0,
        };
        r.loss = Some(1.25);
        r.reason = "preempted: node-000 was taken by a batch job".into();
        let now = Timestamp::from_unix(1_612_988_475);
        insta::assert_snapshot!(trainer_details(&r, trainer_row(&r, now), now));
    }

    #[test]
    fn a_trainer_that_does_nothing_does_not_look_healthy() {
        let mut r = record("a", Phase::Active, 2);
        r.spec.launch = lacuna_testkit::launch(Elastic::Restart);
        let running = |node: usize, run| NodeView {
            node: r.nodes[node].clone(),
            idle_since: None,
            trainer: Some(r.spec.id.clone()),
            epoch: lacuna_model::Epoch(1),
            activity: Some(Activity::Running {
                trainer: r.spec.id.clone(),
                run: lacuna_model::RunId(run),
            }),
            silent_s: None,
            trouble: None,
            is_down: false,
        };
        let state = |r: &TrainerRecord, nodes: &[NodeView]| {
            let rows = trainer_rows(std::slice::from_ref(r), Timestamp::default(), nodes);
            (rows[0].state, rows[0].rate > 0.0)
        };
        assert_eq!(state(&r, &[running(0, 1)]), ("training", true));
        assert_eq!(
            state(&r, &[running(0, 0)]),
            ("starting", false),
            "an earlier one"
        );
        let mut retries = r.clone();
        retries.nodes.clear();
        assert_eq!(state(&retries, &[]), ("waiting", false));
        retries.failures = 1;
        assert_eq!(state(&retries, &[]), ("retrying", false));
    }
}
