//! No files of a crate import each other, directly or by way of others. A module and its
//! submodules may.
//!
//! An edge leads from the file that names a path to the file that defines the path's target.
//! Paths are those of `use` and all others of two or more segments, also in a macro's arguments.
//! A re-export (`pub use child::X` in a parent, a glob) is followed to the file that defines `X`.
//! Test code has no edges. Edges between a module and a module within it are left out.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::metadata::Graph;
use crate::support;

/// The text of a crate's sources by path.
type Sources = BTreeMap<String, String>;

/// A module of a crate: `["bus", "follow"]`, and no segment for the root.
type Place = Vec<String>;

/// The longest chain of re-exports that is followed.
const MAX_REEXPORTS: usize = 12;

/// The names of a module, as far as its text has them.
#[derive(Default)]
struct Module {
    file: String,
    /// Items that it defines.
    items: BTreeSet<String>,
    /// Imports: the name that each has here, and its path.
    imports: Vec<(String, Vec<String>)>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// Other paths of two or more segments.
    paths: Vec<Vec<String>>,
}

/// The target of a path.
enum Target {
    Module(Place),
    /// An item of this module.
    ItemOf(Place),
}

/// The modules of one target of a crate, library or program.
struct Tree {
    modules: BTreeMap<Place, Module>,
}

impl Tree {
    /// Reads the module tree whose root is this file.
    ///
    /// # Panics
    ///
    /// If a file is no Rust or a declared module has no file.
    fn read(sources: &Sources, root: &str) -> Self {
        let mut reader = Reader {
            sources,
            modules: BTreeMap::new(),
            place: Place::new(),
            file: root.to_owned(),
        };
        reader.read_file();
        let modules = reader.modules;
        Self { modules }
    }

    /// The target of a path in the module `from`; nothing if another crate has it.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Target::Module(Place::new()),
            "self" => Target::Module(from.to_vec()),
            "super" => Target::Module(from.split_last()?.1.to_vec()),
            name => self.inside(from, name, rest.is_empty(), depth)?,
        };
        for (nth, name) in rest.iter().enumerate() {
            let place = match at {
                Target::Module(place) => place,
                item @ Target::ItemOf(_) => return Some(item),
            };
            let is_last = nth + 1 == rest.len();
            at = match name.as_str() {
                "super" => Target::Module(place.split_last()?.1.to_vec()),
                name => match self.inside(&place, name, is_last, depth) {
                    Some(target) => target,
                    None => Target::ItemOf(place),
                },
            };
        }
        Some(at)
    }

    /// The target of a name in a module. The last name of a path is an item rather than a module.
    fn inside(&self, place: &[String], name: &str, is_last: bool, depth: usize) -> Option<Target> {
        let module = self.modules.get(place)?;
        let depth = depth.checked_sub(1)?;
        let mut child = place.to_vec();
        child.push(name.to_owned());
        let has_child = self.modules.contains_key(&child);
        if has_child && !is_last {
            return Some(Target::Module(child));
        }
        if module.items.contains(name) {
            return Some(Target::ItemOf(place.to_vec()));
        }
        let named = module.imports.iter().filter(|(known, _)| known == name);
        for (_, path) in named {
            if let Some(target) = self.resolve(place, path, depth) {
                return Some(target);
            }
        }
        if has_child {
            return Some(Target::Module(child));
        }
        for glob in &module.globs {
            if let Some(Target::Module(other)) = self.resolve(place, glob, depth)
                && other != place
                && let Some(target) = self.inside(&other, name, is_last, depth)
            {
                return Some(target);
            }
        }
        None
    }

    /// The module that each file is.
    fn homes(&self) -> BTreeMap<&str, &Place> {
        let mut homes: BTreeMap<&str, &Place> = BTreeMap::new();
        for (place, module) in &self.modules {
            let home = homes.entry(&module.file).or_insert(place);
            if place.len() < home.len() {
                *home = place;
            }
        }
        homes
    }

    /// All imports between files, without those between a module and a module within it.
    fn edges(&self) -> Edges {
        let homes = self.homes();
        let mut edges = Edges::new();
        for (place, module) in &self.modules {
            let imports = module.imports.iter().map(|(_, path)| path);
            for path in imports.chain(&module.globs).chain(&module.paths) {
                let Some(target) = self.resolve(place, path, MAX_REEXPORTS) else {
                    continue;
                };
                let (Target::Module(target) | Target::ItemOf(target)) = target;
                let (from, to) = (&module.file, &self.modules[&target].file);
                let (home, other) = (homes[from.as_str()], homes[to.as_str()]);
                if !home.starts_with(other) && !other.starts_with(home) {
                    let names = edges.entry((from.clone(), to.clone())).or_default();
                    names.insert(path.last().cloned().unwrap_or_default());
                }
            }
        }
        edges
    }
}

