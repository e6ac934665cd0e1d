//! A model learnt from the past of a machine, as a file: what it was learnt from, and the model as
//! its predictor saves it.

use std::collections::HashSet;

use lacuna_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::saved::{ModelError, join, open, seal, split};

const HEAD: &str = "learnt from a log";
const VERSION: u16 = 1;

/// What a model was learnt from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearntFrom {
    /// The names of the machine's nodes.
    pub nodes: Vec<String>,
    /// Whether a simulated scheduler placed the batch jobs. The names of nodes are then invented.
    pub simulated: bool,
    /// The start of the time.
    pub from: Timestamp,
    /// The end of the time.
    pub until: Timestamp,
    /// The number of holes that ended in it.
    pub ended: u64,
}

/// A learnt model with what it was learnt from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learnt {
    from: LearntFrom,
    model: Vec<u8>,
}

/// The reason why a model cannot be used for a machine at a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The model cannot be restored.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model is of another machine.
    #[error(
        "the model is of another machine: it knows {known} nodes{}, and none of the {asked} of this machine{}: learn \
         one from this machine's past with `lacuna forecast learn`",
        like(known_like),
        like(asked_like)
    )]
    OtherMachine {
        /// The number of nodes of the model.
        known: usize,
        /// One of them.
        known_like: Option<String>,
        /// The number of nodes of the machine.
        asked: usize,
        /// One of them.
        asked_like: Option<String>,
    },
    /// The model is of another simulated machine. Its invented names say nothing, but its size does.
    #[error(
        "the model is of another machine: a simulated one of {known} nodes, and this one has {asked}: learn one from \
         this machine's past with `lacuna forecast learn`"
    )]
    OtherSize {
        /// The number of nodes of the model.
        known: usize,
        /// The number of nodes of the machine.
        asked: usize,
    },
    /// The nodes of the model are those of a simulated scheduler.
    #[error(
        "the model is of nodes that a simulated scheduler chose: learn it from a log that names nodes"
    )]
    Simulated,
    /// The model has learnt from the future.
    #[error(
        "the model has learnt up to {until}, and the time is {now}: it would know the future; learn it from what \
         was before, as `lacuna forecast learn --until` does"
    )]
    Ahead {
        /// The end of what was learnt.
        until: Timestamp,
        /// The time.
        now: Timestamp,
    },
}

fn like(name: &Option<String>) -> String {
    name.as_ref()
        .map_or_else(String::new, |name| format!(" such as {name}"))
}

impl Unfit {
    /// The reason in a word, for a metric.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Model(error) => error.word(),
            Self::OtherMachine { .. } | Self::OtherSize { .. } | Self::Simulated => "foreign",
            Self::Ahead { .. } => "ahead",
        }
    }
}

impl Learnt {
    /// A model, with what it was learnt from.
    #[must_use]
    pub const fn new(from: LearntFrom, model: Vec<u8>) -> Self {
        Self { from, model }
    }

    /// What the model was learnt from.
    #[must_use]
    pub const fn from(&self) -> &LearntFrom {
        &self.from
    }

    /// The model, as [`Predictor::save`](crate::Predictor::save) gives it.
    #[must_use]
    pub fn model(&self) -> &[u8] {
        &self.model
    }

    /// The bytes of the file. `None` if they cannot be encoded, which is known of no model.
    #[must_use]
    pub fn write(&self) -> Option<Vec<u8>> {
        join(&seal(HEAD, VERSION, &self.from)?, &self.model)
    }

    /// Reads the bytes of [`write`](Self::write). The model itself is checked when it is restored.
    ///
    /// # Errors
    /// [`ModelError`] if the bytes are damaged, of another version, or no learnt model.
    pub fn read(bytes: &[u8]) -> Result<Self, ModelError> {
        let (head, model) = split(bytes)?;
        Ok(Self {
            from: open(HEAD, VERSION, head)?,
            model: model.to_vec(),
        })
    }

    /// Checks that the model is of the machine with these nodes, and has not learnt from what
    /// comes after `now`. Returns the number of nodes that it knows.
    ///
    /// # Errors
    /// [`Unfit`] if it knows none of the nodes, is of a simulated machine of another size, or knows
    /// the future.
    pub fn check<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) -> Result<usize, Unfit> {
        let names: HashSet<&str> = self.from.nodes.iter().map(String::as_str).collect();
        let (mut asked, mut found, mut first) = (0, 0, None);
        for node in nodes {
            asked += 1;
            found += usize::from(names.contains(node));
            first = first.or(Some(node));
        }
        if found == 0 {
            return Err(Unfit::OtherMachine {
                known: names.len(),
                known_like: self.from.nodes.first().cloned(),
                asked,
                asked_like: first.map(str::to_owned),
            });
        }
        if self.from.simulated && asked != names.len() {
            return Err(Unfit::OtherSize {
                known: names.len(),
                asked,
            });
        }
        if self.from.until > now {
            return Err(Unfit::Ahead {
                until: self.from.until,
                now,
            });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt() -> Learnt {
        let from = LearntFrom {
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            simulated: false,
            from: Timestamp::from_unix(0),
            until: Timestamp::from_unix(100),
            ended: 7,
        };
        Learnt::new(from, vec![1, 2, 3])
    }

    #[test]
    fn a_model_is_read_as_it_was_written_or_refused() {
        let bytes = learnt().write().unwrap();
        assert_eq!(Learnt::read(&bytes).unwrap(), learnt());
        for cut in 0..bytes.len() - 3 {
            let refused = Learnt::read(&bytes[..cut]);
            assert!(matches!(refused, Err(ModelError::Damaged { .. })), "{cut}");
        }
        let mut old = bytes.clone();
        old[12] += 1;
        let refused = Learnt::read(&old);
        assert!(matches!(refused, Err(ModelError::OtherVersion { .. })));
        let mut bad = bytes.clone();
        let at = bad.len() - 6;
        bad[at] ^= 1;
        assert!(matches!(
            Learnt::read(&bad),
            Err(ModelError::Damaged { .. })
        ));
    }

    #[test]
    fn a_model_of_another_machine_or_of_the_future_is_refused() {
        let now = Timestamp::from_unix(100);
        assert_eq!(learnt().check(["n2", "n3"], now), Ok(1));
        let foreign = learnt().check(["a", "b"], now).unwrap_err();
        assert_eq!(foreign.word(), "foreign");
        let text = foreign.to_string();
        assert!(
            text.contains("such as n1") && text.contains("such as a"),
            "{text}"
        );
        let mut simulated = learnt();
        simulated.from.simulated = true;
        assert_eq!(simulated.check(["n1", "n2"], now), Ok(2));
        let other = simulated.check(["n1", "n2", "n3"], now).unwrap_err();
        assert_eq!(other.word(), "foreign");
        assert!(other.to_string().contains("of 2 nodes, and this one has 3"));
        let ahead = learnt()
            .check(["n1"], Timestamp::from_unix(99))
            .unwrap_err();
        assert_eq!(ahead.word(), "ahead");
    }
}
