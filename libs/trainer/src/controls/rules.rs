//! Evaluation of controls at a moment of the wall clock. Of several limits the tightest holds.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use lacuna_model::{Controls, LimitInForce, NodeId, Timestamp, UseLimit, UseWindow, WithheldBy};

use super::pattern::Pattern;
use super::window::Window;

/// The controls in force at one moment, for the controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The version of the controls.
    pub version: u64,
    /// Drained nodes.
    pub drained: BTreeSet<NodeId>,
    /// If not empty, only nodes that match one of these are used.
    pub only: Vec<Pattern>,
    /// Nodes that match one of these are not used.
    pub avoid: Vec<Pattern>,
    /// The most nodes in use, with the limit that says so.
    pub at_most: Option<(u32, WithheldBy)>,
    /// How many idle nodes stay free.
    pub keep_idle: u32,
    /// The limit that allows no further node, if one does.
    pub no_growth: Option<WithheldBy>,
}

impl Wanted {
    /// Why this node is excluded, apart from limits on the number of nodes.
    #[must_use]
    pub fn bars(&self, node: &NodeId) -> Option<WithheldBy> {
        let has = |patterns: &[Pattern]| patterns.iter().any(|p| p.matches(node.as_str()));
        if self.drained.contains(node) {
            Some(WithheldBy::Drained)
        } else if has(&self.avoid) || !self.only.is_empty() && !has(&self.only) {
            Some(WithheldBy::List)
        } else {
            None
        }
    }

    /// Whether any node may have to be withheld.
    #[must_use]
    pub fn limits_anything(&self) -> bool {
        self.at_most.is_some()
            || self.keep_idle > 0
            || self.no_growth.is_some()
            || !(self.drained.is_empty() && self.only.is_empty() && self.avoid.is_empty())
    }
}

/// A stored window. A window that this machine cannot read (`None`) is always open.
#[derive(Debug, Clone)]
struct Kept {
    name: String,
    limit: UseLimit,
    window: Option<Window>,
}

/// Controls, parsed for evaluation.
#[derive(Debug, Clone)]
pub struct Rules {
    controls: Controls,
    drained: BTreeSet<NodeId>,
    only: Vec<Pattern>,
    avoid: Vec<Pattern>,
    windows: Vec<Kept>,
}

impl Rules {
    /// Parses controls that were checked when they were changed. An unreadable part, such as a
    /// time zone that this machine does not know, reduces the use of nodes: a window is always
    /// open, and an unreadable pattern excludes all nodes.
    #[must_use]
    pub fn new(controls: Controls, local: &TimeZone) -> Self {
        let kept = |window: &UseWindow| Kept {
            name: window.name.clone(),
            limit: window.limit,
            window: Window::read(window, local).ok(),
        };
        let read = |patterns: &[String]| -> Result<Vec<Pattern>, super::PatternError> {
            patterns.iter().map(|p| Pattern::parse(p)).collect()
        };
        let all = || Pattern::parse("*").into_iter().collect();
        let only = controls.only.iter().filter_map(|p| Pattern::parse(p).ok());
        let only: Vec<Pattern> = only.collect();
        let nothing_left = only.is_empty() && !controls.only.is_empty();
        Self {
            drained: controls.drained.keys().cloned().collect(),
            avoid: match read(&controls.avoid) {
                Ok(avoid) if !nothing_left => avoid,
                _ => all(),
            },
            only,
            windows: controls.windows.iter().map(kept).collect(),
            controls,
        }
    }

    /// The controls.
    #[must_use]
    pub const fn controls(&self) -> &Controls {
        &self.controls
    }

    /// The limits in force at `now` of the wall clock.
    #[must_use]
    pub fn limits(&self, now: Timestamp) -> Vec<LimitInForce> {
        let mut limits = Vec::new();
        if let Some(pause) = &self.controls.pause
            && pause.until.is_none_or(|until| now < until)
        {
            let mut note = format!("by {}", pause.by);
            if !pause.reason.is_empty() {
                note = format!("{note}: {}", pause.reason);
            }
            limits.push(LimitInForce {
                by: WithheldBy::Paused,
                limit: pause.limit,
                note,
                until: pause.until,
            });
        }
        for kept in &self.windows {
            let until = match &kept.window {
                None => None,
                Some(window) => match window.open_at(now) {
                    None => continue,
                    Some((_, until)) => Some(until),
                },
            };
            limits.push(LimitInForce {
                by: WithheldBy::Window,
                limit: kept.limit,
                note: kept.name.clone(),
                until,
            });
        }
        if let Some(nodes) = self.controls.max_nodes {
            limits.push(LimitInForce {
                by: WithheldBy::Cap,
                limit: UseLimit::AtMost { nodes },
                note: String::new(),
                until: None,
            });
        }
        if let Some(nodes) = self.controls.keep_idle {
            limits.push(LimitInForce {
                by: WithheldBy::Reserve,
                limit: UseLimit::KeepIdle { nodes },
                note: String::new(),
                until: None,
            });
        }
        limits
    }

