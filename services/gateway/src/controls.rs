//! The operator's controls, as text.

use lacuna_model::{NodeId, UseLimit, UseWindow};
use lacuna_wire::msg::Controls;
use serde::Serialize;

/// Most drained nodes that are named. Of further ones only the number is shown.
const NAMED: usize = 12;

/// The controls that are set. Times are milliseconds since 1970.
#[derive(Debug, Serialize)]
pub(crate) struct Wanted<'a> {
    pause: Option<PauseRow<'a>>,
    drained: usize,
    /// The first drained nodes, with the reasons.
    named: Vec<(&'a NodeId, &'a str)>,
    only: &'a [String],
    avoid: &'a [String],
    max_nodes: Option<u32>,
    keep_idle: Option<u32>,
    windows: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PauseRow<'a> {
    limit: String,
    by: &'a str,
    reason: &'a str,
    since: i64,
    until: Option<i64>,
}

fn limit(limit: UseLimit) -> String {
    match limit {
        UseLimit::NoGrowth => "no further node is taken".to_owned(),
        UseLimit::AtMost { nodes } => format!("at most {nodes} nodes are used"),
        UseLimit::KeepIdle { nodes } => format!("{nodes} idle nodes stay free"),
        UseLimit::Nothing => "no node is used".to_owned(),
    }
}

fn window(window: &UseWindow) -> String {
    let days = if window.days.is_empty() {
        "every day".to_owned()
    } else {
        window.days.join(", ")
    };
    let zone = window.zone.as_deref().map(|zone| format!(" ({zone})"));
    format!(
        "{}: {days} from {} to {}{}, {}",
        window.name,
        window.from,
        window.to,
        zone.unwrap_or_default(),
        limit(window.limit)
    )
}

/// The controls, if any are set.
pub(crate) fn wanted(controls: &Controls) -> Option<Wanted<'_>> {
    let nothing = Controls {
        version: controls.version,
        ..Controls::default()
    };
    if *controls == nothing {
        return None;
    }
    Some(Wanted {
        pause: controls.pause.as_ref().map(|pause| PauseRow {
            limit: limit(pause.limit),
            by: &pause.by,
            reason: &pause.reason,
            since: pause.since.unix_ms(),
            until: pause.until.map(lacuna_model::Timestamp::unix_ms),
        }),
        drained: controls.drained.len(),
        named: controls
            .drained
            .iter()
            .take(NAMED)
            .map(|(node, drain)| (node, drain.reason.as_str()))
            .collect(),
        only: &controls.only,
        avoid: &controls.avoid,
        max_nodes: controls.max_nodes,
        keep_idle: controls.keep_idle,
        windows: controls.windows.iter().map(window).collect(),
    })
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Pause, Timestamp};

    use super::*;

    #[test]
    fn default_controls_are_not_shown_and_others_are_text() {
        let mut controls = Controls {
            version: 7,
            ..Controls::default()
        };
        assert!(wanted(&controls).is_none());
        controls.pause = Some(Pause {
            limit: UseLimit::AtMost { nodes: 12 },
            until: None,
            by: "ada".to_owned(),
            since: Timestamp::from_unix(5),
            reason: "a test of the fans".to_owned(),
        });
        controls.windows.push(UseWindow {
            name: "nights".to_owned(),
            days: vec!["sat".to_owned(), "sun".to_owned()],
            from: "20:00".to_owned(),
            to: "06:00".to_owned(),
            zone: Some("Europe/Berlin".to_owned()),
            limit: UseLimit::Nothing,
        });
        let shown = serde_json::to_value(wanted(&controls).unwrap()).unwrap();
        assert_eq!(shown["pause"]["limit"], "at most 12 nodes are used");
        assert_eq!(shown["pause"]["since"], 5000);
        assert_eq!(
            shown["windows"][0],
            "nights: sat, sun from 20:00 to 06:00 (Europe/Berlin), no node is used"
        );
    }
}
