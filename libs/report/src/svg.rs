//! Small parts of a drawing: escaped text, scales, axes.

use std::fmt::Write;

pub(super) use lacuna_sim::pool_stats::grouped as count;

/// The width of a chart, in units of its view box, where there is room.
pub(super) const WIDTH: f64 = 1000.0;

/// Its width where a wide window has two beside each other.
pub(super) const HALF: f64 = 800.0;

/// Its width on a phone: letters of the same size, and fewer of them.
const NARROW: f64 = 400.0;

/// A chart of this width, and as narrow as a phone; the style sheet shows one of them.
pub(super) fn both(width: f64, chart: impl Fn(f64) -> String) -> String {
    let (wide, narrow) = (chart(width), chart(NARROW));
    format!("<div class='wide'>{wide}</div><div class='narrow'>{narrow}</div>")
}

/// Of labels that are `slot` apart, every how many fit if each needs `room`.
pub(super) fn every(slot: f64, room: f64) -> usize {
    (room / slot.max(1.0)).ceil().max(1.0) as usize
}

/// Text escaped for HTML and SVG.
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
    /// Smallest and largest x of the data.
    pub(super) x: (f64, f64),
    /// Smallest and largest y of the data.
    pub(super) y: (f64, f64),
}

/// Place of a value between two others, as a fraction; 0 if they are equal.
fn place(value: f64, (from, to): (f64, f64)) -> f64 {
    let range = to - from;
    if range > 0.0 && value.is_finite() {
        (value - from) / range
    } else {
        0.0
    }
}

impl Frame {
    /// The frame of a chart of this size, with room for the axes, whose data begins at zero.
    pub(super) fn of((width, height): (f64, f64), x_max: f64, y_max: f64) -> Self {
        Self {
            left: 56.0,
            top: 12.0,
            width: width - 56.0 - 24.0,
            height: height - 12.0 - 26.0,
            x: (0.0, x_max),
            y: (0.0, y_max),
        }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.width * place(value, self.x)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - place(value, self.y))
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// A round step that cuts `range` into about `parts`: 1, 2 or 5 times a power of ten.
pub(super) fn round_step(range: f64, parts: f64) -> f64 {
    let raw = (range / parts).max(1e-12);
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= raw);
    factor.unwrap_or(10.0) * power
}

/// A round step of time that cuts `range` seconds into about `parts`: the step, its unit in
/// seconds, and the name of the unit.
fn time_step(range: f64, parts: f64) -> (f64, f64, &'static str) {
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
        (24.0 * 3600.0, 86_400.0, "d"),
        (48.0 * 3600.0, 86_400.0, "d"),
        (96.0 * 3600.0, 86_400.0, "d"),
        (240.0 * 3600.0, 86_400.0, "d"),
        (720.0 * 3600.0, 86_400.0, "d"),
    ];
    let found = STEPS.into_iter().find(|(step, _, _)| range / step <= parts);
    found.unwrap_or_else(|| {
        (
            round_step(range / 86_400.0, parts) * 86_400.0,
            86_400.0,
            "d",
        )
    })
}

/// Multiples of `step` within a range, at most a hundred.
pub(super) fn ticks((from, to): (f64, f64), step: f64) -> Vec<f64> {
    if step <= 0.0 || !from.is_finite() || !to.is_finite() {
        return Vec::new();
    }
    let slack = (to - from) * 1e-6;
    let first = ((from - slack) / step).ceil();
    (0..100)
        .map(|at| (first + f64::from(at)) * step)
        .take_while(|at| *at <= to + slack)
        .collect()
}

/// Ticks of a time axis under the frame, with their grid lines. A time axis that does not begin
/// at zero is a window: its ticks are times of day since the start of the run.
pub(super) fn time_axis(out: &mut String, frame: &Frame) {
    // A label has room for a day and a time of day.
    let (step, unit, name) = time_step(frame.x.1 - frame.x.0, (frame.width / 72.0).floor());
    for at in ticks(frame.x, step) {
        let (x, bottom) = (frame.x(at), frame.bottom());
        let value = at / unit;
        let digits = usize::from((value - value.round()).abs() > 1e-9);
        let words = if frame.x.0 > 0.0 && step < 86_400.0 {
            time_of_day(at)
        } else {
            format!("{value:.digits$} {name}")
        };
        // The last label must end within the drawing.
        let label = x.min(frame.right() + 24.0 - 3.2 * words.len() as f64);
        let _ = write!(
            out,
            "<line class='grid' x1='{x:.1}' y1='{:.1}' x2='{x:.1}' y2='{bottom:.1}'/>\
             <text class='tick' x='{label:.1}' y='{:.1}' text-anchor='middle'>{words}</text>",
            frame.top,
            bottom + 16.0,
        );
    }
}

