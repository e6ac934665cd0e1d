"""The worker's side of loading: samples are read by their places, and held until they are used.

A reader is the data set of PyTorch's DataLoader, so this code runs in its worker processes, or in
the program itself if there are none. It answers tasks. What it has read stays with it until
training has gone past it. So after a change of members it is not read again, though the shares are
other ones then.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import traceback
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch
from torch.utils.data import Subset, get_worker_info

from .moments import Stopwatch
from .order import ENDLESS, given, mixed

#: Asks for a signal at the death of the parent (prctl(2)).
_PR_SET_PDEATHSIG = 1


class Task(NamedTuple):
    """What a reader is asked for."""

    #: Tasks of another plan than the newest one are passed over: always those of plan 0.
    plan: int = 0
    epoch: int = 0
    #: Place of the step's first sample, and the step's samples, as in a share.
    offset: int = 0
    batch: int = 0
    rank: int = 0
    world_size: int = 1
    weights: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    #: Indices of these places in the data set.
    indices: tuple[int, ...] = ()
    #: Whether the samples are put together, as a batch; else they come one by one.
    whole: bool = True
    #: Epoch and place before which nothing is needed any more.
    floor: tuple[int, int] = (0, 0)


class Failure(NamedTuple):
    """Why samples could not be read."""

    #: What failed, for which samples.
    what: str
    trace: str


#: The answer: the worker, how many of the places it holds, the batch or the samples, the failure,
#: and of a stream: samples that the step really has, and whether the stream ends with them. Last
#: comes how it was read (:class:`~lacuna.moments.Reading`), None for a task that was passed over.
#: A list, which PyTorch's thread for pinned memory looks into.
Reply = list[Any]

Collate = Callable[[list[Any]], Any]


class Reader(ABC):
    """What readers of all kinds have in common."""

    def __init__(
        self, data: Any, collate: Collate, seed: Optional[int], plan: torch.Tensor
    ) -> None:
        self.data = data
        self._collate = collate
        self._seed = seed
        #: Number of the newest plan, in memory that the program shares with its workers.
        self._plan = plan
        self._held: dict[tuple[int, int], Any] = {}

    def __getitem__(self, task: Task) -> Reply:
        info = get_worker_info()
        worker = 0 if info is None else int(info.id)
        if self._is_stale(task):
            return [worker, 0, None, None, task.batch, False, None]
        watch = Stopwatch()
        self._held = {k: v for k, v in self._held.items() if k >= task.floor}
        answer = self._answer(task)
        return [worker, *answer, list(watch.read())]

    @abstractmethod
    def _answer(self, task: Task) -> list[Any]:
        """The reply to a task of the present plan, without the worker and its times."""

    def _together(self, samples: list[Any], task: Task) -> tuple[Any, Optional[Failure]]:
        if not task.whole:
            return samples, None
        return together(self._collate, samples, task.indices)

    def _is_stale(self, task: Task) -> bool:
        return int(self._plan) != task.plan

    def _sow(self, epoch: int, number: int) -> None:
        """Random numbers of a sample follow from the epoch and the sample, at any reader."""
        if self._seed is None:
            return
        seed = mixed(self._seed, "sample", epoch, number)
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed & 0xFFFFFFFF)


class ItemReader(Reader):
    """Reads a data set that gives each sample by its index."""

    def _answer(self, task: Task) -> list[Any]:
        held, count = self._held, 0
        failure: Optional[Failure] = None
        if _gives_many(self.data):
            failure = self._read_many(task)
        else:
            for place, index in zip(task.places, task.indices):
                if (task.epoch, place) not in held:
                    if self._is_stale(task):
                        return [count, None, None, task.batch, False]
                    failure = self._read(task.epoch, place, index)
                    if failure:
                        break
                count += 1
        if failure:
            return [count, None, failure, task.batch, False]
        samples = [held[task.epoch, place] for place in task.places]
        batch, failure = self._together(samples, task)
        return [len(samples), batch, failure, task.batch, False]

    def _read(self, epoch: int, place: int, index: int) -> Optional[Failure]:
        self._sow(epoch, index)
        try:
            self._held[epoch, place] = self.data[index]
            return None
        except Exception:  # noqa: BLE001 - the program's own code; it is raised there.
            return Failure(f"sample {index} could not be read", traceback.format_exc())

    def _read_many(self, task: Task) -> Optional[Failure]:
        """All at once, from a data set that offers it as PyTorch's own fetcher asks for it."""
        places = [
            (place, index)
            for place, index in zip(task.places, task.indices)
            if (task.epoch, place) not in self._held
        ]
        if not places:
            return None
        indices = [index for _, index in places]
        self._sow(task.epoch, indices[0])
        try:
            samples = self.data.__getitems__(indices)
        except Exception:  # noqa: BLE001 - as above.
            return Failure(f"samples {indices} could not be read", traceback.format_exc())
        for (place, _), sample in zip(places, samples):
            self._held[task.epoch, place] = sample
        return None


