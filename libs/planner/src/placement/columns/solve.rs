//! The solve by columns: generate columns, round the relaxation, solve the program.

use lacuna_model::Outcome;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::answer::gap;
use super::clock::Clock;
use super::incumbent::{Choice, Search};
use super::master::{Columns, Master, Prices, first};
use super::work::{Best, LARGEST, Work};
use super::{Answer, Column, Error, Options, Pricing, Source};

/// Weights of the prices of the best bound in the prices of a round, tried in this order. A large
/// weight damps the jumps of the relaxation and finds more columns.
const SMOOTHING: [f64; 3] = [0.85, 0.5, 0.0];

/// Steps of the search for the price of a node.
const BISECTIONS: u32 = 8;

/// Number of roundings of the relaxation.
const ROUNDINGS: usize = 8;

/// Most rounds of exchanges pair by pair.
const EXCHANGES: usize = 4;

/// Seed of the random roundings, the same for every solve.
const SEED: u64 = 1;

/// Chooses a pattern for each trainer with the largest sum of values, while no more than
/// `capacity[k]` nodes of class k are taken. The answer is never worse than keeping for all. The solve
/// ends by its work, or shortly after the time limit.
///
/// # Errors
/// [`Error`] for an unsound pattern; a failed solver is an outcome and no error.
pub fn solve(
    patterns: &mut dyn Pricing,
    capacity: &[u32],
    options: &Options<'_>,
) -> Result<Answer, Error> {
    let mut work = Work {
        columns: Columns::keep(patterns, capacity.len())?,
        trainers: patterns.trainers(),
        patterns,
        capacity,
        options,
        clock: Clock::start(options),
        bound: f64::INFINITY,
        at: vec![0.0; capacity.len()],
        tops: Vec::new(),
        rounds: 0,
        converged: false,
        failed: false,
    };
    let mut best = work.floor();
    let relaxed = work.generate()?;
    if let Some(relaxed) = &relaxed {
        let choice = work.rounded(&best.choice, relaxed)?;
        best.update(choice, Source::Rounding);
        work.program(&mut best)?;
    }
    Ok(work.answer(best, relaxed))
}

/// The result of a pricing of all trainers.
struct Priced {
    bound: f64,
    tops: Vec<f64>,
    /// Nodes that the best patterns take.
    wanted: f64,
    offers: Vec<Column>,
}

/// Value of a column per taken node.
fn value_per_node(column: &Column) -> f64 {
    let nodes: i32 = column.take.iter().map(|&(_, n)| n).sum();
    if nodes > 0 {
        column.value / f64::from(nodes)
    } else {
        0.0
    }
}

