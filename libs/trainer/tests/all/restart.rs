//! An agent that starts and finds a command from before.

use lacuna_model::{Activity, Command, Epoch, Span, Work};
use lacuna_trainer::agent::{Agent, Effect};

use crate::common::{World, config, node, spec};

/// A world in which the command to run has been sent to node 0, and its agent never got it.
fn world() -> (World, Command) {
    let mut w = World::new(1, 1, config());
    w.submit("", vec![spec("a", 1, 4, Work::UntilExit)]);
    w.snapshot();
    w.open(0);
    w.planned(&[("a", &[0])]);
    w.mail.clear();
    let command = w.commands[&node(0)].clone();
    (w, command)
}

fn running(agent: &Agent) -> bool {
    matches!(agent.status().activity, Activity::Running { .. })
}

#[test]
fn a_run_found_at_the_start_waits_for_a_renewal_of_its_epoch() {
    let (w, command) = world();
    let mut agent = Agent::new(node(0), Span::from_secs(60));
    let effects = agent.hold(command.clone(), w.now);
    assert_eq!(effects, [Effect::Report(agent.status())]);
    assert_eq!(agent.status().epoch, Epoch(0), "nothing was obeyed yet");
    assert!(agent.renewed(Epoch(command.epoch.0 + 1), w.now).is_empty());
    assert!(agent.tick(w.now).is_empty() && !running(&agent));
    let effects = agent.renewed(command.epoch, w.now);
    assert!(matches!(effects.first(), Some(Effect::Start(_))));
    assert!(running(&agent));
    assert!(agent.renewed(command.epoch, w.now).is_empty(), "begun once");
    assert!(
        agent.tick(w.now).is_empty(),
        "the lease timeout counts from now"
    );
}

#[test]
fn a_run_found_at_the_start_is_obeyed_when_it_comes_again_and_forgotten_for_a_newer_command() {
    let (w, command) = world();
    let mut agent = Agent::new(node(0), Span::from_secs(60));
    let _ = agent.hold(command.clone(), w.now);
    let effects = agent.command(command.clone(), w.now);
    assert!(matches!(effects.first(), Some(Effect::Start(_))));

    let mut agent = Agent::new(node(0), Span::from_secs(60));
    let _ = agent.hold(command.clone(), w.now);
    let release = Command {
        seq: command.seq + 1,
        action: lacuna_model::Action::Release {
            reason: "no more".to_owned(),
            at: None,
        },
        ..command.clone()
    };
    let _ = agent.command(release, w.now);
    assert!(agent.renewed(command.epoch, w.now).is_empty());
    assert!(!running(&agent));
}

#[test]
fn an_agent_killed_before_it_obeyed_starts_without_a_cost_to_the_trainer() {
    let (mut w, _) = world();
    w.crash_agent(&node(0));
    assert!(w.programs.is_empty());
    w.renew();
    w.deliver(usize::MAX);
    assert_eq!(w.programs.len(), 1);
    let run = w.programs[&node(0)].run;
    // Killed while it trains, the same run is not begun a second time.
    w.crash_agent(&node(0));
    w.renew();
    assert!(w.programs.is_empty());
    w.quiesce();
    assert!(w.programs[&node(0)].run > run);
}

#[test]
fn an_agent_obeys_a_command_that_seems_older_than_its_start() {
    // An emptied server numbers its messages again from the beginning.
    let (w, command) = world();
    let mut agent = Agent::new(node(0), Span::from_secs(60));
    let _ = agent.command(command.clone(), w.now);
    assert!(running(&agent));
    let mut next = command.clone();
    next.epoch = Epoch(command.epoch.0 + 1);
    if let lacuna_model::Action::Run(run) = &mut next.action {
        run.trainer = "b".parse().unwrap();
    }
    for recovered in [true, false] {
        let mut agent = agent.clone();
        let effects = match recovered {
            true => agent.recover(&next, w.now),
            false => agent.hold(next.clone(), w.now),
        };
        assert!(
            matches!(effects.first(), Some(Effect::Stop { .. })),
            "{effects:?}"
        );
        let status = agent.status();
        assert_eq!(
            status.epoch, command.epoch,
            "the old one runs until it is stopped"
        );
    }
}

#[test]
fn an_epoch_has_one_trainer() {
    let (w, command) = world();
    let mut other = command.clone();
    other.seq += 1;
    if let lacuna_model::Action::Run(run) = &mut other.action {
        run.trainer = "b".parse().unwrap();
    }
    let mut agent = Agent::new(node(0), Span::from_secs(60));
    let _ = agent.command(command.clone(), w.now);
    let effects = agent.command(other.clone(), w.now);
    assert!(
        matches!(effects.first(), Some(Effect::Contradicted { epoch, .. }) if *epoch == command.epoch),
        "{effects:?}"
    );
    assert!(running(&agent));
    assert_eq!(agent.status().seq, command.seq, "it was not obeyed");
    // An agent that has only read the command refuses it too.
    let mut agent = Agent::new(node(0), Span::from_secs(60));
    let _ = agent.recover(&command, w.now);
    let effects = agent.command(other, w.now);
    assert!(matches!(effects.first(), Some(Effect::Contradicted { .. })));
    assert!(!running(&agent));
}

/// Another process watches the lease timeout too. The first stop of the program gives the node
/// back, and a later renewal does not undo it.
#[test]
fn a_program_that_was_stopped_from_outside_gives_its_node_back() {
    let (w, command) = world();
    let mut agent = Agent::new(node(0), Span::from_secs(60));
    assert_eq!(agent.due(), None);
    let effects = agent.command(command.clone(), w.now);
    assert!(matches!(effects.first(), Some(Effect::Start(_))));
    assert_eq!(agent.due(), Some(w.now.wall + Span::from_secs(60)));
    let run = agent.running().unwrap().run;
    let _ = agent.renewed(command.epoch, w.now);
    let effects = agent.stopped(run);
    assert_eq!(effects, [Effect::Report(agent.status())]);
    let status = agent.status();
    assert_eq!(status.activity, Activity::Free);
    assert_eq!(status.released.as_deref(), Some("lease timeout"));
    assert_eq!(agent.due(), None);
    assert!(agent.stopped(run).is_empty(), "reported twice");
}
