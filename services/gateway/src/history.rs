//! The trainer of each node over time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use lacuna_model::{NodeId, Span, Timestamp, Topology, TrainerId};
use serde::Serialize;

/// The state of a node as a number: one of the constants of [`code`], or the code of a trainer.
pub(crate) type Code = u32;

/// Codes that stand for no trainer.
pub(crate) mod code {
    use super::Code;

    /// The node is no hole: the main scheduler has it, or its state is unknown.
    pub(crate) const AWAY: Code = 0;
    /// The node is a hole, and no trainer has it.
    pub(crate) const IDLE: Code = 1;
    /// The node is a hole that no trainer may have: it is quarantined, or its agent is silent.
    pub(crate) const UNUSABLE: Code = 2;
    /// The code of the first trainer.
    pub(crate) const FIRST: Code = 3;
}

/// Most changes that are kept, over all nodes (16 bytes each). Above this the history is shortened.
const MOST: usize = 500_000;

/// A change of a node's state: the moment and the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    from: Timestamp,
    code: Code,
}

/// The place of a node in the list: nodes of one leaf are neighbours, unknown ones are last.
type Place = (u32, NodeId);

/// The trainer of each node over time.
#[derive(Debug, Clone)]
pub(crate) struct History {
    length: Span,
    /// The start of the history.
    since: Option<Timestamp>,
    until: Timestamp,
    nodes: BTreeMap<Place, Vec<Turn>>,
    /// The rank of the leaf of each node, in the order of the switches above.
    ranks: HashMap<NodeId, u32>,
    /// The name of the leaf of each rank.
    leaves: Vec<String>,
    codes: BTreeMap<TrainerId, Code>,
    next_code: Code,
    turns: usize,
    /// Grows when a node joins or leaves the list.
    version: u64,
}

/// The states of one node, in order: from when (milliseconds), and which ([`Code`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Row<'a> {
    node: &'a NodeId,
    turns: Vec<(i64, Code)>,
}

/// The whole history, for the browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Past<'a> {
    /// Milliseconds of Unix time.
    since: i64,
    /// Milliseconds of Unix time.
    until: i64,
    /// Names of the trainers, by code.
    trainers: BTreeMap<Code, &'a TrainerId>,
    /// The leaves of the rows, each with its number of rows, in their order. The name is empty for
    /// nodes that the topology lacks. Without a topology there are none.
    leaves: Vec<(&'a str, usize)>,
    rows: Vec<Row<'a>>,
}

impl History {
    /// An empty history; `length` is how far back it reaches.
    pub(crate) fn new(length: Span) -> Self {
        Self {
            length,
            since: None,
            until: Timestamp::default(),
            nodes: BTreeMap::new(),
            ranks: HashMap::new(),
            leaves: Vec::new(),
            codes: BTreeMap::new(),
            next_code: code::FIRST,
            turns: 0,
            version: 0,
        }
    }

    /// The code of a trainer, which it has for as long as it is in the history.
    pub(crate) fn code_of(&mut self, trainer: &TrainerId) -> Code {
        if let Some(&code) = self.codes.get(trainer) {
            return code;
        }
        let code = self.next_code;
        self.next_code = self.next_code.wrapping_add(1).max(code::FIRST);
        self.codes.insert(trainer.clone(), code);
        code
    }

    /// Orders the nodes by leaf, and the leaves by the switches above them.
    pub(crate) fn order_by(&mut self, topology: &Topology) {
        let above = |path: &[String]| path.iter().rev().cloned().collect::<Vec<String>>();
        let leaves: BTreeSet<Vec<String>> = topology.nodes().map(|(_, path)| above(path)).collect();
        let leaf = |path: &Vec<String>| path.last().cloned().unwrap_or_default();
        self.leaves = leaves.iter().map(leaf).collect();
        let ranks: BTreeMap<Vec<String>, u32> = leaves.into_iter().zip(0..).collect();
        self.ranks = topology
            .nodes()
            .filter_map(|(node, path)| Some((node.clone(), *ranks.get(&above(path))?)))
            .collect();
        let nodes = std::mem::take(&mut self.nodes);
        self.nodes = nodes
            .into_iter()
            .map(|((_, node), turns)| (self.place(&node), turns))
            .collect();
        self.version += 1;
    }

    fn place(&self, node: &NodeId) -> Place {
        let rank = self.ranks.get(node).copied();
        (rank.unwrap_or(u32::MAX), node.clone())
    }

