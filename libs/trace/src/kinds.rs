//! Lists of the kinds of nodes: `node,kind`, one node a line, or a range as in `n[001-018],cpu`.

use std::collections::BTreeMap;
use std::path::Path;

use lacuna_model::{KindName, NodeId};
use lacuna_records::fields::unexpected;
use lacuna_records::hosts;

use crate::rows::Rows;
use crate::{ReadError, open};

/// The header of a list of kinds.
pub const KINDS_HEADER: &str = "node,kind";

/// Reads the kind of each node, plain, gzip or zstd.
///
/// # Errors
/// [`ReadError`] with the line of a wrong name or of a node of two kinds, and for an empty list.
pub fn read_kinds(path: &Path) -> Result<BTreeMap<NodeId, KindName>, ReadError> {
    let mut rows = Rows::<_, 2>::new(path, open(path)?, KINDS_HEADER)?;
    let mut kinds: BTreeMap<NodeId, KindName> = BTreeMap::new();
    while let Some(()) = rows.next(|[node, kind]| {
        let text = std::str::from_utf8(kind).ok();
        let named = text.and_then(|text| KindName::new(text).ok());
        let expected = "a kind, 1 to 64 of A-Z a-z 0-9 _ - .";
        let named = named.ok_or_else(|| unexpected("column 2 (kind)", expected, kind))?;
        let mut wrong = None;
        let mut take = |name: &str| {
            let Ok(name) = NodeId::new(name) else {
                let expected = "a node, or a range as in n[001-018]";
                wrong.get_or_insert_with(|| unexpected("column 1 (node)", expected, node));
                return;
            };
            match kinds.insert(name, named.clone()) {
                Some(before) if before != named => {
                    let expected = format!("{before}, as an earlier line says");
                    wrong.get_or_insert_with(|| unexpected("column 2 (kind)", &expected, kind));
                }
                _ => {}
            }
        };
        hosts::expand(&String::from_utf8_lossy(node), &mut take)?;
        wrong.map_or(Ok(()), Err)
    })? {}
    if kinds.is_empty() {
        return Err(ReadError::Empty {
            path: path.to_owned(),
            expected: "one node with its kind a line",
        });
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_kind_and_errors_name_the_line() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("kinds.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_kinds(&path)
        };
        let kinds = read("node,kind\nn1,cpu\nn2,gpu\nn1,cpu\n").unwrap();
        assert_eq!(kinds.len(), 2);
        let kinds = read("node,kind\nn[01-12],cpu\ng1,gpu\n").unwrap();
        assert_eq!(kinds.len(), 13);
        for (text, line, what) in [
            (
                "node,kind\nn1,cpu\nn1,gpu\n",
                "line 3",
                "cpu, as an earlier",
            ),
            ("node,kind\nn1,a b\n", "line 2", "a kind"),
            ("node,kind\nn 1,a\n", "line 2", "a range as in"),
            ("node,kind\nn[2-1],a\n", "line 2", "n[2-1]"),
            ("node,kind\nn1\n", "line 2", "2 columns"),
            ("node,kind\n", "", "one node with its kind"),
            ("node,leaf\nn1,a\n", "line 1", "node,kind"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(line) && error.contains(what), "{error}");
        }
    }
}
