//! Calibration: share of holes that stayed open, over its forecast probability.

use std::fmt::Write;

use lacuna_forecast::skill::ReliabilityBin;
use lacuna_sim::skill::{HorizonSkill, PredictorSkill};

use crate::svg::{Frame, count, open, percent, span, text};

const HEIGHT: f64 = 312.0;

/// Starts of an axis, the largest first.
const LOWEST: [f64; 4] = [0.96, 0.8, 0.6, 0.0];

/// One diagram for each horizon, side by side, below each other where there is no room. Each dot is
/// a bin of forecasts, with an area by their number. Calibrated forecasts lie on the diagonal.
pub(crate) fn calibration(predictors: &[&PredictorSkill], width: f64) -> String {
    let horizons: Vec<f64> = predictors
        .iter()
        .flat_map(|predictor| predictor.horizons.iter().map(|h| h.horizon_s))
        .fold(Vec::new(), |mut seen, horizon| {
            if !seen.contains(&horizon) {
                seen.push(horizon);
            }
            seen
        });
    let across = horizons.len().clamp(1, (width / 200.0) as usize);
    let down = horizons.len().max(1).div_ceil(across);
    let mut out = open(
        width,
        HEIGHT * down as f64,
        "share of holes that stayed open over the probability that was forecast",
    );
    let slot = width / across as f64;
    for (at, horizon) in horizons.iter().enumerate() {
        let lowest = lowest(predictors, *horizon);
        let side = (slot - 62.0).min(206.0);
        let frame = Frame {
            left: slot * (at % across) as f64 + 40.0,
            top: HEIGHT * (at / across) as f64 + 26.0,
            width: side,
            height: side,
            x: (lowest, 1.0),
            y: (lowest, 1.0),
        };
        ground(&mut out, &frame, *horizon);
        let mut below = frame.bottom() + 50.0;
        for (number, predictor) in predictors.iter().enumerate() {
            let Some(score) = predictor.horizons.iter().find(|h| h.horizon_s == *horizon) else {
                continue;
            };
            let class = if number == 0 { "dot" } else { "dot2" };
            dots(&mut out, &frame, class, score);
            for bin in score.bins.iter().filter(|bin| beyond(bin, lowest)) {
                let words = format!(
                    "{} forecast, {} open (off the axes)",
                    percent(bin.predicted, 0),
                    percent(bin.observed, 1)
                );
                let _ = write!(
                    out,
                    "<circle class='{class}' cx='{:.1}' cy='{:.1}' r='4'/>",
                    frame.left + 4.0,
                    below - 3.6
                );
                text(
                    &mut out,
                    "tick",
                    (frame.left + 13.0, below),
                    "start",
                    &words,
                );
                below += 13.0;
            }
        }
    }
    out + "</svg>"
}

/// Start of the axes of a horizon. On axes from zero nearly certain forecasts would be one spot.
/// The first predictor decides, as services use it.
fn lowest(predictors: &[&PredictorSkill], horizon_s: f64) -> f64 {
    let first = predictors.first();
    let scores = first.into_iter().flat_map(|p| &p.horizons);
    let bins = scores
        .filter(|score| score.horizon_s == horizon_s)
        .flat_map(|score| score.bins.iter().filter(|bin| bin.count > 0));
    let least = bins.fold(1.0, |least: f64, bin| {
        least.min(bin.predicted).min(bin.observed)
    });
    let fits = LOWEST.into_iter().find(|&low| low <= least);
    fits.unwrap_or(0.0)
}

/// Whether a bin lies below the start of the axes.
fn beyond(bin: &ReliabilityBin, lowest: f64) -> bool {
    bin.count > 0 && bin.predicted.min(bin.observed) < lowest
}

fn ground(out: &mut String, frame: &Frame, horizon_s: f64) {
    let middle = frame.left + frame.width / 2.0;
    let title = match horizon_s / 60.0 {
        minutes if minutes.fract() == 0.0 => format!("open {minutes} min later"),
        _ => format!("open {} later", span(horizon_s)),
    };
    text(out, "strong", (middle, frame.top - 10.0), "middle", &title);
    let low = frame.x.0;
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = low + (1.0 - low) * part;
        let (x, y) = (frame.x(at), frame.y(at));
        let _ = write!(
            out,
            "<path class='grid' d='M{x:.1} {:.1}V{:.1}M{:.1} {y:.1}H{:.1}'/>",
            frame.top,
            frame.bottom(),
            frame.left,
            frame.right()
        );
        let words = percent(at, 0);
        if part.fract() == 0.0 || part == 0.5 {
            text(out, "tick", (x, frame.bottom() + 15.0), "middle", &words);
        }
        text(out, "tick", (frame.left - 6.0, y + 4.0), "end", &words);
    }
    let _ = write!(
        out,
        "<path class='ideal' d='M{:.1} {:.1}L{:.1} {:.1}'/>",
        frame.left,
        frame.bottom(),
        frame.right(),
        frame.top
    );
    text(
        out,
        "tick",
        (middle, frame.bottom() + 32.0),
        "middle",
        "forecast probability",
    );
}

fn dots(out: &mut String, frame: &Frame, class: &str, score: &HorizonSkill) {
    let shown = |bin: &&ReliabilityBin| bin.count > 0 && !beyond(bin, frame.x.0);
    for bin in score.bins.iter().filter(shown) {
        let share = bin.count as f64 / score.answered.max(1) as f64;
        let _ = write!(
            out,
            "<circle class='{class}' cx='{:.1}' cy='{:.1}' r='{:.1}'><title>{} forecasts of {}: {} open</title></circle>",
            frame.x(bin.predicted),
            frame.y(bin.observed),
            2.0 + 14.0 * share.sqrt(),
            count(bin.count as f64),
            percent(bin.predicted, 1),
            percent(bin.observed, 1)
        );
    }
}
