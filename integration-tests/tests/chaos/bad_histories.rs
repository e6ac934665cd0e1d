//! The checker finds what is wrong in a history, and nothing in one that is sound.

use super::check::violations;
use super::history::{History, Observation};

fn history(said: Vec<Observation>) -> History {
    let number = |(at, mut said): (usize, Observation)| {
        if let Observation::Agent { word, .. } | Observation::Plan { word, .. } = &mut said {
            *word = u64::try_from(at).unwrap() + 1;
        }
        (f64::from(u32::try_from(at).unwrap()), said)
    };
    said.into_iter().enumerate().map(number).collect()
}

fn violations_in(said: Vec<Observation>) -> String {
    violations(&history(said)).join("; ")
}

fn trains(node: &str, epoch: u64, seq: u64, trainer: &str) -> Observation {
    Observation::Agent {
        agent: "a".to_owned(),
        word: 0,
        node: node.to_owned(),
        epoch,
        seq,
        runs: Some((trainer.to_owned(), seq)),
    }
}

fn free(node: &str, epoch: u64, seq: u64) -> Observation {
    Observation::Agent {
        agent: "a".to_owned(),
        word: 0,
        node: node.to_owned(),
        epoch,
        seq,
        runs: None,
    }
}

fn command(epoch: u64, trainer: &str) -> Observation {
    Observation::Command {
        node: "n".to_owned(),
        epoch,
        run: Some((trainer.to_owned(), 1, 0)),
    }
}

fn plan(generation: u64) -> Observation {
    Observation::Plan {
        sender: "p".to_owned(),
        word: 0,
        generation,
    }
}

fn lease(epoch: u64, trainer: &str) -> Observation {
    Observation::Lease {
        sender: "c".to_owned(),
        node: "n".to_owned(),
        epoch,
        trainer: Some(trainer.to_owned()),
        kept: 0,
    }
}

fn event(sender: &str, seq: u64, what: &str) -> Observation {
    Observation::Event {
        sender: sender.to_owned(),
        seq,
        what: what.to_owned(),
    }
}

fn snapshot(sender: &str, seq: u64) -> Observation {
    Observation::Snapshot {
        sender: sender.to_owned(),
        seq,
    }
}

fn lead(instance: &str, kept: i64) -> Observation {
    Observation::Lead {
        service: "control",
        instance: instance.to_owned(),
        kept,
    }
}

fn sent(sender: &str, sent: i64) -> Observation {
    Observation::Sent {
        sender: sender.to_owned(),
        sent,
    }
}

fn counted(run: u64, samples: f64) -> Observation {
    Observation::Trainer {
        trainer: "t".to_owned(),
        run,
        since: 0,
        samples,
    }
}

fn report(run: u64, samples: f64) -> Observation {
    Observation::Report {
        trainer: "t".to_owned(),
        run,
        until: 0,
        samples,
    }
}

#[test]
fn a_sound_history_is_passed() {
    let said = vec![
        Observation::Idle("n".to_owned()),
        snapshot("i", 0),
        event("i", 1, "idle n"),
        plan(5),
        lease(10, "t"),
        command(10, "t"),
        trains("n", 10, 1, "t"),
        report(1, 50.0),
        counted(1, 50.0),
        Observation::Wanted("n".to_owned(), 9.0),
        free("n", 10, 2),
        Observation::Busy("n".to_owned()),
        event("i", 2, "busy n"),
        // The same event twice, and from senders that were overtaken, of one the first event.
        event("i", 2, "busy n"),
        snapshot("h", 1_000_002),
        snapshot("j", 2_000_002),
        event("j", 2_000_003, "idle n"),
        event("i", 3, "idle m"),
        event("h", 1_000_003, "idle n"),
        event("j", 2_000_004, "busy n"),
        snapshot("j", 2_000_004),
        plan(5),
        plan(6),
        Observation::Idle("n".to_owned()),
        lease(12, "u"),
        trains("n", 12, 1, "u"),
    ];
    assert_eq!(violations_in(said), "");
}

#[test]
fn two_owners_under_one_epoch_are_found() {
    let twice = violations_in(vec![command(10, "t"), command(10, "u")]);
    assert!(twice.contains("belongs to t and to u"), "{twice}");
    let other = violations_in(vec![lease(10, "t"), trains("n", 10, 1, "u")]);
    assert!(other.contains("belongs to t and to u"), "{other}");
}

#[test]
fn a_node_that_is_handed_over_before_it_is_free_is_found() {
    let mut said = vec![lease(10, "t"), trains("n", 10, 1, "t"), lease(12, "u")];
    said.extend((0..8).map(|_| trains("n", 10, 1, "t")));
    let both = violations_in(said.clone());
    assert!(
        both.contains("n trains t, and is u's since 2.0 s"),
        "{both}"
    );
    // The lease says that the node is free, and its agent never gives it back.
    let mut kept = said.clone();
    if let Some(Observation::Lease { trainer, .. }) = kept.get_mut(2) {
        *trainer = None;
    }
    assert_eq!(violations_in(kept.clone()), "");
    kept.extend((0..25).map(|_| trains("n", 10, 1, "t")));
    let kept = violations_in(kept);
    assert!(
        kept.contains("n trains t, and is free since 2.0 s"),
        "{kept}"
    );
    // One report that was on its way.
    said.truncate(4);
    said.extend([free("n", 10, 2), trains("n", 12, 1, "u")]);
    assert_eq!(violations_in(said), "");
}

