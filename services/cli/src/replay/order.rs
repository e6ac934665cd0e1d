//! The order in which nodes are taken.

use std::path::Path;

use lacuna_forecast::OrderBy;
use lacuna_trace::read_nodes;

use crate::error::{CliError, Result};
use crate::log::unreadable;

/// Parses an order: by name, learnt, none, or a file with one name a line.
///
/// # Errors
/// The file cannot be read, has no name, or has one twice; the error names its line.
pub fn order(text: &str) -> Result<OrderBy> {
    match text {
        "name" | "names" => Ok(OrderBy::Names),
        "learnt" => Ok(OrderBy::Learnt),
        "none" => Ok(OrderBy::None),
        file => {
            let path = Path::new(file);
            if !path.exists() {
                return Err(
                    CliError::failed(format!("--order {file}: there is no such file"))
                        .remedy("expected names, learnt, none, or a file with one name a line"),
                );
            }
            let nodes = read_nodes(path).map_err(unreadable)?;
            let names = nodes.iter().map(|node| node.as_str().to_owned());
            Ok(OrderBy::List(names.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_twice_is_refused_with_its_line() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("order.txt");
        std::fs::write(&path, "n1\n\n# the rest\nn2\nn1\n").unwrap();
        let error = order(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("order.txt"), "{error}");
        assert!(error.contains("line 5") || error.contains(":5"), "{error}");
        assert!(error.contains("n1"), "{error}");
        std::fs::write(&path, "n1\nn2\n").unwrap();
        let list = OrderBy::List(vec!["n1".to_owned(), "n2".to_owned()]);
        assert_eq!(order(path.to_str().unwrap()).unwrap(), list);
    }
}
