//! Golden files: the expected output of a program.

use std::path::Path;

/// Compares text with a golden file. With `LACUNA_GOLDEN=write` in the environment it writes the
/// file instead.
///
/// # Panics
/// If they differ: with the first differing line, and the way to accept the new text.
#[expect(clippy::panic, reason = "for tests alone")]
pub fn golden(path: impl AsRef<Path>, actual: &str) {
    let path = path.as_ref();
    if std::env::var_os("LACUNA_GOLDEN").is_some_and(|v| v == "write") {
        if let Some(dir) = path.parent() {
            let _ = std::fs::create_dir_all(dir);
        }
        if let Err(error) = std::fs::write(path, actual) {
            panic!("cannot write {}: {error}", path.display());
        }
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == actual {
        return;
    }
    let (mut old, mut new) = (expected.lines(), actual.lines());
    let mut number = 1;
    loop {
        match (old.next(), new.next()) {
            (a, b) if a == b && a.is_some() => number += 1,
            (a, b) => panic!(
                "{}:{number} differs:\n  golden: {}\n  now:    {}\nset LACUNA_GOLDEN=write and \
                 run again to accept",
                path.display(),
                a.unwrap_or("(end)"),
                b.unwrap_or("(end)")
            ),
        }
    }
}
