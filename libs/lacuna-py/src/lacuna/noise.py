"""The noise scale of the gradient, from sums that members exchange anyway.

Of a step let member k have ``b_k`` samples and the mean gradient ``g_k``, ``B`` their sum, ``g``
the averaged gradient and ``n`` the members with samples. With ``S = sum (b_k / B) |g_k|^2`` and
``Q = |g|^2``, unbiased for any shares::

    |G|^2  ~  (n Q - S) / (n - 1)        squared norm of the true gradient
    tr C   ~  (S - Q) B / (n - 1)        trace of the covariance of one sample's gradient
    phi    =  tr C / (M0 |G|^2)          the noise scale in units of the user's batch M0

``|G|^2`` is lost in noise late in training. The momentum that an optimiser keeps is an average with
``(1 - beta) / (1 + beta)`` of the noise, so its squared norm says more::

    |G|^2  ~  |m|^2 - (tr C / B) (1 - beta) / (1 + beta)

Numerator and denominator are averaged apart. The error comes from the means of blocks of steps.
Sources: McCandlish et al. (arXiv 1812.06162), appendix A; Pollux (OSDI 2021), section 3.1; the
weights and the use of momentum are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional

#: Blocks whose means give the error.
BLOCKS = 20
#: Blocks without which there is no estimate.
LEAST_BLOCKS = 5
#: Relative error from which the window gets longer.
ENOUGH = 0.2
#: Measured steps of a block, at least and at most.
SHORT, LONG = 4, 256
#: Standard errors by which a block's mean is off when the noise scale has jumped.
JUMP = 3.0
#: Means over consecutive steps need this many times ``1 / (1 - beta)`` to forget another batch.
SETTLED = 3.0


@dataclass(frozen=True)
class Sample:
    """What one step says."""

    #: Members with samples, and samples of all of them.
    members: int
    batch: int
    #: ``S`` and ``Q``.
    local: float
    whole: float
    #: Squared norm of the running mean of averaged gradients, and its decay, if there is one.
    momentum: Optional[float] = None
    beta: float = 0.0

    def trace(self) -> float:
        """``tr C``."""
        return (self.local - self.whole) * self.batch / (self.members - 1)

    def square(self) -> float:
        """``|G|^2`` from this step alone."""
        return (self.members * self.whole - self.local) / (self.members - 1)

    def square_of_momentum(self) -> Optional[float]:
        """``|G|^2`` from the momentum."""
        if self.momentum is None:
            return None
        return self.momentum - self.trace() / self.batch * (1.0 - self.beta) / (1.0 + self.beta)


@dataclass(frozen=True)
class Scale:
    """The noise scale and what it came from."""

    #: The noise scale in units of the user's batch, and its relative standard error.
    phi: float
    error: float
    #: ``tr C / M0`` and ``|G|^2``.
    variance: float
    square: float
    #: Steps that were measured for it.
    steps: int

    @property
    def low(self) -> float:
        """The lower end of its interval: doubt keeps batches small."""
        return self.phi / (1.0 + self.error)

    def gain(self, ratio: float) -> float:
        """Steps of the user's batch that a step of ``ratio`` times that is worth."""
        return gain(self.phi, ratio)


def gain(phi: float, ratio: float) -> float:
    """``(phi + 1) / (phi / ratio + 1)``: the factor of the rate of SGD in AdaScale (2007.05105)."""
    if math.isinf(phi):
        return ratio
    return (phi + 1.0) / (phi / ratio + 1.0)


@dataclass
class _Block:
    """Sums over some measured steps."""

    count: int = 0
    trace: float = 0.0
    square: float = 0.0
    #: Steps with a momentum, and their sum.
    settled: int = 0
    steady: float = 0.0

    def add(self, other: "_Block") -> None:
        self.count += other.count
        self.trace += other.trace
        self.square += other.square
        self.settled += other.settled
        self.steady += other.steady


