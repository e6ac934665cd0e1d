//! Better answers by exchange: the best change of the sizes of two trainers at a time. A better
//! answer leaves fewer options open for the program.
//!
//! With `d` the nodes that a trainer takes more and `D` the gain that this brings, the best pair
//! has the largest `D1 + D2` with `d1 + d2` no more than the nodes that are left. For each `r`
//! the two trainers with the largest `D` for `d <= r` are kept; then each option has its best
//! partner at once, so that a round costs as much as there are options.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; all indices are places in a range computed in this file"
)]

/// A trainer's change to another of its options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Move {
    /// Number of further nodes; negative if it gives nodes.
    pub(super) more: i64,
    /// Gain of the move.
    pub(super) gain: f64,
    /// The trainer.
    pub(super) trainer: u32,
    /// The option that it leads to.
    pub(super) to: u32,
}

const NONE: Move = Move {
    more: 0,
    gain: f64::NEG_INFINITY,
    trainer: u32::MAX,
    to: 0,
};

/// The two best moves of different trainers.
#[derive(Debug, Clone, Copy)]
struct Two {
    first: Move,
    second: Move,
}

impl Two {
    fn take(&mut self, it: Move) {
        if it.trainer == self.first.trainer {
            if it.gain > self.first.gain {
                self.first = it;
            }
        } else if it.gain > self.first.gain {
            self.second = self.first;
            self.first = it;
        } else if it.gain > self.second.gain {
            self.second = it;
        }
    }

    /// The best move of a trainer other than this one.
    fn partner(&self, trainer: u32) -> Move {
        if self.first.trainer == trainer {
            self.second
        } else {
            self.first
        }
    }
}

/// Memory of the search.
#[derive(Debug, Clone, Default)]
pub(super) struct Exchange {
    /// By nodes that a move may take, from the least on.
    best: Vec<Two>,
}

impl Exchange {
    /// The two moves that bring most together, if that is more than `least`; not moving is a
    /// move of every trainer, so that one of the two may be idle.
    pub(super) fn best(&mut self, moves: &[Move], left: u32, least: f64) -> Option<[Move; 2]> {
        let low = moves.iter().map(|m| m.more).min()?;
        let high = moves.iter().map(|m| m.more).max()?;
        self.best.clear();
        self.best.resize(
            (high - low) as usize + 1,
            Two {
                first: NONE,
                second: NONE,
            },
        );
        for &it in moves {
            self.best[(it.more - low) as usize].take(it);
        }
        for at in 1..self.best.len() {
            let before = self.best[at - 1];
            self.best[at].take(before.first);
            self.best[at].take(before.second);
        }
        let mut found: Option<[Move; 2]> = None;
        let mut most = least;
        for &it in moves {
            let room = i64::from(left) - it.more - low;
            let Ok(room) = usize::try_from(room) else {
                continue;
            };
            let partner = self.best[room.min(self.best.len() - 1)].partner(it.trainer);
            if it.gain + partner.gain > most {
                most = it.gain + partner.gain;
                found = Some([it, partner]);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn it(trainer: u32, more: i64, gain: f64) -> Move {
        Move {
            more,
            gain,
            trainer,
            to: 0,
        }
    }

    #[test]
    fn the_best_pair_fits_into_what_is_left_and_is_of_two_trainers() {
        let moves = [
            it(0, 0, 0.0),
            it(0, 3, 5.0),
            it(0, -2, -1.0),
            it(1, 0, 0.0),
            it(1, 5, 8.0),
            it(1, -3, -4.5),
        ];
        let mut exchange = Exchange::default();
        let mut best = |left: u32| {
            exchange
                .best(&moves, left, 1e-9)
                .map(|[a, b]| a.gain + b.gain)
        };
        // Trainer 0 grows by what trainer 1 gives.
        assert_eq!(best(0), Some(0.5));
        // Trainer 1 grows by what trainer 0 gives and what is left.
        assert_eq!(best(3), Some(7.0));
        assert_eq!(best(5), Some(8.0));
        assert_eq!(best(8), Some(13.0));
        assert_eq!(exchange.best(&moves[..1], 9, 1e-9), None);
    }
}
