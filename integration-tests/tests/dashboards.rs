//! The Grafana files are sound, and every metric that they and the alert rules name is one
//! that a service really exports.

mod exposition;
mod panels;
mod provisioning;
