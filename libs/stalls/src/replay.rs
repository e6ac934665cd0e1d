//! The model of a step, and its replay.
//!
//! Members r, steps k, sums b; w workers of a loader, each d batches ahead:
//!
//! ```text
//! c_rk     = prep_rk + fetch_rk                                        a worker's time for a batch
//! read_rk  = max(read_r(k-w), took_r(k-dw)) + c_rk                     it is free, and may read ahead
//! took_rk  = max(E_r(k-1), read_rk)      without workers: E_r(k-1) + c_rk
//! start_rk = took_rk + hand_rk
//! R_kb     = max over r of (start_rk + ready_rkb)                      the last member launches
//! f_kb     = max(R_kb, f_k(b-1)) + svc_kb                              sums follow each other
//! E_rk     = f_k,last + after_rk                                       optimiser, program
//! ```
//!
//! A change takes preparation, fetching or services to zero, or scales them. Without a straggler, each
//! member's `ready` and `after` are moved by the difference of its mean to that of the fastest one.
//! The replay keeps the variation between steps; taking the fastest member would hide it.
//!
//! With another share s of the samples, on a device d times as fast, `ready` becomes
//! `((1-f) s/d + f) ready`, where f is the share of computing that stays as it is ([`Change::fixed`]).
//!
//! With `n0/n` of the members, loaders on other nodes have as much more time for each of them: with own
//! workers o and theirs q, a worker's time becomes `(o + q) / (o + q n0/n)` of what it was.
//!
//! Services at another size or link are those that the fitted [`Link`] gives there, times what the
//! traced one took of what the link gives here. A sum whose end was seen late counts with the link's time at
//! most. Further members repeat the traced ones, some steps apart.
//!
//! The steps are replayed in rounds, one after the other. The first rounds fill the loaders, and the
//! mean of the last one is the result.

use std::collections::VecDeque;

use lacuna_model::Cause;

use crate::change::Change;
use crate::error::Error;
use crate::link::Link;
use crate::steps::{Member, Row, Steps, as_f64};

/// The first ones are not counted.
const ROUNDS: usize = 3;

impl Steps {
    /// The mean step in seconds, with a change.
    ///
    /// # Errors
    /// [`Error::LinkUnknown`] for other members or another link, if a member trained alone.
    pub fn replay(&self, change: &Change) -> Result<f64, Error> {
        let services = self.changed_services(change)?;
        let workers = change.new_workers().unwrap_or(self.workers());
        // A loader that gets its first workers reads two batches ahead, as PyTorch does by default.
        let depth = if self.workers() == 0 { 2 } else { self.depth() };
        let members = self.changed_members(change);
        let batches = ROUNDS.saturating_mul(services.len());
        let mut tracks: Vec<_> = members
            .iter()
            .zip(self.shifts(change))
            .map(|(member, shift)| {
                let rows = member.iter().cycle().skip(shift);
                (rows, Loader::new(workers, depth, batches), 0.0_f64)
            })
            .collect();
        let mut marks = [0.0; ROUNDS];
        for mark in &mut marks {
            for sums in &services {
                let mut launched = vec![f64::NEG_INFINITY; sums.len()];
                let mut after = Vec::with_capacity(tracks.len());
                for (rows, loader, asked) in &mut tracks {
                    let Some(row) = rows.next() else { continue };
                    let start = loader.take(*asked, row.prep + row.fetch) + row.hand;
                    for (moment, ready) in launched.iter_mut().zip(&row.ready) {
                        *moment = moment.max(start + ready);
                    }
                    after.push(row.after);
                }
                let mut ended = f64::NEG_INFINITY;
                for (begun, seconds) in launched.iter().zip(sums) {
                    ended = begun.max(ended) + seconds;
                }
                for ((_, _, asked), after) in tracks.iter_mut().zip(after) {
                    *asked = ended + after;
                }
            }
            *mark = tracks.iter().map(|(_, _, asked)| asked).sum::<f64>() / as_f64(tracks.len());
        }
        let [.., filled, end] = marks;
        Ok((end - filled) / as_f64(services.len()))
    }

    fn changed_services(&self, change: &Change) -> Result<Vec<Vec<f64>>, Error> {
        let size = change.new_members().unwrap_or(self.members());
        let factor = change.link_factor();
        if change.lacks(Cause::Link) || size == 1 {
            return Ok(self.services().iter().map(|s| vec![0.0; s.len()]).collect());
        }
        #[expect(clippy::float_cmp, reason = "1 is what an unchanged link has")]
        if size == self.members() && factor == 1.0 {
            return Ok(self.services().to_vec());
        }
        let link = Link::of(self)?;
        let known = self.transfers();
        let scaled = |sums: &Vec<f64>| {
            sums.iter()
                .zip(self.bytes())
                .zip(&known)
                .map(|((&seconds, &bytes), &(_, exact))| {
                    let here = link.seconds(bytes, self.members(), 1.0);
                    let there = link.seconds(bytes, size, factor);
                    let seconds = if exact { seconds } else { seconds.min(here) };
                    if here > 0.0 {
                        seconds * there / here
                    } else {
                        seconds
                    }
                })
                .collect()
        };
        Ok(self.services().iter().map(scaled).collect())
    }

