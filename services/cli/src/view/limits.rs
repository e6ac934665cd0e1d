//! The limits on the use of nodes, as text and as JSON.

use serde_json::{Value, json};

use lacuna_model::{Controls, NodeId, Timestamp, UseLimit, UseState, UseWindow};

use crate::output::{iso, iso_short};
use crate::table::key_values;

/// The most names in one line.
const MOST_NAMES: usize = 20;

/// A limit in words.
#[must_use]
pub(crate) fn limit_text(limit: UseLimit) -> String {
    match limit {
        UseLimit::NoGrowth => "no growth".to_owned(),
        UseLimit::AtMost { nodes } => format!("at most {nodes} nodes"),
        UseLimit::KeepIdle { nodes } => format!("{nodes} idle nodes stay free"),
        UseLimit::Nothing => "nothing".to_owned(),
    }
}

/// The limits in force in one line; none if there are none.
#[must_use]
pub(crate) fn in_force(state: &UseState) -> Option<String> {
    let mut parts: Vec<String> = state
        .limits
        .iter()
        .map(|limit| {
            let mut text = format!("{}: {}", limit.by.name(), limit_text(limit.limit));
            if !limit.note.is_empty() {
                text = format!("{text} ({})", limit.note);
            }
            match limit.until {
                Some(until) => format!("{text} until {}", iso_short(until)),
                None => text,
            }
        })
        .collect();
    let drained = state.withheld.get(&lacuna_model::WithheldBy::Drained);
    let drained = drained.map_or(0, Vec::len);
    if drained > 0 {
        parts.push(format!("{drained} drained"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn names<'n>(nodes: impl ExactSizeIterator<Item = &'n NodeId>) -> String {
    let all = nodes.len();
    let mut text: Vec<&str> = nodes.take(MOST_NAMES).map(NodeId::as_str).collect();
    let more = format!("and {} more", all.saturating_sub(MOST_NAMES));
    if all > MOST_NAMES {
        text.push(&more);
    }
    text.join(" ")
}

fn window_text(window: &UseWindow) -> String {
    let days = if window.days.is_empty() {
        "every day".to_owned()
    } else {
        window.days.join(",")
    };
    let zone = window.zone.as_deref().unwrap_or("control's time zone");
    format!(
        "{days} {}-{} {zone}: {}",
        window.from,
        window.to,
        limit_text(window.limit)
    )
}

/// The text of `lacuna limits`.
#[must_use]
pub(crate) fn limits_text(controls: &Controls, state: &UseState, now: Timestamp) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    match &controls.pause {
        Some(pause) if pause.until.is_none_or(|until| until > now) => {
            let mut text = format!(
                "{} by {} since {}",
                limit_text(pause.limit),
                pause.by,
                iso_short(pause.since)
            );
            if let Some(until) = pause.until {
                text = format!("{text} until {}", iso_short(until));
            }
            if !pause.reason.is_empty() {
                text = format!("{text}: {}", pause.reason);
            }
            rows.push(("pause", text));
        }
        _ => rows.push(("pause", "none".to_owned())),
    }
    let cap = controls.max_nodes;
    let cap = cap.map_or_else(|| "none".to_owned(), |nodes| format!("{nodes} nodes"));
    rows.push(("cap", cap));
    if let Some(nodes) = controls.keep_idle {
        rows.push(("stay free", format!("{nodes} idle nodes")));
    }
    for (title, patterns) in [("only", &controls.only), ("avoid", &controls.avoid)] {
        if !patterns.is_empty() {
            rows.push((title, patterns.join(" ")));
        }
    }
    for window in &controls.windows {
        rows.push((
            "window",
            format!("{}: {}", window.name, window_text(window)),
        ));
    }
    if !controls.drained.is_empty() {
        rows.push(("drained", names(controls.drained.keys())));
    }
    if let Some(stop) = &controls.pilots_stopped {
        let since = iso_short(stop.since);
        rows.push(("pilots", format!("stopped by {} since {since}", stop.by)));
    }
    rows.push(("in use", format!("{} nodes", state.used)));
    let held = in_force(state).unwrap_or_else(|| "no limit".to_owned());
    rows.push(("now", held));
    if let Some(next) = state.next {
        rows.push(("changes at", iso_short(next)));
    }
    for (by, nodes) in &state.withheld {
        let text = format!("{} ({}): {}", by.name(), nodes.len(), names(nodes.iter()));
        rows.push(("not used", text));
    }
    key_values(&rows)
}

/// The value of `lacuna limits --json`.
#[must_use]
pub(crate) fn limits_json(controls: &Controls, state: &UseState) -> Value {
    let limit = |limit: UseLimit| match limit {
        UseLimit::NoGrowth => json!({ "limit": "no_growth" }),
        UseLimit::AtMost { nodes } => json!({ "limit": "at_most", "nodes": nodes }),
        UseLimit::KeepIdle { nodes } => json!({ "limit": "keep_idle", "nodes": nodes }),
        UseLimit::Nothing => json!({ "limit": "nothing" }),
    };
    let pause = controls.pause.as_ref().map(|pause| {
        json!({
            "limit": limit(pause.limit),
            "until": pause.until.map(iso),
            "by": pause.by,
            "since": iso(pause.since),
            "reason": pause.reason,
        })
    });
    let drained: Vec<Value> = controls
        .drained
        .iter()
        .map(|(node, drain)| {
            json!({
                "node": node,
                "by": drain.by,
                "since": iso(drain.since),
                "reason": drain.reason,
            })
        })
        .collect();
    let windows: Vec<Value> = controls
        .windows
        .iter()
        .map(|window| {
            json!({
                "name": window.name,
                "days": window.days,
                "from": window.from,
                "to": window.to,
                "zone": window.zone,
                "limit": limit(window.limit),
            })
        })
        .collect();
    let in_force: Vec<Value> = state
        .limits
        .iter()
        .map(|held| {
            json!({
                "by": held.by.name(),
                "limit": limit(held.limit),
                "note": held.note,
                "until": held.until.map(iso),
            })
        })
        .collect();
    json!({
        "version": controls.version,
        "pause": pause,
        "max_nodes": controls.max_nodes,
        "keep_idle": controls.keep_idle,
        "only": controls.only,
        "avoid": controls.avoid,
        "drained": drained,
        "windows": windows,
        "pilots_stopped": controls.pilots_stopped.as_ref().map(|stop| {
            json!({ "by": stop.by, "since": iso(stop.since) })
        }),
        "now": {
            "version": state.version,
            "used": state.used,
            "at_most": state.at_most,
            "no_growth": state.no_growth,
            "in_force": in_force,
            "changes_at": state.next.map(iso),
            "withheld": state.withheld,
            "down": state.down,
        },
    })
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Drain, LimitInForce, Pause, WithheldBy};

    use super::*;

    #[test]
    fn limits_in_force_are_shown_with_reason_and_end() {
        let at = Timestamp::from_unix;
        let node = |name: &str| NodeId::new(name).unwrap();
        let controls = Controls {
            version: 3,
            pause: Some(Pause {
                limit: UseLimit::AtMost { nodes: 3 },
                until: Some(at(7200)),
                by: "op".to_owned(),
                since: at(0),
                reason: "power".to_owned(),
            }),
            drained: [(
                node("a1"),
                Drain {
                    by: "op".to_owned(),
                    since: at(0),
                    reason: String::new(),
                },
            )]
            .into(),
            avoid: vec!["b*".to_owned()],
            ..Controls::default()
        };
        let state = UseState {
            version: 3,
            at_most: Some(3),
            limits: vec![LimitInForce {
                by: WithheldBy::Paused,
                limit: UseLimit::AtMost { nodes: 3 },
                note: "by op: power".to_owned(),
                until: Some(at(7200)),
            }],
            used: 2,
            next: Some(at(7200)),
            withheld: [(WithheldBy::Drained, vec![node("a1")])].into(),
            ..UseState::default()
        };
        let text = limits_text(&controls, &state, at(100));
        for part in [
            "at most 3 nodes by op",
            "power",
            "b*",
            "a1",
            "02:00:00Z",
            "1 drained",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(limits_text(&controls, &state, at(7200)).contains("none"));
        let value = limits_json(&controls, &state);
        assert_eq!(value["now"]["withheld"]["drained"][0], "a1");
        assert_eq!(in_force(&UseState::default()), None);
    }
}
