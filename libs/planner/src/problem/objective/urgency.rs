//! The urgency of a deadline.

/// The value of work that is late, relative to 1 for work without a deadline.
pub const LOST: f64 = 0.1;

/// The largest urgency.
pub const MOST_URGENT: f64 = 100.0;

/// The weight of work with a deadline, relative to 1 for work without one.
///
/// With `l` seconds of work left at the trainer's best rate and `d` seconds left until its
/// deadline, the relative laxity is `(d - l) / d`: the share of the time left in which it need
/// not run. The urgency is its inverse, `d / (d - l)`: 1 while there is time, and growing to
/// [`MOST_URGENT`] as the last moment to start comes near. This is least laxity first (Mok
/// 1983; Dertouzos and Mok, IEEE TSE 15(12), 1989) as a weight rather than an order. Work that
/// cannot be done in time any more, even at its best rate, has the value [`LOST`], as after a step
/// of a time/utility function (Jensen, Locke and Tokuda, RTSS 1985), so that a lost deadline
/// does not drag others after it.
#[must_use]
pub fn urgency(work_left_s: f64, time_left_s: f64) -> f64 {
    let laxity = time_left_s - work_left_s;
    if work_left_s <= 0.0 {
        1.0
    } else if time_left_s <= 0.0 || laxity < 0.0 || laxity.is_nan() {
        LOST
    } else {
        // No laxity at all gives infinity, which the bound catches.
        (time_left_s / laxity).min(MOST_URGENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_grows_until_the_work_is_lost() {
        assert_eq!(urgency(10.0, 1e9), 1.0 / (1.0 - 1e-8));
        assert_eq!(urgency(50.0, 100.0), 2.0);
        assert_eq!(urgency(75.0, 100.0), 4.0);
        assert_eq!(urgency(100.0, 100.0), MOST_URGENT);
        assert_eq!(urgency(100.1, 100.0), LOST);
        assert_eq!(urgency(1.0, -5.0), LOST);
        assert_eq!(urgency(0.0, -5.0), 1.0);
    }
}
