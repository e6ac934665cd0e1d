//! `lacuna config explain`: the meaning of settings, read from the structs of the configuration.
//!
//! The document of a setting is the doc comment of its field, and its default is what the
//! section's `Default` says. Neither is written a second time here.

use std::path::PathBuf;

use clap::Args;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::Config;
use crate::error::{CliError, Result};
use crate::output::{self, JsonArg};

/// The number of similar keys that an error for an unknown key names.
const SHOWN: usize = 5;

/// Arguments of `config explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna config explain                        every setting
  lacuna config explain control.pilots         those of a section
  lacuna config explain pilots.rest            parts of a key are enough
  lacuna config explain planner --file /etc/lacuna/lacuna.toml")]
pub(crate) struct ExplainArgs {
    /// A key, a section, or parts of a key in their order; all settings if absent
    key: Option<String>,
    /// Also print the values in force with this file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// One of the words that a setting accepts.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Choice {
    name: String,
    document: String,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Setting {
    /// Its key, with `*` for a name that the user chooses.
    key: String,
    document: String,
    /// The accepted values, in words.
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    choices: Vec<Choice>,
    /// Whether its section requires it.
    required: bool,
    /// The default; null if the setting is absent by default.
    default: Value,
    /// The value in force with the given file; null if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<Value>,
}

/// The text at a key of a schema.
fn text(schema: &Value, key: &str) -> String {
    let text = schema.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// The accepted values of a setting, in words.
fn kind(schema: &Value) -> String {
    let format = text(schema, "format");
    if format.contains(' ') {
        return format;
    }
    let name = match schema.get("type") {
        Some(Value::Array(several)) => several.iter().find_map(Value::as_str),
        one => one.and_then(Value::as_str),
    };
    match name {
        Some("boolean") => "true or false",
        Some("integer") => "whole number",
        Some("number") => "number",
        Some("array") => "list of texts",
        None if schema.get("oneOf").is_some() => "word",
        _ => "text",
    }
    .to_owned()
}

fn choices(schema: &Value) -> Vec<Choice> {
    let variants = schema.get("oneOf").and_then(Value::as_array);
    let choice = |variant: &Value| Choice {
        name: text(variant, "const"),
        document: text(variant, "description"),
    };
    variants.into_iter().flatten().map(choice).collect()
}

/// Adds the settings below a key. `default` is the default of the outermost section that has one: a
/// section may give a part another default than the part has by itself.
fn walk(key: &str, schema: &Value, default: &Value, required: bool, all: &mut Vec<Setting>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let must = schema.get("required").and_then(Value::as_array);
        for (name, inner) in properties {
            let key = match key {
                "" => name.clone(),
                section => format!("{section}.{name}"),
            };
            let default = default.get(name).or_else(|| inner.get("default"));
            let required = must.is_some_and(|must| must.iter().any(|m| m == name.as_str()));
            walk(&key, inner, default.unwrap_or(&Value::Null), required, all);
        }
    } else if let Some(inner) = schema.get("additionalProperties").filter(|i| i.is_object()) {
        let mut inner = inner.clone();
        // Plain values of a table are documented where the table is.
        if let (Some(object), Some(document)) = (inner.as_object_mut(), schema.get("description")) {
            object
                .entry("description")
                .or_insert_with(|| document.clone());
        }
        walk(&format!("{key}.*"), &inner, &Value::Null, false, all);
    } else {
        all.push(Setting {
            key: key.to_owned(),
            document: text(schema, "description"),
            kind: kind(schema),
            choices: choices(schema),
            required,
            default: default.clone(),
            in_force: None,
        });
    }
}

/// All settings, by section.
fn settings() -> Vec<Setting> {
    let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = inline.into_generator().into_root_schema_for::<Config>();
    let mut all = Vec::new();
    walk("", schema.as_value(), &Value::Null, false, &mut all);
    all
}

/// Whether a key has these parts in their order, and, if asked, ends with the last of them.
fn has_parts(key: &str, asked: &str, to_the_end: bool) -> bool {
    let mut parts = key.split('.');
    asked.split('.').all(|ask| parts.any(|part| part == ask))
        && (!to_the_end || parts.next().is_none())
}

/// The settings that match: a key or a section, else the keys that end with the text, else the
/// keys that contain it.
///
/// # Errors
/// No setting matches; the error names similar keys.
fn find(all: Vec<Setting>, asked: &str) -> Result<Vec<Setting>> {
    let section = format!("{asked}.");
    let ways: [&dyn Fn(&str) -> bool; 3] = [
        &|key: &str| key == asked || key.starts_with(&section),
        &|key: &str| has_parts(key, asked, true),
        &|key: &str| has_parts(key, asked, false),
    ];
    for way in ways {
        let found: Vec<Setting> = all.iter().filter(|s| way(&s.key)).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let near = near(&all, asked).join(" ");
    let error = CliError::failed(format!("there is no setting {asked}"));
    Err(error.remedy(format!(
        "near it: {near}; `lacuna config explain` lists all"
    )))
}

/// The keys that share the longest beginning with a text, from any of their parts on.
fn near<'a>(all: &'a [Setting], asked: &str) -> Vec<&'a str> {
    let alike = |key: &str| {
        let starts = key.match_indices('.').map(|(dot, _)| dot + 1);
        let rests = std::iter::once(0)
            .chain(starts)
            .filter_map(|at| key.get(at..));
        let same = |rest: &str| {
            let pairs = rest.bytes().zip(asked.bytes());
            pairs.take_while(|(a, b)| a == b).count()
        };
        rests.map(same).max().unwrap_or(0)
    };
    let most = all.iter().map(|s| alike(&s.key)).max().unwrap_or(0);
    let keys = all.iter().map(|s| s.key.as_str());
    keys.filter(|key| alike(key) == most).take(SHOWN).collect()
}

