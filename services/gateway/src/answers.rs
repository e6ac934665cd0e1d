//! The three questions of an operator, answered first: is anybody harmed, is anything broken, what
//! is gained? Each answer is one sentence and a word; what it rests on is listed below it.

use lacuna_model::{Harm, Phase, Span, Timestamp, TroubleKind, Troubled};
use lacuna_runtime::http::NOT_YET;
use lacuna_runtime::leader::SINGLE_ACTIVE;
use lacuna_trainer::measure;
use lacuna_wire::msg::{Leader, Totals};
use serde::Serialize;

use crate::view::{Arrived, View};

/// A state that is older than this is said to be old.
const OLD_S: f64 = 120.0;
/// Harm counts as present for this long.
const RECENT: Span = Span::from_secs(24 * 3600);
/// A bus whose room is taken to this share is nearly full; above the second it is about to fail.
const FULL: [f64; 2] = [0.8, 0.95];

/// How an answer is judged. The page shows a sign for each, and a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should be.
    Good,
    /// Not known.
    Unknown,
    /// Worth a look.
    Look,
    /// Wrong.
    Bad,
}

/// One thing that an answer rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Item {
    state: State,
    what: String,
    text: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Answer {
    state: State,
    /// The answer in a word or two.
    word: String,
    /// The answer in a sentence.
    text: String,
    items: Vec<Item>,
}

/// The answers to the three questions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Answers {
    harm: Answer,
    faults: Answer,
    gain: Answer,
}

/// The answers by the newest states. `now` is the cluster's time.
pub(crate) fn answers(view: &View, now: Timestamp) -> Answers {
    let totals = view.totals.as_ref().map(|totals| &totals.value);
    Answers {
        harm: totals.map_or_else(|| unknown("control"), |totals| harm(totals, now)),
        faults: faults(view),
        gain: totals.map_or_else(|| unknown("control"), |totals| gain(view, totals)),
    }
}

fn item(state: State, what: impl Into<String>, text: impl Into<String>) -> Item {
    let (what, text) = (what.into(), text.into());
    Item { state, what, text }
}

fn unknown(service: &str) -> Answer {
    Answer {
        state: State::Unknown,
        word: "not known".to_owned(),
        text: format!("{service} has not published its sums yet."),
        items: Vec::new(),
    }
}

/// The day, or the minute for a time within a day of `now`.
fn day(at: Timestamp, now: Timestamp) -> String {
    let text = jiff::Timestamp::from_millisecond(at.unix_ms());
    let text = text.map_or_else(|_| String::new(), |at| at.to_string().replace('T', " "));
    let (length, zone) = if now.since(at) < RECENT {
        (16, " UTC")
    } else {
        (10, "")
    };
    text.chars().take(length).collect::<String>() + zone
}

/// Seconds as a length of time, from a tenth of a millisecond on.
fn length(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.2} s"),
        s => Span::from_secs_f64(s).to_string(),
    }
}

/// A number and its noun.
fn count(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", thousands(&number.to_string()))
}

/// An amount: with two decimals where it is small, else in whole numbers by thousands.
fn few(amount: f64) -> String {
    if amount < 10.0 {
        return format!("{amount:.2}");
    }
    thousands(&format!("{amount:.0}"))
}

