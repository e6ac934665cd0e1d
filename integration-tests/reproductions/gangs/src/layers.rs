//! The layers of models, and the factor by which the authors shrink their computing times.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::Error;
use crate::flow_line::Layer;

/// A row of `layers.csv`.
#[derive(Debug, Deserialize)]
struct LayerRow {
    model: String,
    forward_ns: u64,
    input_grad_ns: u64,
    weight_grad_ns: u64,
    gradient_bytes: u64,
    update_ns: u64,
}

/// A row of `compute_scale.csv`.
#[derive(Debug, Deserialize)]
struct ScaleRow {
    model: String,
    layers_declared: Option<usize>,
    authors_scale: f64,
}

/// The layers of one model, as profiled.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelLayers {
    pub(crate) layers: Vec<Layer>,
    pub(crate) authors_scale: f64,
}

impl ModelLayers {
    /// The layers with computing times multiplied by a factor and rounded down.
    pub(crate) fn scaled(&self, factor: f64) -> Vec<Layer> {
        let scale = |ns: u64| (ns as f64 * factor).floor() as u64;
        let scaled = self.layers.iter().map(|layer| Layer {
            forward: scale(layer.forward),
            input_gradient: scale(layer.input_gradient),
            weight_gradient: scale(layer.weight_gradient),
            ..*layer
        });
        scaled.collect()
    }
}

/// The models by name.
#[derive(Debug, Clone, Default)]
pub struct Library {
    models: BTreeMap<String, ModelLayers>,
}

impl Library {
    /// Reads the layers of models and their factors, each a file with its name. Layers that a
    /// model only declares compute and send nothing, but each passes the clock's ticks.
    ///
    /// # Errors
    /// A file is malformed, or a factor is not above 0.
    pub fn read(layers: (&str, &str), scales: (&str, &str)) -> Result<Self, Error> {
        let mut models: BTreeMap<String, ModelLayers> = BTreeMap::new();
        for row in rows::<LayerRow>(layers)? {
            models.entry(row.model).or_default().layers.push(Layer {
                forward: row.forward_ns,
                input_gradient: row.input_grad_ns,
                weight_gradient: row.weight_grad_ns,
                gradient_bytes: row.gradient_bytes,
                update: row.update_ns,
            });
        }
        for row in rows::<ScaleRow>(scales)? {
            if !(row.authors_scale > 0.0 && row.authors_scale.is_finite()) {
                return Err(Error::Value {
                    what: format!("{}: the scale of {}", scales.0, row.model),
                    value: row.authors_scale,
                    expected: "a number above 0",
                });
            }
            if let Some(model) = models.get_mut(&row.model) {
                model.authors_scale = row.authors_scale;
                let declared = row.layers_declared.unwrap_or(0);
                let layers = declared.max(model.layers.len());
                model.layers.resize(layers, Layer::default());
            }
        }
        models.retain(|_, model| model.authors_scale > 0.0);
        Ok(Self { models })
    }

    /// A model.
    ///
    /// # Errors
    /// There is no such model.
    pub(crate) fn model(&self, name: &str) -> Result<&ModelLayers, Error> {
        self.models.get(name).ok_or_else(|| Error::NoModel {
            model: name.to_owned(),
            known: self.models.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }
}

/// The rows of a file of comma-separated values, with its name.
pub(crate) fn rows<T: for<'a> Deserialize<'a>>(
    (file, text): (&str, &str),
) -> Result<Vec<T>, Error> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Result<Vec<T>, csv::Error> = reader.deserialize().collect();
    rows.map_err(|source| Error::Csv {
        file: file.to_owned(),
        source,
    })
}
