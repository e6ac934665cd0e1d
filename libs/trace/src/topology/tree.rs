//! Switches by name, from which the path of each node is made.

use std::collections::{BTreeMap, HashMap};

use lacuna_model::{NodeId, Topology};
use lacuna_records::hosts;

use super::error::{Contradiction, Fault, TopologyFileError};
use crate::FieldError;

/// Position of a switch in [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SwitchId(usize);

/// A link from a switch to the one above it, and the line that says so.
#[derive(Debug, Clone, Copy)]
struct Above {
    switch: SwitchId,
    line: u64,
}

#[derive(Debug)]
struct Switch {
    name: String,
    line: u64,
    above: Option<Above>,
    has_nodes: bool,
}

/// The switches of a file and their nodes.
#[derive(Debug, Default)]
pub(super) struct Tree {
    switches: Vec<Switch>,
    by_name: HashMap<String, SwitchId>,
    /// Switches below another, by name, since they may be defined later.
    links: Vec<(SwitchId, String, u64)>,
    /// The leaf of each node, and the line that says so.
    nodes: BTreeMap<NodeId, (SwitchId, u64)>,
}

impl Tree {
    /// Defines a switch.
    ///
    /// # Errors
    /// If its name is empty, or defined before.
    pub(super) fn define(&mut self, name: &str, line: u64) -> Result<SwitchId, TopologyFileError> {
        if name.is_empty() || name.contains(['[', ']', ',']) {
            let at = FieldError::new("switch", "the name of one switch", format!("{name:?}"));
            return Err(TopologyFileError::new(line, at));
        }
        if let Some(known) = self.by_name.get(name).and_then(|id| self.switch(*id)) {
            let (name, first) = (name.to_owned(), known.line);
            let fault = Contradiction::DefinedTwice { name, first };
            return Err(TopologyFileError::new(line, fault));
        }
        let id = SwitchId(self.switches.len());
        self.by_name.insert(name.to_owned(), id);
        self.switches.push(Switch {
            name: name.to_owned(),
            line,
            above: None,
            has_nodes: false,
        });
        Ok(id)
    }

    /// Puts a list of nodes on a leaf.
    ///
    /// # Errors
    /// If the list is damaged, or a node is on another leaf.
    pub(super) fn put(
        &mut self,
        leaf: SwitchId,
        list: &str,
        line: u64,
    ) -> Result<(), TopologyFileError> {
        let mut result = Ok(());
        expand("nodes", list, line, &mut |node| {
            if result.is_ok() {
                result = self.put_one(leaf, node, line);
            }
        })?;
        result
    }

    /// Puts one node on a leaf.
    ///
    /// # Errors
    /// If the node is on another leaf.
    pub(super) fn put_one(
        &mut self,
        leaf: SwitchId,
        name: &str,
        line: u64,
    ) -> Result<(), TopologyFileError> {
        let node = node_id(name, line)?;
        if let Some(&(first, at)) = self.nodes.get(&node) {
            if first == leaf {
                return Ok(());
            }
            let fault = Contradiction::TwoLeaves {
                node,
                first: self.name(first),
                line: at,
                second: self.name(leaf),
            };
            return Err(TopologyFileError::new(line, fault));
        }
        if let Some(switch) = self.switches.get_mut(leaf.0) {
            switch.has_nodes = true;
        }
        self.nodes.insert(node, (leaf, line));
        Ok(())
    }

    /// Puts a list of switches below another. They may be defined later.
    ///
    /// # Errors
    /// If the list is damaged.
    pub(super) fn link(
        &mut self,
        above: SwitchId,
        list: &str,
        line: u64,
    ) -> Result<(), TopologyFileError> {
        expand("switches", list, line, &mut |name| {
            self.links.push((above, name.to_owned(), line));
        })
    }

    /// The switch of this name, if it is defined.
    pub(super) fn find(&self, name: &str) -> Option<SwitchId> {
        self.by_name.get(name).copied()
    }

