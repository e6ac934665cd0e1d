//! Bars of progress in eighths of a character.

/// A bar of `width` characters for a share in `[0, 1]`.
#[must_use]
pub(crate) fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let eighths = (share * width as f64 * 8.0).floor() as usize;
    let (full, part) = (eighths / 8, eighths % 8);
    let mut text = "█".repeat(full);
    let mut used = full;
    if let Some(mark) = PARTS.get(part).filter(|m| !m.is_empty()) {
        text.push_str(mark);
        used += 1;
    }
    text.push_str(&"·".repeat(width.saturating_sub(used)));
    text
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_keep_their_width() {
        assert_eq!(bar(0.0, 4), "····");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 3), "█▌·");
        assert_eq!(bar(f64::NAN, 2), "··");
        for i in 0..=100 {
            assert_eq!(bar(f64::from(i) / 100.0, 7).chars().count(), 7);
        }
    }
}
