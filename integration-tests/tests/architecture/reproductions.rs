//! The reproductions: a workspace of its own, with the lints and the versions of the product, whose
//! licences are thus those that `deny.toml` allows.

use std::collections::BTreeSet;

use super::metadata::Graph;
use crate::support;

const FOLDER: &str = "integration-tests/reproductions";

fn table(file: &str) -> toml::Table {
    support::read(file).parse().unwrap()
}

/// The packages of a lock file: name and version.
fn locked(file: &str) -> BTreeSet<(String, String)> {
    let lock = table(file);
    let packages = lock["package"].as_array().unwrap().iter();
    let text = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
    packages
        .map(|package| (text(package, "name"), text(package, "version")))
        .collect()
}

#[test]
fn the_product_does_not_build_the_reproductions() {
    for (name, folder) in Graph::get().members() {
        assert!(
            !folder.starts_with(FOLDER),
            "{name} is a member of the workspace"
        );
    }
    for file in ["Cargo.toml", ".ci/run", "deploy/Dockerfile"] {
        let text = support::read(file);
        let built = text.lines().filter(|line| line.contains("reproduc"));
        let built: Vec<&str> = built.filter(|line| !line.contains("exclude")).collect();
        let comments = built.iter().all(|line| line.trim_start().starts_with('#'));
        assert!(comments, "{file} builds the reproductions: {built:?}");
    }
}

#[test]
fn lints_and_versions_of_the_reproductions_are_those_of_the_product() {
    let lints = |file: &str| table(file)["workspace"]["lints"].clone();
    let manifest = format!("{FOLDER}/Cargo.toml");
    assert_eq!(lints(&manifest), lints("Cargo.toml"));
    let own = locked(&format!("{FOLDER}/Cargo.lock"));
    let product = locked("Cargo.lock");
    let others: Vec<&str> = own
        .difference(&product)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(others, ["lacuna-gangs", "lacuna-reproductions"]);
    assert!(own.len() > 100, "only {} packages are locked", own.len());
}

/// A lock that is behind would let `make reproduce` fail, and no other command reads it.
#[test]
fn the_lock_of_the_reproductions_has_what_the_crates_of_the_product_need() {
    let lock = table(&format!("{FOLDER}/Cargo.lock"));
    let packages = lock["package"].as_array().unwrap();
    let mut looked_at = 0;
    for (name, folder) in Graph::get().members() {
        let locked = packages
            .iter()
            .find(|package| package["name"].as_str() == Some(name));
        let Some(locked) = locked else { continue };
        let has = locked.get("dependencies").and_then(toml::Value::as_array);
        let has = has.into_iter().flatten().filter_map(toml::Value::as_str);
        let has: BTreeSet<&str> = has.filter_map(|text| text.split(' ').next()).collect();
        let manifest = table(&format!("{folder}/Cargo.toml"));
        let needs = manifest.get("dependencies").and_then(toml::Value::as_table);
        let needs: BTreeSet<&str> = needs
            .into_iter()
            .flat_map(toml::Table::keys)
            .map(String::as_str)
            .collect();
        assert_eq!(has, needs, "{name}: cargo update --workspace in {FOLDER}");
        looked_at += 1;
    }
    assert!(looked_at > 10, "only {looked_at} crates");
}
