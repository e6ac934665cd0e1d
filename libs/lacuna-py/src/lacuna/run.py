"""The training loop's side: batches out, losses in, and changes of members in between."""

from __future__ import annotations

import logging
import math
import os
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Type, TypeVar, Union, cast

import torch
from torch import nn

from .data import fetch
from .gradients import Gradients, Vote
from .group import Group, check_backend
from .link import Link, leave_now
from .member import Card, Formed, from_environment, loader, newest
from .order import Order, Position, Share
from .policy import BatchPolicy, checked
from .progress import Reporter, Span
from .saving import Saver
from .state import Parts, Scaler, Stateful, broadcast
from .update import Update, reseed

log = logging.getLogger("lacuna")

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """The settings of :func:`elastic`, without the parts that have state."""

    seed: int
    reseed: bool
    timeout: float
    backend: str
    wire: Optional[torch.dtype]


def elastic(
    model: nn.Module,
    optimizer: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]],
    *,
    scheduler: Optional[Any] = None,
    scaler: Optional[Scaler] = None,
    wire: Optional[torch.dtype] = None,
    batch: Union[int, BatchPolicy] = 32,
    seed: int = 0,
    checkpoint_every: Optional[int] = None,
    checkpoint_seconds: Optional[float] = 60.0,
    checkpoint_dir: Optional[str] = None,
    keep: int = 3,
    state: Optional[Mapping[str, Stateful]] = None,
    clip_norm: Optional[float] = None,
    before_step: Optional[Callable[[], None]] = None,
    reseed: bool = True,
    timeout: float = 2.0,
    backend: str = "gloo",
) -> "Elastic":
    """Makes a training loop elastic: ``with lacuna.elastic(model, optimizer, ...) as run:``.

    ``optimizer``, ``scheduler``: one, or a list of which all are stepped once a step. ``batch``:
    samples of a step of the whole group (cut into shares), or a
    :class:`~lacuna.policy.BatchPolicy`. ``scaler``: the gradient scaler of a loss in half
    precision. ``wire``: ``torch.float16`` or ``torch.bfloat16`` halves the messages, and sums lose
    digits. ``seed``: the data's order and, with ``reseed``, the random numbers of each step follow
    from it. ``checkpoint_every`` steps or ``checkpoint_seconds``, whichever comes first, into
    ``checkpoint_dir`` (default: ``LACUNA_CHECKPOINT_DIR``; without either there are none);
    ``keep`` of them stay. ``state``: further things with a ``state_dict``, by name. ``clip_norm``
    and ``before_step`` act on the averaged gradients. ``timeout``: seconds of silence in a
    collective after which the group counts as broken; it grows with the steps' duration, and
    doubles when a group breaks before its first step.

    Raises ValueError for settings that make no sense and ConnectionError if ``LACUNA_SOCKET`` is
    set and no agent answers there; RuntimeError if Lacuna gave several nodes but no way to meet.
    """
    if timeout <= 0.0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise ValueError("lacuna sums the gradients itself: pass model.module, and train that")
    check_backend(backend, wire)
    parts = Parts(model, _listed(optimizer), _listed(scheduler), scaler, dict(state or {}))
    folder = checkpoint_dir or os.environ.get("LACUNA_CHECKPOINT_DIR")
    return Elastic(
        parts,
        Update(parts, checked(batch), clip_norm, before_step),
        Saver(folder, keep, checkpoint_every, checkpoint_seconds),
        Settings(seed, reseed, timeout, backend, wire),
    )


def _listed(parts: Union[None, T, Sequence[T]]) -> list[T]:
    if parts is None:
        return []
    return list(parts) if isinstance(parts, (list, tuple)) else [cast(T, parts)]


