//! Ingest: its adapters, its process and its service.

#[path = "adapters/main.rs"]
mod adapters;
mod planned;
mod process;
mod service;
