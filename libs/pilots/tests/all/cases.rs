//! One test for each known fault of similar systems.

use std::collections::BTreeMap;

use lacuna_model::{KindName, NodeId, NodeKinds, Span, Timestamp};
use lacuna_pilots::keeper::{
    Cause, Effect, Input, Keeper, Mode, Note, OfKind, Offer, Refusal, Settings, Ticket, Wants,
};
use lacuna_scheduler::job::{End, JobId, JobStage, Listed};

use crate::world::{name, settings, wants};

/// A keeper with its own clock, and its effects.
struct Case {
    keeper: Keeper,
    s: i64,
    /// Whether a list has arrived.
    known: bool,
    effects: Vec<Effect>,
}

impl Case {
    /// One idle node and an empty list.
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        let keeper = Keeper::new(settings, Mode::On, Timestamp::from_unix(1000));
        let mut case = Self {
            keeper,
            s: 1000,
            known: false,
            effects: Vec::new(),
        };
        case.tell(Input::Demand(wants(100)));
        case.pool(&[1]);
        case
    }

    fn tell(&mut self, input: Input) {
        let now = Timestamp::from_unix(self.s);
        self.effects.extend(self.keeper.step(input, now));
    }

    fn pool(&mut self, nodes: &[usize]) {
        let offers = nodes.iter().map(|&n| Offer {
            node: name(n),
            limit: Span::from_secs(600),
        });
        self.tell(Input::Pool(offers.collect()));
    }

    fn list(&mut self, jobs: &[(&str, &str, usize, JobStage)]) {
        let jobs = jobs.iter().map(|&(job, submitted, node, stage)| Listed {
            job: id(job),
            submitted: submitted.to_owned(),
            user: "train".to_owned(),
            name: "lacuna-pilot".to_owned(),
            mark: "lacuna:c".to_owned(),
            node: Some(name(node)),
            stage,
        });
        let asked = Timestamp::from_unix(self.s);
        let jobs: Vec<Listed> = jobs.collect();
        if !self.known {
            // The first list alone does not suffice.
            self.known = true;
            let jobs = jobs.clone();
            self.tell(Input::Listing { asked, jobs });
        }
        self.tell(Input::Listing { asked, jobs });
    }

    /// Time passes with a fresh pool.
    fn wait(&mut self, seconds: i64, pool: &[usize]) {
        for _ in 0..seconds {
            self.s += 1;
            self.pool(pool);
            self.tell(Input::Timer);
        }
    }

    fn speak(&mut self, node: usize, leaving: bool) {
        let node = name(node);
        let free = false;
        self.tell(Input::Agent {
            node,
            leaving,
            free,
            serves: None,
        });
    }

    /// Submissions since the call before.
    fn submitted(&mut self) -> Vec<(Ticket, NodeId)> {
        let all = std::mem::take(&mut self.effects);
        let submissions = all.iter().filter_map(|e| match e {
            Effect::Submit { ticket, node, .. } => Some((*ticket, node.clone())),
            _ => None,
        });
        let found = submissions.collect();
        self.effects = all;
        self.effects.retain(|e| !matches!(e, Effect::Submit { .. }));
        found
    }

    fn cancelled(&self) -> Vec<(String, bool)> {
        let cancels = self.effects.iter().filter_map(|e| match e {
            Effect::Cancel { jobs, pending_only } => Some((jobs, *pending_only)),
            _ => None,
        });
        cancels
            .flat_map(|(jobs, p)| jobs.iter().map(move |j| (j.to_string(), p)))
            .collect()
    }

    fn failures(&self) -> usize {
        let failed = |e: &&Effect| matches!(e, Effect::Note(Note::Failed { .. }));
        self.effects.iter().filter(failed).count()
    }

    /// A pilot with this job id runs on node 1.
    fn running(&mut self, job: &str) {
        self.list(&[]);
        self.wait(1, &[1]);
        let (ticket, _) = self.submitted()[0].clone();
        let outcome = Ok(id(job));
        self.tell(Input::Submitted { ticket, outcome });
        self.speak(1, false);
        self.s += 1;
        self.list(&[(job, "t1", 1, JobStage::Running)]);
    }
}

