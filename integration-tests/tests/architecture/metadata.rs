//! The dependency graph of cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use crate::support;

/// Packages and the arrows between them.
pub(super) struct Graph {
    /// By package id: name, folder relative to the root (workspace members only), licence.
    pub(super) packages: BTreeMap<String, Package>,
    /// By package id: its normal and build dependencies. Development dependencies do not reach a
    /// user of the crate and are left out.
    arrows: BTreeMap<String, BTreeSet<String>>,
    /// By package id: its development dependencies.
    dev: BTreeMap<String, BTreeSet<String>>,
}

pub(super) struct Package {
    pub(super) name: String,
    /// `libs/model`, `services/cli`, ...; nothing for packages from elsewhere.
    pub(super) folder: Option<String>,
    pub(super) licence: Option<String>,
}

impl Graph {
    /// Reads it once, offline and from the lock file.
    pub(super) fn get() -> &'static Self {
        static GRAPH: OnceLock<Graph> = OnceLock::new();
        GRAPH.get_or_init(|| {
            let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
            let args = [
                "metadata",
                "--format-version=1",
                "--offline",
                "--locked",
                "--filter-platform=x86_64-unknown-linux-gnu",
            ];
            let said = support::run(&cargo, &args, &[]).expect("cargo runs");
            assert!(said.ok, "cargo metadata failed: {}", said.stderr);
            Self::parse(&serde_json::from_str(&said.stdout).expect("cargo writes JSON"))
        })
    }

    fn parse(metadata: &Value) -> Self {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let members: BTreeSet<String> = metadata["workspace_members"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect();
        let root = text(&metadata["workspace_root"]);
        let packages = metadata["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| {
                let id = text(&p["id"]);
                let manifest = text(&p["manifest_path"]);
                let folder = members.contains(&id).then(|| {
                    let inside = manifest.strip_prefix(&root).unwrap();
                    inside
                        .trim_start_matches('/')
                        .trim_end_matches("/Cargo.toml")
                        .to_owned()
                });
                let package = Package {
                    name: text(&p["name"]),
                    folder,
                    licence: p["license"].as_str().map(str::to_owned),
                };
                (id, package)
            })
            .collect();
        let mut arrows = BTreeMap::new();
        let mut dev = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let mut normal = BTreeSet::new();
            let mut development = BTreeSet::new();
            for dep in node["deps"].as_array().unwrap() {
                for kind in dep["dep_kinds"].as_array().unwrap() {
                    let side = match kind["kind"].as_str() {
                        Some("dev") => &mut development,
                        _ => &mut normal,
                    };
                    side.insert(text(&dep["pkg"]));
                }
            }
            arrows.insert(text(&node["id"]), normal);
            dev.insert(text(&node["id"]), development);
        }
        Self {
            packages,
            arrows,
            dev,
        }
    }

    fn name(&self, id: &str) -> &str {
        &self.packages[id].name
    }

    /// Workspace members: (name, folder).
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.packages
            .values()
            .filter_map(|p| p.folder.as_deref().map(|f| (p.name.as_str(), f)))
    }

    fn id(&self, name: &str) -> &str {
        let mut with_name = self.packages.iter().filter(|(_, p)| p.name == name);
        let (id, _) = with_name
            .next()
            .unwrap_or_else(|| panic!("no crate {name}"));
        id
    }

    /// Names of the direct dependencies of a workspace member, development ones left out.
    pub(super) fn direct(&self, name: &str) -> BTreeSet<&str> {
        let ids = &self.arrows[self.id(name)];
        ids.iter().map(|id| self.name(id)).collect()
    }

    /// Names of the direct development dependencies of a workspace member.
    pub(super) fn direct_dev(&self, name: &str) -> BTreeSet<&str> {
        let ids = &self.dev[self.id(name)];
        ids.iter().map(|id| self.name(id)).collect()
    }

    /// Everything that a workspace member reaches, each with the path to it.
    pub(super) fn reach(&self, name: &str) -> BTreeMap<&str, String> {
        let start = self.id(name);
        let mut found: BTreeMap<&str, String> = BTreeMap::new();
        let mut open = vec![(start, name.to_owned())];
        let mut seen = BTreeSet::from([start]);
        while let Some((id, path)) = open.pop() {
            for next in &self.arrows[id] {
                if seen.insert(next) {
                    let path = format!("{path} -> {}", self.name(next));
                    found.insert(self.name(next), path.clone());
                    open.push((next, path));
                }
            }
        }
        found
    }

    /// Workspace members and others that depend directly on a package.
    pub(super) fn users_of(&self, name: &str) -> BTreeSet<&str> {
        let users = self.arrows.iter().filter(|(id, deps)| {
            let uses = |deps: &BTreeSet<String>| deps.iter().any(|d| self.name(d) == name);
            uses(deps) || uses(&self.dev[*id])
        });
        users.map(|(id, _)| self.name(id)).collect()
    }
}
