//! The totals at the beginning of each day (UTC, the cluster's time), so that a report can begin on any
//! of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lacuna_model::Timestamp;
use lacuna_runtime::{PendingAck, ServiceError};
use lacuna_wire::address;
use lacuna_wire::msg::Totals;

use crate::sections::Context;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Bytes that are read at a time.
const PAGE_BYTES: u64 = 1 << 20;

/// The days, by their number since 1970.
#[derive(Debug, Default)]
pub(crate) struct Days {
    all: BTreeMap<i64, Totals>,
    /// Days that the bus is not known to keep, with the newest write of each.
    unkept: BTreeMap<i64, Option<PendingAck>>,
    /// Whether the log says that one of them is not stored.
    is_told: bool,
}

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
        Ok(Self::of(days))
    }

    const fn of(all: BTreeMap<i64, Totals>) -> Self {
        Self {
            all,
            unkept: BTreeMap::new(),
            is_told: false,
        }
    }

    /// Keeps the totals if they are the first of their day. A write without an acknowledgement is
    /// repeated, as where the disk of nats-server is full at midnight. Call it again and again.
    pub(crate) async fn keep(
        &mut self,
        ctx: &Context,
        now: Timestamp,
        whole: impl FnOnce() -> Totals,
    ) {
        let number = number(now);
        if let Entry::Vacant(day) = self.all.entry(number) {
            day.insert(whole());
            self.unkept.insert(number, None);
        }
        let mut unkept = BTreeMap::new();
        for (number, write) in std::mem::take(&mut self.unkept) {
            if let Some(write) = self.store(ctx, number, write).await {
                unkept.insert(number, write);
            }
        }
        self.unkept = unkept;
        if self.unkept.is_empty() && std::mem::take(&mut self.is_told) {
            tracing::info!("the totals of every day are stored");
        }
    }

    /// Says once that a day is not stored: writes are repeated at each of the controller's beats.
    fn tell(&mut self, error: &impl std::fmt::Display) {
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!(%error, "the totals of a day are not stored yet");
        }
    }

    /// Takes the outcome of the newest write of a day, and writes it again if that has failed. Returns
    /// what is in flight; nothing once the day is kept.
    async fn store(
        &mut self,
        ctx: &Context,
        number: i64,
        mut write: Option<PendingAck>,
    ) -> Option<Option<PendingAck>> {
        if let Some(ack) = &mut write {
            match ack.answered() {
                None => return Some(write),
                Some(Ok(_)) => return None,
                Some(Err(error)) => self.tell(&error),
            }
        }
        let subject = address::day(&ctx.cluster, number);
        let again = ctx.bus.store_later(&subject, self.all.get(&number)?, "");
        let again = again.await;
        match again {
            Ok(ack) => Some(Some(ack)),
            Err(error) => {
                self.tell(&error);
                Some(None)
            }
        }
    }

    /// The totals at the beginning of the day of a moment, or of the first day after it that is kept.
    pub(crate) fn at(&self, at: Timestamp) -> Option<&Totals> {
        self.all
            .range(number(at)..)
            .next()
            .map(|(_, totals)| totals)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lacuna_model::ClusterId;
    use lacuna_runtime::virtual_time::{self, Host};
    use lacuna_runtime::{Bus, Delays, SimulatedServer, simulate};

    use super::*;
    use crate::sections::Config;

    #[test]
    fn a_moment_has_the_totals_of_its_days_beginning_or_of_the_next_one_that_is_kept() {
        let kept = [1, 3].map(|day| Totals {
            now: Timestamp::from_unix(86_400 * day + 5),
            ..Totals::default()
        });
        let days = Days::of(kept.map(|day| (number(day.now), day)).into());
        let at = |day: i64| days.at(Timestamp::from_unix(86_400 * day + 80_000));
        let found = [0, 1, 2, 3].map(|day| at(day).map(|totals| number(totals.now)));
        assert_eq!(found, [Some(1), Some(1), Some(3), Some(3)]);
        assert_eq!(at(4), None);
    }

    #[test]
    fn the_first_totals_of_a_day_are_kept_where_the_disk_is_full_at_midnight() {
        virtual_time::run(1, async {
            let delays = Delays {
                least_ms: 1,
                most_ms: 20,
            };
            let server = SimulatedServer::new(1, delays);
            let mut config = Config::default();
            config.cluster.id = ClusterId::new("c").unwrap();
            // Midnight is 20 s after the start.
            simulate(&Host::new("leads"), "control", &server, &config, |ctx| {
                Box::pin(async move {
                    let mut days = Days::default();
                    for second in 0.. {
                        let now = Timestamp::from_unix(86_400 * 20_000 - 20 + second);
                        let whole = || Totals {
                            now,
                            ..Totals::default()
                        };
                        days.keep(&ctx, now, whole).await;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    Ok(())
                })
            });
            let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
            pause(15).await;
            server.fill();
            pause(30).await;
            // It starts again once there is room.
            server.kill();
            pause(1).await;
            server.start();
            pause(30).await;
            let reader = Bus::simulated_client(&server, &config.cluster.id, "cli").await;
            let subject = address::days(&config.cluster.id);
            let (kept, _) = reader
                .unwrap()
                .read_from(&subject, 1, PAGE_BYTES)
                .await
                .unwrap();
            let first = kept
                .iter()
                .map(|day| day.now.unix_ms() / 1000 - 86_400 * 20_000);
            assert_eq!(first.collect::<Vec<_>>(), [-20, 0]);
        })
        .unwrap();
    }
}
