//! The page ARCHITECTURE.md against the manifests: its table of layers lists every crate of the workspace with
//! exactly the crates that it depends on, and no dependency runs upwards or sideways.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifest(path: &Path) -> toml::Table {
    let text = fs::read_to_string(path.join("Cargo.toml")).unwrap();
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Dependencies of every member on others, by package name without `tandem-`. Those of tests and benches do not
/// count, since no user of a crate compiles them.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let short = |name: &str| name.strip_prefix("tandem-").unwrap_or(name).to_owned();
    let members = manifest(&root())["workspace"]["members"].as_array().unwrap().clone();
    let member = |path: &toml::Value| {
        let manifest = manifest(&root().join(path.as_str().unwrap()));
        let name = short(manifest["package"]["name"].as_str().unwrap());
        let sections = ["dependencies", "build-dependencies"].map(|section| manifest.get(section));
        let used = sections.into_iter().flatten().flat_map(|section| section.as_table().unwrap().keys());
        let used = used.filter(|key| *key == "tandem" || key.starts_with("tandem-")).map(|key| short(key));
        (name, used.collect())
    };
    members.iter().map(member).collect()
}

/// The table of layers: the crates of each row with the row's layer and its list of dependencies.
fn table() -> BTreeMap<String, (u32, BTreeSet<String>)> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = page.split_once("\n## Layers\n").expect("a section on layers");
    let (section, _) = section.split_once("\n## ").unwrap();
    let quoted =
        |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut table = BTreeMap::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Some(layer) = cells[0].parse().ok() else { continue };
        for name in quoted(cells[1]) {
            let twice = table.insert(name.clone(), (layer, quoted(cells[2])));
            assert!(twice.is_none(), "{name} stands twice in the table");
        }
    }
    table
}

#[test]
fn the_table_of_layers_is_that_of_the_manifests() {
    let table = table();
    let (listed, real) = (table.keys().collect::<Vec<_>>(), dependencies());
    assert_eq!(
        listed,
        real.keys().collect::<Vec<_>>(),
        "the crates of ARCHITECTURE.md, and those of Cargo.toml"
    );
    for (name, used) in &real {
        assert_eq!(
            &table[name].1, used,
            "the dependencies of {name} in ARCHITECTURE.md, and in its Cargo.toml"
        );
    }
}

#[test]
fn no_dependency_runs_upwards_or_sideways() {
    let table = table();
    for (name, used) in dependencies() {
        for other in used {
            assert!(
                table[&other].0 < table[&name].0,
                "{name} in layer {} depends on {other} in layer {}",
                table[&name].0,
                table[&other].0
            );
        }
    }
}
