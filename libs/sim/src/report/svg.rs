//! Small parts of a drawing: escaped text, scales, axes.

use std::fmt::Write;

/// Text as it may stand in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// The area of a chart in which data is drawn, in units of the view box.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Largest x and y of the data; the smallest are 0.
    pub(super) x_max: f64,
    pub(super) y_max: f64,
}

impl Frame {
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.width * value / self.x_max.max(f64::MIN_POSITIVE)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - value / self.y_max.max(f64::MIN_POSITIVE))
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// A round step that cuts `max` into about `parts`: 1, 2 or 5 times a power of ten.
pub(super) fn round_step(max: f64, parts: f64) -> f64 {
    let raw = (max / parts).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= raw);
    factor.unwrap_or(10.0) * power
}

/// A round step of time that cuts `max` seconds into about `parts`, and how to write it.
fn time_step(max: f64, parts: f64) -> (f64, f64, &'static str) {
    const STEPS: [(f64, f64, &str); 16] = [
        (1.0, 1.0, "s"),
        (5.0, 1.0, "s"),
        (15.0, 1.0, "s"),
        (60.0, 60.0, "min"),
        (300.0, 60.0, "min"),
        (900.0, 60.0, "min"),
        (1800.0, 60.0, "min"),
        (3600.0, 3600.0, "h"),
        (2.0 * 3600.0, 3600.0, "h"),
        (4.0 * 3600.0, 3600.0, "h"),
        (12.0 * 3600.0, 3600.0, "h"),
        (24.0 * 3600.0, 3600.0, "h"),
        (48.0 * 3600.0, 86_400.0, "d"),
        (96.0 * 3600.0, 86_400.0, "d"),
        (240.0 * 3600.0, 86_400.0, "d"),
        (720.0 * 3600.0, 86_400.0, "d"),
    ];
    let found = STEPS.into_iter().find(|(step, _, _)| max / step <= parts);
    found.unwrap_or_else(|| (round_step(max / 86_400.0, parts) * 86_400.0, 86_400.0, "d"))
}

/// Ticks of a time axis under the frame, with their grid lines.
pub(super) fn time_axis(out: &mut String, frame: &Frame) {
    let (step, unit, name) = time_step(frame.x_max, 12.0);
    let mut at = 0.0;
    while at <= frame.x_max * 1.000_001 {
        let (x, bottom) = (frame.x(at), frame.bottom());
        let _ = write!(
            out,
            "<line class='grid' x1='{x:.1}' y1='{:.1}' x2='{x:.1}' y2='{bottom:.1}'/>\
             <text class='tick' x='{x:.1}' y='{:.1}' text-anchor='middle'>{:.0} {name}</text>",
            frame.top,
            bottom + 16.0,
            at / unit,
        );
        at += step;
    }
}

/// Ticks left of the frame, with their grid lines.
pub(super) fn value_axis(out: &mut String, frame: &Frame, write_value: impl Fn(f64) -> String) {
    let step = round_step(frame.y_max, 5.0);
    let mut at = 0.0;
    while at <= frame.y_max * 1.000_001 {
        let y = frame.y(at);
        let _ = write!(
            out,
            "<line class='grid' x1='{:.1}' y1='{y:.1}' x2='{:.1}' y2='{y:.1}'/>\
             <text class='tick' x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
            frame.left,
            frame.left + frame.width,
            frame.left - 8.0,
            y + 4.0,
            escape(&write_value(at)),
        );
        at += step;
    }
}

/// Opens a drawing of this size that a screen reader can name.
pub(super) fn open(width: f64, height: f64, label: &str) -> String {
    format!(
        "<svg viewBox='0 0 {width:.0} {height:.0}' role='img' aria-label='{}'>",
        escape(label)
    )
}

/// A count with thin spaces between thousands.
pub(super) fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// Seconds in two units at most.
pub(super) fn span(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 1.0 {
        let (value, unit) = if seconds < 1e-3 {
            (seconds * 1e6, "µs")
        } else {
            (seconds * 1e3, "ms")
        };
        return format!("{value:.0} {unit}");
    }
    if seconds == 0.0 {
        return "0s".to_owned();
    }
    lacuna_model::Span::from_secs_f64(seconds).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!(round_step(100.0, 5.0), 20.0);
        assert_eq!(round_step(1161.0, 5.0), 500.0);
        assert_eq!(time_step(7200.0, 12.0), (900.0, 60.0, "min"));
        assert_eq!(time_step(200.0 * 3600.0, 12.0).0, 24.0 * 3600.0);
        assert_eq!(count(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(span(0.000_042), "42 µs");
        assert_eq!(escape("<a b='c'>&"), "&lt;a b=&#39;c&#39;&gt;&amp;");
    }
}
