//! Selection of nodes on the command line: names, ranges as in `a[01-16]`, and patterns as in `a*`.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, TrainerSpec};
use lacuna_trace::hosts;
use lacuna_trainer::controls::Pattern;

/// The number of nodes that an error shows as examples.
const SHOWN: usize = 3;

/// Names of nodes, with ranges expanded, in the order in which they were typed.
///
/// # Errors
/// In words: an invalid name, an invalid range, too many nodes, or none.
pub(crate) fn expand<S: AsRef<str>>(texts: &[S]) -> Result<Vec<NodeId>, String> {
    let (mut nodes, mut total) = (Vec::new(), 0_u64);
    for text in texts.iter().map(AsRef::as_ref) {
        let more = hosts::size(text).map_err(|e| e.to_string())?;
        if more == 0 {
            return Err(format!("{text:?} names no node"));
        }
        total = total.saturating_add(more);
        // The limit is that of a trainer's nodes.
        let most = u64::from(TrainerSpec::MOST_NODES);
        if total > most {
            return Err(format!(
                "{text:?} would make it {total} nodes: expected at most {most}"
            ));
        }
        let mut wrong = None;
        hosts::expand(text, &mut |name| match NodeId::new(name) {
            Ok(node) => nodes.push(node),
            Err(error) => wrong = wrong.take().or(Some(error)),
        })
        .map_err(|e| e.to_string())?;
        if let Some(error) = wrong {
            return Err(error.to_string());
        }
    }
    Ok(nodes)
}

/// A selection of nodes as it was typed.
#[derive(Debug, Clone)]
pub(crate) struct NodeSelector {
    names: BTreeSet<NodeId>,
    patterns: Vec<(String, Pattern)>,
}

