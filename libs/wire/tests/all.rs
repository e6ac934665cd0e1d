//! Messages as bytes and as schemas.

#[path = "golden/main.rs"]
mod golden;
mod schema;
