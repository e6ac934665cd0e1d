//! What keeps nodes from being used, and trainers from getting nodes, in words.

use std::collections::BTreeMap;

use serde::Serialize;

use lacuna_model::{NodeId, Phase, TrainerRecord, Trouble, TroubleKind};
use lacuna_wire::msg::NodeView;

use crate::output::iso_short;

/// Nodes that are named in a sentence, at most.
const NAMED: usize = 4;

/// What keeps a node from being used as the others are, as `lacuna nodes --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TroubleRow {
    /// `quarantined`, `slow`, `last`, `suspect`, `silent`, `left`, `unheard`, `overdue` or `unnamed`.
    pub(crate) kind: &'static str,
    /// The owners for whom it holds; none: for all.
    pub(crate) owners: Vec<String>,
    /// When it ends by itself.
    pub(crate) until: Option<String>,
    /// Trainers whose programs failed there and were sound elsewhere.
    pub(crate) trainers: Vec<String>,
    /// Another name that the node may have.
    pub(crate) perhaps: Vec<String>,
    /// All of it as a sentence.
    pub(crate) why: String,
    /// What to do.
    pub(crate) remedy: String,
}

impl TroubleRow {
    pub(crate) fn of(node: &NodeId, trouble: &Trouble) -> Self {
        Self {
            kind: trouble.kind.name(),
            owners: trouble.owners.clone(),
            until: trouble.until.map(iso_short),
            trainers: trouble
                .failed
                .iter()
                .map(|f| f.trainer.to_string())
                .collect(),
            perhaps: trouble.perhaps.iter().map(ToString::to_string).collect(),
            why: why(node, trouble),
            remedy: remedy(node, trouble),
        }
    }

    /// Whether a table of nodes shows it. An agent on a node that no scheduler has named is the
    /// normal course where batch jobs run since control's start.
    pub(crate) fn is_shown(&self) -> bool {
        self.kind != TroubleKind::Unnamed.name() || !self.perhaps.is_empty()
    }
}

