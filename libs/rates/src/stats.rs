//! Means and spreads of a few measurements.

/// The standard deviation around the mean, of a sample; zero of fewer than two.
pub(crate) fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count();
    if count < 2 {
        return 0.0;
    }
    let mean = values.clone().sum::<f64>() / count as f64;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1) as f64).sqrt()
}

/// `count` values with this mean and this spread, for measurements that were kept as figures.
pub(crate) fn restored(count: u32, mean: f64, spread: f64) -> impl Iterator<Item = f64> {
    let pairs = count / 2;
    // Of an odd number one lies on the mean.
    let off = if pairs == 0 {
        0.0
    } else {
        spread * (f64::from(count - 1) / f64::from(2 * pairs)).sqrt()
    };
    (0..count).map(move |at| match at {
        _ if at >= 2 * pairs => mean,
        _ if at % 2 == 0 => mean - off,
        _ => mean + off,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_values_have_the_mean_and_the_spread_of_what_was_kept() {
        for count in [2, 3, 7, 24] {
            let values: Vec<f64> = restored(count, 10.0, 2.0).collect();
            assert_eq!(values.len(), count as usize);
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!((mean - 10.0).abs() < 1e-9, "{values:?}");
            assert!(
                (spread(values.iter().copied()) - 2.0).abs() < 1e-9,
                "{values:?}"
            );
        }
        assert_eq!(restored(1, 10.0, 0.0).collect::<Vec<_>>(), [10.0]);
        assert_eq!(spread([3.0].into_iter()), 0.0);
    }
}