    /// Takes the states of all nodes from `now` on. Nodes that are not named are away. A clock that
    /// goes back starts the history again, since times of two clocks cannot be compared.
    pub(crate) fn take(&mut self, now: Timestamp, uses: &BTreeMap<&NodeId, Code>) {
        if now < self.until {
            *self = Self {
                codes: std::mem::take(&mut self.codes),
                ranks: std::mem::take(&mut self.ranks),
                leaves: std::mem::take(&mut self.leaves),
                next_code: self.next_code,
                version: self.version + 1,
                ..Self::new(self.length)
            };
        }
        self.since.get_or_insert(now);
        self.until = now;
        for ((_, node), turns) in &mut self.nodes {
            let code = uses.get(node).copied().unwrap_or(code::AWAY);
            if turns.last().is_none_or(|turn| turn.code != code) {
                turns.push(Turn { from: now, code });
                self.turns += 1;
            }
        }
        for (node, &code) in uses {
            let place = self.place(node);
            if let Entry::Vacant(new) = self.nodes.entry(place) {
                new.insert(vec![Turn { from: now, code }]);
                self.turns += 1;
                self.version += 1;
            }
        }
        self.forget(now - self.length);
        while self.turns > MOST {
            let half = Span::from_ms(now.since(self.since.unwrap_or(now)).as_ms() / 2);
            self.forget(now - half);
            if half.as_ms() == 0 {
                break;
            }
        }
    }

    /// Removes everything before a moment.
    fn forget(&mut self, before: Timestamp) {
        if self.since.is_none_or(|since| since >= before) {
            return;
        }
        self.since = Some(before);
        let known = self.nodes.len();
        self.nodes.retain(|_, turns| {
            let present = turns.partition_point(|turn| turn.from <= before);
            turns.drain(..present.saturating_sub(1));
            if turns.capacity() > 2 * turns.len() + 8 {
                turns.shrink_to(turns.len() + 2);
            }
            if let Some(first) = turns.first_mut().filter(|turn| turn.from < before) {
                first.from = before;
            }
            turns.iter().any(|turn| turn.code != code::AWAY)
        });
        self.version += u64::from(self.nodes.len() != known);
        self.turns = self.nodes.values().map(Vec::len).sum();
    }

    /// Removes the codes of trainers that are neither in the history nor in `present`.
    pub(crate) fn forget_trainers(&mut self, present: &[TrainerId]) {
        let used: std::collections::BTreeSet<Code> = self
            .nodes
            .values()
            .flatten()
            .map(|turn| turn.code)
            .collect();
        self.codes
            .retain(|trainer, code| used.contains(code) || present.contains(trainer));
    }

    /// The newest moment of the history.
    pub(crate) fn until(&self) -> Timestamp {
        self.until
    }

    /// The codes of all trainers in the history.
    pub(crate) fn codes(&self) -> &BTreeMap<TrainerId, Code> {
        &self.codes
    }

    /// All nodes of the history, sorted by leaf and name, and the version of that list.
    pub(crate) fn nodes(&self) -> (u64, impl Iterator<Item = &NodeId>) {
        (self.version, self.nodes.keys().map(|(_, node)| node))
    }

    /// The present state of each node, in the order of [`Self::nodes`].
    pub(crate) fn present(&self) -> impl Iterator<Item = Code> {
        let last = |turns: &Vec<Turn>| turns.last().map_or(code::AWAY, |turn| turn.code);
        self.nodes.values().map(last)
    }

    /// The whole history.
    pub(crate) fn past(&self) -> Past<'_> {
        let rows = self.nodes.iter().map(|((_, node), turns)| Row {
            node,
            turns: turns.iter().map(|t| (t.from.unix_ms(), t.code)).collect(),
        });
        let mut leaves: Vec<(&str, usize)> = Vec::new();
        let mut newest = None;
        for (rank, _) in self.nodes.keys().filter(|_| !self.leaves.is_empty()) {
            if newest.replace(rank) != Some(rank) {
                let name = self.leaves.get(*rank as usize);
                leaves.push((name.map_or("", String::as_str), 0));
            }
            if let Some((_, rows)) = leaves.last_mut() {
                *rows += 1;
            }
        }
        Past {
            leaves,
            since: self.since.unwrap_or(self.until).unix_ms(),
            until: self.until.unix_ms(),
            trainers: self
                .codes
                .iter()
                .map(|(name, &code)| (code, name))
                .collect(),
            rows: rows.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::node;

    use super::*;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_unix(s)
    }

    fn turns(history: &History, name: &str) -> Vec<(i64, Code)> {
        let past = history.past();
        let row = past.rows.into_iter().find(|row| row.node == &node(name));
        let seconds = |(ms, code)| (ms / 1000, code);
        row.map_or_else(Vec::new, |row| row.turns.into_iter().map(seconds).collect())
    }