impl Work<'_> {
    /// The answer before any work: keeping for all.
    fn floor(&self) -> Best {
        let choice = Choice::keep(&self.columns, self.capacity);
        Best {
            objective: choice.objective(),
            source: Source::Keep,
            choice,
        }
    }

    /// Generates columns. Returns the last relaxation, if there is one.
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
        let dearest = priced.offers.iter().map(value_per_node);
        let dearest = dearest.fold(0.0, f64::max);
        for offer in priced.offers {
            self.columns.add(offer);
        }
        if self.clear_market(dearest)?.is_none() {
            return Ok(None);
        }
        let mut master = Master::new(&self.columns, self.capacity, unit);
        let mut last: Option<Prices> = None;
        while let Some(relaxed) = self.relax(&mut master) {
            // No round can raise the optimum by more than a tenth of the gap: this is enough.
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

    /// Finds the price of a node-second, the same for every class, at which demand about equals
    /// supply. It yields a first bound, prices to stay near, and columns of the sizes that matter.
    /// Without it the relaxation would take many rounds to reach these.
    fn clear_market(&mut self, dearest: f64) -> Result<Option<()>, Error> {
        let capacity: u64 = self.capacity.iter().map(|&c| u64::from(c)).sum();
        let stay: Vec<f64> = (0..self.capacity.len())
            .map(|k| self.patterns.weight(k))
            .collect();
        let longest = stay.iter().copied().fold(0.0, f64::max);
        let shortest = stay
            .iter()
            .copied()
            .filter(|&s| s > 0.0)
            .fold(longest, f64::min);
        let (mut low, mut high) = (0.0, dearest / shortest.max(0.01 * longest));
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            let prices: Vec<f64> = stay.iter().map(|stay| middle * stay).collect();
            let Some(priced) = self.price(&prices)? else {
                return Ok(None);
            };
            self.learn(&prices, &priced);
            if priced.wanted > capacity as f64 {
                low = middle;
            } else {
                high = middle;
            }
            for offer in priced.offers {
                self.columns.add(offer);
            }
        }
        Ok(Some(()))
    }

    /// Solves the relaxation over the generated columns.
    fn relax(&mut self, master: &mut Master) -> Option<Prices> {
        let left = self.clock.left()?;
        let followed = master.follow(&self.columns);
        let relaxed = if followed {
            master.solve(self.options.iterations, left)
        } else {
            None
        };
        self.clock.stop_if(master.stopped_by_clock);
        self.failed |= !followed || master.failed;
        relaxed
    }

    /// Adds columns that would raise the optimum of the relaxation. False if there are none, or if
    /// a limit is reached.
    fn extend(&mut self, relaxed: &Prices) -> Result<bool, Error> {
        for smoothing in SMOOTHING {
            if self.rounds >= self.options.rounds
                || self.columns.len() >= self.options.max_columns
                || self.clock.left().is_none()
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
                let bar = relaxed.group.get(self.columns.group_of(&offer)).copied();
                let bar = bar.unwrap_or(f64::INFINITY);
                if offer.reduced(&relaxed.class) > bar + 1e-9 * bar.abs() {
                    added |= self.columns.add(offer);
                }
            }
            if added {
                return Ok(true);
            }
        }
        // At the relaxation's own prices no column is above the bar. So this is the optimum over
        // all patterns, up to the solver's tolerance.
        self.converged = true;
        Ok(false)
    }

    /// Prices all trainers; nothing if the clock stopped it before the last one.
    fn price(&mut self, price: &[f64]) -> Result<Option<Priced>, Error> {
        let capacity = self.capacity.iter().map(|&c| f64::from(c));
        let mut priced = Priced {
            bound: price.iter().zip(capacity).map(|(w, c)| w * c).sum(),
            tops: Vec::with_capacity(self.columns.groups().len()),
            wanted: 0.0,
            offers: Vec::new(),
        };
        for group in self.columns.groups() {
            let j = first(group);
            if self.clock.left().is_none() {
                return Ok(None);
            }
            let from = priced.offers.len();
            self.patterns.price(j, price, &mut priced.offers);
            let mut top = self.columns.keep_of(j)?.value;
            let mut nodes = 0;
            for offer in priced.offers.iter().skip(from) {
                self.columns.check(offer, Some(j))?;
                let reduced = offer.reduced(price);
                if reduced > top {
                    top = reduced;
                    nodes = offer.take.iter().map(|&(_, n)| n).sum();
                }
            }
            priced.wanted += f64::from(nodes) * group.len() as f64;
            priced.bound += top * group.len() as f64;
            priced.tops.push(top);
        }
        Ok(Some(priced))
    }

    /// Keeps the bound of a pricing if it is the best.
    fn learn(&mut self, prices: &[f64], priced: &Priced) {
        if priced.bound < self.bound {
            self.bound = priced.bound;
            self.at = prices.to_vec();
            self.tops.clone_from(&priced.tops);
        }
    }

    /// For each trainer the largest reduced value at the prices of the best bound.
    fn tops_of(&self) -> Vec<f64> {
        let mut tops = vec![0.0; self.trainers];
        for (group, &top) in self.columns.groups().iter().zip(&self.tops) {
            for &j in group {
                if let Some(slot) = tops.get_mut(j as usize) {
                    *slot = top;
                }
            }
        }
        tops
    }

    /// The best of several roundings of the relaxation, improved. The patterns found on the way
    /// join the columns.
    fn rounded(&mut self, floor: &Choice, relaxed: &Prices) -> Result<Choice, Error> {
        let enough = self.options.gap;
        let tops = self.tops_of();
        let mut search = Search {
            columns: &self.columns,
            patterns: self.patterns,
            found: Vec::new(),
            clock: &self.clock,
        };
        let mut best = floor.clone();
        best.improve(&mut search)?;
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        for attempt in 0..ROUNDINGS {
            let mut choice = Choice::keep(&self.columns, self.capacity);
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
            if gap(best.objective(), self.bound) <= enough || self.clock.left().is_none() {
                break;
            }
        }
        for _ in 0..EXCHANGES {
            if gap(best.objective(), self.bound) <= enough
                || !best.exchange(&mut search, &tops, &self.at)?
            {
                break;
            }
            best.improve(&mut search)?;
        }
        for column in search.found {
            self.columns.add(column);
        }
        Ok(best)
    }

    fn answer(self, best: Best, relaxed: Option<Prices>) -> Answer {
        let bound = self.bound;
        let gap = gap(best.objective, bound);
        let outcome = if gap <= self.options.gap {
            Outcome::Optimal
        } else if self.failed {
            Outcome::Failed
        } else {
            Outcome::Feasible { gap }
        };
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
            stopped_by_clock: self.clock.stopped(),
        }
    }
}