class StreamReader(Reader):
    """Reads an iterable data set: sample n of an epoch is the n-th that its iterator gives.

    It reads the whole step and one sample more, so every member finds the same end. The
    samples of other members are held as well, since a change of members may make them its own.
    """

    def __init__(
        self, data: Any, collate: Collate, seed: Optional[int], plan: torch.Tensor
    ) -> None:
        super().__init__(data, collate, seed, plan)
        self._iterator: Iterator[Any] = iter(())
        self._epoch = -1
        #: Number of the sample that comes next.
        self._next = 0
        #: Samples of the epochs whose end was found.
        self._ends: dict[int, int] = {}

    def _answer(self, task: Task) -> list[Any]:
        with _the_only_process():
            failure = self._reach(task)
        if failure or self._is_stale(task):
            return [0, None, failure, 0, False]
        end = self._ends.get(task.epoch, ENDLESS)
        count = max(0, min(task.batch, end - task.offset))
        last = end <= task.offset + task.batch
        if count == 0:
            return [0, None, None, count, last]
        begin, stop = given(count, task.rank, task.world_size, task.weights)
        numbers = tuple(range(task.offset + begin, task.offset + stop))
        samples = [self._held[task.epoch, number] for number in numbers]
        batch, failure = self._together(samples, task._replace(indices=numbers))
        return [len(samples), batch, failure, count, last]

    def _reach(self, task: Task) -> Optional[Failure]:
        """Reads on until the step and one sample more are held, or the stream has ended."""
        epoch, stop = task.epoch, task.offset + task.batch + 1
        needed = range(task.offset, min(stop, self._ends.get(epoch, stop)))
        missing = next((n for n in needed if (epoch, n) not in self._held), None)
        if missing is None:
            return None
        try:
            if epoch != self._epoch or missing < self._next:
                self._open(epoch, missing)
            while self._next < stop and epoch not in self._ends and not self._is_stale(task):
                self._sow(epoch, self._next)
                try:
                    sample = next(self._iterator)
                except StopIteration:
                    self._ends[epoch] = self._next
                    break
                if (epoch, self._next) >= task.floor:
                    self._held[epoch, self._next] = sample
                self._next += 1
            return None
        except Exception:  # noqa: BLE001 - the program's own code; it is raised there.
            self._epoch = -1
            what = f"sample {self._next} of the stream could not be read"
            return Failure(what, traceback.format_exc())

    def _open(self, epoch: int, number: int) -> None:
        """Begins the epoch again, at a sample if the data set can (``starting_at``)."""
        data = self.data
        self._ends.pop(epoch, None)
        self._next = 0
        if hasattr(data, "set_epoch"):
            data.set_epoch(epoch)
        if hasattr(data, "starting_at"):
            self._iterator, self._next = iter(data.starting_at(number)), number
        else:
            self._iterator = iter(data)
        self._epoch = epoch


@contextmanager
def _the_only_process() -> Iterator[None]:
    """The environment of a training of one process.

    Streams such as webdataset's share themselves out by it, or refuse several nodes. Here every
    member reads the whole stream, and the shares are Lacuna's.
    """
    others = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    os.environ.update(RANK="0", WORLD_SIZE="1")
    try:
        yield
    finally:
        for name, value in others.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _gives_many(data: Any) -> bool:
    """Whether a data set has its own way to give several samples at once.

    A ``Subset`` of PyTorch 2 only passes that on.
    """
    if isinstance(data, Subset):
        return _gives_many(data.dataset) and hasattr(data, "__getitems__")
    return hasattr(data, "__getitems__")


def together(
    collate: Collate, samples: list[Any], indices: tuple[int, ...]
) -> tuple[Any, Optional[Failure]]:
    """The batch of some samples, or why they could not be put together."""
    try:
        return collate(samples), None
    except Exception:  # noqa: BLE001 - the program's own code; it is raised there.
        what = f"the samples {list(indices)} could not be put together"
        return None, Failure(what, traceback.format_exc())


class Start:
    """The first work of a worker process.

    It ends when its trainer ends, however that ends: else it would hold the trainer's memory and
    files for some seconds more. Signals to the trainer's process group do not reach it, since
    PyTorch makes the end of a worker an error of the trainer, which is to leave in order.
    """

    def __init__(self, then: Optional[Callable[[int], None]]) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        info = get_worker_info()
        if info is not None:
            # The program's own function expects its own data set there; PyTorch means it as frozen.
            object.__setattr__(info, "dataset", info.dataset.data)
        if self._then is not None:
            self._then(worker)
