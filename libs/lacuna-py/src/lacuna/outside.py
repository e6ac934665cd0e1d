"""Times the steps of a program that knows nothing of it: ``lacuna stalls -- COMMAND``.

PyTorch's loader, its DistributedDataParallel and its optimisers are wrapped after the import of
``torch`` (``sitecustomize.py``), in worker processes of a loader too. Each process reads its clock
where a step passes anyway, and keeps the durations of :mod:`lacuna.moments` to itself. After
:data:`STEPS` steps, or at the end of the program, it writes them into the folder
``LACUNA_STALLS_INTO``, and the wrappers take themselves out. Two things remain, since PyTorch lets
go of neither: a hook of DDP, which only calls the one inside, and a look at the type of a batch.

With parameters on a GPU, moments are CUDA events on the current stream. They are read when they
have passed, steps later, so nothing waits for the device.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import torch

from .moments import SUMS, VERSION, WARM_UP, Moments, Reading, Stopwatch, clock, durations, entry

#: Steps that are kept. The first ones are not: buckets change after the first step.
STEPS = 200
#: Batches that a worker times: it reads ahead of the steps.
BATCHES = 2 * STEPS


class Mark(NamedTuple):
    """A moment of the program, and the device's event there, if it has a device."""

    at: float
    event: Any


class Read(NamedTuple):
    """A batch and how it was read. PyTorch pins the memory of what such a tuple has."""

    batch: Any
    reading: Reading


@dataclass
class _Open:
    """The moments of a step that are known so far."""

    asked: Mark
    got: Optional[Mark] = None
    reading: Optional[Reading] = None
    #: Batches since the last update; 0 of a program without a loader.
    batches: int = 0
    bytes: list[int] = field(default_factory=list)
    launched: list[Mark] = field(default_factory=list)
    ended: list[Optional[Mark]] = field(default_factory=list)
    entered: Optional[Mark] = None
    updated: Optional[Mark] = None