#[test]
fn a_lease_that_a_former_control_writes_is_found() {
    let by = |control: &str, epoch| {
        let mut said = lease(epoch, "t");
        if let Observation::Lease { sender, .. } = &mut said {
            control.clone_into(sender);
        }
        said
    };
    let late = violations_in(vec![by("c", 10), by("d", 11), by("d", 12), by("c", 13)]);
    assert!(
        late.contains("a former control writes the lease of n again"),
        "{late}"
    );
    assert_eq!(
        violations_in(vec![by("c", 10), by("c", 11), by("d", 12)]),
        ""
    );
}

#[test]
fn a_former_leader_that_still_sends_is_found() {
    let taken = [lead("c", 10), lead("d", 50), lead("d", 70)];
    let after = |more: Observation| violations_in([taken.to_vec(), vec![more]].concat());
    assert_eq!(after(sent("c", 50)), "", "heard late, and sent before");
    let late = after(sent("c", 51));
    assert!(
        late.contains("control c still sends, 1 ms after d leads"),
        "{late}"
    );
    assert_eq!(after(sent("d", 99)), "");
    // The server has lost the lead of d, and c goes on.
    let lost = [taken.to_vec(), vec![lead("c", 80), sent("c", 81)]].concat();
    assert_eq!(violations_in(lost), "");
    let by_hand = Observation::Usurped("c".to_owned());
    let usurped = [vec![by_hand], taken.to_vec(), vec![sent("c", 60)]].concat();
    assert_eq!(violations_in(usurped), "");
}

#[test]
fn a_leader_that_overlooks_a_lease_of_another_is_found() {
    let renews = |epoch, sent| Observation::Renewal {
        sender: "d".to_owned(),
        sent,
        leases: vec![("n".to_owned(), epoch)],
    };
    assert_eq!(
        violations_in(vec![lease(12, "t"), renews(11, 5000), renews(12, 6000)]),
        ""
    );
    let overlooked = violations_in(vec![lease(12, "t"), renews(11, 5001)]);
    assert!(
        overlooked.contains("d renews lease 11 of n, 5001 ms after c wrote 12"),
        "{overlooked}"
    );
}

#[test]
fn an_incarnation_that_begins_twice_is_found() {
    let mut again = command(10, "t");
    if let Observation::Command { run, .. } = &mut again {
        *run = Some(("t".to_owned(), 1, 5));
    }
    let twice = violations_in(vec![command(10, "t"), again]);
    assert!(
        twice.contains("t: run 1 begins at 0 ms and at 5 ms"),
        "{twice}"
    );
}

#[test]
fn an_older_command_that_was_obeyed_is_found() {
    let back = violations_in(vec![trains("n", 12, 1, "t"), trains("n", 10, 1, "u")]);
    assert!(back.contains("older command"), "{back}");
    assert!(back.contains("under epoch 10, after t"), "{back}");
    let seq = violations_in(vec![free("n", 12, 4), free("n", 12, 3)]);
    assert!(seq.contains("older command"), "{seq}");
    // By another process of the agent, which does not know the commands that the first obeyed.
    let mut again = trains("n", 10, 1, "u");
    if let Observation::Agent { agent, .. } = &mut again {
        "b".clone_into(agent);
    }
    let back = violations_in(vec![trains("n", 12, 1, "t"), again]);
    assert!(back.contains("under epoch 10, after t"), "{back}");
}

#[test]
fn a_wanted_node_that_trains_too_long_is_found() {
    let said = vec![
        trains("n", 10, 1, "t"),
        Observation::Wanted("n".to_owned(), 2.5),
        trains("n", 10, 1, "t"),
        trains("n", 10, 1, "t"),
    ];
    let late = violations_in(said);
    assert!(late.contains("n still trains t, 0.5 s too long"), "{late}");
    let never = violations_in(vec![
        trains("n", 10, 1, "t"),
        Observation::Wanted("n".to_owned(), 2.5),
        Observation::Busy("n".to_owned()),
    ]);
    assert!(never.contains("never reported"), "{never}");
}

#[test]
fn plans_leases_and_events_that_go_back_are_found() {
    let plans = violations_in(vec![plan(6), plan(5)]);
    assert!(plans.contains("plan 5 came after plan 6"), "{plans}");
    let leases = violations_in(vec![lease(12, "t"), Observation::Emptied, lease(11, "t")]);
    assert!(leases.contains("epoch 11 after 12"), "{leases}");
    let events = violations_in(vec![event("i", 5, "idle n"), event("j", 5, "busy m")]);
    assert!(events.contains("event 5 is"), "{events}");
    let begin = violations_in(vec![event("i", 5, "idle n"), snapshot("j", 5)]);
    assert!(begin.contains("begins with number 5 after 5"), "{begin}");
    let early = violations_in(vec![snapshot("i", 3), snapshot("j", 2)]);
    assert!(early.contains("begins with number 2 after 3"), "{early}");
    let taken = [snapshot("i", 1), snapshot("j", 4), event("i", 4, "idle n")];
    let beaten = violations_in(taken.to_vec());
    assert!(
        beaten.contains("of a sender that 4 has overtaken"),
        "{beaten}"
    );
}

#[test]
fn samples_counted_twice_or_taken_back_are_found() {
    let twice = violations_in(vec![report(1, 50.0), report(2, 30.0), counted(2, 130.0)]);
    assert!(twice.contains("130 samples counted, 80"), "{twice}");
    let back = violations_in(vec![report(1, 50.0), counted(1, 50.0), counted(2, 40.0)]);
    assert!(back.contains("40 samples after 50"), "{back}");
    let lost = [10.0, 20.0, 30.0].map(|samples| report(1, samples));
    let lost = violations_in(lost.into_iter().chain([counted(1, 10.0)]).collect());
    assert!(lost.contains("10 samples counted, at least 20"), "{lost}");
    let runs = violations_in(vec![report(2, 50.0), counted(2, 50.0), counted(1, 50.0)]);
    assert!(runs.contains("run 1 after run 2"), "{runs}");
}
