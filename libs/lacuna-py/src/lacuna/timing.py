"""The part that reads the clock at a step's moments: :mod:`lacuna.moments`."""

from __future__ import annotations

from typing import Any

from .moments import Moments
from .part import Now, Part, Step


class Timing(Part):
    """Tells :class:`~lacuna.moments.Moments`, which unchanged programs have too, what happens.

    ``follows``: how the batch follows the members.
    """

    def __init__(self, follows: Any) -> None:
        self.moments = Moments(follows=follows)

    def regroup(self, now: Now) -> None:
        self.moments.formed(now.world_size, now.rank)

    def asked(self) -> None:
        self.moments.asked()

    def before(self, step: Step) -> None:
        self.moments.reads(step.source.loading)
        self.moments.got(step.source.reading)

    def agree(self, step: Step) -> None:
        if step.sums is None:
            self.moments.summed()

    def after(self, step: Step) -> None:
        if step.ends:
            self.moments.updated()

    def drop(self, step: Step) -> None:
        self.moments.dropped()

    def news(self, now: Now) -> dict[str, Any]:
        stalls = self.moments.due()
        return {} if stalls is None else {"stalls": stalls}