class Watch:
    """The steps of this process."""

    def __init__(self, into: Path, event: Optional[Callable[[], Any]] = None) -> None:
        #: Whether enough is known, so that nothing is timed any more.
        self.over = False
        #: Whether an optimiser steps.
        self.inside = False
        #: Called once, when it is over.
        self.uninstall: Callable[[], None] = lambda: None
        self._into = into
        self._event = event
        self._on_device = False
        self._rank, self._members = 0, 1
        self._workers, self._depth = 0, 0
        self._open: Optional[_Open] = None
        #: Steps whose events have not all passed, each with its end.
        self._passing: deque[tuple[_Open, Mark]] = deque()
        self._bytes: Optional[list[int]] = None
        self._skipped = 0
        self._rows: list[list[float]] = []
        self._batches: list[int] = []

    def _mark(self) -> Mark:
        event = None
        if self._on_device:
            event = self._event() if self._event else torch.cuda.Event(enable_timing=True)
            event.record()
        return Mark(clock(), event)

    # Moments, in their order in a step.

    def asked(self) -> None:
        """The program asks for a batch. If the optimiser has run, the step has ended."""
        now, last = self._mark(), self._open
        self._open = _Open(now)
        if last is None:
            return
        if last.updated is None:
            self._open.batches = last.batches
        else:
            self._close(last, now)

    def got(self, reading: Optional[Reading], workers: int, depth: int) -> None:
        """The batch is here."""
        step = self._open
        if step is None:
            return
        step.got, step.reading = self._mark(), reading
        step.batches += 1
        if reading is not None:
            self._workers, self._depth = workers, depth if workers else 0

    def launched(self, size: int) -> Optional[tuple[_Open, int]]:
        """The sum of a bucket of ``size`` bytes begins. What :meth:`ended` asks for."""
        step = self._open
        if step is None or step.got is None or step.updated is not None:
            return None
        step.launched.append(self._mark())
        step.ended.append(None)
        step.bytes.append(size)
        return step, len(step.bytes) - 1

    def ended(self, which: Optional[tuple[_Open, int]]) -> None:
        """That sum has arrived. Called by any thread."""
        if which is not None:
            which[0].ended[which[1]] = self._mark()

    def entered(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimiser begins its step."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._rank = torch.distributed.get_rank()
            self._members = torch.distributed.get_world_size()
        if self._event is None:
            groups = optimizer.param_groups
            self._on_device = any(p.is_cuda for group in groups for p in group["params"][:1])
        step = self._open
        if step is not None and step.entered is None:
            step.entered = self._mark()

    def left(self) -> None:
        """An optimiser has stepped. Without a loader the next step begins here."""
        now, step = self._mark(), self._open
        if step is not None and step.got is not None:
            step.updated = now
        if step is None or step.batches == 0:
            self._open = _Open(now, got=now)
            if step is not None and step.updated is not None:
                self._close(step, now)

    # What becomes of a step.

    def _close(self, step: _Open, end: Mark) -> None:
        self._passing.append((step, end))
        while self._passing and _has_passed(self._passing[0][1]):
            self._keep(*self._passing.popleft())
        if len(self._rows) >= STEPS:
            self.finish()

    def _keep(self, step: _Open, end: Mark) -> None:
        if step.bytes != self._bytes:
            # Buckets are built again after the first step.
            self._bytes, self._skipped = step.bytes, 0
            self._rows, self._batches = [], []
        self._skipped += 1
        if self._skipped <= WARM_UP:
            return
        row = _row(step, end)
        width = 7 + 2 * max(len(step.bytes), SUMS)
        # Members count their steps alike, so one without figures has its place.
        self._rows.append([-1.0] * width if row is None else [1e6 * number for number in row])
        self._batches.append(max(step.batches, 1))

    def finish(self) -> None:
        """Writes what is known, and takes the wrappers out."""
        if self.over:
            return
        self.over = True
        self.uninstall()
        if not self._rows:
            return
        # A group of several whose sums nothing has seen has none.
        alone = self._members == 1
        sizes = self._bytes or ([0] if alone else [])
        found = {
            "version": VERSION,
            "members": self._members,
            "workers": self._workers,
            "depth": self._depth,
            "passes": int(statistics.median_low(self._batches)),
            "ends_known": True,
            "bytes": sizes,
            "ranks": [entry(self._rank, torch.tensor(self._rows).round(), len(sizes))],
        }
        path = self._into / f"rank-{self._rank}.json"
        made = path.with_suffix(".new")
        made.write_text(json.dumps(found) + "\n")
        os.replace(made, path)


def _has_passed(mark: Mark) -> bool:
    return mark.event is None or bool(mark.event.query())


def _row(step: _Open, end: Mark) -> Optional[list[float]]:
    """The durations of a step, None if they make no sense.

    With events a moment is when the device came there. Then the time between ``asked`` and
    ``got`` is that in which the device had nothing to do.
    """
    base = step.asked

    def at(mark: Optional[Mark]) -> float:
        if mark is None:
            return 0.0
        if base.event is None or mark.event is None:
            return mark.at
        return base.at + float(base.event.elapsed_time(mark.event)) * 1e-3

    got = step.got
    if got is None or (base.event is None and end.event is not None):
        return None
    made = Moments(base.at, got=at(got), updated=at(step.updated))
    if step.reading is not None:
        began, read, prep = step.reading
        made.prep, made.fetch = prep, max(read - began - prep, 0.0)
        # Workers share the machine, and so the clock.
        lent = got.at - max(min(read, got.at), base.at)
        made.wait = max(made.got - base.at - lent, 0.0)
    made.launched = [at(mark) for mark in step.launched]
    made.ended = [at(mark) for mark in step.ended]
    made.summed = max(made.ended, default=at(step.entered))
    if not made.ended:
        made.launched = made.ended = [made.summed]
    return durations(made, at(end))


#: Seconds for which an ending program waits: threads of gloo let go of the last sums' hooks, which
#: are Python, and the process would abort if the interpreter ended meanwhile.
LETTING_GO = 0.1


def install() -> None:
    """Wraps PyTorch's classes in this process."""
    watch = Watch(Path(os.environ["LACUNA_STALLS_INTO"]))
    patches = _Patches()
    _wrap_loader(watch, patches)
    _wrap_optimizers(watch, patches)
    if torch.distributed.is_available():
        _wrap_ddp(watch, patches)
    watch.uninstall = patches.undo
    atexit.register(watch.finish)


class _Patches:
    """Attributes of classes that were replaced."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute until :meth:`undo`."""
        self._before.append((owner, name, value, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Takes all out that nothing else has replaced since."""
        for owner, name, value, before in reversed(self._before):
            if getattr(owner, name) is value:
                setattr(owner, name, before)


def _wrap_loader(watch: Watch, patches: _Patches) -> None:
    from torch.utils.data import _utils, dataloader

    iterators = dataloader._BaseDataLoaderIter
    following = iterators.__next__

    def plain(batch: Any) -> tuple[Any, Optional[Reading]]:
        return batch if type(batch) is Read else (batch, None)

    @functools.wraps(following)
    def timed(self: Any) -> Any:
        if watch.over:
            return plain(following(self))[0]
        watch.asked()
        batch, reading = plain(following(self))
        # In PyTorch 2 an iterator without workers lacks it.
        watch.got(reading, self._num_workers, getattr(self, "_prefetch_factor", None) or 0)
        return batch

    # It stays, since workers that live on may still send what they have timed.
    setattr(iterators, "__next__", timed)  # noqa: B010
    for fetcher in (_utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher):
        patches.put(fetcher, "fetch", _timed_fetch(fetcher.fetch))


def _timed_fetch(fetch: Callable[..., Any]) -> Callable[..., Any]:
    count = 0

    @functools.wraps(fetch)
    def timed(self: Any, indices: Any) -> Any:
        nonlocal count
        count += 1
        if count > BATCHES:
            return fetch(self, indices)
        stopwatch = Stopwatch()
        batch = fetch(self, indices)
        return Read(batch, stopwatch.read())

    return timed


def _wrap_optimizers(watch: Watch, patches: _Patches) -> None:
    begin = torch.optim.Optimizer.__init__
    seen = set()

    @functools.wraps(begin)
    def begun(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        kind = type(self)
        # A class that inherits its step from one that is wrapped has the wrapper already.
        if watch.over or kind.step in seen:
            return
        inner = kind.step

        @functools.wraps(inner)
        def step(self: Any, *arguments: Any, **named: Any) -> Any:
            # The step of a class may call that of the class above it.
            if watch.over or watch.inside:
                return inner(self, *arguments, **named)
            watch.entered(self)
            watch.inside = True
            try:
                result = inner(self, *arguments, **named)
            finally:
                watch.inside = False
            watch.left()
            return result

        seen.add(step)
        patches.put(kind, "step", step)

    patches.put(torch.optim.Optimizer, "__init__", begun)


def _wrap_ddp(watch: Watch, patches: _Patches) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel as Ddp

    register, builtin = Ddp.register_comm_hook, Ddp._register_builtin_comm_hook
    forward = Ddp.forward

    def hooked(self: Any, state: Any, hook: Any) -> None:
        atexit.register(time.sleep, LETTING_GO)
        register(self, state, hook if watch.over else _timed_hook(watch, hook))
        self._lacuna_hooked = True

    def built_in(self: Any, hook: Any) -> None:
        # PyTorch sums by itself and says nothing of it.
        builtin(self, hook)
        self._lacuna_hooked = True

    def passed(self: Any, *arguments: Any, **named: Any) -> Any:
        # The program may register its own hook until the first pass.
        if not watch.over and not getattr(self, "_lacuna_hooked", False):
            hooked(self, self.process_group, allreduce_hook)
        return forward(self, *arguments, **named)

    for name, value in (
        ("register_comm_hook", hooked),
        ("_register_builtin_comm_hook", built_in),
        ("forward", passed),
    ):
        patches.put(Ddp, name, functools.wraps(getattr(Ddp, name))(value))


def _timed_hook(watch: Watch, inner: Callable[..., Any]) -> Callable[..., Any]:
    def hook(state: Any, bucket: Any) -> Any:
        if watch.over:
            return inner(state, bucket)
        which = watch.launched(bucket.buffer().numel() * bucket.buffer().element_size())

        def then(future: Any) -> Any:
            watch.ended(which)
            return future.value()

        return inner(state, bucket).then(then)

    # PyTorch compares annotations with its own types.
    hook.__annotations__.clear()
    return hook


def folder(into: Path) -> None:
    """Makes the folder that ``PYTHONPATH`` has in front of an unchanged program."""
    here = Path(__file__).resolve().parent
    (into / "lacuna_stalls").mkdir(parents=True)
    (into / "lacuna_stalls" / "__init__.py").touch()
    for name in ("moments.py", "outside.py"):
        (into / "lacuna_stalls" / name).write_text((here / name).read_text())
    (into / "sitecustomize.py").write_text((here / "sitecustomize.py").read_text())