/// Day and time of day since the start of a run.
fn time_of_day(at_s: f64) -> String {
    let all = at_s.max(0.0).round() as u64;
    let (day, hour, minute, second) = (all / 86_400, all / 3600 % 24, all / 60 % 60, all % 60);
    if second == 0 {
        format!("{day}d {hour:02}:{minute:02}")
    } else {
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

/// Ticks left of the frame, with their grid lines.
pub(super) fn value_axis(out: &mut String, frame: &Frame, write_value: impl Fn(f64) -> String) {
    let step = round_step(frame.y.1 - frame.y.0, 6.0);
    for at in ticks(frame.y, step) {
        let y = frame.y(at);
        let _ = write!(
            out,
            "<line class='grid' x1='{:.1}' y1='{y:.1}' x2='{:.1}' y2='{y:.1}'/>\
             <text class='tick' x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
            frame.left,
            frame.right(),
            frame.left - 8.0,
            y + 4.0,
            escape(&write_value(at)),
        );
    }
}

/// Opens a drawing of this size that a screen reader can name.
pub(super) fn open(width: f64, height: f64, label: &str) -> String {
    format!(
        "<svg viewBox='0 0 {width:.0} {height:.0}' role='img' aria-label='{}'>",
        escape(label)
    )
}

/// Writes a text; `anchor` is start, middle or end.
pub(super) fn text(out: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = write!(
        out,
        "<text class='{class}' x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{}</text>",
        escape(words)
    );
}

/// A filled rectangle.
pub(super) fn rect(out: &mut String, class: &str, (x, y): (f64, f64), width: f64, height: f64) {
    let _ = write!(
        out,
        "<rect class='{class}' x='{x:.1}' y='{y:.1}' width='{:.1}' height='{:.1}'/>",
        width.max(0.0),
        height.max(0.0)
    );
}

/// `part / whole`, and 0 if `whole` is 0.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A fraction in percent, with this number of digits.
pub(super) fn percent(fraction: f64, digits: usize) -> String {
    format!("{:.digits$} %", fraction * 100.0)
}

/// A value with enough digits for an axis or a table.
pub(super) fn value(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".to_owned(),
        v if v >= 10_000.0 => count(value),
        v if v >= 10.0 => format!("{value:.2}"),
        v if v >= 1e-3 || v == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// A length of time, given in seconds, in at most two units.
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
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(-1234.4), "-1,234");
        assert_eq!(span(0.000_042), "42 µs");
        assert_eq!(escape("<a b='c'>&"), "&lt;a b=&#39;c&#39;&gt;&amp;");
    }

    #[test]
    fn labels_that_do_not_fit_are_left_out() {
        assert_eq!(
            (every(102.0, 50.0), every(35.0, 50.0), every(0.0, 50.0)),
            (1, 2, 50)
        );
    }

    #[test]
    fn times_in_a_window_are_times_of_day() {
        assert_eq!(time_of_day(86_400.0 + 3660.0), "1d 01:01");
        assert_eq!(time_of_day(15.0), "00:00:15");
    }

    #[test]
    fn ticks_lie_within_the_range() {
        assert_eq!(ticks((0.0, 1.0), 0.5), [0.0, 0.5, 1.0]);
        assert_eq!(ticks((201.0, 204.5), 1.0), [201.0, 202.0, 203.0, 204.0]);
        assert!(ticks((0.0, f64::NAN), 1.0).is_empty());
        assert_eq!(ticks((0.0, 1e9), 1.0).len(), 100);
    }

    #[test]
    fn an_empty_range_is_drawn_at_its_start() {
        let frame = Frame::of((WIDTH, 100.0), 0.0, 0.0);
        assert_eq!((frame.x(5.0), frame.y(5.0)), (frame.left, frame.bottom()));
    }
}
