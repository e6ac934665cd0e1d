//! Colours and style sheets. Categories have the colours of Okabe and Ito, which the colour-blind
//! can distinguish; numbers have steps of viridis. No chart depends on colour alone.

use std::fmt::Write;

/// Rules for the parts of drawings.
const CHART: &str = include_str!("chart.css");
/// Rules for the page around them.
const PAGE: &str = include_str!("style.css");

/// A colour by its name in the style sheets: on light ground, on dark ground.
const COLOURS: [(&str, &str, &str); 17] = [
    ("ground", "#ffffff", "#14191d"),
    ("panel", "#f3f6f8", "#1f272d"),
    ("ink", "#1b2730", "#e6ebee"),
    ("soft", "#4b5b66", "#a9b6bf"),
    ("grid", "#dde4e9", "#2e3940"),
    ("base", "#b9c4cc", "#51606a"),
    ("pool", "#c3d3df", "#3f5566"),
    ("batch", "#e4e9ec", "#2a343b"),
    ("blue", "#0072b2", "#3d9bd6"),
    ("sky", "#56b4e9", "#7cc8f2"),
    ("orange", "#e69f00", "#f0b429"),
    ("red", "#b3400f", "#e8743b"),
    ("green", "#009e73", "#2fc79b"),
    ("pink", "#cc79a7", "#dd98bf"),
    ("yellow", "#f0e442", "#f0e442"),
    ("good", "#d9f0e8", "#17402f"),
    ("bad", "#fbe3d6", "#54270f"),
];

/// Number of steps of colour for numbers: `.v0` for the smallest to `.v9` for the largest.
pub(super) const STEPS: usize = 10;

/// Viridis, from dark to light.
const VIRIDIS: [&str; STEPS] = [
    "#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59",
    "#b4de2c", "#fde725",
];

/// Background of drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Light,
    Dark,
}

fn variables(ground: Ground) -> String {
    let colour = |light, dark| match ground {
        Ground::Light => light,
        Ground::Dark => dark,
    };
    COLOURS
        .iter()
        .fold(String::new(), |mut out, (name, light, dark)| {
            let _ = write!(out, "--{name}:{};", colour(light, dark));
            out
        })
}

/// Steps of colour, which mean the same on light and on dark ground, and the colours of text on low
/// and on high steps.
fn steps() -> String {
    let mut out = "svg .low{fill:#ffffff}svg .high{fill:#10222e}".to_owned();
    for (at, colour) in VIRIDIS.iter().enumerate() {
        let _ = write!(out, "svg .v{at}{{fill:{colour}}}");
    }
    out
}

/// The style sheet of a page: light, dark if the reader's system is, and light on paper.
pub(super) fn of_page() -> String {
    format!(
        ":root{{color-scheme:light dark;{}}}{}\
         @media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n{CHART}\n{PAGE}",
        variables(Ground::Light),
        steps(),
        variables(Ground::Dark)
    )
}

/// The style sheet of a drawing, in plain colours, since few drawing programs support variables.
pub(super) fn of_drawing() -> String {
    let mut out = format!("{CHART}{}", steps());
    for (name, light, _) in COLOURS {
        out = out.replace(&format!("var(--{name})"), light);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_that_a_style_sheet_names_exists() {
        assert!(!of_drawing().contains("var("), "{}", of_drawing());
        let mut page = PAGE.to_owned();
        for (name, light, _) in COLOURS {
            page = page.replace(&format!("var(--{name})"), light);
        }
        assert!(!page.contains("var("), "{page}");
    }
}
