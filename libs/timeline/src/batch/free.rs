//! The set of free nodes, lowest numbers first.

use super::schedule::Run;

/// Free nodes as a bit set. Counting, taking the lowest and giving back are all the operations.
#[derive(Debug, Clone)]
pub(crate) struct Free {
    words: Vec<u64>,
    count: u32,
}

impl Free {
    /// All of `nodes` nodes are free.
    pub(crate) fn all(nodes: u32) -> Self {
        let mut free = Self {
            words: vec![0; nodes.div_ceil(64) as usize],
            count: 0,
        };
        free.give(&[Run {
            first: 0,
            count: nodes,
        }]);
        free
    }

    /// How many nodes are free.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Takes the `wanted` lowest free nodes; the caller has checked that there are as many.
    pub(crate) fn take(&mut self, wanted: u32) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut left = wanted;
        for (word, base) in self.words.iter_mut().zip((0u32..).step_by(64)) {
            while *word != 0 && left > 0 {
                let bit = word.trailing_zeros();
                let count = (*word >> bit).trailing_ones().min(left);
                *word &= !mask(bit, count);
                left -= count;
                let first = base + bit;
                match runs.last_mut() {
                    Some(run) if run.first + run.count == first => run.count += count,
                    _ => runs.push(Run { first, count }),
                }
            }
            if left == 0 {
                break;
            }
        }
        self.count -= wanted - left;
        runs
    }

    /// Gives nodes back.
    pub(crate) fn give(&mut self, runs: &[Run]) {
        for run in runs {
            let mut first = run.first;
            let end = run.first + run.count;
            while first < end {
                let bit = first % 64;
                let count = (64 - bit).min(end - first);
                if let Some(word) = self.words.get_mut((first / 64) as usize) {
                    *word |= mask(bit, count);
                }
                first += count;
            }
            self.count += run.count;
        }
    }
}

/// `count` ones from bit `bit` on; `bit + count` is at most 64.
fn mask(bit: u32, count: u32) -> u64 {
    let ones = if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    ones << bit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_nodes_go_first_across_words() {
        let mut free = Free::all(130);
        let low = free.take(3);
        assert_eq!(low, [Run { first: 0, count: 3 }]);
        let middle = free.take(70);
        assert_eq!(
            middle,
            [Run {
                first: 3,
                count: 70
            }]
        );
        free.give(&low);
        assert_eq!(
            free.take(10),
            [
                Run { first: 0, count: 3 },
                Run {
                    first: 73,
                    count: 7
                }
            ]
        );
        assert_eq!(free.count(), 130 - 80);
        let rest = free.take(50);
        assert_eq!(
            rest,
            [Run {
                first: 80,
                count: 50
            }]
        );
        assert_eq!(free.count(), 0);
    }
}
