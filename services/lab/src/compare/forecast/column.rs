//! The policies of the comparison.

/// The purpose of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The policy that Lacuna started from.
    Start,
    /// The present policy, with and without its comparison with simple rules.
    Now,
    /// The present policy with one ingredient switched off.
    Without,
    /// The present policy with the true ends of the near future.
    Ahead,
    /// The policy with all true ends.
    Bound,
    /// A policy with charged starts, beside the same without.
    Charged,
}

/// One policy of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    /// Its name, for `--columns` and in JSON.
    pub(super) name: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// Its purpose.
    pub(super) purpose: Purpose,
    /// Its arguments of `lacuna replay`.
    pub(super) arguments: &'static [&'static str],
}

/// BFTrainer's policy.
pub(super) const BFTRAINER: &str = "bftrainer";
/// Lacuna's policy, always by forecasts.
pub(super) const FORECAST: &str = "forecast";
/// Lacuna's policy without the order.
pub(super) const NO_ORDER: &str = "no-order";

/// All columns, in the order in which they are shown.
pub(super) const COLUMNS: [Column; 13] = [
    column(
        BFTRAINER,
        "BFTrainer",
        Purpose::Start,
        &["--policy", "dp", "--horizon", "120s", "--nodes", "random"],
    ),
    column(
        FORECAST,
        "forecast",
        Purpose::Now,
        &["--policy", "forecast"],
    ),
    column("auto", "auto", Purpose::Now, &["--policy", "auto"]),
    column(
        NO_ORDER,
        "no order",
        Purpose::Without,
        &["--policy", "forecast", "--order", "none"],
    ),
    column(
        "no-groups",
        "no groups",
        Purpose::Without,
        &["--policy", "forecast", "--no-groups"],
    ),
    column(
        "no-replace",
        "no replacing",
        Purpose::Without,
        &["--policy", "forecast", "--no-replace"],
    ),
    column(
        "no-refusal",
        "no refusal",
        Purpose::Without,
        &["--policy", "forecast", "--no-refusal"],
    ),
    column(
        "no-hysteresis",
        "hysteresis 1",
        Purpose::Without,
        &["--policy", "forecast", "--hysteresis", "1"],
    ),
    column(
        "lookahead-5m",
        "5 min ahead",
        Purpose::Ahead,
        &["--policy", "forecast", "--lookahead", "5m"],
    ),
    column(
        "lookahead-15m",
        "15 min ahead",
        Purpose::Ahead,
        &["--policy", "forecast", "--lookahead", "15m"],
    ),
    column(
        "clairvoyant",
        "clairvoyant",
        Purpose::Bound,
        &["--policy", "forecast", "--lookahead", "all"],
    ),
    column(
        "bftrainer-charged",
        "BFTrainer, starts charged",
        Purpose::Charged,
        &[
            "--policy",
            "dp",
            "--horizon",
            "120s",
            "--nodes",
            "random",
            "--charge-starts",
        ],
    ),
    column(
        "forecast-charged",
        "forecast, starts charged",
        Purpose::Charged,
        &["--policy", "forecast", "--charge-starts"],
    ),
];

const fn column(
    name: &'static str,
    title: &'static str,
    purpose: Purpose,
    arguments: &'static [&'static str],
) -> Column {
    Column {
        name,
        title,
        purpose,
        arguments,
    }
}

/// The names of all columns.
pub(super) fn names() -> Vec<&'static str> {
    COLUMNS.iter().map(|column| column.name).collect()
}

/// The default columns. On the trace of Summit they are all but those with charged
/// starts; elsewhere, those that bound the value of a forecast there.
pub(super) fn chosen(asked: &[String], elsewhere: bool, charged: bool) -> Vec<Column> {
    let by_default = |column: &Column| match column.purpose {
        Purpose::Start | Purpose::Now | Purpose::Ahead | Purpose::Bound => true,
        Purpose::Without => !elsewhere || column.name == NO_ORDER,
        Purpose::Charged => elsewhere && !charged,
    };
    let wanted = |column: &Column| match asked {
        [] => by_default(column),
        asked => asked.iter().any(|name| name == column.name),
    };
    COLUMNS.into_iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(asked: &[&str], elsewhere: bool, charged: bool) -> Vec<&'static str> {
        let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        let columns = chosen(&asked, elsewhere, charged);
        columns.iter().map(|column| column.name).collect()
    }

    #[test]
    fn the_default_columns_answer_the_question() {
        assert_eq!(of(&[], false, false).len(), 11);
        assert!(!of(&[], false, false).contains(&"forecast-charged"));
        let elsewhere = of(&[], true, false);
        assert!(elsewhere.contains(&"forecast-charged") && elsewhere.contains(&NO_ORDER));
        assert!(!elsewhere.contains(&"no-groups"));
        // If all columns are charged, no further charged column is needed.
        assert!(!of(&[], true, true).contains(&"forecast-charged"));
        assert_eq!(
            of(&["clairvoyant", "no-groups"], true, false),
            ["no-groups", "clairvoyant"]
        );
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS.len());
    }
}
