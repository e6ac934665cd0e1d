"""What all members do after the same step: barriers, reduced metrics, shared validation."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Union

import torch
from torch import nn

from .calls import Place
from .data import whole
from .groups import Groups
from .member import Alone
from .metrics import How, Mode, means, merged, numbers, same
from .part import Now
from .pipeline import Pipeline
from .settings import Settings

Numbers = Mapping[str, Union[float, torch.Tensor]]


class Together:
    """The calls of :class:`lacuna.run.Elastic` that all members make."""

    _now: Now
    _line: Pipeline
    _groups: Groups
    _model: nn.Module
    _settings: Settings

    def barrier(self) -> None:
        """Waits until all members have come here, after the same step.

        Members that leave or die meanwhile are not waited for. Raises RuntimeError before the first
        batch.
        """
        self._gather(None)

    def _gather(self, mine: Any) -> list[Any]:
        """The parts of all members, by rank; None for those that did not come."""
        known = self._known()
        if known is not None:
            return known
        place = self._place()
        with self._groups.busy():
            return self._groups.calls.gather(place, self._now.position.step, mine)

    def reduce(
        self, values: Numbers, how: How = "mean", weight: Optional[float] = None
    ) -> dict[str, float]:
        """Numbers of all members in one, the same at every member: mean, sum, min or max.

        All members call it after the same step, with the same names. Means are weighted by
        ``weight`` (default: the samples of the member's last batch). A member that leaves or dies
        before it has called is left out. After a step that was not applied, it gives this
        member's own values. It costs some milliseconds: the members meet in the store.

        Raises ValueError if members gave different names, and RuntimeError before the first batch.
        """
        now, share = self._now, self._now.last_share
        weight = share.count if weight is None and share is not None else weight
        mine: Any = [weight, numbers(values)]
        if share is not None and share.lent and now.applied and now.world_size > 1:
            # Its samples are another member's, which gives numbers of them too.
            mine = None
        return merged(self._gather(mine), how)

    def best(
        self, name: str, found: Union[float, torch.Tensor, Mapping[str, Any]], mode: Mode = "max"
    ) -> bool:
        """Whether a number is the best one so far, the same at all members.

        ``if run.best("right", found) and run.rank == 0: torch.save(...)``. ``found``: what
        :meth:`evaluate` or :meth:`reduce` gave, of which this is the entry ``name``, or a number.
        ``mode``: ``max``, or ``min`` as for a loss. All members call it after the same step. The
        best belongs to the training's state: it is saved, and members that join get it.

        Raises ValueError at each member if they gave different numbers, and for what is no number.
        """
        if mode not in ("max", "min"):
            raise ValueError(f"mode must be max or min, not {mode!r}")
        if isinstance(found, Mapping) and name not in found:
            raise ValueError(f"there is no {name!r} among {', '.join(map(repr, found)) or 'none'}")
        number = numbers({name: found[name] if isinstance(found, Mapping) else found})[name]
        number = same(f"run.best({name!r})", self._gather(number))
        return self._line.bests.is_new(name, number, mode, self._now.position.step)

    def evaluate(
        self,
        data: Any,
        judge: Callable[[Any], Numbers],
        *,
        collate: Optional[Callable[[list[Any]], Any]] = None,
    ) -> dict[str, float]:
        """Means over all samples of ``data``, of which each member judges a part.

        All members call it after the same step. ``judge`` gives the means of one batch by name,
        without gradients and with the model in its mode of evaluation. ``data`` is as for
        :meth:`steps`, with a length; a batch has the ``batch_size`` of a DataLoader, else that of
        the training. Each sample is judged once: the part of a member that leaves or dies is done
        by another one. Every member gets the same result.

        Raises ValueError for data without samples, RuntimeError before the first batch, and for a
        sharded model: its workers would have to judge in step.
        """
        if self._now.shards > 1:
            raise RuntimeError(
                "run.evaluate() needs the whole model at each member, and this one is sharded: let "
                "all workers of a node judge the same number of batches in a loop of your own, and "
                "give their numbers to run.reduce()"
            )
        known = self._known()
        if known is not None:
            return merged(known, "mean")
        place, settings, model = self._place(), self._settings, self._model
        feed, size = whole(data, collate, settings.policy, settings.step_seed)
        training = model.training

        def part(number: int) -> Any:
            return means(feed, size, number, place.world_size, judge)

        model.eval()
        try:
            with torch.no_grad(), self._groups.busy():
                step, mine = self._now.position.step, part(place.rank)
                parts = self._groups.calls.gather(place, step, mine, part)
        finally:
            feed.close()
            model.train(training)
        return merged(parts, "mean")

    def _known(self) -> Optional[list[Any]]:
        """The result of a call that was made after this step already: the next one failed."""
        return None if self._now.applied else self._groups.calls.known()

    def _place(self) -> Place:
        """Where the members meet that have applied the last step."""
        now = self._now
        if now.last_share is None or now.order is None or now.share is not None:
            raise RuntimeError("calls of all members belong behind run.step(), in run.steps()")
        if not now.applied:
            # The others are at another step, or will do this one again.
            return Alone().place()
        return self._groups.membership.place()