class Elastic:
    """A training run whose members may change between any two steps. Made by :func:`elastic`.

    A member applies a step when its sums have arrived there; then the member's state is one step
    newer. If the group breaks while some have applied a step and
    others have not, the newest state is broadcast to all, so the step counts once. If no member
    has applied it, the next group does it again with the same samples.
    """

    def __init__(self, parts: Parts, update: Update, saver: Saver, settings: Settings) -> None:
        self._parts = parts
        self._update = update
        self._saver = saver
        self._settings = settings
        self._gradients = Gradients(parts.model, parts.optimizers, settings.wire)
        total = os.environ.get("LACUNA_SAMPLES_TOTAL")
        self._total = float(total) if total else None
        self._link = Link(
            os.environ.get("LACUNA_SOCKET") or None, os.environ.get("LACUNA_DEADLINE_FILE")
        )
        self._membership = from_environment(self._link, settings.backend, settings.timeout)
        regroup = self._membership.kind == "regroup"
        file = None if regroup else os.environ.get("LACUNA_PROGRESS_FILE")
        self._reporter = Reporter(self._link, file)
        self._group: Optional[Group] = None
        self._span = Span(0, 1, 0)
        self._rank = 0
        #: Set at the boundary at which this member leaves: whether it saves the state.
        self._departing: Optional[bool] = None
        self._position = Position()
        self._has_state = False
        self._lineage = ""
        self._order: Optional[Order] = None
        self._share: Optional[Share] = None
        self._loss: Optional[float] = None
        self._said_not_finite = False
        self._last_step = 0.0
        self._step_seconds = 0.0
        self._batch_began = 0.0
        #: Seconds that this member took for the first step of a group that broke meanwhile.
        self._lost_seconds = 0.0

    # State of the training, for the program.

    @property
    def rank(self) -> int:
        """This member's place in the present group, or in the last one."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many members the present group has, or the last one had."""
        return self._span.world_size

    @property
    def steps_done(self) -> int:
        """Optimiser steps since the trainer's beginning."""
        return self._position.step

    @property
    def samples(self) -> int:
        """Samples used since the trainer's beginning, by all members."""
        return self._position.samples

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self._position.epoch

    @property
    def loss(self) -> Optional[float]:
        """Mean loss of the last step over the whole group's batch."""
        return self._loss

    @property
    def run_id(self) -> int:
        """Number of the present run; 0 outside of ``regroup``."""
        return self._span.run

    @property
    def checkpoint_failures(self) -> int:
        """Checkpoints that could not be written here."""
        return self._saver.failures

    # The loop.

    def __enter__(self) -> "Elastic":
        self._link.idle = True
        self._link.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._departing is not None and error is None:
            self._leave(save=self._departing)
        if self._group is not None:
            if error is None:
                self._finish()
            else:
                # Peers see at once that this member is gone.
                self._group.close()
                self._group = None
        self._gradients.close()
        self._saver.settle()
        self._link.flush()
        self._link.close()

    def steps(
        self,
        data: Any,
        *,
        epochs: Optional[int] = None,
        shuffle: bool = True,
        collate: Optional[Callable[[list[Any]], Any]] = None,
    ) -> Iterator[Any]:
        """This member's part of each batch, until ``epochs`` or all of Lacuna's samples are done.

        ``data``: a tensor, a tuple of tensors of the same length, or anything with a length and
        items (a ``Dataset``), put together by ``collate`` (default: PyTorch's).
        """
        length, get = fetch(data, collate)
        for indices in self.shares(length, epochs=epochs, shuffle=shuffle):
            yield get(indices)

    def shares(
        self, length: int, *, epochs: Optional[int] = None, shuffle: bool = True
    ) -> Iterator[torch.Tensor]:
        """Like :meth:`steps`, but gives the indices (int64) of this member's samples."""
        self._order = Order(length, self._settings.seed, shuffle)
        while True:
            if self._group is None:
                self._regroup()
            left = None if self._total is None else self._total - self._position.samples
            if (epochs is not None and self._position.epoch >= epochs) or (
                left is not None and left <= 0.0
            ):
                self._finish()
                return
            batch = self._update.policy.batch_of(self.world_size)
            share = self._order.share(self._position, self._rank, self.world_size, batch, left)
            self._share = share
            self._batch_began = time.monotonic()
            self._gradients.begin(
                self._group if self.world_size > 1 else None, share.indices.numel() / share.batch
            )
            if self._settings.reseed:
                reseed(self._settings.seed, self._position.step, self._rank)
            if share.indices.numel() == 0:
                self._gradients.forget()
                self.step()
            else:
                yield share.indices
            if self._share is not None:
                raise RuntimeError("each batch needs one call of run.step(loss)")

    def step(self, loss: Optional[Union[torch.Tensor, float]] = None) -> bool:
        """In place of ``optimizer.step()``, after the last ``backward()`` of the step.

        ``loss`` must be the mean over this member's samples; where several backward passes add up
        to a step, their losses add up to it. True if the step was applied; False if the same
        samples come again, because the group broke or a gradient was sent too early.
        """
        share, group, order = self._share, self._group, self._order
        if share is None or group is None or order is None:
            raise RuntimeError("run.step() belongs to a batch of run.steps()")
        self._share = None
        leaving = self._link.leaving is not None
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else loss
        vote = Vote(float(self._membership.moving()), float(leaving), value)
        if group.world_size > 1:
            took = time.monotonic() - self._batch_began
            watch = self._membership.watch(self._step_seconds)
            agreed, failure = self._gradients.finish(vote, watch)
            if agreed is None:
                self._gradients.undo()
                if self._last_step == 0.0:
                    # Perhaps the others did not wait long enough for this member.
                    self._lost_seconds = took
                self._broke(failure)
                return False
            if agreed.too_early > 0.0:
                step = self._position.step + 1
                log.info("step %d is done again: more gradients came than before", step)
                self._gradients.undo()
                return False
            vote = agreed
        self._membership.stepped()
        self._lost_seconds = 0.0
        self._look_at(vote.loss)
        self._update.apply(group.world_size)
        self._position.advance(share.batch, order.length)
        self._loss = vote.loss
        self._after(group, vote)
        return True

    def _look_at(self, loss: Optional[float]) -> None:
        """Says once that the loss is not finite; that breaks no group, and is the user's to end."""
        if loss is None or math.isfinite(loss) or self._said_not_finite:
            return
        self._said_not_finite = True
        names = self._gradients.not_finite()
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        log.warning(
            "the loss of step %d is %s; gradients that are not finite: %s",
            self._position.step + 1,
            loss,
            ", ".join(names[:3]) + more or "none",
        )

    def _after(self, group: Group, vote: Vote) -> None:
        now = time.monotonic()
        if self._last_step > 0.0:
            # The longest recent step: forgotten slowly, learnt at once.
            self._step_seconds = max(now - self._last_step, 0.98 * self._step_seconds)
        self._last_step = now
        boundary = vote.moving > 0.0 or vote.leaving > 0.0
        if group.rank == 0:
            self._saver.if_due(self._position.step, self._state)
            self._report(last=boundary)
        if not boundary:
            return
        # Torchrun knows one membership for a process's life: all leave, all come back.
        torchrun = self._membership.kind == "torchrun"
        group.part()
        self._group = None
        if self._link.leaving is not None or torchrun:
            # The program may still look at this step; it ends when it asks for the next batch.
            everybody = vote.leaving >= group.world_size or torchrun
            self._departing = everybody and group.rank == 0

    # Groups.

    def _card(self) -> Card:
        """The card of this member, which the others read before the group is built."""
        saved = None if self._has_state else self._saver.look()
        length = 0 if self._order is None else self._order.length
        policy = self._update.policy.text()
        silence = max(4.0 * self._step_seconds, 2.0 * self._lost_seconds)
        return {
            "state": [self._position.samples, self._position.step] if self._has_state else None,
            "lineage": self._lineage,
            "saved": -1 if saved is None else saved.samples,
            "timeout": max(self._settings.timeout, silence),
            "plan": f"{length}:{self._settings.seed}:{policy}:{self._gradients.plan}",
        }

    def _state(self) -> dict[str, Any]:
        """The whole state; its tensors are the model's own, no copies."""
        state = self._parts.take(self._position)
        state["arrivals"] = self._gradients.order
        order = self._order
        state["order"] = [] if order is None else [order.length, self._settings.seed, order.shuffle]
        return state

    def _put(self, state: dict[str, Any]) -> None:
        """Takes over a state. Raises RuntimeError if it belongs to another order of the data."""
        mine, theirs = self._state()["order"], state["order"]
        if mine != theirs:
            raise RuntimeError(
                f"the state was made with [samples, seed, shuffle] = {theirs}, this program has "
                f"{mine}: no sample could be counted once; use another checkpoint folder"
            )
        self._position = self._parts.put(state)
        self._gradients.order = state["arrivals"]

    def _load(self, cards: list[Card], rank: int) -> None:
        """No member has state: the one with the newest checkpoint reads it."""
        state = self._saver.load() if loader(cards) == rank else None
        if state is not None:
            self._put(state)

    def _regroup(self) -> None:
        """Returns with a group whose members have the same state, or not at all."""
        if self._departing is not None:
            self._leave(save=self._departing)
        if self._link.idle and not self._has_state:
            self._link.say({"say": "ready"})
        self._link.idle = False
        while self._group is None:
            formed = self._membership.form(self._card, self._load)
            if formed is None:
                # Perhaps all others leave as well, one after the other: nothing may be lost.
                self._leave(save=self._has_state)
                return
            failure = self._agree(formed)
            if failure is not None:
                log.info("run %d: %s", formed.run, failure)
                formed.group.close()
                self._membership.broke()
                continue
            self._group = formed.group
            self._span = Span(formed.run, formed.group.world_size, self._position.samples)
            self._rank = formed.group.rank
            self._last_step = 0.0
            if self._rank == 0:
                self._saver.new_group(self._position.step)
            self._report(last=True)

    def _agree(self, formed: Formed) -> Optional[str]:
        """Brings all members to the newest state; the reason if the group broke meanwhile."""
        group, cards = formed.group, formed.cards
        held = newest(cards)
        source = loader(cards) if held is None else held
        if cards[source]["plan"] != cards[group.rank]["plan"]:
            raise RuntimeError(
                f"this member's length:seed:batch:model is {cards[group.rank]['plan']}, "
                f"that of the group is {cards[source]['plan']}"
            )
        same = [(card["state"], card["lineage"]) for card in cards]
        if held is None or any(one != same[source] for one in same):
            mine = group.rank == source
            watch = self._membership.watch(self._step_seconds)
            state, failure = broadcast(group, source, self._state() if mine else None, watch)
            if failure is not None or state is None:
                return failure or "no state came"
            if not mine and (held is None or same[group.rank] != same[source]):
                self._put(state)
        self._has_state = True
        self._lineage = formed.name
        return None

    def _broke(self, reason: str) -> None:
        """The group lost a member in the middle of a step, which was not applied here."""
        group, self._group = self._group, None
        if group is None:
            return
        log.info("run %d broke at step %d: %s", self._span.run, self._position.step, reason)
        group.close()
        self._membership.broke()
        self._report(last=True)
        if self._membership.kind == "torchrun":
            self._rescue(group.rank)
        self._last_step = 0.0

    def _rescue(self, rank: int) -> None:
        """Torchrun restarts all processes: a member that still has the state saves it."""
        if rank == 1:
            # Rank 0 may be the lost member. Two checkpoints of a step do no harm.
            time.sleep(0.2)
        if rank <= 1:
            self._saver.now(self._position.samples, self._state)
        self._link.flush()
        leave_now(1)

    # Ends.

    def _report(self, last: bool = False) -> None:
        if self._rank == 0:
            self._reporter.report(self._span, self._position, self._loss, self._saver.newest, last)

    def _finish(self) -> None:
        """The program's own end: saves the state, and sends the last report."""
        group, self._group = self._group, None
        if group is None:
            return
        together = group.part()
        if group.rank == 0 or not together:
            self._saver.now(self._position.samples, self._state)
        self._report(last=True)
        self._link.flush()
        self._link.idle = True

    def _leave(self, save: bool) -> None:
        """Ends the process on request."""
        if save:
            self._saver.now(self._position.samples, self._state)
            self._report(last=True)
        self._link.flush()
        leave_now()
