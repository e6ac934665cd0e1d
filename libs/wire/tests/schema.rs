//! The schemas of events against the reader of events. A validator of JSON Schema and
//! [`external::read`] must agree on documents made from the schemas, and on changed ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use lacuna_wire::{external, schema, time_text};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use serde_json::{Map, Value, json};

fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap()
}

/// The validators. Making one takes longer than using it.
static ANY: LazyLock<Validator> = LazyLock::new(|| validator(&schema::any()));
static EACH: LazyLock<BTreeMap<&str, Validator>> = LazyLock::new(|| {
    let each = external::TYPES.map(|name| (name, validator(&schema::of(name).unwrap())));
    each.into()
});

fn reads(document: &Value) -> Result<external::External, external::ExternalError> {
    external::read([], document.to_string().as_bytes())
}

/// Documents that a schema describes. Rules that bind one field to another (`if`, `not`) are not
/// followed here; documents that break them are filtered out.
struct Maker<'s> {
    root: &'s Value,
}

impl Maker<'_> {
    fn any(&self, schema: &Value) -> BoxedStrategy<Value> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.any(self.root.pointer(name.trim_start_matches('#')).unwrap());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return proptest::sample::select(values.clone()).boxed();
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let choices: Vec<_> = choices.iter().map(|choice| self.any(choice)).collect();
            return proptest::strategy::Union::new(choices).boxed();
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.of(kind, schema),
            Some(Value::Array(kinds)) => {
                let kinds = kinds
                    .iter()
                    .map(|kind| self.of(kind.as_str().unwrap(), schema));
                proptest::strategy::Union::new(kinds).boxed()
            }
            _ => self.object(schema),
        }
    }

    fn of(&self, kind: &str, schema: &Value) -> BoxedStrategy<Value> {
        match kind {
            "null" => Just(Value::Null).boxed(),
            "boolean" => any::<bool>().prop_map(Value::from).boxed(),
            "number" => {
                let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
                let low = bound("minimum").unwrap_or(-1e6);
                let high = bound("maximum")
                    .or(bound("exclusiveMaximum"))
                    .unwrap_or(1e6);
                prop_oneof![
                    (low..high).prop_map(Value::from),
                    (low as i64..high as i64).prop_map(Value::from),
                ]
                .boxed()
            }
            "string" => {
                let pattern = schema.get("pattern").and_then(Value::as_str);
                let pattern = pattern.unwrap_or("[a-z0-9-]{1,9}");
                let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
                let text = proptest::string::string_regex(pattern).unwrap();
                text.prop_map(Value::from).boxed()
            }
            "array" => {
                let item = self.any(schema.get("items").unwrap());
                proptest::collection::vec(item, 0..4)
                    .prop_map(Value::from)
                    .boxed()
            }
            "object" => self.object(schema),
            other => unreachable!("no documents of type {other:?}"),
        }
    }

    /// An object with everything that is required, by the schema or by those of `allOf`, and some
    /// optional fields.
    fn object(&self, schema: &Value) -> BoxedStrategy<Value> {
        let (mut fields, mut required) = (Map::new(), Vec::new());
        self.gather(schema, &mut fields, &mut required);
        let mut whole = Just(Map::new()).boxed();
        for (name, schema) in fields {
            let must = required.contains(&name);
            let value = (self.any(&schema), any::<bool>());
            whole = (whole, value)
                .prop_map(move |(mut whole, (value, chosen))| {
                    if must || chosen {
                        whole.insert(name.clone(), value);
                    }
                    whole
                })
                .boxed();
        }
        whole.prop_map(Value::Object).boxed()
    }

    fn gather(&self, schema: &Value, fields: &mut Map<String, Value>, required: &mut Vec<String>) {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(name.trim_start_matches('#')).unwrap();
            self.gather(target, fields, required);
        }
        let own = schema.get("properties").and_then(Value::as_object);
        fields.extend(
            own.into_iter()
                .flatten()
                .map(|(n, s)| (n.clone(), s.clone())),
        );
        let names = schema.get("required").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        required.extend(names.map(ToOwned::to_owned));
        for part in schema
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.gather(part, fields, required);
        }
    }
}