fn names<T: ToString>(all: &[T]) -> String {
    let named: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    match all.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// The programs that failed there.
fn evidence(trouble: &Trouble) -> String {
    let said: Vec<String> = trouble
        .failed
        .iter()
        .take(NAMED)
        .map(|f| {
            format!(
                "the program of {} failed there ({}) and was sound on {}",
                f.trainer, f.reason, f.sound_on
            )
        })
        .collect();
    said.join("; ")
}

/// What holds, as a sentence.
fn why(node: &NodeId, trouble: &Trouble) -> String {
    let until = trouble
        .until
        .map_or_else(String::new, |until| format!(" until {}", iso_short(until)));
    let owners = names(&trouble.owners);
    match trouble.kind {
        TroubleKind::Quarantined if trouble.failed.is_empty() => {
            format!("{node} is in quarantine{until}: it keeps trainers waiting in each step")
        }
        TroubleKind::Quarantined => {
            format!(
                "{node} is in quarantine{until}, closed to all: {}",
                evidence(trouble)
            )
        }
        TroubleKind::Slow => {
            format!("{node} is closed to {owners}{until}: it keeps trainers waiting in each step")
        }
        TroubleKind::Last => format!(
            "{node} is the last choice for trainers of {owners}{until}: {}",
            evidence(trouble)
        ),
        TroubleKind::Suspect => {
            format!(
                "{node} is used as before, but perhaps it is broken: {}",
                evidence(trouble)
            )
        }
        TroubleKind::Silent => {
            format!("the agent of {node} is silent, so no trainer gets the node")
        }
        TroubleKind::Left => format!("the agent of {node} has left, and none has come since"),
        TroubleKind::Unheard => {
            let perhaps = match trouble.perhaps.as_slice() {
                [] => String::new(),
                [one] => format!(
                    "; the agent {one} speaks, which no scheduler has named: is it the same node?"
                ),
                several => format!(
                    "; the agents {} speak, which no scheduler has named: is one of them this node?",
                    names(several)
                ),
            };
            format!("no agent has ever spoken on {node}{perhaps}")
        }
        TroubleKind::Overdue => {
            format!("{node} is not confirmed as free by its agent, so no trainer gets it")
        }
        TroubleKind::Unnamed => {
            let perhaps = match trouble.perhaps.as_slice() {
                [] => String::new(),
                [one] => format!("; no agent has ever spoken on {one}: is it the same node?"),
                several => format!(
                    "; no agent has ever spoken on {}: is it one of these?",
                    names(several)
                ),
            };
            format!(
                "the agent {node} speaks, and no scheduler has named {node} since control \
                 started{perhaps}"
            )
        }
    }
}

/// What to do about it.
fn remedy(node: &NodeId, trouble: &Trouble) -> String {
    match trouble.kind {
        TroubleKind::Quarantined | TroubleKind::Slow | TroubleKind::Last => format!(
            "look at the node; `lacuna undrain {node}` lifts it at once, and so does a program that is \
             sound there"
        ),
        TroubleKind::Suspect => format!(
            "look at the node; `lacuna drain {node}` keeps it from being used, `lacuna undrain {node}` \
             forgets the failure"
        ),
        TroubleKind::Silent | TroubleKind::Left => {
            format!(
                "see whether lacuna-agent runs on {node} and reaches the bus; it lifts this itself"
            )
        }
        TroubleKind::Overdue => {
            format!("its agent lifts this; if none runs on {node} any more, start it there")
        }
        TroubleKind::Unheard => match trouble.perhaps.first() {
            Some(agent) => format!(
                "if it is, start that agent with `--node {node}`: agents and the scheduler name a node \
                 alike (agent {agent})"
            ),
            None => format!("start lacuna-agent there, with `--node {node}`"),
        },
        TroubleKind::Unnamed => match trouble.perhaps.first() {
            Some(other) => format!("if it is, start this agent with `--node {other}`"),
            None => "agents and the scheduler name a node alike: compare `lacuna nodes --all`"
                .to_owned(),
        },
    }
}

/// Why a trainer has no nodes or does nothing on them, with remedies, as lines; none if all is as it
/// should be, or only the plan knows.
pub(crate) fn hindrances(record: &TrainerRecord, nodes: &[NodeView]) -> Vec<String> {
    if record.phase != Phase::Active {
        return Vec::new();
    }
    let id = &record.spec.id;
    let mut lines = Vec::new();
    if !record.nodes.is_empty() {
        let own = nodes
            .iter()
            .filter(|view| record.nodes.contains(&view.node));
        let troubles: Vec<(&NodeId, &Trouble)> = own.filter_map(unusable).collect();
        if !troubles.is_empty() {
            lines.push(format!(
                "{id} has {} and does nothing there",
                names(&record.nodes)
            ));
            tell(&troubles, &mut lines);
        }
        return lines;
    }
    if let Some(next) = next_try(record) {
        lines.push(next);
    }
    let idle: Vec<&NodeView> = nodes.iter().filter(|v| v.idle_since.is_some()).collect();
    let owner = record.spec.owner.as_deref().unwrap_or(&record.user);
    let closed_to = |trouble: &Trouble| {
        trouble.kind == TroubleKind::Slow && trouble.owners.iter().any(|of| of == owner)
    };
    let mut troubles: Vec<(&NodeId, &Trouble)> = Vec::new();
    for view in &idle {
        let closed = view.trouble.as_ref().filter(|t| closed_to(t));
        troubles.extend(unusable(view).or_else(|| closed.map(|t| (&view.node, t))));
    }
    let usable = idle.len() - troubles.len();
    if !troubles.is_empty() && usable < record.spec.min_nodes as usize {
        lines.push(format!(
            "{id} waits for nodes: it needs {}, and of {} idle nodes {usable} can be used",
            record.spec.min_nodes,
            idle.len()
        ));
        tell(&troubles, &mut lines);
    }
    lines
}

/// The node with its trouble, if it keeps all trainers from the node.
fn unusable(view: &NodeView) -> Option<(&NodeId, &Trouble)> {
    let trouble = view.trouble.as_ref()?;
    let keeps = match trouble.kind {
        TroubleKind::Quarantined
        | TroubleKind::Silent
        | TroubleKind::Left
        | TroubleKind::Unheard
        | TroubleKind::Overdue => true,
        TroubleKind::Slow | TroubleKind::Last | TroubleKind::Suspect | TroubleKind::Unnamed => {
            false
        }
    };
    keeps.then_some((&view.node, trouble))
}

/// Adds the sentences of the first nodes, and how many others there are of each kind.
fn tell(troubles: &[(&NodeId, &Trouble)], lines: &mut Vec<String>) {
    for (node, trouble) in troubles.iter().take(NAMED) {
        lines.push(why(node, trouble));
        lines.push(format!("remedy: {}", remedy(node, trouble)));
    }
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, trouble) in troubles.iter().skip(NAMED) {
        *more.entry(trouble.kind.name()).or_default() += 1;
    }
    for (kind, count) in more {
        lines.push(format!(
            "and {count} more nodes are {kind}: `lacuna nodes` has them"
        ));
    }
}