    /// When the limits next change without a change of the controls.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let pause = self.controls.pause.as_ref().and_then(|pause| pause.until);
        let windows = self.windows.iter().filter_map(|w| w.window.as_ref());
        let windows = windows.filter_map(|window| window.next_change(now));
        windows.chain(pause).filter(|at| *at > now).min()
    }

    /// The controls in force at `now` of the wall clock: of several limits the tightest.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Wanted {
        let mut wanted = Wanted {
            version: self.controls.version,
            drained: self.drained.clone(),
            only: self.only.clone(),
            avoid: self.avoid.clone(),
            at_most: None,
            keep_idle: 0,
            no_growth: None,
        };
        for limit in self.limits(now) {
            let nodes = match limit.limit {
                UseLimit::NoGrowth => {
                    wanted.no_growth.get_or_insert(limit.by);
                    continue;
                }
                UseLimit::KeepIdle { nodes } => {
                    wanted.keep_idle = wanted.keep_idle.max(nodes);
                    continue;
                }
                UseLimit::AtMost { nodes } => nodes,
                UseLimit::Nothing => 0,
            };
            if wanted.at_most.is_none_or(|(most, _)| nodes < most) {
                wanted.at_most = Some((nodes, limit.by));
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Pause;

    use super::*;

    fn window(name: &str, from: &str, to: &str, limit: UseLimit) -> UseWindow {
        UseWindow {
            name: name.to_owned(),
            days: Vec::new(),
            from: from.to_owned(),
            to: to.to_owned(),
            zone: Some("UTC".to_owned()),
            limit,
        }
    }

    fn hour(hour: i64) -> Timestamp {
        Timestamp::from_unix(hour * 3600)
    }

    #[test]
    fn the_tightest_limit_holds_and_ends_by_itself() {
        let controls = Controls {
            version: 3,
            max_nodes: Some(10),
            pause: Some(Pause {
                limit: UseLimit::NoGrowth,
                until: Some(hour(5)),
                by: "op".to_owned(),
                since: hour(0),
                reason: "power".to_owned(),
            }),
            windows: vec![
                window("few", "02:00", "04:00", UseLimit::AtMost { nodes: 4 }),
                window("none", "03:00", "04:00", UseLimit::Nothing),
            ],
            ..Controls::default()
        };
        let rules = Rules::new(controls, &TimeZone::UTC);
        let cap = Some((10, WithheldBy::Cap));
        for (now, at_most, no_growth, next) in [
            (1, cap, true, 2),
            (2, Some((4, WithheldBy::Window)), true, 3),
            (3, Some((0, WithheldBy::Window)), true, 4),
            (4, cap, true, 5),
            (5, cap, false, 26),
        ] {
            let wanted = rules.at(hour(now));
            assert_eq!(wanted.at_most, at_most, "{now}");
            assert_eq!(wanted.no_growth.is_some(), no_growth, "{now}");
            assert_eq!(rules.next_change(hour(now)), Some(hour(next)), "{now}");
        }
        let says: Vec<String> = rules.limits(hour(3)).into_iter().map(|l| l.note).collect();
        assert_eq!(says, ["by op: power", "few", "none", ""]);
    }

    #[test]
    fn lists_exclude_nodes_and_unreadable_controls_reduce_use() {
        let node = |name: &str| NodeId::new(name).unwrap_or_else(|_| unreachable!("a name"));
        let controls = Controls {
            only: vec!["a[01-04]".to_owned()],
            avoid: vec!["a02".to_owned()],
            ..Controls::default()
        };
        let rules = Rules::new(controls, &TimeZone::UTC);
        let wanted = rules.at(hour(0));
        assert!(wanted.limits_anything());
        assert_eq!(wanted.bars(&node("a01")), None);
        assert_eq!(wanted.bars(&node("a02")), Some(WithheldBy::List));
        assert_eq!(wanted.bars(&node("b01")), Some(WithheldBy::List));
        assert!(
            !Rules::new(Controls::default(), &TimeZone::UTC)
                .at(hour(0))
                .limits_anything()
        );

        let mut lost = window("w", "02:00", "04:00", UseLimit::Nothing);
        lost.zone = Some("Mars/Base".to_owned());
        let unread = Controls {
            only: vec!["a[".to_owned()],
            windows: vec![lost],
            ..Controls::default()
        };
        let wanted = Rules::new(unread, &TimeZone::UTC).at(hour(12));
        assert_eq!(wanted.at_most, Some((0, WithheldBy::Window)));
        assert_eq!(wanted.bars(&node("a01")), Some(WithheldBy::List));
    }
}