/// Digits with commas between thousands.
fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Whether batch jobs waited for nodes, by all causes and since the sums began.
fn harm(totals: &Totals, now: Timestamp) -> Answer {
    let mut all = Harm::default();
    totals.harm.values().for_each(|harm| all.add(harm));
    let since = day(totals.since, now);
    let items = totals.harm.iter().map(|(cause, harm)| {
        let state = if harm.late > 0 {
            State::Look
        } else {
            State::Good
        };
        item(state, cause.as_str(), waits(harm))
    });
    let mut items: Vec<Item> = items.collect();
    if totals.unconfirmed > 0 {
        let text = format!(
            "{} that no agent confirmed within the lease timeout; their waits are not known",
            count(totals.unconfirmed, "release")
        );
        items.push(item(State::Look, "unconfirmed", text));
    }
    let preempted = count(totals.preemptions, "time");
    items.push(item(
        State::Good,
        "trainers",
        format!("lost nodes unasked {preempted}"),
    ));
    let is_recent = all.last_late.is_some_and(|at| now.since(at) < RECENT);
    let unconfirmed = totals.unconfirmed > 0;
    let (state, word, text) = match (all.given_back, all.late) {
        (0, _) if unconfirmed => (
            State::Look,
            "perhaps",
            format!(
                "{} not confirmed since {since}; no wait was measured.",
                count(totals.unconfirmed, "release")
            ),
        ),
        (0, _) if totals.preemptions > 0 => (
            State::Unknown,
            "not known",
            format!("Trainers lost nodes {preempted} since {since}, and no wait was measured."),
        ),
        (0, _) => (
            State::Good,
            "no",
            format!("No batch job has wanted a node of Lacuna since {since}."),
        ),
        (_, 0) if unconfirmed => (
            State::Look,
            "perhaps",
            format!(
                "{} since {since}; {} not confirmed.",
                waits(&all),
                count(totals.unconfirmed, "release")
            ),
        ),
        (_, 0) => (State::Good, "no", format!("{} since {since}.", waits(&all))),
        _ => (
            if is_recent { State::Bad } else { State::Look },
            if is_recent { "yes" } else { "not recently" },
            format!("{} since {since}{}.", waits(&all), last_late(&all, now)),
        ),
    };
    Answer {
        state,
        word: word.to_owned(),
        text,
        items,
    }
}

/// When a node was last late, as a clause.
fn last_late(harm: &Harm, now: Timestamp) -> String {
    harm.last_late
        .map_or_else(String::new, |at| format!(", last on {}", day(at, now)))
}

/// How long the main scheduler waited, as a clause.
fn waits(harm: &Harm) -> String {
    let mean = harm.seconds / harm.given_back.max(1) as f64;
    let late = match harm.late {
        0 => String::new(),
        late => format!(
            "; {late} took more than {}",
            length(Harm::LATE.as_secs_f64())
        ),
    };
    format!(
        "{} given back after {} on average, {} at most{late}",
        count(harm.given_back, "node"),
        length(mean),
        length(harm.longest_s)
    )
}

/// What is gained, and since when.
fn gain(view: &View, totals: &Totals) -> Answer {
    let hours = totals.harvested_node_s / 3600.0;
    let used = measure::idle_share_used(totals.harvested_node_s, totals.idle_node_s);
    let since = day(totals.since, totals.now);
    let of_idle = used.map_or_else(String::new, |used| {
        format!(", {:.1} % of the time that nodes were idle", 100.0 * used)
    });
    let now = view.present.map_or(0, |reading| reading.training);
    let paused = view.controls.as_ref().is_some_and(|c| c.pause.is_some());
    let state = match hours > 0.0 {
        _ if paused => State::Look,
        true => State::Good,
        false => State::Unknown,
    };
    let records = view.trainers.as_ref().map(|t| t.value.trainers.as_slice());
    let records = records.unwrap_or_default().iter();
    let training = records.filter(|r| r.phase == Phase::Active && !r.nodes.is_empty());
    Answer {
        state,
        word: format!("{} node-hours", few(hours)),
        text: format!(
            "Since {since}{of_idle}. Now {} on {}; {} done{}.",
            count(training.count() as u64, "trainer"),
            count(u64::from(now), "node"),
            totals.trainers_done,
            if paused {
                "; paused by an operator"
            } else {
                ""
            }
        ),
        items: Vec::new(),
    }
}

