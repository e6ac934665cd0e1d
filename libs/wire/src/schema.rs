//! The events of other programs as JSON Schema (2020-12): one table of types and fields, from
//! which schemas, the help of the command line and examples are made.
//!
//! [`crate::external::read`] is held against the schemas by property tests: what a schema
//! accepts is read, and what is read is accepted by the schema once it is in canonical form. The
//! reader is more lenient in two things, so that senders who write nearly the right thing are
//! understood: times in other forms of ISO 8601, and CloudEvents without `id` or `source` (which
//! cannot be told from their repetitions).

mod render;

pub use render::{CLOUD_EVENTS, any, of};

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One node's name.
    Node,
    /// A list of node names.
    Nodes,
    /// A name in the scheduler's words: a text or a number.
    Name,
    /// Words for people.
    Text,
    /// A moment.
    Time,
    /// The present holes.
    Holes,
}

impl Form {
    /// What is expected, for people.
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
    /// What it holds.
    pub form: Form,
    /// Whether it must be there.
    pub required: bool,
    /// What it means.
    pub about: &'static str,
}

/// A type of event that other programs may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    /// Its name, as in `node.idle`.
    pub name: &'static str,
    /// What it says.
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
        about: "no batch job runs on the node and none is promised it: Lacuna may train there",
        fields: &[NODE],
        example: r#"{"type":"node.idle","node":"a01n02","time":"2026-01-31T12:00:00Z"}"#,
    },
    EventType {
        name: "node.busy",
        about: "a batch job has the node now: Lacuna leaves it at once",
        fields: &[NODE],
        example: r#"{"type":"node.busy","node":"a01n02","time":1769860800.5}"#,
    },
    EventType {
        name: "node.down",
        about: "the node is down, drained or unknown: nobody may use it",
        fields: &[
            NODE,
            field("reason", Form::Text, false, "why, in the scheduler's words"),
        ],
        example: r#"{"type":"node.down","node":"a01n02","reason":"fan failed"}"#,
    },
    EventType {
        name: "node.wanted",
        about: "give the node back; node.released answers when nothing runs there any more",
        fields: &[
            NODE,
            field(
                "deadline",
                Form::Time,
                false,
                "by when; at once if it is left out",
            ),
        ],
        example: r#"{"type":"node.wanted","node":"a01n02","deadline":"2026-01-31T12:01:00Z"}"#,
    },
    EventType {
        name: "job.planned",
        about: "a batch job is to start on these nodes then; a later word on the same job replaces \
            it, one without nodes withdraws it",
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
                "where it will run; none withdraws",
            ),
            field("start", Form::Time, true, "when it is planned to start"),
        ],
        example: r#"{"type":"job.planned","job":4711,"nodes":["a01n01","a01n02"],"start":"2026-01-31T13:00:00Z"}"#,
    },
    EventType {
        name: "reservation",
        about: "nobody but its holder may use these nodes in this time; a later word on the same \
            name replaces it, one without nodes withdraws it",
        fields: &[
            field("name", Form::Name, true, "the reservation's name"),
            field("nodes", Form::Nodes, true, "which nodes; none withdraws"),
            field("start", Form::Time, true, "from when"),
            field("end", Form::Time, true, "until when"),
        ],
        example: r#"{"type":"reservation","name":"maintenance","nodes":["a01n01"],"start":"2026-02-01T06:00:00Z","end":"2026-02-01T18:00:00Z"}"#,
    },
    EventType {
        name: "snapshot",
        about: "every idle node, with the start of its hole: what is not listed is not idle",
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

/// A type by its name, with or without the `lacuna.` that may stand before it.
#[must_use]
pub fn event_type(name: &str) -> Option<&'static EventType> {
    let name = name.strip_prefix("lacuna.").unwrap_or(name);
    EVENTS.iter().find(|known| known.name == name)
}
