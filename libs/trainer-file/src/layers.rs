//! Trainers given by a profile of their layers.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use lacuna_layers::{LayerProfile, Nodes, RawProfile, rates};
use lacuna_model::KindRates;
use serde::de::{Error as _, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

/// What a trainer says of its layers: `"ctr.json"`, where each kind of the profile is a kind of node,
/// or `{"profile": "ctr.json", "nodes": {"gpu": {"gpu": 4, "cpu": 10}}}`, where a node of a kind has
/// units of kinds of the profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layers {
    profile: PathBuf,
    nodes: Option<BTreeMap<String, BTreeMap<String, u32>>>,
}

/// Why the rates of a profile cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayersError {
    /// The profile cannot be read.
    #[error(
        "cannot read the profile {}: {source}: write it by python3 -m lacuna.profile_layers, or give its \
         path from the folder of this file",
        path.display()
    )]
    Open {
        /// The profile.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is no profile.
    #[error("{}: {source}", path.display())]
    Json {
        /// The profile.
        path: PathBuf,
        /// Line and column with what is wrong.
        source: serde_json::Error,
    },
    /// The profile is refused, or does not fit the nodes.
    #[error("{}: {source}", path.display())]
    Refused {
        /// The profile.
        path: PathBuf,
        /// The reason.
        source: lacuna_layers::Error,
    },
}

impl Layers {
    /// The rates by kind on up to `most` nodes. A relative path of the profile begins at `folder`.
    ///
    /// # Errors
    /// [`LayersError`] names the profile and the remedy.
    pub(crate) fn rates(&self, folder: &Path, most: u32) -> Result<KindRates, LayersError> {
        let path = folder.join(&self.profile);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(source) => return Err(LayersError::Open { path, source }),
        };
        let raw: RawProfile = match serde_json::from_slice(&text) {
            Ok(raw) => raw,
            Err(source) => return Err(LayersError::Json { path, source }),
        };
        let found = LayerProfile::new(raw).and_then(|profile| {
            let nodes = match &self.nodes {
                None => Nodes::alike(&profile)?,
                Some(given) => Nodes::new(&profile, given)?,
            };
            rates(&profile, &nodes, most)
        });
        found.map_err(|source| LayersError::Refused { path, source })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    profile: PathBuf,
    nodes: Option<BTreeMap<String, BTreeMap<String, u32>>>,
}

impl<'de> Deserialize<'de> for Layers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Layers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a profile, or {profile, nodes}")
            }

            fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<Layers, E> {
                if path.is_empty() {
                    return Err(E::custom("the path of the profile is empty"));
                }
                Ok(Layers {
                    profile: path.into(),
                    nodes: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Layers, A::Error> {
                let Whole { profile, nodes } = Whole::deserialize(MapAccessDeserializer::new(map))?;
                if profile.as_os_str().is_empty() {
                    return Err(A::Error::custom("the path of the profile is empty"));
                }
                Ok(Layers { profile, nodes })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
