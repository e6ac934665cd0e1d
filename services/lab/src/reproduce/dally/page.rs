//! The results as a page.

use lacuna_gangs::{Ended, Kind, Segment};
use lacuna_report::{GangSegment, Gangs, GangsCase, GangsPolicy, Spread, render_gangs};

use super::case::Case;
use super::reference::AuthorsRuns;
use super::results::{Cell, Results};
use super::table;

/// The self-contained page. Its drawings are of the first order of the machines.
pub(super) fn page(results: &Results, authors: &AuthorsRuns) -> String {
    let of_case = |case: &Case| {
        let layout = case.layout();
        let machines = layout.as_ref().map_or(0, |layout| layout.rack_machines());
        let racks = 0..case.racks;
        GangsCase {
            title: case.label(),
            tables: table::tables(results, authors, case),
            policies: results.of(case).map(policy).collect(),
            machine_gpus: layout.map_or(1, |layout| layout.machine_gpus()),
            racks: racks
                .map(|rack| (rack * machines..(rack + 1) * machines).collect())
                .collect(),
        }
    };
    let mut cases: Vec<GangsCase> = results.cases.iter().map(of_case).collect();
    let overall = table::overall(results, authors);
    if !overall.is_empty() {
        cases.push(GangsCase {
            title: "All cases".to_owned(),
            tables: overall,
            ..GangsCase::default()
        });
    }
    let mut notes = table::notes(results);
    notes.push("Drawings show the run with the first order of the machines.".to_owned());
    render_gangs(&Gangs {
        title: "Gangs on a cluster of one's own".to_owned(),
        subtitle: results.verdict(),
        notes,
        cases,
    })
}

fn policy(cell: &Cell) -> GangsPolicy {
    let first = cell.runs.first();
    let jobs = first.map_or(&[][..], |run| &run.jobs);
    GangsPolicy {
        name: cell.policy.name.to_owned(),
        completion_s: jobs.iter().map(Ended::completion_s).collect(),
        segments: cell.segments.iter().map(segment).collect(),
    }
}

fn segment(segment: &Segment) -> GangSegment {
    GangSegment {
        machine: segment.machine,
        gpus: segment.gpus,
        spread: match segment.kind {
            Kind::Machine => Spread::Machine,
            Kind::Rack => Spread::Rack,
            Kind::Racks => Spread::Racks,
        },
        from_s: segment.from_s,
        until_s: segment.until_s,
    }
}
