//! Changes of the controls: checked, then applied, all or none.

use jiff::tz::TimeZone;
use lacuna_model::{Controls, ControlsChange, Drain, Pause, Timestamp, UseLimit};

use super::pattern::Pattern;
use super::window::Window;

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 500;
/// Most patterns of a list, and most windows.
const MOST_PATTERNS: usize = 1000;
const MOST_WINDOWS: usize = 50;
/// Most nodes that are drained by name: the controls must fit into a message.
const MOST_DRAINED: usize = 5000;

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ControlsError(String);

/// The controls after these changes, applied in order, with the next version. `by` is the user
/// who asks for them, `now` the wall clock, and `local` the zone of windows that name none.
///
/// # Errors
/// [`ControlsError`] if a change is not valid; then no change is applied.
pub fn change(
    controls: &Controls,
    changes: &[ControlsChange],
    by: &str,
    now: Timestamp,
    local: &TimeZone,
) -> Result<Controls, ControlsError> {
    let mut next = controls.clone();
    if changes.is_empty() {
        return refuse("nothing is asked for");
    }
    for wanted in changes {
        one(&mut next, wanted, by, now, local)?;
    }
    next.version = controls.version + 1;
    Ok(next)
}

fn refuse<T>(text: impl Into<String>) -> Result<T, ControlsError> {
    Err(ControlsError(text.into()))
}

fn one(
    next: &mut Controls,
    change: &ControlsChange,
    by: &str,
    now: Timestamp,
    local: &TimeZone,
) -> Result<(), ControlsError> {
    match change {
        ControlsChange::Pause {
            limit,
            until,
            reason,
        } => {
            if until.is_some_and(|until| until <= now) {
                return refuse("the pause would be over already: its end is in the past");
            }
            next.pause = Some(Pause {
                limit: normal(*limit),
                until: *until,
                by: by.to_owned(),
                since: now,
                reason: text(reason)?,
            });
        }
        ControlsChange::Resume => next.pause = None,
        ControlsChange::StopPilots => {
            next.pilots_stopped = Some(Drain {
                by: by.to_owned(),
                since: now,
                reason: String::new(),
            });
        }
        ControlsChange::StartPilots => next.pilots_stopped = None,
        ControlsChange::Drain { nodes, reason } => {
            if nodes.is_empty() {
                return refuse("no node is named");
            }
            let reason = text(reason)?;
            for node in nodes {
                let drain = Drain {
                    by: by.to_owned(),
                    since: now,
                    reason: reason.clone(),
                };
                next.drained.insert(node.clone(), drain);
            }
            if next.drained.len() > MOST_DRAINED {
                return refuse(format!(
                    "more than {MOST_DRAINED} nodes would be drained by name: for these use \
                     `lacuna limits set --avoid PATTERN`"
                ));
            }
        }
        ControlsChange::Undrain { nodes } => {
            let before = next.drained.len();
            for node in nodes {
                next.drained.remove(node);
            }
            if next.drained.len() == before {
                return refuse("none of these nodes is drained: `lacuna limits` lists them");
            }
        }
        ControlsChange::Only { patterns } => next.only = patterns_of(patterns)?,
        ControlsChange::Avoid { patterns } => next.avoid = patterns_of(patterns)?,
        ControlsChange::MaxNodes { nodes } => next.max_nodes = *nodes,
        ControlsChange::KeepIdle { nodes } => next.keep_idle = nodes.filter(|nodes| *nodes > 0),
        ControlsChange::SetWindow(window) => {
            if window.name.is_empty() || window.name.len() > 64 {
                return refuse("a window has a name of 1 to 64 characters");
            }
            Window::read(window, local).map_err(ControlsError)?;
            let mut window = window.clone();
            window.limit = normal(window.limit);
            match next.windows.iter_mut().find(|w| w.name == window.name) {
                Some(same) => *same = window,
                None => next.windows.push(window),
            }
            if next.windows.len() > MOST_WINDOWS {
                return refuse(format!("there are {MOST_WINDOWS} windows already"));
            }
        }
        ControlsChange::RemoveWindow { name } => {
            let before = next.windows.len();
            next.windows.retain(|window| window.name != *name);
            if next.windows.len() == before {
                return refuse(format!(
                    "there is no window named {name:?}: `lacuna limits` lists them"
                ));
            }
        }
    }
    Ok(())
}

/// Writes a limit of 0 nodes as `Nothing`.
fn normal(limit: UseLimit) -> UseLimit {
    match limit {
        UseLimit::AtMost { nodes: 0 } => UseLimit::Nothing,
        other => other,
    }
}