/// A value as it is written in the file.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "absent".to_owned(),
        value => value.to_string(),
    }
}

/// The page of a setting.
fn page(setting: &Setting) -> String {
    let head = match (setting.required, &setting.default) {
        (true, _) => format!("{} (required)", setting.key),
        (false, Value::Null) => format!("{} (absent by default)", setting.key),
        (false, default) => format!("{} = {}", setting.key, value(default)),
    };
    let mut lines = vec![head];
    let document = setting.document.lines().map(|line| format!("    {line}"));
    lines.extend(document);
    lines.push(format!("    type: {}", setting.kind));
    for Choice { name, document } in &setting.choices {
        lines.push(format!("      {name}: {}", document.replace('\n', " ")));
    }
    if let Some(in_force) = &setting.in_force {
        lines.push(format!("    in force: {}", value(in_force)));
    }
    lines.join("\n")
}

/// Runs `config explain`.
///
/// # Errors
/// There is no such setting, or the file is wrong.
pub(super) fn run(args: &ExplainArgs) -> Result<()> {
    let mut found = match &args.key {
        Some(key) => find(settings(), key)?,
        None => settings(),
    };
    if args.file.is_some() {
        let config = serde_json::to_value(super::load(args.file.as_ref())?)
            .map_err(|e| CliError::failed(e.to_string()))?;
        for setting in found.iter_mut().filter(|s| !s.key.contains('*')) {
            let at = config.pointer(&format!("/{}", setting.key.replace('.', "/")));
            setting.in_force = Some(at.cloned().unwrap_or_default());
        }
    }
    if args.json.json {
        return output::print_json(&found);
    }
    let pages: Vec<String> = found.iter().map(page).collect();
    output::print(&pages.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The leaves of a value by their keys.
    fn leaves(key: &str, value: &Value, all: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    let dot = if key.is_empty() { "" } else { "." };
                    leaves(&format!("{key}{dot}{name}"), inner, all);
                }
            }
            leaf => {
                all.insert(key.to_owned(), leaf.clone());
            }
        }
    }

    fn keys(asked: &str) -> Vec<String> {
        let found = find(settings(), asked).unwrap();
        found.into_iter().map(|s| s.key).collect()
    }

    #[test]
    fn every_setting_has_a_document() {
        let all = settings();
        assert!(all.len() > 100, "{}", all.len());
        for setting in &all {
            assert!(!setting.document.is_empty(), "{}", setting.key);
            for choice in &setting.choices {
                assert!(!choice.name.is_empty(), "{}", setting.key);
                assert!(
                    !choice.document.is_empty(),
                    "{} {}",
                    setting.key,
                    choice.name
                );
            }
        }
    }

    /// Each key that `lacuna config example` prints is explained, with that default.
    #[test]
    fn explained_defaults_are_those_in_force() {
        let of: BTreeMap<String, Setting> =
            settings().into_iter().map(|s| (s.key.clone(), s)).collect();
        let mut defaults = BTreeMap::new();
        let whole = serde_json::to_value(Config::default()).unwrap();
        leaves("", &whole, &mut defaults);
        let mut known = 0;
        for (key, value) in &defaults {
            match of.get(key) {
                Some(setting) => assert_eq!(setting.default, *value, "{key}"),
                // A section that is absent is explained by its settings.
                None => assert!(
                    value.is_null() && of.keys().any(|k| k.starts_with(&format!("{key}."))),
                    "{key} = {value} is not explained"
                ),
            }
            known += 1;
        }
        assert!(known > 60, "{known}");
        let printed: toml::Table = Config::default().print().unwrap().parse().unwrap();
        let mut example = BTreeMap::new();
        leaves("", &serde_json::to_value(printed).unwrap(), &mut example);
        for key in example.keys() {
            assert!(of.contains_key(key), "{key} is not explained");
        }
    }

    #[test]
    fn a_key_a_section_or_parts_of_a_key_find_settings() {
        assert_eq!(keys("planner.horizon"), ["planner.horizon"]);
        assert_eq!(keys("pilots.rest"), ["control.pilots.pace.rest"]);
        assert!(keys("control").iter().all(|k| k.starts_with("control.")));
        assert!(keys("control").contains(&"control.access.users.*.nodes".to_owned()));
        assert_eq!(keys("forecasting").len(), keys("planner.forecasting").len());
        let error = find(settings(), "planner.horizn").unwrap_err();
        assert!(error.message.contains("planner.horizn"), "{error}");
        assert!(
            error.remedy.unwrap().contains("planner.horizon"),
            "no near key"
        );
        let error = find(settings(), "horizn").unwrap_err();
        assert!(error.remedy.unwrap().contains("planner.horizon"));
    }

    #[test]
    fn a_page_has_default_document_type_and_what_is_in_force() {
        let mut found = find(settings(), "planner.policy").unwrap();
        let policy = page(&found[0]);
        assert!(
            policy.starts_with("planner.policy = \"auto\"\n"),
            "{policy}"
        );
        assert!(
            policy.contains("\n      equal-share: Equal share"),
            "{policy}"
        );
        found = find(settings(), "ingest.recording.path").unwrap();
        assert!(page(&found[0]).starts_with("ingest.recording.path (required)\n"));
        found = find(settings(), "planner.time_limit").unwrap();
        found[0].in_force = Some("20s".into());
        let limit = page(&found[0]);
        assert!(
            limit.starts_with("planner.time_limit = \"30s\"\n"),
            "{limit}"
        );
        assert!(limit.contains("type: length of time\n    in force: \"20s\""));
    }
}
