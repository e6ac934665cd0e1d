//! The state of single nodes in a window of time.

use std::collections::HashMap;

use lacuna_model::NodeId;
use lacuna_planner::Slot;

use crate::{Gantt, GanttRow, GanttSegment, GanttWindow, PoolTrace};

/// An open segment, if there is one: its start in seconds, and its trainer.
type Open = Option<(f64, Option<u32>)>;

/// Follows some nodes through a window.
#[derive(Debug, Clone)]
pub(super) struct Watcher {
    window: GanttWindow,
    begun: bool,
    /// The row of each node that is followed.
    rows: HashMap<u32, usize>,
    found: Vec<(u32, Vec<GanttSegment>, Open)>,
    /// Whether each row has a hole now.
    present: Vec<bool>,
}

impl Watcher {
    pub(super) fn new(window: GanttWindow) -> Self {
        Self {
            window,
            begun: false,
            rows: HashMap::new(),
            found: Vec::new(),
            present: Vec::new(),
        }
    }

    /// Whether the window has begun since the last event, so that the state until `now_s` must be
    /// recorded before it changes.
    pub(super) fn begins_before(&self, now_s: f64) -> bool {
        !self.begun && now_s > self.window.from_s
    }

    /// Whether a moment lies in the window.
    pub(super) fn wants(&self, now_s: f64) -> bool {
        now_s >= self.window.from_s && now_s < self.window.until_s
    }

    /// Records that the work of a trainer, by its order of admission, was done at `at_s`, which is
    /// before the present event. Its nodes count as idle from then on.
    pub(super) fn end(&mut self, trainer: u32, at_s: f64) {
        if at_s >= self.window.until_s {
            return;
        }
        let at_s = at_s.max(self.window.from_s);
        for (_, segments, open) in &mut self.found {
            if open.is_some_and(|(_, who)| who == Some(trainer)) {
                close(segments, open, at_s);
                *open = Some((at_s, None));
            }
        }
    }

    /// Records the state from `at_s` on: the node of each hole, and its trainer. `admitted` maps a
    /// slot's owner to its order of admission.
    pub(super) fn record(
        &mut self,
        at_s: f64,
        nodes: &[u32],
        slots: &[Slot],
        admitted: impl Fn(u32) -> Option<u32>,
    ) {
        self.begun = true;
        let at_s = at_s.max(self.window.from_s);
        self.present.fill(false);
        for (&node, slot) in nodes.iter().zip(slots) {
            let row = match self.rows.get(&node) {
                Some(&row) => row,
                None if self.found.len() < self.window.nodes as usize => {
                    self.rows.insert(node, self.found.len());
                    self.found.push((node, Vec::new(), None));
                    self.present.push(true);
                    self.found.len() - 1
                }
                None => continue,
            };
            let trainer = slot.owner.and_then(&admitted);
            if let Some(present) = self.present.get_mut(row) {
                *present = true;
            }
            let Some((_, segments, open)) = self.found.get_mut(row) else {
                continue;
            };
            if open.is_none_or(|(_, before)| before != trainer) {
                close(segments, open, at_s);
                *open = Some((at_s, trainer));
            }
        }
        for ((_, segments, open), present) in self.found.iter_mut().zip(&self.present) {
            if !present {
                close(segments, open, at_s);
            }
        }
    }

    /// Ends the window, at `now_s` at the latest.
    pub(super) fn finish(mut self, now_s: f64, trace: &dyn PoolTrace) -> Gantt {
        let GanttWindow {
            from_s, until_s, ..
        } = self.window;
        let until_s = until_s.min(now_s).max(from_s);
        let mut rows = Vec::with_capacity(self.found.len());
        for (node, mut segments, mut open) in self.found.drain(..) {
            close(&mut segments, &mut open, until_s);
            segments.retain(|segment| segment.until_s > segment.from_s);
            rows.push(GanttRow {
                node,
                name: trace.node_name(node).into_owned(),
                segments,
            });
        }
        // Leaf by leaf, where nodes have one.
        let path = |row: &GanttRow| {
            let id = NodeId::new(&row.name).ok()?;
            let path = trace.topology()?.path(&id)?.iter().rev();
            Some(path.cloned().collect::<Vec<_>>())
        };
        rows.sort_by_cached_key(|row| (path(row), row.node));
        Gantt {
            from_s,
            until_s,
            rows,
        }
    }
}

fn close(segments: &mut Vec<GanttSegment>, open: &mut Open, at_s: f64) {
    if let Some((from_s, trainer)) = open.take() {
        segments.push(GanttSegment {
            from_s,
            until_s: at_s,
            trainer,
        });
    }
}
