//! Parts of all pages: head and foot, sections, tables.

use std::fmt::Write;

use super::style;
use super::svg::escape;

/// A self-contained page. `body` is HTML.
pub(super) fn page(title: &str, subtitle: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\
         <meta name='viewport' content='width=device-width, initial-scale=1'>\
         <title>{title}</title><style>{}</style></head><body>\n\
         <header><h1>{title}</h1><p>{}</p></header>\n{body}</body></html>\n",
        style::of_page(),
        escape(subtitle)
    )
}

/// A section: heading, legend and chart on one page of paper, and `after`, which may begin on the
/// next. `legend`, `chart` and `after` are HTML of this crate, with outside text escaped already.
pub(super) fn section(out: &mut String, heading: &str, legend: &str, chart: &str, after: &str) {
    write(out, "", [heading, legend, chart, after]);
}

/// A section that has half of a wide window.
pub(super) fn half(out: &mut String, heading: &str, legend: &str, chart: &str, after: &str) {
    write(out, " class='half'", [heading, legend, chart, after]);
}

fn write(out: &mut String, class: &str, [heading, legend, chart, after]: [&str; 4]) {
    let _ = write!(
        out,
        "<section{class}><div class='chart'><h2>{}</h2>",
        escape(heading)
    );
    if !legend.is_empty() {
        let _ = write!(out, "<p class='legend'>{legend}</p>");
    }
    let _ = writeln!(out, "{chart}</div>{after}</section>");
}

/// One chart of a drawing, with its height.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    pub(super) legend: &'a str,
    pub(super) chart: String,
    pub(super) height: f64,
}

/// Most characters of a line of a drawing's text.
const LINE: usize = 150;

/// A text in lines, broken at blanks.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < LINE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A drawing as one SVG file: a heading, text in lines, and charts below each other.
pub(super) fn drawing(heading: &str, words: &[String], panels: &[Panel<'_>]) -> String {
    let words: Vec<String> = words.iter().flat_map(|text| wrapped(text)).collect();
    let head = 58.0 + 16.0 * words.len() as f64;
    let height = head + panels.iter().map(|panel| panel.height + 44.0).sum::<f64>();
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='1000' height='{height:.0}' \
         viewBox='0 0 1000 {height:.0}'><style>{}</style>\
         <rect class='ground' width='1000' height='{height:.0}'/>\
         <text class='strong' x='16' y='26'>{}</text>",
        style::of_drawing(),
        escape(heading)
    );
    for (line, text) in words.iter().enumerate() {
        let y = 46.0 + 16.0 * line as f64;
        let _ = write!(
            out,
            "<text class='words' x='16' y='{y:.0}'>{}</text>",
            escape(text)
        );
    }
    let mut y = head;
    for panel in panels {
        let _ = write!(
            out,
            "<text class='strong' x='16' y='{:.0}'>{}</text>\
             <text class='tick' x='220' y='{:.0}'>{}</text>",
            y + 14.0,
            escape(panel.title),
            y + 14.0,
            escape(panel.legend)
        );
        let placed = format!(
            "<svg x='0' y='{:.0}' width='1000' height='{:.0}'",
            y + 24.0,
            panel.height
        );
        out.push_str(&panel.chart.replacen("<svg", &placed, 1));
        y += panel.height + 44.0;
    }
    out + "</svg>\n"
}

/// Labels and values side by side.
pub(super) fn pairs(out: &mut String, class: &str, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    let _ = write!(out, "<dl class='{class}'>");
    for (label, value) in pairs {
        let (label, value) = (escape(label), escape(value));
        let _ = write!(out, "<div><dt>{label}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n");
}

/// A table; every text is escaped here.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    /// A class of the style sheet, or empty.
    pub(super) class: &'static str,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            class: "",
        }
    }
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(Cell::from).collect());
    }

    /// The table, unfolded.
    pub(super) fn html(&self) -> String {
        // Two columns are a label and a text, and not columns of figures.
        let class = match self.head.len() {
            2 => "two",
            ..=9 => "many",
            _ => "many wide",
        };
        let mut out = format!("<div class='scroll'><table class='{class}'><thead><tr>");
        for name in &self.head {
            let _ = write!(out, "<th>{}</th>", escape(name));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for Cell { text, class } in row {
                if class.is_empty() {
                    let _ = write!(out, "<td>{}</td>", escape(text));
                } else {
                    let _ = write!(out, "<td class='{class}'>{}</td>", escape(text));
                }
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }

    /// The table, folded behind a line that opens it.
    pub(super) fn folded(&self, summary: &str) -> String {
        format!(
            "<details><summary>{}</summary>{}</details>",
            escape(summary),
            self.html()
        )
    }
}