/// Imported names, by importing and defining file.
type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// Fills the modules of a tree from the syntax of its files.
struct Reader<'a> {
    sources: &'a Sources,
    modules: BTreeMap<Place, Module>,
    /// The module and the file that are being read.
    place: Place,
    file: String,
}

impl Reader<'_> {
    fn read_file(&mut self) {
        let text = self
            .sources
            .get(&self.file)
            .unwrap_or_else(|| panic!("no file {}", self.file));
        let syntax = syn::parse_file(text).unwrap_or_else(|e| panic!("{}: {e}", self.file));
        self.here();
        self.visit_file(&syntax);
    }

    fn here(&mut self) -> &mut Module {
        let module = self.modules.entry(self.place.clone()).or_default();
        module.file.clone_from(&self.file);
        module
    }

    /// The file of a module that the present file declares.
    fn declared(&self, name: &str) -> String {
        let (folder, file) = self
            .file
            .rsplit_once('/')
            .unwrap_or((".", self.file.as_str()));
        let folder = match file.trim_end_matches(".rs") {
            "lib" | "main" | "mod" => folder.to_owned(),
            stem => format!("{folder}/{stem}"),
        };
        let files = [
            format!("{folder}/{name}.rs"),
            format!("{folder}/{name}/mod.rs"),
        ];
        files
            .into_iter()
            .find(|path| self.sources.contains_key(path))
            .unwrap_or_else(|| panic!("{} declares `mod {name}`, which has no file", self.file))
    }

    fn import(&mut self, tree: &syn::UseTree, path: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(under) => {
                path.push(under.ident.to_string());
                self.import(&under.tree, path);
                path.pop();
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.import_one(path, &name, None);
            }
            syn::UseTree::Rename(name) => {
                let known = name.rename.to_string();
                self.import_one(path, &name.ident.to_string(), Some(known));
            }
            syn::UseTree::Glob(_) => self.here().globs.push(path.clone()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path);
                }
            }
        }
    }

    /// `path::name`, or `path::{self}`.
    fn import_one(&mut self, path: &[String], name: &str, known: Option<String>) {
        let mut path = path.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        let Some(known) = known.or_else(|| path.last().cloned()) else {
            return;
        };
        self.here().imports.push((known, path));
    }
}

/// Whether these attributes mark test code.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let mut words = condition.split(|c: char| !c.is_alphanumeric());
            words.next() == Some("test")
                || (condition.starts_with("all") && words.any(|word| word == "test"))
        }
        meta => meta.path().is_ident("test"),
    })
}

