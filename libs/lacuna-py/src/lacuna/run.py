"""The training loop's side: batches out, losses in, and changes of members in between."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Type, TypeVar, Union, cast
from weakref import WeakKeyDictionary

import torch
from torch import nn

from . import misuse, serving
from .data import Indices, Source, mark, source
from .feed import Ahead
from .gradients import Vote
from .group import backend_of, check_backend
from .groups import Groups
from .loaders import Loaders
from .order import Order, Position, Share
from .part import Now, Step
from .pipeline import Pipeline
from .policy import BatchPolicy, checked
from .saving import Saver
from .settings import Settings
from .sharding import node_of
from .stages import SETTING, is_table_node
from .state import Parts, Scaler, Stateful
from .stuck import Stuck
from .together import Together
from .tree import pack
from .update import Update, reseed
from .view import View

log = logging.getLogger("lacuna")

T = TypeVar("T")

#: Runs of this process whose work is done.
_done: list[int] = []
#: By model the greatest number of epochs that a loop of this process has ended with.
_ended: "WeakKeyDictionary[nn.Module, int]" = WeakKeyDictionary()


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
    noise: bool = False,
    balance: bool = False,
    timeout: float = 2.0,
    backend: Optional[str] = None,
    loaders: Optional[str] = None,
) -> "Elastic":
    """Makes a training loop elastic: ``with lacuna.elastic(model, optimizer, ...) as run:``.

    ``optimizer``, ``scheduler``: one, or a list of which all are stepped once a step. ``batch``:
    samples of a step of the whole group (cut into shares), or a
    :class:`~lacuna.policy.BatchPolicy`. ``scaler``: the gradient scaler of a loss in half
    precision. ``wire``: ``torch.float16`` or ``torch.bfloat16`` halves the messages, and sums lose
    digits. ``seed``: the data's order and, with ``reseed``, the random numbers of each step follow
    from it. ``checkpoint_every`` steps or ``checkpoint_seconds``, whichever comes first, into
    ``checkpoint_dir`` (default: ``LACUNA_CHECKPOINT_DIR``; without either there are none);
    ``keep`` of them stay. ``state``: further things with a ``state_dict``, by name, as a
    :class:`lacuna.Value`, or a scheduler that the program steps itself once an epoch. ``clip_norm``
    and ``before_step`` act on the averaged gradients. ``noise``: measures the noise scale of the
    gradient (:attr:`Elastic.noise`), also where the batch policy does not need it. ``balance``:
    members of unequal speed get shares of unequal size. ``loaders``: a file by which processes on
    other nodes find this training and prepare batches for it (default: ``LACUNA_LOADERS``), see
    :mod:`lacuna.loader`. ``timeout``: seconds of silence in a
    collective after which the group counts as broken; it grows with the steps' duration, and
    doubles when a group breaks before its first step. ``backend``: ``gloo`` or
    ``cpu:gloo,cuda:nccl`` (default: by :func:`~lacuna.group.backend_of`).

    The model may be sharded over the workers of a node, see :func:`lacuna.node_mesh`.

    Raises ValueError for settings or launcher's variables that make no sense, an optimiser that
    needs a closure, or a scheduler that needs a metric, TypeError for a state of other things than
    :mod:`lacuna.tree` names, ConnectionError if ``LACUNA_SOCKET`` is set and no agent answers
    there, RuntimeError if Lacuna gave several nodes but no way to meet, or if this node is one for
    tables.
    """
    if is_table_node(os.environ):
        raise RuntimeError(f"{SETTING} names this node: make lacuna_tables.Tables before it")
    if _done and os.environ.get("LACUNA_SOCKET"):
        raise RuntimeError(misuse.SECOND)
    if timeout <= 0.0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise ValueError("lacuna sums the gradients itself: pass model.module, and train that")
    optimizers = _listed(optimizer)
    extra = dict(state or {})
    others = [one for one in extra.values() if isinstance(one, nn.Module)]
    node = node_of([model, *others], optimizers, backend)
    backend = backend or backend_of(model.parameters() if node.mesh is None else ())
    check_backend(backend, wire)
    settings = Settings(
        *(checked(batch), seed, reseed, timeout, backend, wire),
        loaders or os.environ.get("LACUNA_LOADERS"),
        float(total) if (total := os.environ.get("LACUNA_SAMPLES_TOTAL")) else None,
        *(noise, balance, clip_norm, before_step),
    )
    parts = Parts(model, optimizers, _listed(scheduler), scaler, extra, node.mesh)
    misuse.refuse(parts)
    # What others could not get is refused at the start, and not when one of them joins.
    pack(parts.take(Position()))
    line = Pipeline(parts, settings, node)
    folder = checkpoint_dir or os.environ.get("LACUNA_CHECKPOINT_DIR")
    saver = Saver(folder, keep, checkpoint_every, checkpoint_seconds, node)
    now = Now(shards=node.count)
    groups = Groups(now, line, parts, saver, settings, node)
    return Elastic(now, line, groups, parts, settings)


def _listed(parts: Union[None, T, Sequence[T]]) -> list[T]:
    if parts is None:
        return []
    return list(parts) if isinstance(parts, (list, tuple)) else [cast(T, parts)]


class Elastic(View, Together):
    """A training run whose members may change between any two steps. Made by :func:`elastic`.

    A member applies a step when its sums have arrived there; then the member's state is one step
    newer. If the group breaks while some have applied a step and others have not, the newest state
    is broadcast to all, so the step counts once. If no member has applied it, the next group does
    it again with the same samples.

    Workers that have the shards of one model do all of this alike (:class:`~lacuna.sharding.Node`).

    What a step does is a list of parts (:mod:`lacuna.pipeline`). Where members meet is
    :class:`~lacuna.groups.Groups`. What they do together behind a step is
    :class:`~lacuna.together.Together`.
    """

    def __init__(
        self, now: Now, line: Pipeline, groups: Groups, parts: Parts, settings: Settings
    ) -> None:
        self._now = now
        self._line = line
        self._groups = groups
        self._settings = settings
        self._model = parts.model
        self._update = Update(parts, settings.policy, settings.clip_norm, settings.before_step)
        self._loaders = Loaders(settings, groups.membership, groups.link)
        self._stuck = Stuck(lambda: line.closed.on and not groups.is_busy)
        #: The present batch, and when it came.
        self._step: Optional[Step] = None
        self._began = 0.0
        #: Whether the program is in a loop over batches.
        self._in_loop = False
        #: The greatest number of epochs that a loop of this process has ended with.
        self._ended: Optional[int] = None

    # The loop.

    def __enter__(self) -> "Elastic":
        self._line.closed.begin()
        self._groups.start()
        self._stuck.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        wrong: Optional[str] = None
        if error is None:
            self._groups.depart()
            looped = self._line.closed.looped
            wrong = self._groups.left_alone() if looped else misuse.NO_LOOP
            if wrong is None:
                self._groups.finish()
        is_done = error is None and wrong is None
        if is_done:
            _done.append(self._now.span.run)
        self._groups.close(is_done, self._stuck.close)
        if wrong is not None:
            raise RuntimeError(wrong)

    def steps(
        self,
        data: Any,
        *,
        epochs: Optional[int] = None,
        shuffle: Optional[bool] = None,
        collate: Optional[Callable[[list[Any]], Any]] = None,
    ) -> Iterator[Any]:
        """This member's part of each batch, until ``epochs`` or all of Lacuna's samples are done.

        ``epochs`` counts from the beginning of the training, over restarts: one loop has them all,
        and :attr:`epoch_ended` says where one ends. Each batch needs one call of :meth:`step`.
        Lines of the program that :meth:`step` does in their place, or that change gradients before
        it, are a RuntimeError that shows the line to write (:mod:`lacuna.misuse`).

        ``data``: a tensor, a tuple of tensors of the same length, or anything with a length and
        items (a ``Dataset``), put together by ``collate`` (default: PyTorch's). Or a
        ``DataLoader``, whose data set, functions, workers and pinned memory are used; the order and
        the shares of the samples are Lacuna's. Workers read ahead, over changes of members too.
        ``shuffle``: default True; that of a DataLoader.

        An ``IterableDataset`` must give the same stream at every member: sample n is the n-th that
        comes. Every member reads all of it and uses its own part. One that joins or resumes reads
        what was used before, unless the data set has ``starting_at(n)``, an iterator from sample
        n on. ``set_epoch`` is called if there is one.

        Raises ValueError or TypeError for data that cannot be used so, and RuntimeError with the
        program's own traceback for a sample that cannot be read, and for a second loop whose epochs
        the first one has done.
        """
        self._may_begin(epochs)
        settings = self._settings
        join = serving.wanted()
        if join is not None:
            serving.serve(data, collate, settings.step_seed, join)
        feed, shuffled = source(data, collate, settings.policy, shuffle, settings.step_seed)
        self._groups.data = mark(data)
        order = Order(feed.length, settings.seed, shuffled)
        return self._batches(self._loaders.beside(feed), order, epochs)

    def shares(
        self, length: int, *, epochs: Optional[int] = None, shuffle: bool = True
    ) -> Iterator[torch.Tensor]:
        """Like :meth:`steps`, but gives the indices (int64) of this member's samples."""
        self._may_begin(epochs)
        order = Order(length, self._settings.seed, shuffle)
        return self._batches(Indices(length), order, epochs)

    def _may_begin(self, epochs: Optional[int]) -> None:
        """Raises RuntimeError for a loop that cannot give a batch, or is within another's."""
        if self._in_loop:
            raise RuntimeError(misuse.WITHIN)
        if epochs is not None and self._ended is not None and epochs <= self._ended:
            raise RuntimeError(misuse.all_done(epochs))
        self._line.closed.loop()

    def _batches(self, feed: Source, order: Order, epochs: Optional[int]) -> Iterator[Any]:
        now, line, groups = self._now, self._line, self._groups
        now.order = order
        self._in_loop = True
        line.timing.reads(feed.loading)
        # A share, and what was read for it: that is kept if the group was let go meanwhile.
        ready: Optional[tuple[Share, Share, Any]] = None
        try:
            while True:
                line.asked()
                self._stuck.asked()
                groups.before_batch()
                ahead = self._shares_ahead(order, epochs)
                enough = line.learning.has_enough(order.length, epochs)
                wanted, self._ahead_now = None if enough else next(ahead(), None), ahead
                if wanted is None:
                    if epochs is not None and (enough or now.position.epoch >= epochs):
                        self._end(epochs)
                    groups.finish()
                    return
                if ready is None or not ready[0].is_same(wanted):
                    # Samples may come slowly: the others wait for them.
                    with groups.busy():
                        ready = (wanted, *feed.take(wanted, ahead))
                if groups.lost():
                    continue
                (_, share, batch), ready = ready, None
                order.reached(share)
                now.share = now.last_share = share
                self._began = time.monotonic()
                self._step = step = Step(now, share, feed, line.gradients, groups.all_of, [batch])
                line.before(step)
                if self._settings.reseed:
                    reseed(self._settings.seed, now.position.step, now.rank)
                yield from self._program(step)
                if now.share is not None:
                    has_turns = line.turns.begun > 0
                    raise RuntimeError(misuse.TURNS_LEFT if has_turns else misuse.ONE_CALL)
        finally:
            now.share = self._step = None
            self._in_loop = False
            feed.close()

    def _shares_ahead(self, order: Order, epochs: Optional[int]) -> Ahead:
        """Gives this member's shares from here on, if no member comes or goes before them."""
        now, line = self._now, self._line
        # A node with one model has shares alike; reading cuts a stream.
        is_even = now.shards > 1 or line.shares.on or order.is_stream
        return partial(
            order.ahead,
            *(replace(now.position), now.rank, now.world_size, line.learning.batch(now.nodes)),
            epochs=None if line.learning.counts_progress else epochs,
            total=self._settings.total,
            weights=line.shares.weights,
            tries=not is_even,
        )

    def _program(self, step: Step) -> Iterator[Any]:
        """The program's lines, for a batch or for its halves."""
        now, share = self._now, step.share
        for i, batch in enumerate(step.batches):
            if i > 0:
                if now.share is not None or step.answer is None:
                    # The program has left out its call.
                    return
                now.share = share
            with self._line.closed.program(share.count):
                yield batch

    def _end(self, epochs: int) -> None:
        """All epochs are done."""
        before = _ended.get(self._model, 0)
        if epochs <= before and self._now.last_share is None:
            # A checkpoint of this process's own block before has done them.
            raise RuntimeError(misuse.all_done(epochs))
        self._ended = max(epochs, self._ended or 0)
        _ended[self._model] = max(self._ended, before)

    # Several backward passes of one step.

    def parts(self, batch: Any, size: int) -> Iterator[Any]:
        """A batch in parts of at most ``size`` samples: accumulation of gradients.

        ``for x, y in run.parts(batch, 16): run.backward(loss_of(model(x), y))``, then
        ``run.step()``. Parts are as even as can be, and :meth:`backward` weighs each by its
        samples, so the step is that of the whole batch. A batch is made of tensors with one row
        for each sample, and lists of as many things, in dicts, lists and tuples.

        Raises TypeError for another batch, RuntimeError outside of a batch of :meth:`steps`.
        """
        return self._line.passes.parts(self._now, batch, size)

    def backward(self, loss: torch.Tensor, weight: Optional[float] = None) -> None:
        """In place of ``loss.backward()``, where several passes add up to one step.

        ``loss``: the mean over the samples of a part of :meth:`parts`, by whose samples it counts;
        or with ``weight`` the mean over any samples, of which that is the part of the batch.
        Otherwise it counts whole: several losses of one batch add up. It is scaled by ``scaler``.
        ``run.step()`` without a loss follows.

        Raises RuntimeError outside of a batch of :meth:`steps`.
        """
        self._line.passes.backward(self._now, loss, weight)

    # Between steps.

    @contextmanager
    def busy(self, limit: float = 3600.0) -> Iterator[None]:
        """Around long work of one member or of several, as validation or saving on rank 0.

        ``with run.busy(): ...``. The others wait for this member, and its silence breaks no group.
        Half of ``timeout`` after the last step the group is let go. It meets again at the next
        batch; a step that others had begun is done again. Changes of members go on meanwhile. After
        ``limit`` seconds the others count this member as silent. Under torchrun the group stays, so
        ``timeout`` (at least 30 s there) must be longer than the work.
        """
        with self._groups.busy(limit):
            yield

    def step(
        self,
        loss: Optional[Union[torch.Tensor, float]] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
    ) -> bool:
        """In place of ``optimizer.step()``, after the last ``backward()`` of the step.

        ``optimizer``: steps this one alone, where several take turns on a batch, as a GAN's. The
        turn of the last one in the list of :func:`elastic` ends the batch, or ``run.step()``.

        ``loss`` must be the mean over this member's samples; where several backward passes add up
        to a step, their losses add up to it; after :meth:`backward` there is none. True if the step
        was applied; False if the same samples come again, because the group broke or a gradient was
        sent too early.

        Raises ValueError for an optimiser that is not the run's. Raises RuntimeError for a batch
        that had its call, for gradients or a scheduler that the program changed before it, for a
        loss that is no mean or brought no gradient, and where members differ in what they must have
        alike: rates of learning, numbers in a :class:`lacuna.Value`, :attr:`bests`, weights.
        """
        now, line, groups, step = self._now, self._line, self._groups, self._step
        if now.share is None or step is None:
            raise RuntimeError(misuse.NO_BATCH)
        step.called(loss, optimizer)
        line.called(step)
        if isinstance(step.loss, torch.Tensor):
            step.loss = float(step.loss.detach())  # Waits for the device.
        now.share, now.applied = None if step.ends else step.share, False
        leaving = step.ends and groups.link.leaving is not None
        step.took = time.monotonic() - self._began
        answer = line.vote(step)
        if answer is not None:
            return answer
        vote = Vote(
            *(float(step.ends and groups.membership.moving()), float(leaving), step.loss),
            more=tuple(step.numbers),
        )
        if now.world_size > 1:
            agreed, failure = line.gradients.finish(vote, groups.watch())
            if agreed is None or now.group is None or agreed.too_early > 0.0:
                line.drop(step)
                groups.calls.repeat()
                if agreed is None or now.group is None:
                    groups.broke(failure, step.took)
                else:
                    number = now.position.step + 1
                    log.info("step %d is done again: more gradients came than before", number)
                return False
            step.sums = vote = agreed
        step.period = groups.period
        line.agree(step)
        now.applied = step.ends
        groups.stepped()
        factor, ticks, worth = step.worth
        with line.closed.lifted():
            self._update.apply(now.nodes, step.stepped, factor, ticks)
        line.after(step)
        if step.ends:
            assert now.order is not None
            now.position.advance(step.share.batch, now.order.length, worth)
            now.loss = vote.loss
            groups.after(vote)
        return True
