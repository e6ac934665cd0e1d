//! From patterns to an answer: generate columns, round, solve the programme.

use std::time::Duration;

use lacuna_milp as milp;
use lacuna_model::Outcome;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::patterns::answer::gap;
use crate::patterns::incumbent::{Choice, Search};
use crate::patterns::master::{Columns, Master, Prices};
use crate::patterns::{Answer, Column, Error, Options, Patterns, Seconds, Source};

/// HiGHS works to absolute tolerances of 1e-7: the largest value is brought to this.
const LARGEST: f64 = 1e4;

/// How far prices lie towards those of the best bound so far.
const SMOOTHING: f64 = 0.5;

/// How many columns that may be part of a better answer are added for the programme.
const NEAR: usize = 200;

/// How many columns the programme has at most, about.
const MOST: usize = 500;

/// In how many ways the relaxation is rounded.
const ROUNDINGS: usize = 8;

/// How often trainers are exchanged pair by pair.
const EXCHANGES: usize = 4;

/// Roundings differ by chance, the same for every solve.
const SEED: u64 = 1;

/// Chooses a pattern for each trainer so that their values sum to the most while no more than
/// `capacity[k]` nodes of class k are taken. `warm` are plans to begin with, columns each; a
/// trainer without one keeps. Never worse than keeping for all, nor than a warm plan whose
/// columns fit together. Blocks for the time limit at most (plus a little).
///
/// # Errors
/// [`Error`] when patterns make no sense; a solver that fails is no error, but an outcome.
pub fn solve(
    patterns: &mut dyn Patterns,
    capacity: &[u32],
    warm: &[Vec<Column>],
    options: &Options<'_>,
) -> Result<Answer, Error> {
    let mut work = Work {
        columns: Columns::keep(patterns, capacity.len())?,
        trainers: patterns.trainers(),
        patterns,
        capacity,
        options,
        start: (options.stopwatch)(),
        seconds: Seconds::default(),
        bound: f64::INFINITY,
        at: vec![0.0; capacity.len()],
        tops: Vec::new(),
        rounds: 0,
        converged: false,
        failed: false,
    };
    let mut best = work.floor(warm)?;
    let relaxed = work.generate()?;
    if let Some(relaxed) = &relaxed {
        let choice = work.rounded(&best.choice, relaxed)?;
        best.heed(choice, Source::Rounding);
        work.programme(&mut best)?;
    }
    Ok(work.answer(best, relaxed))
}

/// The best answer so far.
struct Best {
    choice: Choice,
    objective: f64,
    source: Source,
}

impl Best {
    fn heed(&mut self, choice: Choice, source: Source) {
        let objective = choice.objective();
        if objective > self.objective {
            *self = Self {
                choice,
                objective,
                source,
            };
        }
    }
}

struct Work<'a> {
    patterns: &'a mut dyn Patterns,
    trainers: usize,
    capacity: &'a [u32],
    options: &'a Options<'a>,
    columns: Columns,
    start: f64,
    seconds: Seconds,
    /// The least of L(w) so far.
    bound: f64,
    /// The prices of that bound.
    at: Vec<f64>,
    /// For each trainer the largest reduced value at those prices.
    tops: Vec<f64>,
    rounds: u32,
    converged: bool,
    failed: bool,
}

/// What a pricing of all trainers found.
struct Priced {
    bound: f64,
    tops: Vec<f64>,
    offers: Vec<Column>,
}