fn id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

#[test]
fn nothing_is_submitted_before_two_lists() {
    let mut case = Case::new();
    case.wait(10, &[1]);
    assert_eq!(case.submitted(), []);
    let asked = Timestamp::from_unix(case.s);
    let jobs = Vec::new();
    case.tell(Input::Listing { asked, jobs });
    case.wait(2, &[1]);
    assert_eq!(case.submitted(), []);
    case.list(&[]);
    case.wait(1, &[1]);
    assert_eq!(case.submitted().len(), 1);
}

#[test]
fn a_pilot_that_runs_already_is_adopted() {
    let mut case = Case::new();
    case.list(&[("7", "t1", 1, JobStage::Running)]);
    case.wait(20, &[1]);
    assert_eq!(case.submitted(), []);
    let node = name(1);
    let adopted = Effect::Note(Note::Adopted { node, job: id("7") });
    assert!(case.effects.contains(&adopted), "{:?}", case.effects);
    assert_eq!(case.cancelled(), []);
}

#[test]
fn the_end_of_an_earlier_job_with_the_same_id_ends_no_pilot() {
    let mut case = Case::new();
    case.running("7");
    case.s += 60;
    case.speak(1, false);
    case.list(&[("7", "t0", 1, JobStage::Ended(End::Completed))]);
    case.wait(30, &[1]);
    // One list lacked our pilot, but its agent reports: the pilot is not gone.
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 1);
    assert_eq!(case.submitted(), []);
}

#[test]
fn a_requeued_pilot_is_a_successor_and_is_cancelled_while_it_waits() {
    let mut case = Case::new();
    case.running("7");
    case.speak(1, true);
    case.wait(30, &[1]);
    case.list(&[("7", "t2", 1, JobStage::Pending)]);
    case.wait(6, &[1]);
    case.list(&[("7", "t2", 1, JobStage::Pending)]);
    assert_eq!(case.cancelled(), [("7".to_owned(), true)]);
    assert_eq!(case.submitted(), []);
}

#[test]
fn a_completing_pilot_still_has_its_node() {
    let mut case = Case::new();
    case.running("7");
    case.speak(1, true);
    for _ in 0..4 {
        case.wait(20, &[1]);
        case.list(&[("7", "t1", 1, JobStage::Ending)]);
    }
    assert_eq!(case.submitted(), []);
    case.list(&[("7", "t1", 1, JobStage::Ended(End::Preempted))]);
    case.wait(20, &[1]);
    assert_eq!(case.submitted().len(), 1);
}

#[test]
fn of_a_pilot_that_is_over_the_agent_is_named_until_it_leaves() {
    let seventh = |stage| vec![("7", "t1", 1, stage)];
    let failed = seventh(JobStage::Ended(End::NodeFailed));
    // A node that the scheduler has forgotten, with its job or without.
    for gone in [vec![], failed] {
        let mut case = Case::new();
        case.running("7");
        let mut named_after = |jobs: &[(&str, &str, usize, JobStage)], leaving| {
            for _ in 0..6 {
                // It is in no pool, so that its record is kept for the agent alone.
                case.wait(12, &[]);
                case.speak(1, leaving);
                case.list(jobs);
            }
            let forgotten = case.keeper.forgotten(Timestamp::from_unix(case.s));
            let named = forgotten.into_iter();
            named
                .map(|(node, job)| (node, job.to_string()))
                .collect::<Vec<_>>()
        };
        assert_eq!(named_after(&seventh(JobStage::Running), false), []);
        assert_eq!(named_after(&gone, false), [(name(1), "7".to_owned())]);
        assert_eq!(named_after(&gone, true), []);
    }
}