/// What is broken.
fn faults(view: &View) -> Answer {
    let mut items = services(view);
    items.extend(states(view));
    items.push(bus(view));
    items.extend(nodes(view));
    items.push(alerts(view));
    // The worst first; else in this order.
    items.sort_by_key(|item| std::cmp::Reverse(item.state));
    let worst = items.first().map_or(State::Good, |item| item.state);
    let wrong = |item: &&Item| item.state >= State::Look;
    let named: Vec<String> = items
        .iter()
        .filter(wrong)
        .map(|item| format!("{}: {}", item.what, item.text))
        .collect();
    let unknown = || {
        let unknown = items.iter().filter(|item| item.state == State::Unknown);
        unknown.map(|item| item.what.as_str()).collect::<Vec<_>>()
    };
    let (word, text) = match worst {
        State::Good | State::Unknown => {
            let unknown = unknown();
            let known = "Services, bus, scheduler and agents are well";
            let text = if unknown.is_empty() {
                format!("{known}, and no alert fires.")
            } else {
                format!("{known}. Not watched: {}.", unknown.join(", "))
            };
            ("no", text)
        }
        State::Look => ("look", listed(&named)),
        State::Bad => ("yes", listed(&named)),
    };
    Answer {
        // What is not watched is a choice of the site, and no fault.
        state: if worst == State::Unknown {
            State::Good
        } else {
            worst
        },
        word: word.to_owned(),
        text,
        items,
    }
}

/// The first of several, and how many more there are.
fn listed(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [one] => format!("{one}."),
        [one, rest @ ..] => format!("{one}; and {} more.", rest.len()),
    }
}

/// The services with one active instance.
fn services(view: &View) -> Vec<Item> {
    // All at once: what they have in common is nats-server. If it does not answer, `bus` says so.
    let silent = SINGLE_ACTIVE.map(|name| {
        let leader = view.leaders.get(name)?;
        let silent_s = leader.arrived.seconds();
        (!leader.value.resigned && is_silent(&leader.value, silent_s)).then_some(silent_s)
    });
    if view.watched.connected
        && let Some(since) = silent.into_iter().reduce(|a, b| Some(a?.min(b?))).flatten()
    {
        let text = format!(
            "none has been active for {}: nats-server keeps nothing, as where its disk is full, or all have ended",
            length(since)
        );
        return vec![item(State::Bad, "services", text)];
    }
    let mut items = Vec::new();
    for name in SINGLE_ACTIVE {
        let Some(leader) = view.leaders.get(name) else {
            items.push(item(State::Bad, name, "no instance has reported"));
            continue;
        };
        items.extend(service(name, leader));
    }
    items
}

fn service(name: &str, arrived: &Arrived<Leader>) -> Vec<Item> {
    let (leader, silent_s) = (&arrived.value, arrived.arrived.seconds());
    if leader.resigned {
        return vec![item(
            State::Bad,
            name,
            "its instance has ended, and no other leads",
        )];
    }
    if is_silent(leader, silent_s) {
        let text = format!("no instance has been active for {}", length(silent_s));
        return vec![item(State::Bad, name, text)];
    }
    let failing = leader.failing.iter();
    let (starting, failing): (Vec<&String>, Vec<&String>) =
        failing.partition(|text| text.ends_with(NOT_YET));
    if failing.is_empty() {
        let (state, text) = if starting.is_empty() {
            (State::Good, "active")
        } else {
            (State::Look, "starting")
        };
        return vec![item(state, name, text)];
    }
    failing
        .into_iter()
        .map(|text| item(State::Bad, name, text.as_str()))
        .collect()
}

/// Whether an active instance has been silent for longer than it may.
pub(crate) fn is_silent(leader: &Leader, silent_s: f64) -> bool {
    silent_s * 1000.0 > 3.0 * leader.ttl_ms as f64
}