@dataclass
class NoiseScale:
    """Running means over a window of steps that fits the noise.

    Sums of a block are per sample, so the members and the batch may change within a window.
    """

    _blocks: list[_Block] = field(default_factory=list)
    _open: _Block = field(default_factory=_Block)
    _size: int = 1

    def add(self, sample: Sample) -> None:
        """Takes a step; one whose numbers are not finite is passed over."""
        trace, square, steady = sample.trace(), sample.square(), sample.square_of_momentum()
        if not (math.isfinite(trace) and math.isfinite(square)):
            return
        one = _Block(1, trace, square)
        if steady is not None and math.isfinite(steady):
            one.settled, one.steady = 1, steady
        self._open.add(one)
        if self._open.count < self._size:
            return
        block, self._open = self._open, _Block()
        if self._has_jumped(block):
            del self._blocks[: (len(self._blocks) + 1) // 2]
        self._blocks.append(block)
        if len(self._blocks) < BLOCKS:
            return
        now = self.estimate(1)
        unsure = now is None or now.error > ENOUGH
        if self._size < SHORT or (unsure and self._size < LONG):
            self._blocks = [_joined(*pair) for pair in zip(self._blocks[::2], self._blocks[1::2])]
            self._size *= 2
        else:
            del self._blocks[0]

    def estimate(self, first: int) -> Optional[Scale]:
        """The noise scale in units of a batch of ``first`` samples, once there is one."""
        found = self._ratio(self._blocks)
        if found is None:
            return None
        phi, sigma, trace, square, _ = found
        steps = sum(block.count for block in self._blocks)
        return Scale(phi / first, sigma / square, trace / first, square, steps)

    def _ratio(self, blocks: list[_Block]) -> Optional[tuple[float, float, float, float, float]]:
        """``tr C / |G|^2``, the error of ``|G|^2`` that its error is worth, numerator, denominator,
        and the scatter of a block in units of ``|G|^2``."""
        count = len(blocks)
        if count < LEAST_BLOCKS:
            return None
        steady = all(block.settled > 0 for block in blocks)
        xs = [block.trace / block.count for block in blocks]
        if steady:
            ys = [block.steady / block.settled for block in blocks]
        else:
            ys = [block.square / block.count for block in blocks]
        x, y = sum(xs) / count, sum(ys) / count
        if x <= 0.0:
            # Samples that are all alike; their gradients have no noise.
            return 0.0, 0.0, 0.0, max(y, 1e-300), 0.0
        # The error of a ratio by the delta method, in units of the denominator.
        of = max(y, math.sqrt(sum((one - y) ** 2 for one in ys) / (count * (count - 1))), 1e-300)
        ratio = x / of
        scatter = sum(((a - x) / ratio - (b - y)) ** 2 for a, b in zip(xs, ys)) / (count - 1)
        return ratio, math.sqrt(scatter / count), x, of, math.sqrt(scatter)

    def _has_jumped(self, block: _Block) -> bool:
        found = self._ratio(self._blocks)
        if found is None or self._size < SHORT or len(self._blocks) < BLOCKS // 2:
            return False
        ratio, _, _, _, scatter = found
        steady = all(one.settled > 0 for one in self._blocks)
        if ratio <= 0.0 or (steady and block.settled == 0):
            return False
        square = block.steady / block.settled if steady else block.square / block.count
        return abs(block.trace / block.count / ratio - square) > JUMP * scatter

    def state_dict(self) -> dict[str, Any]:
        """All sums, as lists of numbers."""
        rows = [*self._blocks, self._open]
        return {
            "size": self._size,
            "blocks": [[b.count, b.trace, b.square, b.settled, b.steady] for b in rows],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the sums of another member, or of a checkpoint."""
        rows = [_Block(*row) for row in state["blocks"]]
        self._size = int(state["size"])
        self._blocks, self._open = rows[:-1], rows[-1]


def _joined(one: _Block, other: _Block) -> _Block:
    one.add(other)
    return one