#[test]
fn the_id_of_a_present_pilot_is_not_that_of_a_forgotten_one() {
    let mut case = Case::new();
    case.running("7");
    // The scheduler has lost its state, and counts jobs from the beginning.
    for present in ["8", "7"] {
        for _ in 0..6 {
            case.wait(12, &[]);
            case.speak(1, false);
            case.speak(2, false);
            case.list(&[(present, "t2", 2, JobStage::Running)]);
        }
        let forgotten = case.keeper.forgotten(Timestamp::from_unix(case.s));
        assert_eq!(forgotten.contains_key(&name(1)), present == "8");
    }
}

#[test]
fn absent_from_one_list_is_not_gone() {
    let mut case = Case::new();
    case.running("7");
    case.s += 30;
    case.list(&[]);
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 1);
    case.s += 5;
    // Two lists lack it, but within a short time.
    case.list(&[]);
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 1);
    case.s += 30;
    case.list(&[]);
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 0);
}

#[test]
fn a_list_requested_before_the_submission_does_not_end_its_pilot() {
    let mut case = Case::new();
    case.list(&[]);
    let asked = Timestamp::from_unix(case.s);
    case.wait(1, &[1]);
    let (ticket, _) = case.submitted()[0].clone();
    let outcome = Ok(id("7"));
    case.tell(Input::Submitted { ticket, outcome });
    for _ in 0..5 {
        case.s += 30;
        case.speak(1, false);
        let jobs = Vec::new();
        case.tell(Input::Listing { asked, jobs });
    }
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 1);
}

#[test]
fn being_preempted_is_no_failure_however_often() {
    let mut case = Case::new();
    case.running("1");
    for n in 2..12 {
        case.speak(1, true);
        case.s += 1;
        case.list(&[(
            &(n - 1).to_string(),
            "t1",
            1,
            JobStage::Ended(End::Preempted),
        )]);
        case.wait(30, &[]);
        case.wait(1, &[1]);
        let submissions = case.submitted();
        assert_eq!(submissions.len(), 1, "after {n} preemptions");
        let (ticket, outcome) = (submissions[0].0, Ok(id(&n.to_string())));
        case.tell(Input::Submitted { ticket, outcome });
        // Preempted before the first report of its agent.
        case.s += 1;
        if n % 2 == 0 {
            case.speak(1, false);
        }
    }
    assert_eq!(case.failures(), 0);
}

#[test]
fn pilots_that_fail_early_put_their_node_into_quarantine() {
    let mut case = Case::new();
    case.list(&[]);
    let mut waits = Vec::new();
    for n in 0..3 {
        let before = case.s;
        let submission = loop {
            case.wait(1, &[1]);
            case.list(&[]);
            if let Some(found) = case.submitted().first().cloned() {
                break found;
            }
            assert!(case.s - before < 100, "no further submission");
        };
        waits.push(case.s - before);
        let job = n.to_string();
        let (ticket, outcome) = (submission.0, Ok(id(&job)));
        case.tell(Input::Submitted { ticket, outcome });
        case.s += 1;
        case.list(&[(&job, "t", 1, JobStage::Ended(End::Failed))]);
    }
    assert!(waits[1] < waits[2], "{waits:?}");
    let now = Timestamp::from_unix(case.s);
    assert_eq!(case.keeper.counts(now).quarantined, 1);
    case.wait(1000, &[1]);
    assert_eq!(case.submitted(), []);
}

#[test]
fn one_bad_node_does_not_stop_submissions_to_others() {
    let mut case = Case::new();
    case.list(&[]);
    let mut good = 0;
    for n in 0..400 {
        case.wait(1, &[1, 2, 3, 4]);
        case.list(&[]);
        for (ticket, node) in case.submitted() {
            let outcome = if node == name(1) {
                let text = "something odd".to_owned();
                let cause = Cause::Unclear;
                Err(Refusal { cause, text })
            } else {
                good += 1;
                Ok(id(&n.to_string()))
            };
            case.tell(Input::Submitted { ticket, outcome });
            if node != name(1) {
                case.tell(Input::Agent {
                    node,
                    leaving: false,
                    free: false,
                    serves: None,
                });
            }
        }
        if good >= 3 {
            return;
        }
    }
    panic!("only {good} pilots on three good nodes");
}

