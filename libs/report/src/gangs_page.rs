//! Policies of gangs beside each other: completion times, use of the cluster, and its machines over
//! time.

use std::fmt::Write;

use super::charts;
use super::gangs_data::GangsPolicy;
use super::shell::{self, Table};
use super::svg::escape;

/// A trace on a cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GangsCase {
    /// Its heading.
    pub title: String,
    /// The heads of its tables' columns, and the rows, with a heading for each table.
    pub tables: Vec<(String, Vec<String>, Vec<Vec<String>>)>,
    /// The policies, in the order of the page.
    pub policies: Vec<GangsPolicy>,
    /// Number of GPUs of a machine.
    pub machine_gpus: u32,
    /// The machines, by rack.
    pub racks: Vec<Vec<u32>>,
}

/// The page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gangs {
    /// Its heading.
    pub title: String,
    /// The line below.
    pub subtitle: String,
    /// Remarks, one paragraph each.
    pub notes: Vec<String>,
    /// The cases.
    pub cases: Vec<GangsCase>,
}

const COMPLETION: &str = "box: middle half; line: 5 % to 95 %; mark: median; dot: mean";
const USE: &str = "<i class='used'></i>gangs within a machine <i class='sky'></i>over machines of a \
                   rack <i class='pale'></i>over racks; \
                   cut at twice the median end of policies";

/// Draws policies of gangs as one self-contained HTML page.
#[must_use]
pub fn render_gangs(gangs: &Gangs) -> String {
    let mut body = String::new();
    for note in &gangs.notes {
        let _ = write!(body, "<p>{}</p>", escape(note));
    }
    for case in &gangs.cases {
        draw(&mut body, case);
    }
    shell::page(&gangs.title, &gangs.subtitle, &body)
}

/// The end of a policy's last gang, seconds.
fn end_s(policy: &GangsPolicy) -> f64 {
    let ends = policy.segments.iter().map(|segment| segment.until_s);
    ends.fold(0.0, f64::max)
}

/// The time that is drawn of all policies: twice the median of their ends, so that a single slow one
/// does not hide the others.
fn shown_s(policies: &[GangsPolicy]) -> f64 {
    let mut ends: Vec<f64> = policies.iter().map(end_s).collect();
    ends.sort_unstable_by(f64::total_cmp);
    let median = ends.get(ends.len() / 2).copied().unwrap_or(0.0);
    ends.last().copied().unwrap_or(0.0).min(2.0 * median)
}

fn draw(out: &mut String, case: &GangsCase) {
    for (title, head, rows) in &case.tables {
        let table = Table {
            head: head.clone(),
            rows: rows
                .iter()
                .map(|row| row.iter().cloned().map(Into::into).collect())
                .collect(),
        };
        let heading = format!("{}: {title}", case.title);
        shell::section(out, &heading, "", &table.html(), "");
    }
    if case.policies.is_empty() {
        return;
    }
    let spreads = charts::spreads(&case.policies);
    let heading = format!("{}: time from arrival to end", case.title);
    shell::section(out, &heading, COMPLETION, &spreads, "");
    let machines: usize = case.racks.iter().map(Vec::len).sum();
    let gpus = f64::from(case.machine_gpus) * machines as f64;
    let strips = case.policies.iter();
    let strips =
        strips.map(|policy| charts::Strip::new(&policy.name, gpus, policy.segments.iter()));
    let strips: Vec<_> = strips.collect();
    let drawn = charts::strips(&strips, shown_s(&case.policies), 34.0);
    let heading = format!("{}: GPUs in use over time", case.title);
    shell::section(out, &heading, USE, &drawn, "");
    for policy in &case.policies {
        let mut strips = Vec::new();
        for (rack, machines) in case.racks.iter().enumerate() {
            for (at, machine) in machines.iter().enumerate() {
                let of = policy.segments.iter().filter(|s| s.machine == *machine);
                let name = format!("rack {rack}, machine {at}");
                strips.push(charts::Strip::new(&name, f64::from(case.machine_gpus), of));
            }
        }
        let drawn = charts::strips(&strips, end_s(policy), 15.0);
        let map = format!(
            "<details><summary>machines over time under {}</summary>{drawn}</details>",
            escape(&policy.name)
        );
        out.push_str(&map);
    }
}
