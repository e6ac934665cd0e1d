//! Features as bins of a fixed scale, so that trees compare bytes.

/// The number of bins.
pub(crate) const BINS: usize = 32;

/// The bin of a feature that does not apply.
pub(crate) const NEUTRAL: u8 = 0;

/// The bin of a number from zero on: two bins for each doubling of `1 + x`, from 1 to 31 (2^15 and
/// beyond). The scale is the same for every machine and is not fitted.
pub(crate) fn log_bin(x: f32) -> u8 {
    // The exponent of a float is the integral part of its logarithm. The mantissa of the square
    // root of two divides an octave in half. So no logarithm is computed.
    let bits = (1.0 + x.max(0.0)).to_bits();
    let octave = (bits >> 23).saturating_sub(127);
    let half = u32::from(bits & 0x007f_ffff >= 0x0035_04f3);
    (1 + octave * 2 + half).min(BINS as u32 - 1) as u8
}

/// The bin, from 1 to 31, of a share in `[0, 1]`.
pub(crate) fn share_bin(x: f32) -> u8 {
    1 + (x.clamp(0.0, 1.0) * (BINS - 2) as f32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_half_octaves() {
        let bins = [0.0, 0.4, 0.5, 1.0, 2.0, 3.0, 1e9, -5.0, f32::NAN].map(log_bin);
        assert_eq!(bins, [1, 1, 2, 3, 4, 5, 31, 1, 1]);
        for x in 1..30_000u32 {
            let exact = 1 + (f64::from(x + 1).log2() * 2.0 + 1e-9) as u8;
            assert_eq!(log_bin(x as f32), exact.min(31), "{x}");
        }
        assert_eq!([0.0, 0.5, 1.0, 2.0].map(share_bin), [1, 16, 31, 31]);
    }
}