#[test]
fn a_denied_account_pauses_all_submissions_and_one_pilot_probes() {
    let mut case = Case::new();
    case.list(&[]);
    case.wait(1, &[1, 2, 3, 4]);
    let first = case.submitted();
    assert_eq!(first.len(), 4);
    for (ticket, _) in first {
        let text = "invalid account".to_owned();
        let cause = Cause::Denied;
        let outcome = Err(Refusal { cause, text });
        case.tell(Input::Submitted { ticket, outcome });
    }
    case.wait(9, &[1, 2, 3, 4]);
    assert_eq!(case.submitted(), []);
    case.wait(2, &[1, 2, 3, 4]);
    assert_eq!(case.submitted().len(), 1);
}

#[test]
fn a_submission_of_unknown_outcome_holds_its_node_until_lists_decide() {
    let mut case = Case::new();
    case.list(&[]);
    case.wait(1, &[1]);
    let (ticket, _) = case.submitted()[0].clone();
    let text = "timed out".to_owned();
    let cause = Cause::Unreachable;
    let outcome = Err(Refusal { cause, text });
    case.tell(Input::Submitted { ticket, outcome });
    case.wait(15, &[1]);
    assert_eq!(case.submitted(), []);
    // A later list contains the pilot.
    case.list(&[("9", "t", 1, JobStage::Running)]);
    case.speak(1, false);
    case.wait(60, &[1]);
    assert_eq!(case.submitted(), []);
    assert_eq!(case.keeper.counts(Timestamp::from_unix(case.s)).running, 1);
}

#[test]
fn a_waiting_pilot_is_cancelled_after_a_few_seconds_and_the_node_rests() {
    let mut case = Case::new();
    case.list(&[]);
    case.wait(1, &[1]);
    let (ticket, _) = case.submitted()[0].clone();
    let outcome = Ok(id("7"));
    case.tell(Input::Submitted { ticket, outcome });
    case.wait(2, &[1]);
    case.list(&[("7", "t", 1, JobStage::Pending)]);
    assert_eq!(case.cancelled(), []);
    case.wait(4, &[1]);
    case.list(&[("7", "t", 1, JobStage::Pending)]);
    assert_eq!(case.cancelled(), [("7".to_owned(), true)]);
    case.s += 1;
    case.list(&[("7", "t", 1, JobStage::Ended(End::Cancelled))]);
    assert_eq!(case.failures(), 0);
    case.wait(5, &[1]);
    assert_eq!(case.submitted(), []);
}

#[test]
fn of_two_pilots_on_a_node_the_waiting_one_is_cancelled() {
    let mut case = Case::new();
    let both = [
        ("7", "t1", 1, JobStage::Pending),
        ("8", "t2", 1, JobStage::Running),
    ];
    case.list(&both);
    assert_eq!(case.cancelled(), [("7".to_owned(), false)]);
}

#[test]
fn a_job_of_the_same_name_with_another_mark_is_left_alone() {
    let mut case = Case::new();
    let job = Listed {
        job: id("7"),
        submitted: "t".to_owned(),
        user: "train".to_owned(),
        name: "lacuna-pilot".to_owned(),
        mark: "lacuna:other".to_owned(),
        node: Some(name(2)),
        stage: JobStage::Pending,
    };
    for _ in 0..10 {
        case.wait(10, &[]);
        let asked = Timestamp::from_unix(case.s);
        let jobs = vec![job.clone()];
        case.tell(Input::Listing { asked, jobs });
    }
    case.tell(Input::Mode(Mode::Off));
    case.wait(10, &[]);
    assert_eq!(case.cancelled(), []);
}

