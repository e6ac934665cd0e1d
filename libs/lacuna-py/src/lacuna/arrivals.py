"""How often each gradient arrives in a step: from that follows when it is complete.

A step may have several backward passes (accumulation, several losses), and a pass may reach a
parameter not at all or twice. No call tells which arrival is the last one. It is the one with the
number of the step before; where that was too small once, with the greatest number ever seen.
"""

from __future__ import annotations

from typing import Optional


class Arrivals:
    """The arrivals of ``count`` gradients."""

    def __init__(self, count: int) -> None:
        self._seen = [0] * count
        self._sequence: list[int] = []
        #: Arrivals that complete a gradient; None before the first step.
        self._expected: Optional[list[int]] = None
        self._greatest = False

    def begin(self) -> None:
        """Begins a step."""
        self._seen = [0] * len(self._seen)
        self._sequence.clear()

    def awaited(self, place: int) -> bool:
        """Whether the gradient is likely to arrive in this step."""
        return self._expected is None or self._expected[place] > 0

    def came(self, place: int) -> bool:
        """Counts an arrival; True if it is likely to be the last one of this step."""
        self._seen[place] += 1
        self._sequence.append(place)
        return self._expected is not None and self._seen[place] == self._expected[place]

    def end(self, too_early: bool) -> None:
        """Learns from a step. ``too_early``: an arrival came after the last expected one."""
        if not self._sequence:
            return
        self._greatest |= too_early
        if self._greatest and self._expected is not None:
            self._expected = [max(pair) for pair in zip(self._expected, self._seen)]
        else:
            self._expected = self._seen

    def order(self) -> list[int]:
        """All places by their last arrival in this step; then those without one, last first."""
        last = {place: i for i, place in enumerate(self._sequence)}
        absent = [place for place in reversed(range(len(self._seen))) if place not in last]
        return sorted(last, key=lambda place: last[place]) + absent