fn text(reason: &str) -> Result<String, ControlsError> {
    if reason.len() > LONGEST_REASON {
        return refuse(format!("the reason is longer than {LONGEST_REASON} bytes"));
    }
    if reason.chars().any(char::is_control) {
        return refuse("the reason has control characters: one line of text is expected");
    }
    Ok(reason.trim().to_owned())
}

fn patterns_of(patterns: &[String]) -> Result<Vec<String>, ControlsError> {
    if patterns.len() > MOST_PATTERNS {
        return refuse(format!("more than {MOST_PATTERNS} patterns"));
    }
    for pattern in patterns {
        Pattern::parse(pattern).map_err(|e| ControlsError(e.to_string()))?;
    }
    Ok(patterns.to_vec())
}

#[cfg(test)]
mod tests {
    use lacuna_model::{NodeId, UseWindow};

    use super::*;

    const NOW: Timestamp = Timestamp::from_unix(1000);

    fn made(controls: &Controls, changes: &[ControlsChange]) -> Result<Controls, ControlsError> {
        change(controls, changes, "op", NOW, &TimeZone::UTC)
    }

    fn refused(changes: &[ControlsChange], wrong: &str) {
        let error = made(&Controls::default(), changes).err();
        let text = error.map(|e| e.to_string()).unwrap_or_default();
        assert!(text.contains(wrong), "{text:?} does not say {wrong:?}");
    }

    fn pause(limit: UseLimit, until: Option<i64>) -> ControlsChange {
        ControlsChange::Pause {
            limit,
            until: until.map(Timestamp::from_unix),
            reason: " power \t".replace('\t', ""),
        }
    }

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap_or_else(|_| unreachable!("a name"))
    }

    #[test]
    fn changes_are_made_in_order_and_count_as_one_version() {
        let window = UseWindow {
            name: "day".to_owned(),
            days: vec!["mon".to_owned()],
            from: "08:00".to_owned(),
            to: "18:00".to_owned(),
            zone: Some("Europe/Berlin".to_owned()),
            limit: UseLimit::AtMost { nodes: 0 },
        };
        let changes = [
            pause(UseLimit::NoGrowth, None),
            pause(UseLimit::AtMost { nodes: 3 }, Some(2000)),
            ControlsChange::Drain {
                nodes: vec![node("a"), node("b")],
                reason: String::new(),
            },
            ControlsChange::Undrain {
                nodes: vec![node("b"), node("c")],
            },
            ControlsChange::SetWindow(window.clone()),
            ControlsChange::SetWindow(window),
            ControlsChange::MaxNodes { nodes: Some(7) },
        ];
        let controls = made(&Controls::default(), &changes);
        let controls = controls.unwrap_or_default();
        assert_eq!(controls.version, 1);
        let pause = controls.pause.clone();
        assert_eq!(
            pause.as_ref().map(|p| p.limit),
            Some(UseLimit::AtMost { nodes: 3 })
        );
        assert_eq!(pause.map(|p| p.reason).as_deref(), Some("power"));
        assert_eq!(controls.drained.len(), 1);
        let limits: Vec<UseLimit> = controls.windows.iter().map(|w| w.limit).collect();
        assert_eq!(
            limits,
            [UseLimit::Nothing],
            "the same name is the same window"
        );
        let after = made(&controls, &[ControlsChange::Resume]).unwrap_or_default();
        assert_eq!((after.version, after.pause), (2, None));
        assert_eq!(after.max_nodes, Some(7));
    }

    #[test]
    fn nonsense_changes_nothing() {
        refused(&[], "nothing is asked for");
        refused(&[pause(UseLimit::Nothing, Some(1000))], "in the past");
        refused(
            &[ControlsChange::Only {
                patterns: vec!["a[".to_owned()],
            }],
            "not closed",
        );
        refused(
            &[ControlsChange::RemoveWindow {
                name: "x".to_owned(),
            }],
            "no window named",
        );
        refused(
            &[ControlsChange::Undrain {
                nodes: vec![node("a")],
            }],
            "none of these nodes is drained",
        );
        refused(
            &[ControlsChange::Drain {
                nodes: vec![node("a")],
                reason: "two\nlines".to_owned(),
            }],
            "control characters",
        );
        refused(
            &[
                ControlsChange::MaxNodes { nodes: Some(1) },
                ControlsChange::SetWindow(UseWindow {
                    name: "w".to_owned(),
                    days: Vec::new(),
                    from: "08:00".to_owned(),
                    to: "09:00".to_owned(),
                    zone: Some("Mars/Base".to_owned()),
                    limit: UseLimit::NoGrowth,
                }),
            ],
            "no time zone",
        );
    }
}
