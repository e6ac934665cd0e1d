"""Shares of a step for members of unequal speed.

Member k takes ``o_k + b_k / speed_k`` seconds for ``b_k`` samples. The shares that make the
longest member shortest are solved for directly, and their sum is the batch exactly: the published
controller (OmniLearn, arXiv 2503.17469) approaches them over epochs and lets the batch drift.

Overheads cannot be told from speeds while all steps have the same shares. So when members turn out
to be unequal, some steps have the shares that would be best with the overheads that are known,
which are none at first. Then both are known, and the shares change once.
"""

from __future__ import annotations

import enum
import math
import statistics
from dataclasses import dataclass, field
from typing import Optional, Sequence

#: Relative gain of the longest member for which shares change.
WORTH = 0.05
#: Steps of a window after a change, and so at least between two changes.
APART = 50
#: Relative difference of two shares from which they tell an overhead from a speed.
APART_ENOUGH = 0.1


@dataclass(frozen=True)
class Speed:
    """How fast a member is: seconds of a step without samples, and seconds of a sample."""

    overhead: float
    sample: float

    def seconds(self, share: int) -> float:
        """Seconds of a share."""
        return self.overhead + share * self.sample


def solve(total: int, members: Sequence[Speed], least: int = 1) -> list[int]:
    """Whole shares that sum to ``total``, with the shortest longest member.

    Members with ``least`` samples or more each, if there are enough for that. Bisection on the
    time of the step, then the samples left over one by one to the member that would end first.
    Raises ValueError without members, and for times that are not positive.
    """
    if not members:
        raise ValueError("there are no members to share a batch")
    if not all(m.sample > 0.0 and m.overhead >= 0.0 for m in members):
        raise ValueError("seconds of a sample must be positive, overheads not negative")
    least = min(least, total // len(members))

    def at(seconds: float) -> list[int]:
        return [max(least, min(total, int((seconds - m.overhead) / m.sample))) for m in members]

    low, high = 0.0, max(m.seconds(total) for m in members)
    for _ in range(200):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        if sum(at(middle)) <= total:
            low = middle
        else:
            high = middle
    shares = at(low)
    while sum(shares) < total:
        first = min(range(len(shares)), key=lambda k: members[k].seconds(shares[k] + 1))
        shares[first] += 1
    return shares


class _Phase(enum.Enum):
    """What the next window of times is for."""

    WATCH = enum.auto()
    CONFIRM = enum.auto()
    PROBE = enum.auto()


#: Steps of a window, whose medians are the members' times.
_STEPS = {_Phase.WATCH: APART, _Phase.CONFIRM: 20, _Phase.PROBE: 16}


@dataclass
class Balance:
    """Tracks members' step times. Deterministic: every member gets the same input."""

    #: Weights of the members' shares; empty for even ones.
    weights: list[int] = field(default_factory=list)
    #: Changes of shares, without the steps that tell overheads from speeds.
    changes: int = 0
    _base: list[int] = field(default_factory=list)
    #: Median times by shares: (shares, seconds), the newest last.
    _known: list[tuple[list[int], list[float]]] = field(default_factory=list)
    _times: list[list[float]] = field(default_factory=list)
    _phase: _Phase = _Phase.CONFIRM

    def reset(self) -> None:
        """Other members: even shares again."""
        self.weights, self._base, self._known, self._times = [], [], [], []
        self._phase = _Phase.CONFIRM

    def look(self, shares: Sequence[int], seconds: Sequence[float]) -> bool:
        """Takes the times of a step with these shares. True if the weights are others now."""
        if len(shares) < 2 or min(shares) < 1:
            return False
        if not all(0.0 < one < math.inf for one in seconds):
            return False
        if list(shares) != self._base:
            # The last batch of an epoch is smaller, and the batch may change.
            if self._times and sum(shares) < sum(self._base):
                return False
            self._base, self._times = list(shares), []
        self._times.append(list(seconds))
        if len(self._times) < _STEPS[self._phase]:
            return False
        medians = [statistics.median(times) for times in zip(*self._times)]
        self._times = []
        if self._phase is _Phase.PROBE:
            self._known.append((list(shares), medians))
            self._set(solve(sum(shares), self._speeds()), _Phase.WATCH)
            self.changes += 1
            return True
        speeds = self._speeds_at(list(shares), medians)
        wanted = solve(sum(shares), speeds)
        then = max(member.seconds(share) for member, share in zip(speeds, wanted))
        if then >= (1.0 - WORTH) * max(medians):
            self._phase = _Phase.WATCH
            return False
        if self._phase is _Phase.WATCH:
            # The change may lie within this window.
            self._phase = _Phase.CONFIRM
            return False
        self._known = [(list(shares), medians)]
        self._set(wanted, _Phase.PROBE)
        return True

    def _set(self, weights: list[int], phase: _Phase) -> None:
        self.weights, self._base, self._times, self._phase = weights, weights, [], phase

    def _speeds_at(self, shares: list[int], medians: list[float]) -> list[Speed]:
        """With the overheads that are known, else without any."""
        known = self._speeds() if len(self._known) > 1 else [Speed(0.0, 1.0)] * len(shares)
        overheads = [min(s.overhead, 0.9 * t) for s, t in zip(known, medians)]
        return [Speed(o, (t - o) / b) for o, t, b in zip(overheads, medians, shares)]

    def _speeds(self) -> list[Speed]:
        """Overheads and speeds by the two shares that each member had."""
        (before, slow), (after, fast) = self._known[-2], self._known[-1]
        overheads: list[Optional[float]] = []
        for a, b, s, t in zip(before, after, slow, fast):
            if abs(a - b) < APART_ENOUGH * a:
                overheads.append(None)
                continue
            sample = (s - t) / (a - b)
            overheads.append(min(max(0.0, t - b * sample), 0.95 * t))
        seen = [o for o in overheads if o is not None]
        common = statistics.median(seen) if seen else 0.0
        filled = [min(common, 0.95 * t) if o is None else o for o, t in zip(overheads, fast)]
        return [Speed(o, (t - o) / b) for o, t, b in zip(filled, fast, after)]
