//! Requests to control, its replies, and its records of them.

use super::*;

pub(crate) fn requests() -> Vec<Request> {
    vec![
        Request::Submit {
            trainers: vec![spec()],
            tickets: std::collections::BTreeMap::new(),
            test_only: true,
        },
        Request::Cancel {
            trainer: trainer("t"),
        },
        Request::Trainers { all: true },
        Request::Page {
            of: Kept::Archive,
            from: 7,
        },
        Request::Trainer {
            trainer: trainer("t"),
        },
        Request::Nodes,
        Request::Logs {
            trainer: trainer("t"),
            lines: 20,
            after: None,
            since: None,
            is_raw: false,
        },
        Request::Totals,
        Request::Controls,
        Request::Change {
            changes: vec![
                ControlsChange::Pause {
                    limit: UseLimit::AtMost { nodes: 3 },
                    until: Some(at(9)),
                    reason: "power".to_owned(),
                },
                ControlsChange::Resume,
                ControlsChange::Drain {
                    nodes: vec![node("a.1")],
                    reason: "fan".to_owned(),
                },
                ControlsChange::Undrain {
                    nodes: vec![node("a.1")],
                },
                ControlsChange::Only {
                    patterns: vec!["a[01-16]*".to_owned()],
                },
                ControlsChange::Avoid { patterns: vec![] },
                ControlsChange::MaxNodes { nodes: None },
                ControlsChange::SetWindow(window()),
                ControlsChange::RemoveWindow {
                    name: "day".to_owned(),
                },
            ],
        },
        Request::Submit {
            trainers: vec![spec()],
            test_only: false,
            tickets: [(trainer("t"), "7b7d".to_owned())].into(),
        },
        Request::Renew {
            trainer: trainer("t"),
            ticket: "00".to_owned(),
        },
        Request::Logs {
            trainer: trainer("t"),
            lines: 20,
            after: None,
            since: Some(at(9)),
            is_raw: true,
        },
        Request::Submit {
            trainers: vec![lacuna_model::TrainerSpec {
                launch: of_a_directory(),
                ..spec()
            }],
            test_only: false,
            tickets: std::collections::BTreeMap::new(),
        },
        Request::TotalsAt { at: at(7) },
    ]
}

/// A program with a directory and files of variables.
fn of_a_directory() -> Launch {
    Launch::Command(Program {
        program: "/run/train.py".to_owned(),
        directory: lacuna_model::Directory::Preferred("/run".to_owned()),
        environment_from: vec!["/run/secrets.env".to_owned()],
        ..Program::default()
    })
}

fn window() -> UseWindow {
    UseWindow {
        name: "day".to_owned(),
        days: vec!["mon".to_owned()],
        from: "08:00".to_owned(),
        to: "18:00".to_owned(),
        zone: Some("Europe/Berlin".to_owned()),
        limit: UseLimit::NoGrowth,
    }
}

pub(crate) fn controls() -> Controls {
    Controls {
        version: 4,
        pause: Some(Pause {
            limit: UseLimit::Nothing,
            until: None,
            by: "op".to_owned(),
            since: at(7),
            reason: String::new(),
        }),
        drained: BTreeMap::from([(
            node("a.1"),
            Drain {
                by: "op".to_owned(),
                since: at(7),
                reason: "fan".to_owned(),
            },
        )]),
        only: vec!["a*".to_owned()],
        avoid: vec!["b*".to_owned()],
        max_nodes: Some(12),
        keep_idle: None,
        windows: vec![window()],
        pilots_stopped: None,
    }
}

pub(crate) fn observed() -> ObservedHour {
    ObservedHour {
        start: at(3600),
        watched_s: 1.0,
        idle_node_s: 2.0,
        planned_node_s: 3.0,
        harvested_node_s: 4.5,
        restart_node_s: 5.5,
        restarts: 6,
        holes: 5,
        pilots: 6,
        wanted: 7,
        moments: 8,
        delay_s: 9.0,
        most_idle: 10,
        most_planned: 11,
    }
}

pub(crate) fn totals() -> Totals {
    Totals {
        since: at(1),
        now: at(2),
        idle_node_s: 3.0,
        harvested_node_s: 4.0,
        samples: 5.0,
        active: 6,
        ..Totals::default()
    }
}

pub(crate) fn owned() -> Totals {
    let had = OwnerUse {
        trainers: 3,
        done: 2,
        node_s: 1.5,
        samples: 4.5,
    };
    Totals {
        owners: BTreeMap::from([("ada".to_owned(), had)]),
        ..totals()
    }
}

pub(crate) fn harmed() -> Totals {
    let harm = Harm {
        given_back: 7,
        late: 1,
        seconds: 2.5,
        longest_s: 0.75,
        last_late: Some(at(6)),
    };
    Totals {
        harm: BTreeMap::from([("taken".to_owned(), harm)]),
        unconfirmed: 8,
        troubled: vec![Troubled {
            kind: TroubleKind::Silent,
            nodes: 9,
            some: vec![node("n1")],
        }],
        ..totals()
    }
}

pub(crate) fn past_sums() -> Past {
    let mut attained = Attained::default();
    attained.add(12.0, at(9));
    Past {
        trainers: 3,
        moved: vec![trainer("t")],
        order: 4,
        done: 2,
        samples: 5.0,
        rescale_cost: 6.0,
        preempt_cost: 7.0,
        restart_cost: 8.0,
        preemptions: 9,
        rescales: 10,
        node_s: 11.0,
        weighed: 0.5,
        kinds: vec![PastKind {
            min_nodes: 1,
            max_nodes: 4,
            throughput: spec().throughput,
            trainers: 2,
        }],
        unknown: Some(Efficiency::CurveAssumed),
        attained: BTreeMap::from([("ann".to_owned(), attained)]),
        ..Past::default()
    }
}

pub(crate) fn replies() -> Vec<Reply> {
    vec![
        Reply::Accepted {
            trainers: vec![trainer("t")],
        },
        Reply::Refused {
            code: "L0007".to_owned(),
            reason: "no".to_owned(),
        },
        Reply::Trainers {
            now: at(9),
            trainers: vec![record()],
        },
        Reply::Page {
            now: at(9),
            trainers: vec![record()],
            next: Some(8),
        },
        Reply::Trainer {
            now: at(9),
            trainer: Box::new(record()),
            kept: Kept::Archive,
        },
        Reply::Nodes {
            now: at(9),
            nodes: vec![NodeView {
                node: node("a.1"),
                idle_since: Some(at(3)),
                trainer: Some(trainer("t")),
                epoch: Epoch(8),
                activity: Some(Activity::Free),
                silent_s: Some(1.5),
                trouble: None,
                is_down: false,
            }],
        },
        Reply::Logs {
            lines: vec!["step 1".to_owned()],
            upto: None,
        },
        Reply::Totals(totals()),
        Reply::Controls(controls()),
    ]
}
