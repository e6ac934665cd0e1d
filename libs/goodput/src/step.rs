//! Seconds of a step by its layout.
//!
//! `N` nodes, `K` replicas, `m` samples of a replica in a pass, `a` further passes before the step.
//!
//! ```text
//! pass     T_acc(m) = alpha_c + beta_c m
//! network  T_net    = alpha_n + beta_n max(K - 2, 0)   N > 1
//!                     alpha_r + beta_r max(K - 2, 0)   N = 1, K > 1
//!                     1e-8                             K = 1
//! step     T        = a T_acc + (T_acc^gamma + T_net^gamma)^(1 / gamma)
//! ```
//!
//! With `gamma` = 1 nothing overlaps, and with `gamma` large the network hides behind the pass.
//! Source: Pollux (OSDI 2021), section 3.2, and its code AdaptDL, `goodput.py`, which has 1e-8 in
//! place of zeros.

use crate::error::{Error, not_negative};

/// The least seconds of anything, and the value of a parameter that was not seen.
pub const FLOOR: f64 = 1e-8;

/// How the batch of a step lies on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    nodes: u32,
    replicas: u32,
    local: u32,
    accumulation: u32,
}

impl Layout {
    /// `replicas` processes on `nodes` nodes, each with `local` samples a pass and `accumulation`
    /// further passes before the step.
    ///
    /// # Errors
    /// [`Error::Value`] without nodes or samples, [`Error::Bounds`] with fewer replicas than nodes.
    pub fn new(nodes: u32, replicas: u32, local: u32, accumulation: u32) -> Result<Self, Error> {
        for (what, value) in [
            ("the number of nodes", nodes),
            ("the samples of a pass", local),
        ] {
            if value == 0 {
                return Err(Error::Value {
                    what,
                    value: 0.0,
                    expected: "1 or more",
                });
            }
        }
        if replicas < nodes {
            return Err(Error::Bounds {
                low_name: "the number of nodes",
                low: f64::from(nodes),
                high_name: "the number of replicas",
                high: f64::from(replicas),
            });
        }
        Ok(Self {
            nodes,
            replicas,
            local,
            accumulation,
        })
    }

    /// Nodes, `N`.
    #[must_use]
    pub const fn nodes(self) -> u32 {
        self.nodes
    }

    /// Replicas, `K`.
    #[must_use]
    pub const fn replicas(self) -> u32 {
        self.replicas
    }

    /// Samples of a replica in a pass, `m`.
    #[must_use]
    pub const fn local(self) -> u32 {
        self.local
    }

    /// Further passes before the step, `a`.
    #[must_use]
    pub const fn accumulation(self) -> u32 {
        self.accumulation
    }

    /// Samples of the step, `M = K m (a + 1)`.
    #[must_use]
    pub fn batch(self) -> f64 {
        f64::from(self.replicas) * f64::from(self.local) * (f64::from(self.accumulation) + 1.0)
    }
}

/// The seven parameters of the time of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepFormula {
    alpha_c: f64,
    beta_c: f64,
    alpha_n: f64,
    beta_n: f64,
    alpha_r: f64,
    beta_r: f64,
    gamma: f64,
}

impl StepFormula {
    /// From `[alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma]`: seconds, seconds a
    /// sample, seconds, seconds a replica, seconds, seconds a replica, and a number of 1 to 10.
    ///
    /// # Errors
    /// [`Error::Value`] for what is negative or not finite, and for a pass that takes no time.
    pub fn new(parameters: [f64; 7]) -> Result<Self, Error> {
        let [alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma] = parameters;
        for (what, value) in [
            ("alpha_c", alpha_c),
            ("beta_c", beta_c),
            ("alpha_n", alpha_n),
            ("beta_n", beta_n),
            ("alpha_r", alpha_r),
            ("beta_r", beta_r),
        ] {
            not_negative(what, value)?;
        }
        if !(1.0..=10.0).contains(&gamma) {
            return Err(Error::Value {
                what: "gamma",
                value: gamma,
                expected: "a number of 1 to 10",
            });
        }
        if alpha_c + beta_c <= 0.0 {
            return Err(Error::Value {
                what: "the time of a pass",
                value: 0.0,
                expected: "a positive alpha_c or beta_c",
            });
        }
        Ok(Self {
            alpha_c,
            beta_c,
            alpha_n,
            beta_n,
            alpha_r,
            beta_r,
            gamma,
        })
    }

    /// The parameters, in the order of [`StepFormula::new`].
    #[must_use]
    pub const fn parameters(&self) -> [f64; 7] {
        [
            self.alpha_c,
            self.beta_c,
            self.alpha_n,
            self.beta_n,
            self.alpha_r,
            self.beta_r,
            self.gamma,
        ]
    }

    /// Seconds of a pass with `local` samples, `T_acc`.
    #[must_use]
    pub fn pass_s(&self, local: u32) -> f64 {
        self.alpha_c + self.beta_c * f64::from(local)
    }

    /// Seconds of the sum over replicas, `T_net`.
    #[must_use]
    pub fn network_s(&self, nodes: u32, replicas: u32) -> f64 {
        let further = f64::from(replicas.saturating_sub(2)).max(FLOOR);
        if nodes > 1 {
            self.alpha_n + self.beta_n * further
        } else if replicas > 1 {
            self.alpha_r + self.beta_r * further
        } else {
            FLOOR
        }
    }

    /// Seconds of a step, `T`.
    #[must_use]
    pub fn step_s(&self, at: Layout) -> f64 {
        let pass = self.pass_s(at.local);
        let network = self.network_s(at.nodes, at.replicas);
        f64::from(at.accumulation) * pass + overlapped(pass, network, self.gamma)
    }
}

/// `(a^gamma + b^gamma)^(1 / gamma)` without overflow.
pub(crate) fn overlapped(a: f64, b: f64, gamma: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if large <= 0.0 {
        return 0.0;
    }
    large * (1.0 + (small / large).powf(gamma)).powf(1.0 / gamma)
}
