//! The events of other programs as JSON Schema (2020-12): one table of types and fields, from
//! which schemas, the help of the command line and examples are made.
//!
//! Property tests compare [`crate::external::read`] with the schemas. The reader accepts every
//! event that a schema accepts, and a schema accepts every event that is read, in canonical form.
//! The reader is more lenient in two points: it accepts times in other forms of ISO 8601, and
//! CloudEvents without `id` or `source` (whose repetitions cannot be recognised).

mod render;

pub use render::{CLOUD_EVENTS, any, of};

/// The form of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One node's name.
    Node,
    /// A list of node names.
    Nodes,
    /// A name that the scheduler uses: a text or a number.
    Name,
    /// A text for people.
    Text,
    /// A point in time.
    Time,
    /// The present holes.
    Holes,
}

impl Form {
    /// The accepted values, as a text for people.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Node => "a node name",
            Self::Nodes => "a list of node names",
            Self::Name => "a text or a number",
            Self::Text => "a text",
            Self::Time => "a time as in \"2021-02-10T00:08:00Z\", or seconds since 1970",
            Self::Holes => "a list of objects as in {\"node\":\"n1\",\"since\":1612915680}",
        }
    }
}

/// A field of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// Whether the field is required.
    pub required: bool,
    /// Its meaning.
    pub about: &'static str,
}

/// A type of event that other programs may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    /// Its name, as in `node.idle`.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// Its fields, besides `type`, `time` and `version`.
    pub fields: &'static [Field],
    /// One event of the type, as JSON.
    pub example: &'static str,
}

const fn field(name: &'static str, form: Form, required: bool, about: &'static str) -> Field {
    Field {
        name,
        form,
        required,
        about,
    }
}

const NODE: Field = field("node", Form::Node, true, "the scheduler's name of the node");

/// Every type of event that other programs may send.
pub const EVENTS: [EventType; 7] = [
    EventType {
        name: "node.idle",
        about: "no batch job runs on the node and none is promised it, so Lacuna may train there",
        fields: &[NODE],
        example: r#"{"type":"node.idle","node":"a01n02","time":"2026-01-31T12:00:00Z"}"#,
    },
    EventType {
        name: "node.busy",
        about: "a batch job has the node now, so Lacuna leaves it at once",
        fields: &[NODE],
        example: r#"{"type":"node.busy","node":"a01n02","time":1769860800.5}"#,
    },
    EventType {
        name: "node.down",
        about: "the node is down, drained or unknown, and must not be used",
        fields: &[
            NODE,
            field(
                "reason",
                Form::Text,
                false,
                "the reason, as the scheduler words it",
            ),
        ],
        example: r#"{"type":"node.down","node":"a01n02","reason":"fan failed"}"#,
    },
    EventType {
        name: "node.wanted",
        about: "Lacuna must give the node back; node.released follows when nothing runs there",
        fields: &[
            NODE,
            field(
                "deadline",
                Form::Time,
                false,
                "when the node must be back; at once if absent",
            ),
        ],
        example: r#"{"type":"node.wanted","node":"a01n02","deadline":"2026-01-31T12:01:00Z"}"#,
    },
    EventType {
        name: "job.planned",
        about: "a batch job is planned to start on these nodes; a later event on the same job \
            replaces it, and one without nodes withdraws it",
        fields: &[
            field(
                "job",
                Form::Name,
                true,
                "the scheduler's name of the batch job",
            ),
            field(
                "nodes",
                Form::Nodes,
                true,
                "the planned nodes; an empty list withdraws the plan",
            ),
            field("start", Form::Time, true, "the planned start"),
        ],
        example: r#"{"type":"job.planned","job":4711,"nodes":["a01n01","a01n02"],"start":"2026-01-31T13:00:00Z"}"#,
    },
    EventType {
        name: "reservation",
        about: "the nodes are reserved for this time; a later event with the same \
            name replaces it, and one without nodes withdraws it",
        fields: &[
            field("name", Form::Name, true, "the reservation's name"),
            field(
                "nodes",
                Form::Nodes,
                true,
                "the reserved nodes; an empty list withdraws the reservation",
            ),
            field("start", Form::Time, true, "when it begins"),
            field("end", Form::Time, true, "when it ends"),
        ],
        example: r#"{"type":"reservation","name":"maintenance","nodes":["a01n01"],"start":"2026-02-01T06:00:00Z","end":"2026-02-01T18:00:00Z"}"#,
    },
    EventType {
        name: "snapshot",
        about: "every idle node, with the start of its hole; a node that is not listed is not idle",
        fields: &[field(
            "idle",
            Form::Holes,
            true,
            "the holes; a bare node name is idle since the event's own time, which then must be \
             given",
        )],
        example: r#"{"type":"snapshot","time":"2026-01-31T12:00:00Z","idle":[{"node":"a01n01","since":"2026-01-31T11:40:00Z"},"a01n02"]}"#,
    },
];

/// A type by its name, with or without the prefix `lacuna.`.
#[must_use]
pub fn event_type(name: &str) -> Option<&'static EventType> {
    let name = name.strip_prefix("lacuna.").unwrap_or(name);
    EVENTS.iter().find(|known| known.name == name)
}
