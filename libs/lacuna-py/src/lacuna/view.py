"""What a program can read of its run."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import torch

from .groups import Groups
from .loaders import Loaders
from .noise import Scale
from .order import Share
from .part import Now
from .pipeline import Pipeline


class View:
    """The properties of :class:`lacuna.run.Elastic`."""

    _now: Now
    _line: Pipeline
    _groups: Groups
    _loaders: Loaders
    _ahead_now: Optional[Callable[[], Iterator[Share]]] = None

    @property
    def rank(self) -> int:
        """This member's place in the present group, or in the last one."""
        return self._now.rank

    @property
    def world_size(self) -> int:
        """How many members the present group has, or the last one had."""
        return self._now.world_size

    @property
    def local_rank(self) -> int:
        """This member's place among the workers of its node."""
        return self._groups.worker.rank

    @property
    def nodes(self) -> int:
        """How many nodes the present group has, or the last one had."""
        return self._now.nodes

    @property
    def device(self) -> torch.device:
        """This member's device, see :func:`lacuna.device`."""
        return self._groups.worker.device

    @property
    def steps_done(self) -> int:
        """Optimiser steps since the trainer's beginning."""
        return self._now.position.step

    @property
    def samples(self) -> int:
        """Samples used since the trainer's beginning, by all members.

        With ``adascale`` and ``adamscale``, what they are worth in samples of the user's batch.
        """
        return self._now.position.samples

    @property
    def share(self) -> Optional[Share]:
        """This member's part of the present batch; None outside of one."""
        return self._now.share

    @property
    def coming(self) -> Optional[torch.Tensor]:
        """The indices of this member's next batch, if no member comes or goes before it."""
        if self._now.share is None or self._ahead_now is None:
            return None
        shares = self._ahead_now()
        next(shares, None)
        share = next(shares, None)
        return None if share is None else share.indices

    @property
    def progress(self) -> float:
        """Steps of the user's batch that training is worth; differs from :attr:`steps_done` with
        ``adascale`` and ``adamscale``."""
        learning = self._line.learning
        return learning.progress if learning.counts_progress else float(self.steps_done)

    @property
    def batch(self) -> int:
        """Samples of a step of the whole group, for the present members."""
        return self._line.learning.batch(self.nodes)

    @property
    def noise(self) -> Optional[Scale]:
        """The noise scale of the gradient, once it is known: see :mod:`lacuna.noise`."""
        return self._line.learning.scale()

    @property
    def shares_by_speed(self) -> tuple[int, ...]:
        """Weights of the members' shares with ``balance``; empty while they are even."""
        return self._line.shares.weights

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self._now.position.epoch

    @property
    def epoch_ended(self) -> bool:
        """Whether the last step was applied and the last one of its epoch."""
        return self._now.applied and self._now.position.offset == 0

    @property
    def loss(self) -> Optional[float]:
        """Mean loss of the last step over the whole group's batch."""
        return self._now.loss

    @property
    def run_id(self) -> int:
        """Number of the present run; 0 outside of ``regroup``."""
        return self._now.span.run

    @property
    def bests(self) -> dict[str, float]:
        """The best numbers so far, by the names given to :meth:`~lacuna.run.Elastic.best`."""
        return self._line.bests.values

    @property
    def stalls(self) -> Optional[dict[str, Any]]:
        """At rank 0, the times of the newest steps of this group, see :mod:`lacuna.moments`."""
        return self._line.timing.report()

    @property
    def loaders(self) -> int:
        """Processes on other nodes that prepare batches for this member now."""
        return self._loaders.count

    @property
    def leaving(self) -> bool:
        """Whether this member must leave: long work of the program may look at it, and end."""
        return self._groups.link.leaving is not None

    @property
    def checkpoint_failures(self) -> int:
        """Checkpoints that could not be written here."""
        return self._groups.saver.failures
