//! The operator's page in a real, headless Chromium, driven by WebDriver.

mod checks;
mod driver;
mod keyboard;
mod layout;
mod live;
mod page;
