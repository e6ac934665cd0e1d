"""The batch with the most learning a second, from measured times and the noise scale.

``T(M) = other(K) + fixed + sample * M / K`` for K members: what a member computes is a line through
all shares that were measured, and the rest of a step is a mean for each number of members.
``goodput(M) = M / T(M) * (phi + 1) / (phi + M / M0)`` (Pollux, OSDI 2021, section 3), with the
lower end of the noise scale's interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from .noise import Scale, gain
from .policy import Adaptive

#: Weight that older steps keep with each new one.
KEPT = 0.99
#: Relative gain for which the batch changes.
WORTH = 0.05
#: Batches that are tried, for each doubling.
STEPS = 8
#: The most numbers of members that a report has.
MOST_ROWS = 64


@dataclass
class Times:
    """Seconds of steps by shares and members."""

    #: Sums over shares with seconds: count, shares, seconds, squares, products.
    _line: list[float] = field(default_factory=lambda: [0.0] * 5)
    #: By members: seconds of a step beside the longest member's.
    _rest: dict[int, float] = field(default_factory=dict)
    _longest: float = 0.0

    def add(self, shares: Sequence[int], seconds: Sequence[float], period: Optional[float]) -> None:
        """A step: shares and seconds of members, and the seconds of the step before it."""
        self._line = [KEPT * one for one in self._line]
        for share, took in zip(shares, seconds):
            if share > 0 and took > 0.0:
                for i, one in enumerate((1.0, share, took, share * share, share * took)):
                    self._line[i] += one
        longest, self._longest = self._longest, max(seconds)
        if period is not None and longest > 0.0 and math.isfinite(period):
            members, rest = len(shares), max(0.0, period - longest)
            before = self._rest.get(members, rest)
            self._rest[members] = before + 0.05 * (rest - before)

    def fresh(self) -> None:
        """The next period is not that of the last step."""
        self._longest = 0.0

    def line(self) -> Optional[tuple[float, float]]:
        """Seconds of a member without samples, and of a sample. With one size of a share, half of
        the time is taken for fixed, as Pollux does."""
        count, b, t, bb, bt = self._line
        if count <= 0.0 or t <= 0.0:
            return None
        spread = count * bb - b * b
        # Shares that differ by a sample say nothing.
        if spread > 1e-3 * b * b:
            sample = (count * bt - b * t) / spread
            fixed = (t - sample * b) / count
            if sample > 0.0:
                return max(0.0, fixed), min(sample, t / b)
        return 0.5 * t / count, 0.5 * t / b

    def seconds(self, batch: int, members: int) -> Optional[float]:
        """Seconds of a step; None as long as nothing was measured."""
        line = self.line()
        if line is None:
            return None
        rest = 0.0
        if self._rest:
            near = min(self._rest, key=lambda known: (abs(known - members), known))
            rest = self._rest[near]
        return rest + line[0] + line[1] * math.ceil(batch / members)

    def report(self) -> Optional[dict[str, Any]]:
        """The line and the rest of a step by members, for who plans at other sizes."""
        line = self.line()
        if line is None or not self._rest:
            return None
        rest = sorted(self._rest.items())[:MOST_ROWS]
        return {"fixed_s": line[0], "sample_s": line[1], "rest_s": [list(row) for row in rest]}

    def state_dict(self) -> dict[str, Any]:
        """All sums."""
        rest = [[float(members), seconds] for members, seconds in sorted(self._rest.items())]
        return {"line": list(self._line), "rest": rest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over the sums of another member."""
        self._line = [float(one) for one in state["line"]]
        self._rest = {int(members): float(seconds) for members, seconds in state["rest"]}
        self._longest = 0.0


def choose(policy: Adaptive, times: Times, scale: Scale, now: int, members: int) -> int:
    """The batch for the next steps; ``now`` unless another one is worth more than 5 %."""
    most = policy.most
    if policy.most_per_worker is not None:
        most = max(policy.batch, min(most, policy.most_per_worker * members))
    worth: dict[int, float] = {}
    doublings = math.log2(most / policy.batch)
    count = max(1, math.ceil(STEPS * doublings))
    tried = [round(policy.batch * 2.0 ** (doublings * i / count)) for i in range(count + 1)]
    for batch in [*tried, min(max(now, policy.batch), most)]:
        seconds = times.seconds(batch, members)
        if seconds is None:
            return now
        ratio = batch / policy.batch
        worth[batch] = gain(scale.low, ratio) * policy.batch / seconds
    best = max(worth, key=lambda batch: (worth[batch], -batch))
    present = worth.get(now)
    if present is not None and worth[best] <= (1.0 + WORTH) * present:
        return now
    return best