#[test]
fn without_on_all_pilots_are_cancelled() {
    for mode in [Mode::Off, Mode::Observe] {
        let mut case = Case::new();
        case.tell(Input::Mode(mode));
        case.list(&[
            ("7", "t1", 1, JobStage::Pending),
            ("8", "t2", 2, JobStage::Running),
        ]);
        case.speak(2, false);
        case.wait(3, &[1, 2]);
        let mut gone: Vec<String> = case.cancelled().into_iter().map(|c| c.0).collect();
        gone.sort();
        gone.dedup();
        assert_eq!(gone, ["7", "8"], "{mode:?}");
        assert_eq!(case.submitted(), []);
    }
}

#[test]
fn pilots_without_an_agent_or_out_of_the_pool_are_cancelled() {
    let mut case = Case::new();
    case.list(&[
        ("7", "t1", 1, JobStage::Running),
        ("8", "t2", 2, JobStage::Running),
    ]);
    for _ in 0..14 {
        case.wait(5, &[1]);
        case.speak(2, false);
    }
    let gone: Vec<String> = case.cancelled().into_iter().map(|c| c.0).collect();
    assert!(gone.contains(&"7".to_owned()), "{gone:?}");
    assert!(gone.contains(&"8".to_owned()), "{gone:?}");
    // A node that a batch job or an operator took has no failure.
    assert_eq!(case.failures(), 1);
}

#[test]
fn without_the_bus_no_agent_counts_as_silent() {
    let mut case = Case::new();
    case.running("7");
    case.tell(Input::Link(false));
    for _ in 0..20 {
        case.wait(30, &[1]);
        case.list(&[("7", "t1", 1, JobStage::Running)]);
    }
    case.tell(Input::Link(true));
    case.wait(30, &[1]);
    assert_eq!(case.cancelled(), []);
}

#[test]
fn no_more_pilots_of_a_kind_than_trainers_can_use_of_it() {
    let (cpu, gpu) = (KindName::new("cpu").unwrap(), KindName::new("gpu").unwrap());
    let of = |n: usize| (name(n), [&cpu, &gpu][n % 2].clone());
    let kinds = NodeKinds::new((1..=6).map(of).collect());
    let one = |kind: &KindName, nodes| Wants {
        nodes,
        of_kinds: [(kind.clone(), nodes)].into(),
    };
    let mut case = Case::new();
    case.tell(Input::Kinds(kinds));
    // One trainer can use two gpu nodes, which are odd, and nothing can use the cpu nodes.
    case.tell(Input::Demand(vec![one(&gpu, 2)]));
    case.list(&[]);
    case.wait(3, &[1, 2, 3, 4, 5, 6]);
    let nodes: Vec<NodeId> = case.submitted().into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes, [name(1), name(3)]);
    let of_gpu = OfKind {
        demand: 2,
        idle: 3,
        waiting: 2,
        running: 0,
    };
    let of_cpu = OfKind {
        idle: 3,
        ..OfKind::default()
    };
    let counts = BTreeMap::from([(cpu.clone(), of_cpu), (gpu, of_gpu)]);
    assert_eq!(case.keeper.counts_by_kind(), counts);
    // A trainer without kinds can use any.
    case.tell(Input::Demand(wants(1)));
    assert_eq!(case.keeper.counts_by_kind()[&cpu].demand, 1);
    // One kind has no counts of its own.
    let all = (1..=6).map(|n| (name(n), cpu.clone()));
    case.tell(Input::Kinds(NodeKinds::new(all.collect())));
    assert!(case.keeper.counts_by_kind().is_empty());
}

#[test]
fn no_more_pilots_than_trainers_can_use() {
    let mut case = Case::new();
    case.tell(Input::Demand(wants(2)));
    case.list(&[]);
    case.wait(3, &[1, 2, 3, 4, 5]);
    assert_eq!(case.submitted().len(), 2);
}
