//! The Grafana files are sound; a service exports every metric that they and the alert
//! rules name; a real Prometheus answers every query from a running Lacuna; every
//! alert fires when it should and has its page.

mod alerts;
mod exposition;
mod live;
mod pages;
mod panels;
mod prometheus;
mod provisioning;
mod rules;