/// Paths of two or more segments in the arguments of a macro.
fn paths_of_tokens(tokens: &str) -> Vec<Vec<String>> {
    let tokens = tokens.replace(" ::", "::").replace(":: ", "::");
    let in_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut paths = Vec::new();
    for piece in tokens.split(|c: char| !in_path(c)) {
        let segments = piece.split("::").map(str::to_owned);
        let segments: Vec<String> = segments.filter(|s| !s.is_empty()).collect();
        if segments.len() > 1 && !piece.starts_with(':') {
            paths.push(segments);
        }
    }
    paths
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        let (name, attributes) = match item {
            Item::Const(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Enum(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Fn(i) => (Some(&i.sig.ident), i.attrs.as_slice()),
            Item::Impl(i) => (None, i.attrs.as_slice()),
            Item::Macro(i) => (i.ident.as_ref(), i.attrs.as_slice()),
            Item::Mod(i) => (None, i.attrs.as_slice()),
            Item::Static(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Struct(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Trait(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Type(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Union(i) => (Some(&i.ident), i.attrs.as_slice()),
            Item::Use(i) => (None, i.attrs.as_slice()),
            _ => (None, Default::default()),
        };
        if is_test(attributes) {
            return;
        }
        if let Some(name) = name {
            let name = name.to_string();
            self.here().items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        let name = name.trim_start_matches("r#");
        let file = self.file.clone();
        match &module.content {
            Some((_, items)) => {
                self.place.push(name.to_owned());
                self.here();
                for item in items {
                    self.visit_item(item);
                }
            }
            None => {
                self.file = self.declared(name);
                self.place.push(name.to_owned());
                self.read_file();
            }
        }
        self.place.pop();
        self.file = file;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|s| s.ident.to_string());
        let segments: Vec<String> = segments.collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.here().paths.push(segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let paths = paths_of_tokens(&called.tokens.to_string());
        self.here().paths.extend(paths);
        visit::visit_macro(self, called);
    }
}

/// All files that an import of a file leads to.
fn reach<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for (_, to) in edges.keys().filter(|(of, _)| of == file) {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

/// The cycles, each with its edges as lines `file -> file: names`.
fn cycles(edges: &Edges) -> Vec<String> {
    let files: BTreeSet<&str> = edges.keys().map(|(from, _)| from.as_str()).collect();
    let reached = files.iter().map(|file| (*file, reach(edges, file)));
    let reached: BTreeMap<&str, BTreeSet<&str>> = reached.collect();
    let are_tied = |a: &str, b: &str| {
        let leads = |from: &str, to: &str| reached.get(from).is_some_and(|r| r.contains(to));
        leads(a, b) && leads(b, a)
    };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for file in files.iter().copied() {
        let tied = files.iter().copied().filter(|other| are_tied(file, other));
        let tied: BTreeSet<&str> = tied.collect();
        if tied.is_empty() || !seen.insert(tied.clone()) {
            continue;
        }
        let mut lines = format!("a cycle of {} files:", tied.len());
        for ((from, to), names) in edges {
            if tied.contains(from.as_str()) && tied.contains(to.as_str()) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                lines += &format!("\n  {from} -> {to}: {}", names.join(", "));
            }
        }
        found.push(lines);
    }
    found
}

#[test]
fn files_of_a_crate_do_not_import_each_other() {
    let (mut found, mut read) = (Vec::new(), 0);
    for (_, folder) in Graph::get().members() {
        let names = support::files(&format!("{folder}/src"), "rs");
        let sources: Sources = names
            .into_iter()
            .map(|name| {
                let text = support::read(&name);
                (name, text)
            })
            .collect();
        for root in ["lib.rs", "main.rs"] {
            let root = format!("{folder}/src/{root}");
            if sources.contains_key(&root) {
                let tree = Tree::read(&sources, &root);
                read += tree.homes().len();
                found.extend(cycles(&tree.edges()));
            }
        }
    }
    assert!(read > 300, "only {read} files read");
    assert!(
        found.is_empty(),
        "{} cycles\n{}",
        found.len(),
        found.join("\n")
    );
}

fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
    let sources: Sources = files.iter().map(owned).collect();
    cycles(&Tree::read(&sources, "src/lib.rs").edges())
}

#[test]
fn a_cycle_is_named_with_its_files_and_what_ties_them() {
    let found = cycles_of(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::{b::{self, B}, c}; pub struct A;"),
        ("src/b.rs", "use super::c::inner::C; pub struct B;"),
        ("src/c/mod.rs", "pub mod inner;"),
        (
            "src/c/inner.rs",
            "pub struct C; fn f() -> crate::a::A { crate::a::A }",
        ),
    ]);
    assert_eq!(
        found,
        ["a cycle of 3 files:\
          \n  src/a.rs -> src/b.rs: B, b\
          \n  src/b.rs -> src/c/inner.rs: C\
          \n  src/c/inner.rs -> src/a.rs: A"]
    );
}

#[test]
fn an_import_of_a_reexport_is_one_of_the_file_that_defines_it() {
    for reexport in [
        "pub use x::X;",
        "pub use x::*;",
        "pub use self::x::{X as X};",
    ] {
        let parent = format!("pub mod x; mod y; {reexport}");
        let found = cycles_of(&[
            ("src/lib.rs", "mod p;"),
            ("src/p.rs", parent.as_str()),
            ("src/p/x.rs", "use super::y; pub struct X;"),
            ("src/p/y.rs", "use crate::p::X;"),
        ]);
        assert_eq!(
            found,
            ["a cycle of 2 files:\
              \n  src/p/x.rs -> src/p/y.rs: y\
              \n  src/p/y.rs -> src/p/x.rs: X"],
            "{reexport}"
        );
    }
}

#[test]
fn paths_in_bodies_and_in_arguments_of_macros_are_imports_too() {
    let found = cycles_of(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "fn f() { println!(\"{}\", crate::b::F); }"),
        (
            "src/b.rs",
            "pub const F: u8 = 0; fn g() { use super::a; a::f(); }",
        ),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn submodules_tests_and_other_crates_make_no_cycle() {
    let test = "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
    let found = cycles_of(&[
        ("src/lib.rs", "mod a; mod b; mod p; pub use a::A;"),
        (
            "src/a.rs",
            "use crate::b::B; use serde::b; pub struct A; fn f() { b::g(); }",
        ),
        ("src/b.rs", test),
        ("src/p.rs", "mod x; pub struct P; use self::x::deep::X;"),
        ("src/p/x.rs", "pub mod deep; use crate::p::P;"),
        (
            "src/p/x/deep.rs",
            "use super::super::P; use crate::A; pub struct X;",
        ),
    ]);
    assert!(found.is_empty(), "{found:?}");
}