    fn changed_members(&self, change: &Change) -> Vec<Vec<Row>> {
        let read = change.read_factor();
        let (computing, afterwards) = (change.computing(), change.after());
        let prep = if change.lacks(Cause::Preparation) {
            0.0
        } else {
            read
        };
        let fetch = if change.lacks(Cause::Fetch) {
            0.0
        } else {
            read
        };
        let behind = self.behind();
        let traced = self.ranks().iter().zip(behind).map(|(member, behind)| {
            let even = change.lacks(Cause::Straggler);
            let rows = member.rows.iter().map(|row| {
                let after = if even {
                    row.after - behind.after
                } else {
                    row.after
                };
                let ready = row.ready.iter().zip(&behind.ready).map(|(ready, behind)| {
                    (if even { ready - behind } else { *ready }).max(0.0) * computing
                });
                Row {
                    prep: row.prep * prep,
                    fetch: row.fetch * fetch,
                    hand: row.hand,
                    ready: ready.collect(),
                    after: after.max(0.0) * afterwards,
                }
            });
            rows.collect::<Vec<_>>()
        });
        let traced: Vec<_> = traced.collect();
        let count = self.shifts(change).count();
        traced.into_iter().cycle().take(count).collect()
    }

    /// By replayed member: the step at which it begins. Copies of a member are spread over the steps.
    fn shifts(&self, change: &Change) -> impl Iterator<Item = usize> + use<> {
        let traced = self.ranks().len();
        let count = match change.new_members() {
            Some(members) if members != self.members() => {
                usize::try_from(members).unwrap_or(usize::MAX)
            }
            _ => traced,
        };
        let steps = self.count();
        let rounds = count.div_ceil(traced);
        (0..count).map(move |place| place / traced * steps / rounds)
    }

    /// The share of computing that does not follow the samples, from a run of the same program in
    /// which a member has `share` times the samples: with r the quotient of both mean times until the
    /// last sum is launched, `r = (1-f) share + f`.
    ///
    /// # Errors
    /// [`Error::Change`] for a share that is not positive, or 1.
    pub fn fixed_part(&self, other: &Self, share: f64) -> Result<f64, Error> {
        let what = "the samples of a member over those of the other run";
        crate::change::positive(what, share)?;
        if (share - 1.0).abs() < 0.1 {
            return Err(Error::Change {
                what,
                value: share,
                expected: "further from 1: a run on a clearly different number of nodes is needed",
            });
        }
        let mean = |steps: &Self| {
            let all = steps.ranks().iter().map(Behind::mean);
            let last = all.map(|one| one.ready.last().copied().unwrap_or(0.0));
            last.sum::<f64>() / as_f64(steps.ranks().len())
        };
        let quotient = mean(other) / mean(self);
        let found = (share - quotient) / (share - 1.0);
        Ok(if found.is_finite() {
            found.clamp(0.0, 1.0)
        } else {
            0.0
        })
    }

    /// By member: how much its means are above those of the fastest one, for each sum and after them.
    pub(crate) fn behind(&self) -> Vec<Behind> {
        let means: Vec<Behind> = self.ranks().iter().map(Behind::mean).collect();
        let fastest = means
            .iter()
            .skip(1)
            .fold(means.first().cloned().unwrap_or_default(), |least, one| {
                least.min(one)
            });
        means.iter().map(|one| one.minus(&fastest)).collect()
    }
}

/// Mean seconds of a member's steps, or how much they are above others.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Behind {
    pub(crate) ready: Vec<f64>,
    pub(crate) after: f64,
}

impl Behind {
    fn mean(member: &Member) -> Self {
        let count = as_f64(member.rows.len());
        let sums = member.rows.first().map_or(0, |row| row.ready.len());
        let mut total = Self {
            ready: vec![0.0; sums],
            after: 0.0,
        };
        for row in &member.rows {
            total.after += row.after / count;
            for (sum, ready) in total.ready.iter_mut().zip(&row.ready) {
                *sum += ready / count;
            }
        }
        total
    }

    fn min(&self, other: &Self) -> Self {
        self.with(other, f64::min)
    }

    fn minus(&self, other: &Self) -> Self {
        self.with(other, |a, b| a - b)
    }

    fn with(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            ready: (self.ready.iter().zip(&other.ready))
                .map(|(&a, &b)| of(a, b))
                .collect(),
            after: of(self.after, other.after),
        }
    }
}

/// The workers of one member.
struct Loader {
    /// When each worker is free, the one whose turn it is first; empty without workers.
    free: VecDeque<f64>,
    /// When the batches were taken that free a place for the next ones.
    taken: VecDeque<f64>,
}

impl Loader {
    /// A loader of which that many batches are taken: places beyond them would never be freed.
    fn new(workers: u32, depth: u32, batches: usize) -> Self {
        let workers = usize::try_from(workers).unwrap_or(usize::MAX);
        let ahead = usize::try_from(depth).unwrap_or(1).saturating_mul(workers);
        let ahead = ahead.min(batches);
        Self {
            free: vec![0.0; workers].into(),
            taken: vec![0.0; ahead].into(),
        }
    }

    /// When the next batch is taken, which takes `seconds` to read and is asked for at a moment.
    fn take(&mut self, asked: f64, seconds: f64) -> f64 {
        let (Some(free), Some(place)) = (self.free.pop_front(), self.taken.pop_front()) else {
            return asked + seconds;
        };
        let read = free.max(place) + seconds;
        self.free.push_back(read);
        let taken = asked.max(read);
        self.taken.push_back(taken);
        taken
    }
}