    /// The topology, with short paths padded by their root.
    ///
    /// # Errors
    /// A link to no switch, a switch below two others, a circle, or no node.
    pub(super) fn finish(mut self) -> Result<Topology, TopologyFileError> {
        for (above, name, line) in std::mem::take(&mut self.links) {
            self.connect(above, &name, line)?;
        }
        self.check_circles()?;
        let paths: Vec<Vec<SwitchId>> = (0..self.switches.len())
            .map(|index| self.path(SwitchId(index)).collect())
            .collect();
        let of = |leaf: SwitchId| paths.get(leaf.0).map_or(&[][..], Vec::as_slice);
        let levels = self.nodes.values().map(|(leaf, _)| of(*leaf).len()).max();
        let Some(levels) = levels else {
            return Err(TopologyFileError::new(1, Fault::NoNodes));
        };
        let names = |leaf: SwitchId| -> Vec<String> {
            let path = of(leaf);
            let root = path.last().copied();
            let padding = std::iter::repeat_n(root, levels - path.len()).flatten();
            path.iter()
                .copied()
                .chain(padding)
                .map(|id| self.name(id))
                .collect()
        };
        let paths = self.nodes.iter();
        let paths = paths
            .map(|(node, (leaf, _))| (node.clone(), names(*leaf)))
            .collect();
        // The tree has shown that this cannot fail.
        Topology::new(paths)
            .map_err(|error| TopologyFileError::new(1, Fault::Syntax(error.to_string())))
    }

    fn connect(&mut self, above: SwitchId, name: &str, line: u64) -> Result<(), TopologyFileError> {
        let refuse = |fault: Contradiction| Err(TopologyFileError::new(line, fault));
        let Some(&below) = self.by_name.get(name) else {
            return refuse(Contradiction::Undefined {
                above: self.name(above),
                missing: name.to_owned(),
            });
        };
        if self.switch(above).is_some_and(|switch| switch.has_nodes) {
            return refuse(Contradiction::Mixed(self.name(above)));
        }
        match self.switch(below).and_then(|switch| switch.above) {
            Some(first) if first.switch == above => Ok(()),
            Some(first) => refuse(Contradiction::TwoAbove {
                switch: name.to_owned(),
                first: self.name(first.switch),
                line: first.line,
                second: self.name(above),
            }),
            None => {
                if let Some(switch) = self.switches.get_mut(below.0) {
                    switch.above = Some(Above {
                        switch: above,
                        line,
                    });
                }
                Ok(())
            }
        }
    }

    /// Each switch is below one other at most, so a walk upward that meets itself is a circle.
    fn check_circles(&self) -> Result<(), TopologyFileError> {
        // The walk in which a switch was first met.
        let mut met: Vec<Option<usize>> = vec![None; self.switches.len()];
        for walk in 0..self.switches.len() {
            for id in self.path(SwitchId(walk)) {
                let Some(known) = met.get_mut(id.0) else {
                    break;
                };
                match *known {
                    None => *known = Some(walk),
                    Some(first) if first < walk => break,
                    Some(_) => {
                        let around = self.path(id).skip(1).take_while(|next| *next != id);
                        let mut names: Vec<String> = vec![self.name(id)];
                        names.extend(around.map(|next| self.name(next)));
                        names.push(self.name(id));
                        let line = self.switch(id).and_then(|switch| switch.above);
                        let line = line.map_or(1, |above| above.line);
                        let circle = Contradiction::Circle(names.join(" < "));
                        return Err(TopologyFileError::new(line, circle));
                    }
                }
            }
        }
        Ok(())
    }

    /// A switch and those above it; endless in a circle.
    fn path(&self, from: SwitchId) -> impl Iterator<Item = SwitchId> {
        let above = |id: &SwitchId| Some(self.switch(*id)?.above?.switch);
        std::iter::successors(Some(from), above)
    }

    fn switch(&self, id: SwitchId) -> Option<&Switch> {
        self.switches.get(id.0)
    }

    fn name(&self, id: SwitchId) -> String {
        self.switch(id)
            .map_or_else(String::new, |switch| switch.name.clone())
    }
}

/// Calls `each` with every name of a list in Slurm's notation.
pub(super) fn expand(
    place: &str,
    list: &str,
    line: u64,
    each: &mut dyn FnMut(&str),
) -> Result<(), TopologyFileError> {
    hosts::expand(list, each).map_err(|error| {
        let at = FieldError {
            place: place.to_owned(),
            ..error
        };
        TopologyFileError::new(line, at)
    })
}

/// The name of a node.
pub(super) fn node_id(name: &str, line: u64) -> Result<NodeId, TopologyFileError> {
    NodeId::new(name).map_err(|error| {
        let at = FieldError::new("node", error.expected, format!("{name:?}"));
        TopologyFileError::new(line, at)
    })
}