/// When and where a trainer whose program failed is tried again.
pub(crate) fn next_try(record: &TrainerRecord) -> Option<String> {
    let rest = record.tries.rest()?;
    let failed: Vec<&NodeId> = record.tries.row().collect();
    let nodes = names(&failed);
    Some(match (rest.until, failed.len()) {
        (None, 0) => "it has failed too often, and is given up".to_owned(),
        (None, _) => format!(
            "it waits for another node than {nodes}, where its program failed {} times",
            record.failures
        ),
        (Some(until), 1) => format!(
            "it is tried again as soon as another node than {nodes} is free, or at {}",
            iso_short(until)
        ),
        (Some(until), 0) => format!("it is tried again at {}", iso_short(until)),
        (Some(until), _) => format!(
            "it failed on {nodes} alike, so its program is the cause; it is tried again at {}",
            iso_short(until)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::record;
    use lacuna_model::{Blame, Epoch, Span, Timestamp, TrainerId};

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn trouble(kind: TroubleKind) -> Trouble {
        Trouble {
            kind,
            owners: Vec::new(),
            until: Some(Timestamp::from_unix(300)),
            failed: vec![Blame {
                trainer: TrainerId::new("t1").unwrap(),
                reason: "exit code 1 on node bad1: no space".to_owned(),
                sound_on: node("ok1"),
            }],
            perhaps: Vec::new(),
        }
    }

    fn view(name: &str, trouble: Option<Trouble>) -> NodeView {
        NodeView {
            node: node(name),
            idle_since: Some(Timestamp::default()),
            trainer: None,
            epoch: Epoch(0),
            activity: None,
            silent_s: None,
            trouble,
            is_down: false,
        }
    }

    #[test]
    fn each_trouble_has_a_sentence_and_a_remedy() {
        let mut text = String::new();
        for kind in [
            TroubleKind::Quarantined,
            TroubleKind::Slow,
            TroubleKind::Last,
            TroubleKind::Suspect,
            TroubleKind::Silent,
            TroubleKind::Left,
            TroubleKind::Unheard,
            TroubleKind::Overdue,
            TroubleKind::Unnamed,
        ] {
            let mut of = trouble(kind);
            if matches!(kind, TroubleKind::Slow | TroubleKind::Last) {
                of.owners = vec!["eve".to_owned()];
            }
            if matches!(kind, TroubleKind::Unheard | TroubleKind::Unnamed) {
                of.perhaps = vec![node("n1.cluster.local")];
            }
            let row = TroubleRow::of(&node("n1"), &of);
            text.push_str(&format!("{}: {}\n  {}\n", row.kind, row.why, row.remedy));
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_trainer_without_nodes_is_told_why_only_if_nodes_are_the_cause() {
        let mut waits = record("f1", Phase::Active, 0);
        waits.spec.min_nodes = 2;
        let free = [
            view("a", None),
            view("b", Some(trouble(TroubleKind::Suspect))),
        ];
        assert!(
            hindrances(&waits, &free).is_empty(),
            "the plan has the reason"
        );
        let silent = [
            view("a", None),
            view("b", Some(trouble(TroubleKind::Silent))),
        ];
        let lines = hindrances(&waits, &silent);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[0].contains("of 2 idle nodes 1 can be used"),
            "{lines:?}"
        );
        waits.failures = 1;
        let at = Timestamp::from_unix(0);
        waits
            .tries
            .fail_on(&node("a"), "bang", true, Span::from_secs(9), at);
        waits.tries.rest_until(Some(Timestamp::from_unix(10)), at);
        let lines = hindrances(&waits, &free);
        assert!(
            lines[0].contains("another node than a is free"),
            "{lines:?}"
        );
        // Exit code 0 is held against no node.
        waits.tries.end_row();
        waits.tries.rest_until(None, at);
        assert_eq!(
            next_try(&waits).unwrap(),
            "it has failed too often, and is given up"
        );
    }
}
