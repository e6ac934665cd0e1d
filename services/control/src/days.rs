//! The totals at the beginning of each day (UTC, the cluster's time), so that a report can begin on any
//! of them.

use std::collections::BTreeMap;

use lacuna_model::Timestamp;
use lacuna_runtime::{Context, ServiceError};
use lacuna_wire::address;
use lacuna_wire::msg::Totals;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Bytes that are read at a time.
const PAGE_BYTES: u64 = 1 << 20;

/// The kept days, by their number since 1970.
#[derive(Debug, Default)]
pub(crate) struct Days(BTreeMap<i64, Totals>);

/// The number of the day of a moment.
const fn number(at: Timestamp) -> i64 {
    at.unix_ms().div_euclid(DAY_MS)
}

impl Days {
    /// Reads the days that the bus has kept.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(crate) async fn read(ctx: &Context) -> Result<Self, ServiceError> {
        let subject = address::days(&ctx.cluster);
        let (mut days, mut next) = (BTreeMap::new(), Some(1));
        while let Some(from) = next {
            let page;
            (page, next) = ctx.bus.read_from(&subject, from, PAGE_BYTES).await?;
            days.extend(page.into_iter().map(|day| (number(day.now), day)));
        }
        Ok(Self(days))
    }

    /// Keeps the totals if they are the first of their day. What could not be stored is tried again.
    pub(crate) async fn keep(
        &mut self,
        ctx: &Context,
        now: Timestamp,
        whole: impl FnOnce() -> Totals,
    ) {
        let number = number(now);
        if self.0.contains_key(&number) {
            return;
        }
        let totals = whole();
        let subject = address::day(&ctx.cluster, number);
        match ctx.bus.publish(&subject, &totals, "").await {
            Ok(_) => drop(self.0.insert(number, totals)),
            Err(error) => tracing::warn!(%error, "the totals of this day are not stored yet"),
        }
    }

    /// The totals at the beginning of the day of a moment, or of the first day after it that is kept.
    pub(crate) fn at(&self, at: Timestamp) -> Option<&Totals> {
        self.0.range(number(at)..).next().map(|(_, totals)| totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_totals_of_its_days_beginning_or_of_the_next_one_that_is_kept() {
        let kept = [1, 3].map(|day| Totals {
            now: Timestamp::from_unix(86_400 * day + 5),
            ..Totals::default()
        });
        let days = Days(kept.map(|day| (number(day.now), day)).into());
        let at = |day: i64| days.at(Timestamp::from_unix(86_400 * day + 80_000));
        let found = [0, 1, 2, 3].map(|day| at(day).map(|totals| number(totals.now)));
        assert_eq!(found, [Some(1), Some(1), Some(3), Some(3)]);
        assert_eq!(at(4), None);
    }
}
