//! The files that the configuration names: the list of nodes, the trace, the topology and the kinds
//! of nodes.

use std::collections::BTreeSet;
use std::path::Path;

use lacuna_pool::UnknownNodes;
use lacuna_runtime::{Misconfigured, ServiceError, clock};
use lacuna_scheduler::ingest::{Ingest, Recording, RecordingPace};
use lacuna_trace::Window;
use lacuna_wire::msg::Pace;

use crate::topology::First;
use crate::trace_source::Trace;

/// The content of the files.
pub(crate) struct Files {
    pub(crate) nodes: UnknownNodes,
    pub(crate) recorded: Option<Trace>,
    pub(crate) first: First,
}

/// Reads the files.
///
/// # Errors
/// [`Misconfigured`] with file, line and column.
pub(crate) fn read_files(settings: &Ingest) -> Result<Files, Misconfigured> {
    read(settings).map_err(|e| Misconfigured(e.to_string()))
}

fn read(settings: &Ingest) -> Result<Files, ServiceError> {
    let nodes = match &settings.nodes_file {
        Some(path) => {
            let nodes = lacuna_trace::read_nodes(path)?;
            UnknownNodes::Refuse(nodes.into_iter().collect::<BTreeSet<_>>())
        }
        None => UnknownNodes::Accept,
    };
    let recorded = settings
        .recording
        .as_ref()
        .map(read_recording)
        .transpose()?;
    Ok(Files {
        nodes,
        recorded,
        first: First::read(settings)?,
    })
}

/// Identity of a trace: name and size of its files, and the chosen part.
fn fingerprint(recording: &Recording) -> Result<String, ServiceError> {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let size = std::fs::metadata(&recording.path)?.len();
    let mut text = format!("{} {size} B", name(&recording.path));
    if let Some(planned) = &recording.planned_file {
        let size = std::fs::metadata(planned)?.len();
        text += &format!(", planned starts {} {size} B", name(planned));
    }
    if let Some(start) = recording.start {
        text += &format!(", from {start}");
    }
    if let Some(end) = recording.end {
        text += &format!(", until {end}");
    }
    if let Some(count) = recording.first_nodes {
        text += &format!(", first {count} nodes");
        if let Some(order) = &recording.nodes_file {
            text += &format!(" of {}", name(order));
        }
    }
    Ok(text)
}

fn read_recording(recording: &Recording) -> Result<Trace, ServiceError> {
    let list = lacuna_trace::read_holes(&recording.path)?;
    let order = recording
        .nodes_file
        .as_ref()
        .map(|path| lacuna_trace::read_nodes(path))
        .transpose()?;
    let chosen = recording
        .first_nodes
        .map(|count| lacuna_trace::first_nodes(count, order.as_deref(), &list.records));
    let window = Window {
        start: recording.start,
        end: recording.end,
    };
    let planned = recording.planned_file.as_ref();
    let planned = planned.map(|path| lacuna_trace::read_planned(path, &list.records));
    let planned = planned.transpose()?.unwrap_or_default();
    let batches =
        lacuna_trace::event_batches(&list.records, &planned.starts, chosen.as_ref(), window);
    let last = list.end().ok_or("the trace has no holes")?;
    // As in the replay, a given end may be later than the last hole.
    let end = recording.end.unwrap_or(last);
    tracing::info!(
        holes = list.records.len(),
        refused = ?list.refused,
        planned_starts = planned.starts.len(),
        planned_without_hole = planned.without_hole,
        batches = batches.len(),
        %end,
        "trace read"
    );
    let pace = match recording.pace {
        RecordingPace::LockStep => Pace::LockStep,
        RecordingPace::Scaled => Pace::Scaled {
            rate: recording.rate,
            wall_at: clock::wall(),
        },
    };
    Ok(Trace {
        batches,
        end,
        pace,
        recording: fingerprint(recording)?,
    })
}