impl Work<'_> {
    fn now(&self) -> f64 {
        (self.options.stopwatch)()
    }

    /// Time left of the limit.
    fn left(&self) -> Duration {
        let used = (self.now() - self.start).max(0.0);
        let used = Duration::try_from_secs_f64(used).unwrap_or(Duration::MAX);
        self.options.time_limit.saturating_sub(used)
    }

    /// What there is before any work: keeping for all, or the warm columns.
    fn floor(&mut self, warm: &[Vec<Column>]) -> Result<Best, Error> {
        let choice = Choice::keep(&self.columns, self.trainers, self.capacity);
        let mut best = Best {
            objective: choice.objective(),
            source: Source::Keep,
            choice,
        };
        let keep = best.choice.clone();
        for plan in warm {
            for column in plan {
                self.columns.check(column, None)?;
                self.columns.add(column.clone());
            }
            let mut choice = keep.clone();
            choice.lay(plan.iter());
            best.heed(choice, Source::Warm);
        }
        Ok(best)
    }

    /// Generates columns. Gives the last relaxation, if there is one.
    fn generate(&mut self) -> Result<Option<Prices>, Error> {
        let nothing = vec![0.0; self.capacity.len()];
        let Some(priced) = self.price(&nothing)? else {
            return Ok(None);
        };
        let values = self.columns.all.iter().chain(&priced.offers);
        let largest = values.map(|c| c.value.abs()).fold(0.0, f64::max);
        let unit = if largest > 0.0 {
            largest / LARGEST
        } else {
            1.0
        };
        self.learn(&nothing, &priced);
        for offer in priced.offers {
            self.columns.add(offer);
        }
        let mut master = Master::new(self.trainers, self.capacity, unit);
        let mut last: Option<Prices> = None;
        while let Some(relaxed) = self.relax(&mut master) {
            // What no round could raise by more than a tenth of the gap is as good as found.
            let enough = 0.1 * self.options.gap * relaxed.objective.abs();
            let done = self.bound - relaxed.objective <= enough;
            self.converged = done;
            let more = !done && self.extend(&relaxed)?;
            last = Some(relaxed);
            if !more {
                break;
            }
        }
        Ok(last)
    }

    /// Solves the relaxation over the columns at hand.
    fn relax(&mut self, master: &mut Master) -> Option<Prices> {
        let left = self.left();
        if left.is_zero() {
            return None;
        }
        let before = self.now();
        let followed = master.follow(&self.columns);
        let relaxed = if followed { master.solve(left) } else { None };
        self.seconds.relaxation += self.now() - before;
        self.failed |= !followed || master.failed;
        relaxed
    }

    /// Adds columns that would raise the optimum of the relaxation. False if there are none, or
    /// a limit is reached.
    fn extend(&mut self, relaxed: &Prices) -> Result<bool, Error> {
        for smoothing in [SMOOTHING, 0.0] {
            if self.rounds >= self.options.rounds
                || self.columns.len() >= self.options.max_columns
                || self.left().is_zero()
            {
                return Ok(false);
            }
            self.rounds += 1;
            let mix = |(&w, &best): (&f64, &f64)| w + smoothing * (best - w);
            let prices: Vec<f64> = relaxed.class.iter().zip(&self.at).map(mix).collect();
            let Some(priced) = self.price(&prices)? else {
                return Ok(false);
            };
            self.learn(&prices, &priced);
            let mut added = false;
            for offer in priced.offers {
                let bar = relaxed.trainer.get(offer.trainer as usize).copied();
                let bar = bar.unwrap_or(f64::INFINITY);
                if offer.reduced(&relaxed.class) > bar + 1e-9 * bar.abs() {
                    added |= self.columns.add(offer);
                }
            }
            if added {
                return Ok(true);
            }
        }
        // At the relaxation's own prices nothing is above the bar: this is its optimum over
        // all patterns, up to the solver's tolerance.
        self.converged = self.patterns.is_exact();
        Ok(false)
    }

    /// Prices all trainers; nothing if the time was up before the last.
    fn price(&mut self, price: &[f64]) -> Result<Option<Priced>, Error> {
        let before = self.now();
        let capacity = self.capacity.iter().map(|&c| f64::from(c));
        let mut priced = Priced {
            bound: price.iter().zip(capacity).map(|(w, c)| w * c).sum(),
            tops: Vec::with_capacity(self.trainers),
            offers: Vec::new(),
        };
        for j in 0..self.trainers {
            if self.left().is_zero() {
                return Ok(None);
            }
            let from = priced.offers.len();
            self.patterns.price(j, price, &mut priced.offers);
            let mut top = self.columns.keep_of(j).map_or(0.0, |keep| keep.value);
            for offer in priced.offers.iter().skip(from) {
                self.columns.check(offer, Some(j))?;
                top = top.max(offer.reduced(price));
            }
            priced.bound += top;
            priced.tops.push(top);
        }
        self.seconds.pricing += self.now() - before;
        Ok(Some(priced))
    }

    /// Keeps the bound of a pricing if it is the best.
    fn learn(&mut self, prices: &[f64], priced: &Priced) {
        if self.patterns.is_exact() && priced.bound < self.bound {
            self.bound = priced.bound;
            self.at = prices.to_vec();
            self.tops.clone_from(&priced.tops);
        }
    }

    /// The relaxation rounded in several ways and improved. The patterns met on the way come to
    /// the columns at hand.
    fn rounded(&mut self, floor: &Choice, relaxed: &Prices) -> Result<Choice, Error> {
        let before = self.now();
        let options = self.options;
        let (start, limit) = (self.start, options.time_limit.as_secs_f64());
        let more = || (options.stopwatch)() - start < limit;
        let mut search = Search {
            columns: &self.columns,
            patterns: self.patterns,
            found: Vec::new(),
            more: &more,
        };
        let mut best = floor.clone();
        best.improve(&mut search)?;
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        for attempt in 0..ROUNDINGS {
            let mut choice = Choice::keep(&self.columns, self.trainers, self.capacity);
            let shake = |rng: &mut ChaCha8Rng| match attempt {
                0 => 0.0,
                _ => rng.random_range(0.0..0.5),
            };
            choice.round(&mut search, &relaxed.shares, &relaxed.class, || {
                shake(&mut rng)
            })?;
            choice.improve(&mut search)?;
            if choice.objective() > best.objective() {
                best = choice;
            }
            if !more() || gap(best.objective(), self.bound) <= options.gap {
                break;
            }
        }
        for _ in 0..EXCHANGES {
            if gap(best.objective(), self.bound) <= options.gap
                || !best.exchange(&mut search, &self.tops, &self.at)?
            {
                break;
            }
            best.improve(&mut search)?;
        }
        for column in search.found {
            self.columns.add(column);
        }
        self.seconds.rounding += self.now() - before;
        Ok(best)
    }

    /// Solves the programme over the columns at hand that can still be part of an answer better
    /// than the best.
    fn programme(&mut self, best: &mut Best) -> Result<(), Error> {
        let left = self.left();
        if left.is_zero() {
            return Ok(());
        }
        let before = self.now();
        for column in &best.choice.chosen {
            self.columns.add(column.clone());
        }
        // A column whose reduced value falls short of its trainer's best by more than bound and
        // best answer are apart cannot be part of a better answer.
        let slack = self.bound - best.objective;
        let slack = slack + 1e-9 * self.bound.abs();
        if slack.is_finite() && gap(best.objective, self.bound) > self.options.gap {
            let most = NEAR / self.trainers.max(1) + 1;
            for (j, top) in self.tops.iter().enumerate() {
                let mut near = Vec::new();
                self.patterns
                    .near(j, &self.at, top - slack, most, &mut near);
                for column in near {
                    self.columns.check(&column, Some(j))?;
                    self.columns.add(column);
                }
            }
        }
        let largest = self.columns.all.iter().map(|c| c.value.abs());
        let largest = largest.fold(0.0, f64::max);
        let unit = if largest > 0.0 {
            largest / LARGEST
        } else {
            1.0
        };
        let chosen = |column: &Column| {
            let own = best.choice.chosen.get(column.trainer as usize);
            own.is_some_and(|own| own.take == column.take)
        };
        let mut seen = vec![false; self.trainers];
        let mut start = Vec::with_capacity(self.trainers);
        for (at, column) in self.columns.all.iter().enumerate() {
            if let Some(seen) = seen.get_mut(column.trainer as usize)
                && !*seen
                && chosen(column)
            {
                *seen = true;
                start.push(at);
            }
        }
        let short = |column: &Column| {
            let top = self.tops.get(column.trainer as usize);
            top.map_or(0.0, |top| top - column.reduced(&self.at))
        };
        // And of those the solver gets no more than it can take in before long.
        let mut shorts: Vec<f64> = self.columns.all.iter().map(short).collect();
        shorts.sort_by(f64::total_cmp);
        let slack = shorts.get(MOST).map_or(slack, |&most| slack.min(most));
        let wanted = |column: &Column| short(column) <= slack || chosen(column);
        let limits = milp::Options {
            time_limit: left,
            gap: self.options.gap,
            node_limit: Some(self.options.tree_nodes),
            ..milp::Options::default()
        };
        let (found, outcome) = self
            .columns
            .solve(self.capacity, unit, wanted, &start, &limits);
        self.failed |= matches!(
            outcome,
            milp::Outcome::Failed { .. } | milp::Outcome::Infeasible | milp::Outcome::Unbounded
        );
        self.seconds.programme += self.now() - before;
        if let Some(found) = found {
            let mut choice = Choice::keep(&self.columns, self.trainers, self.capacity);
            let all = &self.columns.all;
            choice.lay(found.iter().filter_map(|&at| all.get(at)));
            best.heed(choice, Source::Highs);
        }
        Ok(())
    }

    fn answer(mut self, best: Best, relaxed: Option<Prices>) -> Answer {
        let bound = self.bound;
        let gap = gap(best.objective, bound);
        let outcome = if gap <= self.options.gap {
            Outcome::Optimal
        } else if self.failed {
            Outcome::Failed
        } else {
            Outcome::Feasible { gap }
        };
        self.seconds.total = self.now() - self.start;
        Answer {
            chosen: best.choice.chosen,
            objective: best.objective,
            bound,
            outcome,
            source: best.source,
            columns: self.columns.len(),
            rounds: self.rounds,
            converged: self.converged,
            relaxation: relaxed.map_or(f64::NAN, |relaxed| relaxed.objective),
            prices: self.at,
            lost_s: 0.0,
            seconds: self.seconds,
        }
    }
}
