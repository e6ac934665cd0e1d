//! Lacuna: a table `node,leaf[,pod[,...]]`, one node or list of nodes a line.

use lacuna_model::Topology;

use super::error::TopologyFileError;
use super::rows::Rows;
use super::tree::{expand, node_id};
use crate::FieldError;

/// Whether a first line is the header.
pub(super) fn knows(line: &str) -> bool {
    let mut columns = line.split(',').map(str::trim);
    columns.next() == Some("node") && columns.next() == Some("leaf")
}

/// Reads the rows below the header.
pub(super) fn read(text: &str) -> Result<Topology, TopologyFileError> {
    let mut rows = Rows::default();
    let content = |line: &str| !line.is_empty() && !line.starts_with('#');
    let mut lines = super::lines(text).filter(|(_, line)| content(line));
    let width = lines
        .next()
        .map_or(0, |(_, header)| header.split(',').count());
    for (number, line) in lines {
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let (Some((node, path)), true) = (
            columns.split_first(),
            columns.len() == width && columns.iter().all(|column| !column.is_empty()),
        ) else {
            let expected = format!("{width} columns, as the header has, none empty");
            return Err(TopologyFileError::new(
                number,
                FieldError::new("row", expected, format!("{line:?}")),
            ));
        };
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let mut result = Ok(());
        expand("column 1 (node)", node, number, &mut |name| {
            if result.is_ok() {
                let node = node_id(name, number);
                result = node.and_then(|node| rows.add(node, path.clone(), number));
            }
        })?;
        result?;
    }
    rows.finish()
}