impl NodeSelector {
    /// Parses names, ranges and patterns separated by commas.
    ///
    /// # Errors
    /// As [`expand`]; a pattern is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (patterns, names): (Vec<String>, Vec<String>) = split(text)
            .into_iter()
            .filter(|part| !part.is_empty())
            .partition(|part| part.contains(['*', '?']));
        if patterns.is_empty() && names.is_empty() {
            return Err(format!("{text:?} names no node"));
        }
        let read = |text: String| match Pattern::parse(&text) {
            Ok(pattern) => Ok((text, pattern)),
            Err(error) => Err(error.to_string()),
        };
        Ok(Self {
            names: expand(&names)?.into_iter().collect(),
            patterns: patterns.into_iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the selection includes a node.
    #[must_use]
    pub(crate) fn has(&self, node: &NodeId) -> bool {
        let mut patterns = self.patterns.iter();
        self.names.contains(node) || patterns.any(|(_, pattern)| pattern.matches(node.as_str()))
    }

    /// The nodes of `known` that are selected, and the selected names that are not in `known`.
    ///
    /// # Errors
    /// In words: a pattern matches none of them.
    pub(crate) fn among(
        &self,
        known: &BTreeSet<NodeId>,
    ) -> Result<(BTreeSet<NodeId>, Vec<NodeId>), String> {
        for (text, pattern) in &self.patterns {
            if !known.iter().any(|node| pattern.matches(node.as_str())) {
                return Err(format!(
                    "{text} matches no node: {}",
                    examples_like(known.iter().map(NodeId::as_str), text)
                ));
            }
        }
        let found = known.iter().filter(|node| self.has(node)).cloned();
        Ok((
            found.collect(),
            self.names.difference(known).cloned().collect(),
        ))
    }
}

/// The union of several selections, each within `known`.
///
/// # Errors
/// As [`NodeSelector::among`]; or a name is not in `known`.
pub(crate) fn all_among(
    selectors: &[NodeSelector],
    known: &BTreeSet<NodeId>,
) -> Result<BTreeSet<NodeId>, String> {
    let mut all = BTreeSet::new();
    for selector in selectors {
        let (found, unknown) = selector.among(known)?;
        if let Some(first) = unknown.first() {
            return Err(format!(
                "no event has named {}: {}",
                first_few(&unknown),
                examples_like(known.iter().map(NodeId::as_str), first.as_str())
            ));
        }
        all.extend(found);
    }
    Ok(all)
}

/// The first few of some nodes, and the number of the others.
#[must_use]
pub(crate) fn first_few(nodes: &[NodeId]) -> String {
    let shown: Vec<&str> = nodes.iter().take(SHOWN).map(NodeId::as_str).collect();
    match nodes.len().saturating_sub(SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

/// The number of known names, and those that share the longest beginning with a text.
pub(super) fn examples_like<'a>(
    known: impl Iterator<Item = &'a str> + Clone,
    text: &str,
) -> String {
    let alike = |name: &&str| {
        let pairs = name.bytes().zip(text.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let Some(most) = known.clone().map(|name| alike(&name)).max() else {
        return "there is none yet".to_owned();
    };
    let near = known.clone().filter(|name| alike(name) == most);
    let near: Vec<&str> = near.take(SHOWN).collect();
    format!("there are {}, such as {}", known.count(), near.join(" "))
}

/// The parts between commas outside brackets.
#[must_use]
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for c in text.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        if c == ',' && !inside {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> BTreeSet<NodeId> {
        names.iter().map(|n| NodeId::new(n).unwrap()).collect()
    }

    #[test]
    fn ranges_are_expanded_and_bounded() {
        let nodes = expand(&["b", "a[08-10],c"]).unwrap();
        let names: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
        assert_eq!(names, ["b", "a08", "a09", "a10", "c"]);
        assert_eq!(expand(&["n[1-262144]"]).unwrap().len(), 262_144);
        for (texts, said) in [
            (&["n[1-99999999]"][..], "99999999 nodes"),
            (&["a", "n[1-262144]"], "262145 nodes"),
            (&["a[3-1]"], "rising ranges"),
            (&["a[1-"], "closed brackets"),
            (&["a.b>*"], "not usable"),
            (&["n12*"], "not usable"),
            (&[""], "names no node"),
            (&["a", "None"], "names no node"),
        ] {
            let error = expand(texts).unwrap_err();
            assert!(error.contains(said), "{texts:?}: {error}");
        }
    }

    #[test]
    fn a_pattern_without_match_is_an_error_that_names_similar_nodes() {
        let known = known(&["a01", "a02", "n7", "n8", "n9", "n10"]);
        let among = |texts: &[&str]| {
            let selectors: Vec<NodeSelector> = texts
                .iter()
                .map(|t| NodeSelector::parse(t).unwrap())
                .collect();
            all_among(&selectors, &known)
        };
        let names = |found: BTreeSet<NodeId>| {
            let names: Vec<&str> = found.iter().map(NodeId::as_str).collect();
            names.join(" ")
        };
        assert_eq!(names(among(&["a*", "n[7-8]"]).unwrap()), "a01 a02 n7 n8");
        assert_eq!(names(among(&["n?,a02"]).unwrap()), "a02 n7 n8 n9");
        assert_eq!(
            among(&["a01", "n12*"]).unwrap_err(),
            "n12* matches no node: there are 6, such as n10"
        );
        assert_eq!(
            among(&["a[01-09]"]).unwrap_err(),
            "no event has named a03 a04 a05 and 4 more: there are 6, such as a01 a02"
        );
        let (found, unknown) = NodeSelector::parse("a[02-03]")
            .unwrap()
            .among(&known)
            .unwrap();
        assert_eq!(
            (names(found), first_few(&unknown)),
            ("a02".into(), "a03".into())
        );
        let none = NodeSelector::parse("a*").unwrap().among(&BTreeSet::new());
        assert!(none.unwrap_err().contains("there is none yet"));
    }

    #[test]
    fn an_impossible_node_is_refused_when_it_is_parsed() {
        for (text, said) in [
            ("n[1-99999999]", "99999999 nodes"),
            ("a.b>*", "matches"),
            ("a>b", "not usable"),
            (",", "names no node"),
            ("a*b*c*d*", "more than three"),
        ] {
            match NodeSelector::parse(text) {
                Err(error) => assert!(error.contains(said), "{text}: {error}"),
                // A pattern may have characters that no name has; it then matches nothing.
                Ok(selector) => {
                    let error = selector.among(&known(&["a.b"])).unwrap_err();
                    assert!(error.contains(said), "{text}: {error}");
                }
            }
        }
    }
}
