//! A placement of layers on kinds of node: which stage is where, and what it waits for.

use std::fmt::Write;

use super::shell::{self, Table};
use super::svg::{WIDTH, escape, open, rect, text};

/// A stage of a placement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LayersStage {
    /// The kind of node.
    pub kind: String,
    /// Its units.
    pub units: u32,
    /// The names of its layers.
    pub layers: Vec<String>,
    /// Computation, seconds a sample.
    pub compute_s: f64,
    /// Communication, seconds a sample.
    pub communication_s: f64,
}

/// The page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layers {
    /// Its heading.
    pub title: String,
    /// The line below.
    pub subtitle: String,
    /// Figures: name and value.
    pub figures: Vec<(String, String)>,
    /// Remarks, one paragraph each.
    pub notes: Vec<String>,
    /// The stages in the order of the layers.
    pub stages: Vec<LayersStage>,
    /// The heads of the columns of the table of kinds, and its rows.
    pub kinds: (Vec<String>, Vec<Vec<String>>),
}

const PIPELINE: &str = "a box is a stage, as wide as its number of layers, in the row of its kind; \
                        <i class='used'></i>computation <i class='pale'></i>communication, as shares \
                        of the time of the slowest stage";

/// Draws a placement as one self-contained HTML page.
#[must_use]
pub fn render_layers(layers: &Layers) -> String {
    let mut body = String::new();
    shell::pairs(&mut body, "figures", &layers.figures);
    for note in &layers.notes {
        let _ = write!(body, "<p>{}</p>", escape(note));
    }
    shell::section(
        &mut body,
        "The pipeline",
        PIPELINE,
        &pipeline(&layers.stages),
        "",
    );
    let mut stages = Table::new(&["layers", "kind", "units", "computation", "communication"]);
    for stage in &layers.stages {
        stages.row([
            stage.layers.join(", "),
            stage.kind.clone(),
            stage.units.to_string(),
            micro(stage.compute_s),
            micro(stage.communication_s),
        ]);
    }
    shell::section(&mut body, "Stages", "", &stages.html(), "");
    let (head, rows) = &layers.kinds;
    let kinds = Table {
        head: head.clone(),
        rows: rows
            .iter()
            .map(|row| row.iter().cloned().map(Into::into).collect())
            .collect(),
    };
    shell::section(&mut body, "Kinds", "", &kinds.html(), "");
    shell::page(&layers.title, &layers.subtitle, &body)
}

fn micro(seconds: f64) -> String {
    format!("{:.3} us/sample", seconds * 1e6)
}

/// A row for each kind, a box for each stage.
fn pipeline(stages: &[LayersStage]) -> String {
    const LEFT: f64 = 110.0;
    const ROW: f64 = 74.0;
    let mut kinds: Vec<&str> = Vec::new();
    for stage in stages {
        if !kinds.contains(&stage.kind.as_str()) {
            kinds.push(&stage.kind);
        }
    }
    let count: usize = stages.iter().map(|stage| stage.layers.len()).sum();
    let wide = (WIDTH - LEFT - 10.0) / count.max(1) as f64;
    let times = stages.iter().map(|s| s.compute_s.max(s.communication_s));
    let slowest = times.fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW * kinds.len() as f64 + 20.0;
    let mut out = open(WIDTH, height, "stages by kind");
    for (row, kind) in kinds.iter().enumerate() {
        let top = ROW * row as f64 + 6.0;
        rect(
            &mut out,
            "batch",
            (LEFT, top),
            WIDTH - LEFT - 10.0,
            ROW - 10.0,
        );
        text(
            &mut out,
            "words",
            (LEFT - 8.0, top + ROW / 2.0 - 2.0),
            "end",
            kind,
        );
    }
    let mut from = 0;
    let mut last: Option<(f64, f64)> = None;
    for stage in stages {
        let row = kinds
            .iter()
            .position(|kind| *kind == stage.kind)
            .unwrap_or(0);
        let (x, top) = (LEFT + wide * from as f64, ROW * row as f64 + 6.0);
        let width = wide * stage.layers.len() as f64 - 2.0;
        let middle = top + (ROW - 10.0) / 2.0;
        if let Some((x0, y0)) = last {
            let _ = write!(
                out,
                "<path class='ideal' d='M{x0:.1} {y0:.1}L{x:.1} {middle:.1}'/>"
            );
        }
        let _ = write!(
            out,
            "<g><title>{}</title>",
            escape(&stage.layers.join(", "))
        );
        rect(&mut out, "whole", (x, top + 4.0), width, ROW - 18.0);
        for (class, part, seconds) in [
            ("used", 0.0, stage.compute_s),
            ("pale", 1.0, stage.communication_s),
        ] {
            let long = (width - 6.0).max(0.0) * seconds / slowest;
            rect(
                &mut out,
                class,
                (x + 3.0, top + 32.0 + 10.0 * part),
                long,
                8.0,
            );
        }
        let words = format!("{} units", stage.units);
        text(&mut out, "over", (x + 4.0, top + 22.0), "start", &words);
        out.push_str("</g>");
        last = Some((x + width, middle));
        from += stage.layers.len();
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_each_stage_and_no_raw_names() {
        let stage = |kind: &str, units, layers: &[&str]| LayersStage {
            kind: kind.to_owned(),
            units,
            layers: layers.iter().map(|l| (*l).to_owned()).collect(),
            compute_s: 1e-6,
            communication_s: 5e-7,
        };
        let page = render_layers(&Layers {
            title: "a & b".to_owned(),
            stages: vec![
                stage("cpu", 12, &["<table>"]),
                stage("gpu", 3, &["one", "two"]),
            ],
            ..Layers::default()
        });
        assert!(
            page.contains("a &amp; b") && page.contains("&lt;table&gt;"),
            "{page}"
        );
        assert!(
            page.contains("12 units") && page.contains("3 units"),
            "{page}"
        );
        assert!(
            !page.contains("<table>one") && page.ends_with("</html>\n"),
            "{page}"
        );
    }
}
