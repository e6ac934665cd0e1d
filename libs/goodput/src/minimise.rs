//! A quasi-Newton method within bounds, for a handful of variables.
//!
//! BFGS on the variables that no bound holds, with steps that are projected onto the bounds
//! (Bertsekas 1982, "Projected Newton methods", and Nocedal and Wright, section 6.1 for the
//! update). With seven variables the whole inverse Hessian has 49 numbers, so nothing of limited
//! memory is needed. Crates with bounds wrap Fortran or C by `unsafe`, and argmin has no bounds.

/// A number of variables.
pub(crate) const N: usize = 7;

/// A point, or a gradient.
pub(crate) type Vector = [f64; N];

/// Steps of one descent at most.
const STEPS: usize = 400;
/// Descents at most: each begins where the last one ended, with a fresh Hessian.
const DESCENTS: usize = 6;
/// Relative gain of a descent below which no further one follows.
const SMALL: f64 = 1e-10;

/// Bounds of each variable. Equal bounds freeze a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Box7 {
    pub(crate) low: Vector,
    pub(crate) high: Vector,
}

impl Box7 {
    fn clamp(&self, x: &Vector) -> Vector {
        std::array::from_fn(|i| at(x, i).clamp(at(&self.low, i), at(&self.high, i)))
    }

    /// Whether the bound holds the variable against the gradient.
    fn holds(&self, x: &Vector, gradient: &Vector, i: usize) -> bool {
        let (x, g) = (at(x, i), at(gradient, i));
        (x <= at(&self.low, i) && g >= 0.0) || (x >= at(&self.high, i) && g <= 0.0)
    }
}

/// The least value that a descent from `start` finds, and where. The function gives value and
/// gradient.
pub(crate) fn minimise(
    function: impl Fn(&Vector) -> (f64, Vector),
    bounds: &Box7,
    start: &Vector,
) -> (f64, Vector) {
    let mut x = bounds.clamp(start);
    let mut value = function(&x).0;
    for _ in 0..DESCENTS {
        let (new, there) = descend(&function, bounds, x);
        let gain = value - new;
        if new <= value {
            (value, x) = (new, there);
        }
        if gain <= SMALL * value.abs() {
            break;
        }
    }
    (value, x)
}

fn descend(
    function: &impl Fn(&Vector) -> (f64, Vector),
    bounds: &Box7,
    mut x: Vector,
) -> (f64, Vector) {
    let (mut value, mut gradient) = function(&x);
    let mut inverse = identity(1.0);
    let mut fresh = true;
    for _ in 0..STEPS {
        let free: [bool; N] = std::array::from_fn(|i| !bounds.holds(&x, &gradient, i));
        let masked = mask(&gradient, &free);
        if norm(&masked) < 1e-13 {
            break;
        }
        let mut direction = mask(&times(&inverse, &masked), &free).map(|d| -d);
        if dot(&direction, &masked) >= 0.0 {
            inverse = identity(1.0);
            direction = masked.map(|g| -g);
        }
        let Some((new_value, new_gradient, new)) =
            search(function, bounds, &x, value, &gradient, &direction)
        else {
            if fresh {
                break;
            }
            inverse = identity(1.0);
            fresh = true;
            continue;
        };
        let step = minus(&new, &x);
        let change = minus(&new_gradient, &gradient);
        let curvature = dot(&step, &change);
        if curvature > 1e-12 * norm(&step) * norm(&change) {
            if fresh {
                inverse = identity(curvature / dot(&change, &change));
            }
            update(&mut inverse, &step, &change, curvature);
            fresh = false;
        }
        let gain = value - new_value;
        (value, gradient, x) = (new_value, new_gradient, new);
        if gain <= 1e-14 * value.abs() {
            break;
        }
    }
    (value, x)
}

/// The first point along the projected direction that falls by enough (Armijo), after which the
/// step is doubled as long as that lowers the value.
fn search(
    function: &impl Fn(&Vector) -> (f64, Vector),
    bounds: &Box7,
    x: &Vector,
    value: f64,
    gradient: &Vector,
    direction: &Vector,
) -> Option<(f64, Vector, Vector)> {
    let probe = |length: f64| {
        let far = std::array::from_fn(|i| at(x, i) + length * at(direction, i));
        let new = bounds.clamp(&far);
        let (there, slope) = function(&new);
        (there, slope, new)
    };
    let falls = |found: &(f64, Vector, Vector)| {
        found.0.is_finite() && found.0 <= value + 1e-4 * dot(gradient, &minus(&found.2, x)).min(0.0)
    };
    // Logarithms move by at most a few units in one step.
    let mut length = (4.0 / norm(direction)).min(1.0);
    for _ in 0..60 {
        let found = probe(length);
        if falls(&found) && found.2 != *x {
            let mut best = found;
            for _ in 0..8 {
                length *= 2.0;
                let further = probe(length);
                if !(falls(&further) && further.0 < best.0) {
                    break;
                }
                best = further;
            }
            return Some(best);
        }
        length *= 0.5;
    }
    None
}

fn at(x: &Vector, i: usize) -> f64 {
    x.get(i).copied().unwrap_or(0.0)
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &Vector) -> f64 {
    dot(a, a).sqrt()
}

fn minus(a: &Vector, b: &Vector) -> Vector {
    std::array::from_fn(|i| at(a, i) - at(b, i))
}

fn mask(a: &Vector, keep: &[bool; N]) -> Vector {
    let mut masked = *a;
    for (value, keep) in masked.iter_mut().zip(keep) {
        if !keep {
            *value = 0.0;
        }
    }
    masked
}

fn identity(scale: f64) -> [Vector; N] {
    std::array::from_fn(|i| std::array::from_fn(|j| if i == j { scale } else { 0.0 }))
}

fn times(matrix: &[Vector; N], x: &Vector) -> Vector {
    matrix.each_ref().map(|row| dot(row, x))
}

/// `H <- (I - r s y') H (I - r y s') + r s s'` with `r = 1 / s'y`.
fn update(inverse: &mut [Vector; N], s: &Vector, y: &Vector, curvature: f64) {
    let rate = 1.0 / curvature;
    let hy = times(inverse, y);
    let yhy = dot(y, &hy);
    for ((row, s_i), hy_i) in inverse.iter_mut().zip(s).zip(&hy) {
        for ((h, s_j), hy_j) in row.iter_mut().zip(s).zip(&hy) {
            *h += (1.0 + rate * yhy) * rate * s_i * s_j - rate * (hy_i * s_j + s_i * hy_j);
        }
    }
}