/// A bare event of a type, from its schema.
fn bare(kind: &str) -> BoxedStrategy<Value> {
    let schema = schema::of(kind).unwrap();
    let judge = validator(&schema);
    let made = Maker { root: &schema }.any(&schema);
    let sifted = made.prop_filter("bound to another field", move |made| judge.is_valid(made));
    sifted.boxed()
}

/// A CloudEvent of a type: the attributes from one schema, the data from the other.
fn structured(kind: &'static str) -> BoxedStrategy<Value> {
    let schema = schema::of(schema::CLOUD_EVENTS).unwrap();
    let judge = validator(&schema);
    let maker = Maker { root: &schema };
    let data = schema.pointer(&format!("/$defs/{kind}")).unwrap();
    let made = (maker.any(&schema), maker.any(data), any::<bool>());
    let made = made.prop_map(move |(mut event, data, long)| {
        let prefix = if long { "lacuna." } else { "" };
        let attributes = event.as_object_mut().unwrap();
        attributes.insert("type".to_owned(), json!(format!("{prefix}{kind}")));
        attributes.insert("data".to_owned(), data);
        event
    });
    let sifted = made.prop_filter("bound to another field", move |made| judge.is_valid(made));
    sifted.boxed()
}

fn documents() -> BoxedStrategy<Value> {
    let kinds = schema::EVENTS.map(|event| event.name);
    let each = kinds.iter().flat_map(|kind| [bare(kind), structured(kind)]);
    proptest::strategy::Union::new(each).boxed()
}

/// Values that may replace the value of a field.
fn junk() -> BoxedStrategy<Value> {
    let texts = [
        "",
        "two words",
        "noon",
        "2021-02-10T00:08:00Z",
        "2021-02-30T00:08:00Z",
        "2021-02-10",
        "2021-02-10 00:08:00+01:00",
        "2020-02-29T23:59:59.5-05:30",
        "1e3",
        " 7",
        "-1",
        "99999999999999",
        "3000-01-01T00:00:00Z",
        "n\u{e9}",
        "a\u{a0}b",
        "node.idle",
        "lacuna.node.busy",
        "snapshot",
        "node.released",
        "1",
        "1.0",
        "0.3",
        "2",
        "lacuna.lacuna.node.idle",
        "2021-02-10T24:00:00Z",
    ];
    prop_oneof![
        proptest::sample::select(texts.to_vec()).prop_map(Value::from),
        "\\PC{0,9}".prop_map(Value::from),
        "[a-z.]{250,260}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        proptest::sample::select(vec![
            0_i64,
            1,
            2,
            -1,
            7,
            1_612_915_680,
            253_402_300_799,
            253_402_300_800,
            i64::MIN,
            i64::MAX
        ])
        .prop_map(Value::from),
        proptest::sample::select(vec![0.5, -0.5, 1.0, 1.5, 1e12, 1e300]).prop_map(Value::from),
        Just(Value::Null),
        Just(json!([])),
        Just(json!(["a", 7])),
        Just(json!({})),
        Just(json!({"node": "a", "since": 5})),
        Just(json!([{"node": "a", "since": 5}, "b"])),
    ]
    .boxed()
}

fn paths(value: &Value, at: &str, into: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, v)| (name.clone(), v)).collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in below {
        let path = format!("{at}/{name}");
        paths(value, &path, into);
        into.push(path);
    }
}

/// The document with a part replaced, removed or added.
fn changed(mut document: Value, at: Index, how: u8, junk: Value, name: &str) -> Value {
    let mut known = Vec::new();
    paths(&document, "", &mut known);
    let path = known.get(at.index(known.len())).unwrap().clone();
    let (parent, last) = path.rsplit_once('/').unwrap();
    match (how, document.pointer_mut(parent).unwrap()) {
        (0, Value::Object(fields)) => {
            fields.remove(last);
        }
        (0, Value::Array(list)) => {
            list.remove(last.parse().unwrap());
        }
        (1, Value::Object(fields)) => {
            fields.insert(name.to_owned(), junk);
        }
        (1, Value::Array(list)) => list.push(junk),
        _ => *document.pointer_mut(&path).unwrap() = junk,
    }
    document
}

