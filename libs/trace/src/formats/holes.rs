//! Lacuna's own hole list, see [`crate::HEADER`]: one past hole a line.

use std::collections::VecDeque;

use lacuna_model::HoleRecord;

use crate::formats::HoleParser;
use crate::holes::{COLUMNS, HEADER, hole};
use crate::rows::{Names, columns};
use crate::{FieldError, Reading};

pub(super) fn knows(lines: &[&[u8]]) -> bool {
    lines.first().is_some_and(|line| is_header(line))
}

fn is_header(line: &[u8]) -> bool {
    line.strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(line)
        .trim_ascii()
        == HEADER.as_bytes()
}

pub(super) struct Holes {
    names: Names,
}

impl Holes {
    pub(super) fn new(_reading: &Reading) -> Self {
        Self {
            names: Names::default(),
        }
    }
}

impl HoleParser for Holes {
    fn line(&mut self, line: &[u8], ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError> {
        // Joined lists have several headers.
        if is_header(line) || line.trim_ascii().is_empty() {
            return Ok(());
        }
        let columns = columns(line).map_err(|found| {
            let expected = format!("{COLUMNS} columns ({HEADER})");
            FieldError::new("line", expected, format!("{found}"))
        })?;
        ready.push_back(hole(columns, &mut self.names)?);
        Ok(())
    }
}
