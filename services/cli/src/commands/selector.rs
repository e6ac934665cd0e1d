//! Selection of nodes and trainers on the command line: names, ranges as in `a[01-16]`, and patterns
//! as in `a*`.

use std::collections::BTreeSet;

use lacuna_model::{IdError, NodeId, TrainerId, TrainerSpec};
use lacuna_records::hosts;
use lacuna_trainer::controls::Pattern;

/// The number of names that an error shows as examples.
const SHOWN: usize = 3;

/// A name that can be selected.
pub(crate) trait Name: Clone + Ord {
    /// What it names.
    const WHAT: &str;
    /// How an error about unknown names begins.
    const UNKNOWN: &str;

    /// Reads a name.
    ///
    /// # Errors
    /// [`IdError`] if it is not usable.
    fn read(text: &str) -> Result<Self, IdError>;

    /// The name as text.
    fn text(&self) -> &str;
}

impl Name for NodeId {
    const WHAT: &str = "node";
    const UNKNOWN: &str = "no event has named";

    fn read(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }

    fn text(&self) -> &str {
        self.as_str()
    }
}

impl Name for TrainerId {
    const WHAT: &str = "trainer";
    const UNKNOWN: &str = "there is no trainer named";

    fn read(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }

    fn text(&self) -> &str {
        self.as_str()
    }
}

/// Names with ranges expanded, in the order in which they were typed.
///
/// # Errors
/// In words: an invalid name, an invalid range, too many names, or none.
pub(crate) fn expand<N: Name, S: AsRef<str>>(texts: &[S]) -> Result<Vec<N>, String> {
    let (mut names, mut total) = (Vec::new(), 0_u64);
    for text in texts.iter().map(AsRef::as_ref) {
        let more = hosts::size(text).map_err(|e| e.to_string())?;
        if more == 0 {
            return Err(format!("{text:?} names no {}", N::WHAT));
        }
        total = total.saturating_add(more);
        // The limit is that of a trainer's nodes.
        let most = u64::from(TrainerSpec::MOST_NODES);
        if total > most {
            return Err(format!(
                "{text:?} would make it {total} {}s: expected at most {most}",
                N::WHAT
            ));
        }
        let mut wrong = None;
        hosts::expand(text, &mut |name| match N::read(name) {
            Ok(name) => names.push(name),
            Err(error) => wrong = wrong.take().or(Some(error)),
        })
        .map_err(|e| e.to_string())?;
        if let Some(error) = wrong {
            return Err(error.to_string());
        }
    }
    Ok(names)
}

/// A selection as it was typed.
#[derive(Debug, Clone)]
pub(crate) struct Selector<N> {
    names: BTreeSet<N>,
    patterns: Vec<(String, Pattern)>,
}

/// A selection of nodes.
pub(crate) type NodeSelector = Selector<NodeId>;
/// A selection of trainers.
pub(crate) type TrainerSelector = Selector<TrainerId>;

impl<N: Name> Selector<N> {
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
            return Err(format!("{text:?} names no {}", N::WHAT));
        }
        let (ranges, names): (Vec<String>, Vec<String>) = names
            .into_iter()
            .partition(|part| part.contains(['[', ']']));
        let plain = names.iter().map(|name| N::read(name));
        let plain: Result<BTreeSet<N>, IdError> = plain.collect();
        let mut names = plain.map_err(|error| error.to_string())?;
        names.extend(expand(&ranges)?);
        let read = |text: String| match Pattern::parse(&text) {
            Ok(pattern) => Ok((text, pattern)),
            Err(error) => Err(error.to_string()),
        };
        Ok(Self {
            names,
            patterns: patterns.into_iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the selection depends on which names are known.
    #[must_use]
    pub(crate) const fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether a name was typed, alone or in a range.
    #[must_use]
    pub(crate) fn names(&self, name: &N) -> bool {
        self.names.contains(name)
    }

    /// Whether the selection includes a name.
    #[must_use]
    pub(crate) fn has(&self, name: &N) -> bool {
        let mut patterns = self.patterns.iter();
        self.names.contains(name) || patterns.any(|(_, pattern)| pattern.matches(name.text()))
    }

    /// The names of `known` that are selected, and the selected names that are not in `known`.
    ///
    /// # Errors
    /// In words: a pattern matches none of them.
    pub(crate) fn among(&self, known: &BTreeSet<N>) -> Result<(BTreeSet<N>, Vec<N>), String> {
        for (text, pattern) in &self.patterns {
            if !known.iter().any(|name| pattern.matches(name.text())) {
                return Err(format!(
                    "{text} matches no {}: {}",
                    N::WHAT,
                    examples_like(known.iter().map(N::text), text)
                ));
            }
        }
        let found = known.iter().filter(|name| self.has(name)).cloned();
        Ok((
            found.collect(),
            self.names.difference(known).cloned().collect(),
        ))
    }
}

/// The union of several selections, each within `known`.
///
/// # Errors
/// As [`Selector::among`]; or a name is not in `known`.
pub(crate) fn all_among<N: Name>(
    selectors: &[Selector<N>],
    known: &BTreeSet<N>,
) -> Result<BTreeSet<N>, String> {
    let mut all = BTreeSet::new();
    for selector in selectors {
        let (found, unknown) = selector.among(known)?;
        if let Some(error) = unknown_among(&unknown, known) {
            return Err(error);
        }
        all.extend(found);
    }
    Ok(all)
}

/// In words: these names are not in `known`, and what is like the first. Nothing for no names.
pub(crate) fn unknown_among<N: Name>(unknown: &[N], known: &BTreeSet<N>) -> Option<String> {
    let near = examples_like(known.iter().map(N::text), unknown.first()?.text());
    Some(format!("{} {}: {near}", N::UNKNOWN, first_few(unknown)))
}

/// The first few of some names, and the number of the others.
#[must_use]
pub(crate) fn first_few<N: Name>(names: &[N]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(N::text).collect();
    match names.len().saturating_sub(SHOWN) {
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
        let nodes: Vec<NodeId> = expand(&["b", "a[08-10],c"]).unwrap();
        let names: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
        assert_eq!(names, ["b", "a08", "a09", "a10", "c"]);
        assert_eq!(
            expand::<NodeId, _>(&["n[1-262144]"]).unwrap().len(),
            262_144
        );
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
            let error = expand::<NodeId, _>(texts).unwrap_err();
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
    fn trainers_are_selected_as_nodes_are() {
        let known = ["sw-00", "sw-01", "sw-10", "None"].map(|name| TrainerId::new(name).unwrap());
        let known: BTreeSet<TrainerId> = known.into();
        let among = |text: &str| {
            let selector = TrainerSelector::parse(text).unwrap();
            let (found, unknown) = selector.among(&known)?;
            let names = |ids: &mut dyn Iterator<Item = &TrainerId>| -> Vec<String> {
                ids.map(ToString::to_string).collect()
            };
            Ok::<_, String>((names(&mut found.iter()), names(&mut unknown.iter())))
        };
        let both = |found: &[&str], unknown: &[&str]| {
            let all = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            Ok((all(found), all(unknown)))
        };
        assert_eq!(among("sw-0?,None"), both(&["None", "sw-00", "sw-01"], &[]));
        assert_eq!(among("sw-[01-02]"), both(&["sw-01"], &["sw-02"]));
        assert_eq!(
            among("sv-*"),
            Err("sv-* matches no trainer: there are 4, such as sw-00 sw-01 sw-10".to_owned())
        );
        assert!(
            TrainerSelector::parse("a b")
                .unwrap_err()
                .contains("not usable")
        );
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