/// The canonical form of an event that only the reader accepts: times in other forms, CloudEvents
/// without `id` and `source`.
fn canonical(value: &Value, field: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let each = fields.iter().map(|(n, v)| (n.clone(), canonical(v, n)));
            let mut fields: Map<String, Value> = each.collect();
            if fields.contains_key("specversion") {
                for name in ["id", "source"] {
                    fields.insert(name.to_owned(), json!("x"));
                }
            }
            Value::Object(fields)
        }
        Value::Array(list) => list.iter().map(|v| canonical(v, field)).collect(),
        Value::String(text) => match field {
            "time" | "deadline" | "start" | "end" | "since" => match time_text::parse(text) {
                Ok(at) => json!(at.unix_ms().max(0) as f64 / 1000.0),
                Err(_) => value.clone(),
            },
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_a_schema_describes_is_read(document in documents()) {
        prop_assert!(ANY.is_valid(&document), "{document}");
        let read = reads(&document);
        prop_assert!(read.is_ok(), "{document}: {}", read.unwrap_err());
    }

    #[test]
    fn schema_and_reader_judge_changed_events_alike(
        document in documents(), at: Index, how in 0_u8..4, junk in junk(),
        name in "[a-z]{1,4}|type|time|node|nodes|version|dataversion|specversion|deadline|data",
    ) {
        let document = changed(document, at, how, junk, &name);
        let judge = &*ANY;
        let read = reads(&document);
        if judge.is_valid(&document) {
            prop_assert!(read.is_ok(), "{document} is valid, and not read: {}", read.unwrap_err());
        }
        let canonical = canonical(&document, "");
        prop_assert_eq!(
            judge.is_valid(&canonical), read.is_ok(),
            "{}\nas {}\nreader: {:?}\nschema: {:?}", document, canonical, read,
            judge.validate(&canonical).err().map(|e| e.to_string()),
        );
        // The schema of the one type agrees with that of all types.
        let name = canonical.get("type").and_then(Value::as_str).and_then(schema::event_type);
        if let Some(of_type) = name.and_then(|event| EACH.get(event.name))
            && canonical.get("specversion").is_none()
        {
            prop_assert_eq!(of_type.is_valid(&canonical), judge.is_valid(&canonical));
        }
    }
}

#[test]
fn changed_events_are_often_refused_and_often_accepted() {
    // Otherwise the property above would prove little.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let cases = (documents(), any::<Index>(), 0_u8..4, junk());
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..600 {
        let (document, at, how, junk) = cases.new_tree(&mut runner).unwrap().current();
        match reads(&changed(document, at, how, junk, "extra")) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(
        taken > 100 && refused > 100,
        "{taken} taken, {refused} refused"
    );
}

#[test]
fn the_table_names_every_type_and_its_examples_are_valid() {
    let names: Vec<&str> = schema::EVENTS.iter().map(|event| event.name).collect();
    assert_eq!(names, external::TYPES);
    for event in &schema::EVENTS {
        let example: Value = serde_json::from_str(event.example).unwrap();
        let own = schema::of(event.name).unwrap();
        assert!(validator(&own).is_valid(&example), "{example}");
        assert!(validator(&schema::any()).is_valid(&example), "{example}");
        reads(&example).unwrap();
        for other in schema::EVENTS
            .iter()
            .filter(|other| other.name != event.name)
        {
            let other = schema::of(other.name).unwrap();
            assert!(
                !validator(&other).is_valid(&example),
                "{example} as {}",
                other["title"]
            );
        }
    }
    assert!(schema::of("node.released").is_none());
}

#[test]
fn schemas_are_schemas() {
    let all = external::TYPES.into_iter().chain([schema::CLOUD_EVENTS]);
    for schema in all
        .map(|name| schema::of(name).unwrap())
        .chain([schema::any()])
    {
        assert!(jsonschema::meta::is_valid(&schema), "{}", schema["$id"]);
    }
}