    fn trainer(name: &str) -> TrainerId {
        TrainerId::new(name).unwrap()
    }

    #[test]
    fn changes_are_kept_and_repetitions_are_not() {
        let mut history = History::new(Span::from_secs(100));
        let (a, b) = (node("a"), node("b"));
        let t = history.code_of(&trainer("t"));
        history.take(at(10), &BTreeMap::from([(&a, code::IDLE)]));
        history.take(at(20), &BTreeMap::from([(&a, t), (&b, code::UNUSABLE)]));
        history.take(at(30), &BTreeMap::from([(&a, t), (&b, code::UNUSABLE)]));
        history.take(at(40), &BTreeMap::from([(&b, code::IDLE)]));
        let of_a = vec![(10, code::IDLE), (20, t), (40, code::AWAY)];
        assert_eq!(turns(&history, "a"), of_a);
        assert_eq!(
            turns(&history, "b"),
            [(20, code::UNUSABLE), (40, code::IDLE)]
        );
        assert_eq!(
            history.present().collect::<Vec<_>>(),
            [code::AWAY, code::IDLE]
        );
    }

    #[test]
    fn nodes_of_one_leaf_are_neighbours() {
        let mut history = History::new(Span::from_secs(100));
        let names = ["a", "b", "c", "d"].map(node);
        let uses = names.iter().map(|name| (name, code::IDLE)).collect();
        history.take(at(10), &uses);
        let path = |path: &[&str]| path.iter().map(ToString::to_string).collect();
        let topology = Topology::new(BTreeMap::from([
            (node("a"), path(&["l2", "p1"])),
            (node("b"), path(&["l1", "p2"])),
            (node("d"), path(&["l2", "p1"])),
        ]));
        let version = history.nodes().0;
        history.order_by(&topology.unwrap());
        history.take(at(20), &uses);
        let listed: Vec<&str> = history.nodes().1.map(NodeId::as_str).collect();
        assert_eq!(listed, ["a", "d", "b", "c"]);
        assert!(history.nodes().0 > version);
        assert_eq!(turns(&history, "d"), [(10, code::IDLE)]);
        assert_eq!(history.past().leaves, [("l2", 2), ("l1", 1), ("", 1)]);
        history.order_by(&Topology::default());
        assert_eq!(history.past().leaves, [], "without a topology");
    }

    #[test]
    fn the_history_is_cut_and_nodes_without_changes_are_removed() {
        let mut history = History::new(Span::from_secs(100));
        let (a, b) = (node("a"), node("b"));
        let (t, u) = (
            history.code_of(&trainer("t")),
            history.code_of(&trainer("u")),
        );
        history.take(at(0), &BTreeMap::from([(&a, t), (&b, u)]));
        history.take(at(50), &BTreeMap::from([(&b, u)]));
        let version = history.nodes().0;
        history.take(at(130), &BTreeMap::from([(&b, u)]));
        assert_eq!(turns(&history, "a"), [(30, t), (50, code::AWAY)]);
        history.take(at(200), &BTreeMap::from([(&b, u)]));
        assert_eq!(turns(&history, "a"), []);
        assert_eq!(turns(&history, "b"), [(100, u)]);
        assert!(history.nodes().0 > version);
        history.forget_trainers(&[]);
        assert_eq!(history.code_of(&trainer("u")), u);
        assert_ne!(history.code_of(&trainer("t")), t, "it was forgotten");
    }

    #[test]
    fn a_clock_that_goes_back_starts_the_history_again() {
        let mut history = History::new(Span::from_secs(100));
        let a = node("a");
        history.take(at(1000), &BTreeMap::from([(&a, code::IDLE)]));
        history.take(at(10), &BTreeMap::from([(&a, code::UNUSABLE)]));
        assert_eq!(turns(&history, "a"), [(10, code::UNUSABLE)]);
    }

    #[test]
    fn too_many_changes_shorten_the_history() {
        let mut history = History::new(Span::from_secs(1_000_000));
        let names: Vec<NodeId> = (0..1000).map(|i| node(&format!("n{i}"))).collect();
        for step in 0..1100_u32 {
            let code = code::FIRST + step % 2;
            let uses = names.iter().map(|name| (name, code)).collect();
            history.take(at(i64::from(step)), &uses);
        }
        assert!(history.turns <= MOST, "{}", history.turns);
        assert!(history.turns > MOST / 4, "{}", history.turns);
        let kept: usize = history.nodes.values().map(Vec::len).sum();
        assert_eq!(kept, history.turns);
    }
}