/// The states that services publish, as far as they are missing or old.
fn states(view: &View) -> Vec<Item> {
    let age = |what: &str, service: &str, seconds: Option<f64>| match seconds {
        None => Some(item(
            State::Look,
            service,
            format!("has not published {what} yet"),
        )),
        Some(s) if s > OLD_S => {
            let text = format!("{what} is {} old", Span::from_secs(s as i64));
            Some(item(State::Bad, service, text))
        }
        Some(_) => None,
    };
    let pool = view.pool.as_ref().map(|state| state.arrived.seconds());
    let trainers = view.trainers.as_ref().map(|state| state.arrived.seconds());
    let is_planned = view.plan.is_some();
    let needs_plan = view.present.is_some_and(|reading| reading.idle > 0)
        && (view.trainers.as_ref()).is_some_and(|state| !state.value.trainers.is_empty());
    [
        age("the pool", "forecast", pool),
        age("the list of trainers", "control", trainers),
        (needs_plan && !is_planned)
            .then(|| item(State::Look, "planner", "has not published a plan yet")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// nats-server.
fn bus(view: &View) -> Item {
    const BUS: &str = "bus";
    let watched = &view.watched;
    if !watched.connected {
        let text = "nats-server does not answer; this page shows what was before";
        return item(State::Bad, BUS, text);
    }
    let state = match &watched.bus {
        None => {
            return item(
                State::Unknown,
                "disk of the bus (gateway.bus_monitor is not set)",
                "connected; its disk and its clients are not watched",
            );
        }
        Some(Err(reason)) => return item(State::Look, BUS, reason.as_str()),
        Some(Ok(state)) => state,
    };
    let fill = state.fill();
    let room = fill.map_or_else(
        || "no limit".to_owned(),
        |fill| format!("{:.1} % of its room taken", 100.0 * fill),
    );
    let slow = watched.slow_recently();
    let text = format!(
        "nats-server {}: {room}, {} of {}",
        state.version,
        count(state.clients(), "client"),
        state.most_connections
    );
    let [nearly, about] = FULL;
    let near = state.clients() as f64 > nearly * state.most_connections as f64;
    match fill.unwrap_or(0.0) {
        fill if fill >= about => item(State::Bad, BUS, text),
        fill if fill >= nearly || near => item(State::Look, BUS, text),
        _ if slow > 0 => {
            let text = format!("{text}; {} closed for not reading", count(slow, "client"));
            item(State::Look, BUS, text)
        }
        _ => item(State::Good, BUS, text),
    }
}

/// Nodes that are not used as others are.
fn nodes(view: &View) -> Vec<Item> {
    let totals = view.totals.as_ref().map(|totals| &totals.value);
    let troubled = totals.map_or(&[][..], |totals| totals.troubled.as_slice());
    let mut items: Vec<Item> = troubled.iter().map(trouble).collect();
    let silent =
        |troubled: &&Troubled| matches!(troubled.kind, TroubleKind::Silent | TroubleKind::Unheard);
    if totals.is_some() && !troubled.iter().any(|of| silent(&of)) {
        items.push(item(State::Good, "agents", "none is silent"));
    }
    items
}

fn trouble(troubled: &Troubled) -> Item {
    let (state, what, why) = match troubled.kind {
        TroubleKind::Quarantined => (State::Look, "nodes closed", "in quarantine"),
        TroubleKind::Slow => (State::Look, "nodes closed", "slow, to some owners"),
        TroubleKind::Last => (State::Look, "nodes", "last choice of some owners"),
        TroubleKind::Suspect => (
            State::Look,
            "nodes",
            "perhaps broken: a program failed there",
        ),
        TroubleKind::Silent => (State::Look, "agents", "silent"),
        TroubleKind::Unheard => (State::Look, "agents", "never heard"),
        TroubleKind::Unnamed => (
            State::Look,
            "agents",
            "of nodes that no scheduler has named",
        ),
        TroubleKind::Overdue => (State::Bad, "nodes", "not confirmed as given back"),
        TroubleKind::Left => (
            State::Good,
            "agents",
            "left after a batch job, will come again",
        ),
    };
    let mut names: Vec<String> = troubled.some.iter().map(ToString::to_string).collect();
    if names.len() < troubled.nodes as usize {
        names.push("...".to_owned());
    }
    let text = format!(
        "{} {why} ({}; `lacuna nodes` says more)",
        troubled.nodes,
        names.join(", ")
    );
    item(state, what, text)
}

/// The alerts of Prometheus.
fn alerts(view: &View) -> Item {
    const ALERTS: &str = "alerts";
    match &view.watched.alerts {
        None => item(
            State::Unknown,
            "alerts (gateway.prometheus is not set)",
            "not read",
        ),
        Some(Err(reason)) => item(State::Look, ALERTS, reason.as_str()),
        Some(Ok(firing)) => {
            let Some(first) = firing.first() else {
                return item(State::Good, ALERTS, "none fires");
            };
            let more = match firing.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let state = if first.wakes { State::Bad } else { State::Look };
            let text = format!(
                "{} fires{more} ({}; `lacuna help {}`)",
                first.name, first.summary, first.name
            );
            item(state, ALERTS, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::{node, pool};
    use lacuna_wire::msg::{PoolState, TrainersState};

    use super::*;
    use crate::alerts::Firing;
    use crate::bus_state::BusState;

    const NOW: Timestamp = Timestamp::from_unix(2_000_000);

    fn view() -> View {
        let mut view = View::new(Span::from_secs(3600));
        view.connected(true);
        view.take_pool(PoolState {
            pool: pool(1, 10, &["a"]),
            predictor: "constant".to_owned(),
        });
        view.take_trainers(TrainersState {
            version: 1,
            as_of: NOW,
            trainers: vec![],
            unusable: vec![],
            pilot_s: 0.0,
            followed: lacuna_model::Generation(0),
        });
        for service in SINGLE_ACTIVE {
            view.take_leader(service.to_owned(), leader(&[]));
        }
        view.watched.bus = Some(Ok(BusState {
            version: "2.12.3".to_owned(),
            most_connections: 100,
            stored: 1,
            room: 100,
            ..BusState::default()
        }));
        view.watched.alerts = Some(Ok(vec![]));
        view.take_totals(Totals::default());
        view
    }

    fn leader(failing: &[&str]) -> Leader {
        Leader {
            instance: "1".to_owned(),
            seat: "here".to_owned(),
            since: NOW,
            ttl_ms: 3_600_000,
            resigned: false,
            failing: failing.iter().map(ToString::to_string).collect(),
        }
    }

    fn harmed(waits_ms: &[i64], preemptions: u64, unconfirmed: u64, at: Timestamp) -> Answer {
        let mut taken = Harm::default();
        for ms in waits_ms {
            taken.give_back(Span::from_ms(*ms), at);
        }
        let mut totals = Totals {
            preemptions,
            unconfirmed,
            ..Totals::default()
        };
        if !waits_ms.is_empty() {
            totals.harm.insert("taken".to_owned(), taken);
        }
        harm(&totals, NOW)
    }

    #[test]
    fn harm_is_of_all_causes_and_never_blank_beside_preemptions() {
        let long_ago = NOW - RECENT - RECENT;
        for (answer, state, word) in [
            (harmed(&[], 0, 0, NOW), State::Good, "no"),
            (harmed(&[], 21, 0, NOW), State::Unknown, "not known"),
            (harmed(&[20, 500], 21, 0, NOW), State::Good, "no"),
            (harmed(&[20], 1, 1, NOW), State::Look, "perhaps"),
            (harmed(&[], 1, 1, NOW), State::Look, "perhaps"),
            (harmed(&[20, 501], 2, 0, NOW), State::Bad, "yes"),
            (
                harmed(&[20, 501], 2, 0, long_ago),
                State::Look,
                "not recently",
            ),
        ] {
            assert_eq!(
                (answer.state, answer.word.as_str()),
                (state, word),
                "{answer:?}"
            );
        }
        let text = harmed(&[20, 1300], 2, 0, NOW).text;
        assert!(
            text.starts_with("2 nodes given back after 0.66 s on average, 1.30 s at most; 1 took more than 0.50 s"),
            "{text}"
        );
    }

    #[test]
    fn a_check_that_has_not_held_yet_is_a_service_that_starts() {
        let health = lacuna_runtime::Health::default();
        let check = health.check("loop", None);
        let said = |failing: Vec<String>| {
            let leader = Leader {
                failing,
                ..leader(&[])
            };
            after(|view| view.take_leader("ingest".to_owned(), leader))
        };
        let starts = (State::Look, "ingest: starting.".to_owned());
        assert_eq!(said(health.failing()), starts);
        check.fail("no server");
        assert_eq!(said(health.failing()).0, State::Bad);
        check.ok();
        assert_eq!(said(health.failing()).0, State::Good);
    }

    /// The answer after one change of a cluster in which all is well.
    fn after(change: impl FnOnce(&mut View)) -> (State, String) {
        let mut view = view();
        change(&mut view);
        let answer = faults(&view);
        (answer.state, answer.text)
    }

    #[test]
    fn each_fault_is_named() {
        let well = after(|_| {});
        let text = "Services, bus, scheduler and agents are well, and no alert fires.";
        assert_eq!(well, (State::Good, text.to_owned()));
        let troubled = |kind| {
            move |view: &mut View| {
                view.take_totals(Totals {
                    troubled: vec![Troubled {
                        kind,
                        nodes: 9,
                        some: vec![node("n1"), node("n2")],
                    }],
                    ..Totals::default()
                });
            }
        };
        let take = |failing: &'static [&'static str]| {
            move |view: &mut View| view.take_leader("ingest".to_owned(), leader(failing))
        };
        let silent = |names: &'static [&'static str]| {
            move |view: &mut View| {
                for name in names {
                    let leader = Leader {
                        ttl_ms: 0,
                        ..leader(&[])
                    };
                    view.take_leader((*name).to_owned(), leader);
                }
            }
        };
        let bus = |stored, clients| {
            move |view: &mut View| {
                if let Some(Ok(state)) = &mut view.watched.bus {
                    state.stored = stored;
                    let key = ("agents".to_owned(), "agent".to_owned());
                    state.connections.insert(key, clients);
                }
            }
        };
        let fires = |wakes| {
            move |view: &mut View| {
                view.watched.alerts = Some(Ok(vec![Firing {
                    name: "LacunaMemory".to_owned(),
                    wakes,
                    summary: "c: much".to_owned(),
                }]));
            }
        };
        for ((state, text), wanted, said) in [
            (
                after(take(&["scheduler: sinfo fails"])),
                State::Bad,
                "ingest: scheduler: sinfo fails",
            ),
            (
                after(|view| {
                    view.leaders.remove("planner");
                }),
                State::Bad,
                "planner: no instance",
            ),
            (
                after(|view| view.connected(false)),
                State::Bad,
                "nats-server does not answer",
            ),
            (
                after(silent(&SINGLE_ACTIVE)),
                State::Bad,
                "its disk is full",
            ),
            (
                after(silent(&["planner"])),
                State::Bad,
                "planner: no instance has been active",
            ),
            (after(bus(85, 0)), State::Look, "85.0 % of its room"),
            (after(bus(96, 0)), State::Bad, "96.0 % of its room"),
            (after(bus(1, 81)), State::Look, "81 clients of 100"),
            (
                after(|view| view.watched.bus = Some(Err("refused".to_owned()))),
                State::Look,
                "bus: refused",
            ),
            (
                after(|view| view.watched.bus = None),
                State::Good,
                "Not watched: disk of the bus",
            ),
            (
                after(|view| view.watched.alerts = None),
                State::Good,
                "Not watched: alerts",
            ),
            (after(fires(false)), State::Look, "LacunaMemory fires"),
            (after(fires(true)), State::Bad, "LacunaMemory fires"),
            (
                after(troubled(TroubleKind::Quarantined)),
                State::Look,
                "nodes closed: 9 in quarantine (n1, n2, ...;",
            ),
            (
                after(troubled(TroubleKind::Silent)),
                State::Look,
                "agents: 9 silent",
            ),
            (
                after(troubled(TroubleKind::Overdue)),
                State::Bad,
                "not confirmed as given back",
            ),
            (after(troubled(TroubleKind::Left)), State::Good, "are well"),
        ] {
            assert_eq!(state, wanted, "{text}");
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    #[test]
    fn what_is_gained_has_its_beginning() {
        let mut view = view();
        view.take_totals(Totals {
            since: NOW - RECENT - RECENT,
            now: NOW,
            idle_node_s: 8e7,
            harvested_node_s: 4e7,
            ..Totals::default()
        });
        let gain = answers(&view, NOW).gain;
        assert_eq!(gain.word, "11,111 node-hours");
        assert!(
            gain.text.starts_with("Since 1970-01-22, 50.0 %"),
            "{}",
            gain.text
        );
        assert_eq!(
            (few(0.0), few(999.6)),
            ("0.00".to_owned(), "1,000".to_owned())
        );
    }
}
