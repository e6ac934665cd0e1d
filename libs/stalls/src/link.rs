//! What a sum costs: latency and bandwidth, fitted to sums of different sizes.
//!
//! A ring of n members sums B bytes in `2 (n-1)` rounds of `B/n` bytes:
//!
//! ```text
//! svc(n, B) = 2 (n-1) l  +  2 (n-1)/n  B/w         l: seconds of a round, w: bytes a second
//! ```
//!
//! So `svc = a + c B` at the traced size, with a and c by least squares and not negative. The small
//! last message of a step mostly gives a, its buckets c. Only sums whose end is exact are fitted.

use crate::error::Error;
use crate::steps::Steps;

/// A link between members, as the sums of one size show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    members: u32,
    /// Seconds of a sum without bytes, at that size.
    start: f64,
    /// Seconds a byte, at that size.
    per_byte: f64,
}

impl Link {
    /// Fits the link to traced steps.
    ///
    /// # Errors
    /// [`Error::LinkUnknown`] of a member that trained alone.
    pub fn of(steps: &Steps) -> Result<Self, Error> {
        if steps.members() < 2 {
            return Err(Error::LinkUnknown);
        }
        let sums: Vec<_> = steps.transfers().into_iter().zip(steps.bytes()).collect();
        let mut points: Vec<(f64, f64)> = Vec::new();
        for only_exact in [true, false] {
            points = sums
                .iter()
                .filter(|((_, exact), _)| *exact || !only_exact)
                .map(|&((seconds, _), &bytes)| (as_number(bytes), seconds))
                .collect();
            if !points.is_empty() {
                break;
            }
        }
        let (start, per_byte) = line(&points);
        Ok(Self {
            members: steps.members(),
            start,
            per_byte,
        })
    }

    /// Seconds of a sum of `bytes` over `members`, with `factor` times the bandwidth.
    #[must_use]
    pub fn seconds(&self, bytes: u64, members: u32, factor: f64) -> f64 {
        let rounds = |n: u32| f64::from(n.saturating_sub(1));
        let part = |n: u32| rounds(n) / f64::from(n.max(1));
        let start = self.start * rounds(members) / rounds(self.members);
        let per_byte = self.per_byte * part(members) / part(self.members) / factor;
        start + per_byte * as_number(bytes)
    }
}

/// Offset and slope by least squares, neither below zero.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let count = sum(|_| 1.0);
    let (x, y) = (sum(|p| p.0), sum(|p| p.1));
    let (xx, xy) = (sum(|p| p.0 * p.0), sum(|p| p.0 * p.1));
    if xx <= 0.0 {
        return (y / count.max(1.0), 0.0);
    }
    let spread = count * xx - x * x;
    // Of one size alone, all of it is taken for bandwidth.
    let slope = if spread > 1e-9 * count * xx {
        (count * xy - x * y) / spread
    } else {
        xy / xx
    };
    let offset = (y - slope * x) / count;
    if slope < 0.0 {
        (y / count, 0.0)
    } else if offset < 0.0 {
        (0.0, xy / xx)
    } else {
        (offset, slope)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of messages are below 2^53"
)]
fn as_number(bytes: u64) -> f64 {
    bytes as f64
}
