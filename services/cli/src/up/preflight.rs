//! Checks the files that ingest will read, before a process starts. A service that cannot read its
//! files would only be restarted again and again.

use lacuna_scheduler::ingest::{Ingest, Recording};

use crate::error::{CliError, Exit, Result};
use crate::output::iso;

fn wrong(what: impl std::fmt::Display) -> CliError {
    CliError::new("L0011", Exit::Config, what.to_string())
}

/// Reads each file that ingest will read.
///
/// # Errors
/// `L0011` with file, line, column and expectation, or the reason why nothing would be played.
pub(crate) fn check(settings: &Ingest) -> Result<()> {
    if let Some(path) = &settings.nodes_file {
        lacuna_trace::read_nodes(path).map_err(wrong)?;
    }
    settings.recording.as_ref().map_or(Ok(()), check_recording)
}

fn check_recording(recording: &Recording) -> Result<()> {
    let path = recording.path.display();
    let list = lacuna_trace::read_holes(&recording.path).map_err(wrong)?;
    if let Some(planned) = &recording.planned_file {
        lacuna_trace::read_planned(planned, &list.records).map_err(wrong)?;
    }
    if let Some(order) = &recording.nodes_file {
        lacuna_trace::read_nodes(order).map_err(wrong)?;
    }
    let Some(end) = list.end() else {
        return Err(wrong(format!("{path}: there is no hole in it")));
    };
    let first = list.records.iter().map(|r| r.from).min().unwrap_or(end);
    if let Some(start) = recording.start.filter(|start| *start >= end) {
        return Err(wrong(format!(
            "nothing to play: it is to start at {}, but {path} ends at {}",
            iso(start),
            iso(end)
        )));
    }
    let start = recording.start.map_or(first, |start| start.max(first));
    if let Some(until) = recording.end.filter(|until| *until <= start) {
        return Err(wrong(format!(
            "nothing to play: {path} is to end at {}, not after its start at {}",
            iso(until),
            iso(start)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lacuna_model::Timestamp;
    use lacuna_scheduler::ingest::RecordingPace;

    use super::*;

    fn settings(path: std::path::PathBuf) -> Ingest {
        Ingest {
            recording: Some(Recording {
                path,
                planned_file: None,
                nodes_file: None,
                first_nodes: None,
                pace: RecordingPace::Scaled,
                rate: 1.0,
                start: None,
                end: None,
            }),
            ..Ingest::default()
        }
    }

    #[test]
    fn an_unplayable_trace_is_refused_with_code_64() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("holes.csv");
        let header = "node,idle_from,idle_until,censored\n";
        let mut ingest = settings(path.clone());
        let complaint = |ingest: &Ingest| {
            let error = check(ingest).unwrap_err();
            assert_eq!(
                (error.exit.number(), error.code.as_deref()),
                (64, Some("L0011"))
            );
            error.message
        };
        assert!(complaint(&ingest).contains("cannot open"));
        std::fs::write(&path, header).unwrap();
        assert!(complaint(&ingest).contains("no hole"));
        std::fs::write(&path, format!("{header}a,soon,2,0\n")).unwrap();
        assert!(complaint(&ingest).contains("line 2, column 2"));
        std::fs::write(&path, format!("{header}a,100,200,0\n")).unwrap();
        check(&ingest).unwrap();
        let planned = dir.path().join("planned.csv");
        std::fs::write(&planned, "at,node,start\n150,a,150\n").unwrap();
        if let Some(recording) = &mut ingest.recording {
            recording.planned_file = Some(planned.clone());
        }
        assert!(complaint(&ingest).contains("line 2, column 3 (start)"));
        std::fs::write(&planned, "at,node,start\n150,a,160\n").unwrap();
        check(&ingest).unwrap();
        for (start, end, expected) in [
            (Some(200), None, "1970-01-01T00:03:20Z, but"),
            (None, Some(100), "not after its start"),
        ] {
            if let Some(recording) = &mut ingest.recording {
                recording.start = start.map(Timestamp::from_unix);
                recording.end = end.map(Timestamp::from_unix);
            }
            let said = complaint(&ingest);
            assert!(said.contains(expected), "{said}");
        }
    }
}
