//! Every dependency comes under a licence that `deny.toml` allows. `cargo deny` checks the
//! same and more; this test needs no further program.

use std::collections::BTreeSet;

use super::metadata::Graph;
use crate::support;

/// Whether an SPDX expression can be met with these licences. `/` is the old way to write OR.
fn met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (value, rest) = either(&tokens, allowed);
    assert!(rest.is_empty(), "cannot read the licence {expression:?}");
    value
}

fn either<'t>(tokens: &'t [&'t str], allowed: &BTreeSet<String>) -> (bool, &'t [&'t str]) {
    let (mut value, mut rest) = both(tokens, allowed);
    while let [first, after @ ..] = rest
        && *first == "OR"
    {
        let (right, left_over) = both(after, allowed);
        value |= right;
        rest = left_over;
    }
    (value, rest)
}

fn both<'t>(tokens: &'t [&'t str], allowed: &BTreeSet<String>) -> (bool, &'t [&'t str]) {
    let (mut value, mut rest) = one(tokens, allowed);
    while let [first, after @ ..] = rest
        && *first == "AND"
    {
        let (right, left_over) = one(after, allowed);
        value &= right;
        rest = left_over;
    }
    (value, rest)
}

fn one<'t>(tokens: &'t [&'t str], allowed: &BTreeSet<String>) -> (bool, &'t [&'t str]) {
    match tokens {
        ["(", inner @ ..] => {
            let (value, rest) = either(inner, allowed);
            match rest {
                [")", after @ ..] => (value, after),
                _ => (false, rest),
            }
        }
        [id, "WITH", exception, rest @ ..] => {
            (allowed.contains(&format!("{id} WITH {exception}")), rest)
        }
        [id, rest @ ..] => (allowed.contains(*id), rest),
        [] => (false, tokens),
    }
}

fn allowed() -> BTreeSet<String> {
    let deny: toml::Table = support::read("deny.toml")
        .parse()
        .expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("a list");
    list.iter()
        .map(|v| v.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn licence_expressions_are_read() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for (expression, expected) in [
        ("MIT", true),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("(BSD-1-Clause OR GPL-3.0) AND ISC", false),
        ("MIT WITH some-exception", false),
    ] {
        assert_eq!(met(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn licences_of_all_dependencies_are_allowed() {
    let allowed = allowed();
    for package in Graph::get().packages.values() {
        let licence = package.licence.as_deref();
        let licence = licence.unwrap_or_else(|| panic!("{} names no licence", package.name));
        assert!(
            met(licence, &allowed),
            "{} is under {licence:?}, which deny.toml does not allow",
            package.name
        );
    }
}

#[test]
fn no_licence_is_allowed_without_need() {
    let allowed = allowed();
    for licence in &allowed {
        let mut without = allowed.clone();
        without.remove(licence);
        let needed = Graph::get()
            .packages
            .values()
            .any(|p| !met(p.licence.as_deref().unwrap_or_default(), &without));
        assert!(
            needed,
            "deny.toml allows {licence}, but no dependency needs it"
        );
    }
}
