"""Batches of a data set, read ahead by the worker processes of a PyTorch DataLoader.

The DataLoader gets an endless stream of tasks from here (:mod:`lacuna.reading`), so its workers
live as long as the training loop. It takes one task from the stream for each answer that it gives,
and answers in the order of the tasks. After a change of members the plan is another one:

* Tasks of the old plan that wait are passed over, so the workers are free after one sample.
* Samples that were read already stay with the worker that read them. Each share that needs one
  is cut into pieces, one for each worker, and is put together here. Workers read in parallel what
  is missing of it. So no sample is read again by this member, and the first batch comes soon, even
  if nothing was kept.
* Other shares are read and put together by one worker each, as in any DataLoader.

That PyTorch gives tasks to its workers in turn is used here (since 1.2, in all versions). If a
version did not, samples would be read twice, but no other ones would come.
"""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass, replace
from multiprocessing import active_children
from multiprocessing.connection import wait
from typing import Any, Callable, Iterator, Optional

import torch
from torch.utils.data import DataLoader, IterableDataset

from .moments import Loading, Reading
from .order import Share, cut
from .reading import Failure, ItemReader, Reader, Start, StreamReader, Task, together

#: The connections of a worker end some moments before it has ended for its parent: seconds that a
#: failure waits for that.
ENDING = 1.0

#: Gives this member's shares from the present position on.
Ahead = Callable[[], Iterator[Share]]


@dataclass
class _Planned:
    """A share, and how many tasks bring it."""

    share: Share
    tasks: int


class Feed:
    """Gives the batches of shares, and reads ahead what will probably come next.

    ``loader``: a DataLoader whose data set, functions and workers are used, but not its sampler.
    ``seed``: random numbers of each sample follow from it; None leaves them alone.
    """

    def __init__(self, loader: "DataLoader[Any]", seed: Optional[int]) -> None:
        data = loader.dataset
        self.is_stream = isinstance(data, IterableDataset)
        #: Samples of an epoch; None for a stream that does not say it.
        self.length = _length(data)
        self.data = data
        self._collate = loader.collate_fn
        #: Whether batches lie in pinned memory.
        self.pins = bool(loader.pin_memory)
        # All readers of a stream read all of it: more than one would only do the same.
        workers = min(1, loader.num_workers) if self.is_stream else loader.num_workers
        self._workers = max(1, workers)
        self.loading = Loading(workers, loader.prefetch_factor or 0 if workers > 0 else 0)
        #: How the last batch was read.
        self.reading: Optional[Reading] = None
        self._plan = torch.ones(1, dtype=torch.int64).share_memory_()
        self._ahead: Iterator[Share] = iter(())
        self._planned: deque[_Planned] = deque()
        self._unsent: deque[Task] = deque()
        self._sent: deque[Task] = deque()
        self._turn = 0
        self._floor = (0, 0)
        #: The worker that holds a sample, by epoch and place.
        self._kept: dict[tuple[int, int], int] = {}
        kind = StreamReader if self.is_stream else ItemReader
        reader = kind(data, self._collate, seed, self._plan)
        others = active_children()
        self._answers: Optional[Iterator[Any]] = iter(_like(loader, reader, workers, _Tasks(self)))
        self._processes = [one for one in active_children() if one not in others]

    def close(self) -> None:
        """Ends the workers."""
        self._plan += 1
        self._answers = None

    def take(self, share: Share, ahead: Ahead) -> tuple[Share, Any]:
        """The batch of a share; of a stream, the share may have become shorter.

        ``ahead`` gives the shares that will follow if no member changes, this one first. Raises
        RuntimeError with the program's own traceback for samples that cannot be read, and if a
        worker has died.
        """
        self.check(share)
        if not self._planned or not self._planned[0].share.is_same(share):
            self._plan_afresh(share, ahead)
        return self._arrived(self._planned.popleft())

    def check(self, share: Share) -> None:
        """Raises RuntimeError at the begin of an epoch if the data set has another length now."""
        if share.offset == 0 and _length(self.data) != self.length:
            raise RuntimeError(
                f"the data set has {_length(self.data)} samples now, it had {self.length} when "
                "run.steps() began: its length must stay the same"
            )

    def next_task(self) -> Task:
        """What PyTorch gives to the next worker in turn."""
        if not self._unsent:
            self._plan_one()
        task = self._unsent.popleft() if self._unsent else Task()
        self._sent.append(task)
        self._turn += 1
        return task

    def _plan_one(self, first: bool = False) -> None:
        share = next(self._ahead, None)
        if share is None:
            return
        # What it holds, an only worker puts together itself.
        kept = first or any((share.epoch, place) in self._kept for place in share.places)
        tasks = self._pieces(share) if kept and self._workers > 1 else [self._task(share)]
        self._planned.append(_Planned(share, len(tasks)))
        self._unsent.extend(tasks)

    def _plan_afresh(self, share: Share, ahead: Ahead) -> None:
        self._plan += 1
        self._ahead = iter(())
        self._planned.clear()
        self._unsent.clear()
        # Each answer makes PyTorch send another task, an idle one now: these are answered at once.
        for _ in range(len(self._sent)):
            self._receive()
        self._floor = (share.epoch, share.offset)
        self._ahead = ahead()
        self._plan_one(first=True)

    def _pieces(self, share: Share) -> list[Task]:
        """A task for each worker, in the order of their turns: what it holds, and a part of the
        rest."""
        turns = [(self._turn + i) % self._workers for i in range(self._workers)]
        places: dict[int, list[int]] = {worker: [] for worker in turns}
        missing = []
        for place in share.places:
            worker = self._kept.get((share.epoch, place))
            (missing if worker is None else places[worker]).append(place)
        for i, worker in enumerate(turns):
            begin, end = cut(len(missing), i, self._workers)
            places[worker] += missing[begin:end]
        return [self._task(share, sorted(places[worker]), whole=False) for worker in turns]

    def _task(
        self, share: Share, places: Optional[list[int]] = None, whole: bool = True
    ) -> Task:
        all_indices: list[int] = share.indices.tolist()
        begin = share.places.start
        mine = tuple(share.places if places is None else places)
        return Task(
            int(self._plan),
            *(share.epoch, share.offset, share.batch, share.rank, share.world_size, share.weights),
            mine,
            tuple(all_indices[place - begin] for place in mine),
            whole,
            self._floor,
        )

    def _receive(self) -> tuple[Task, list[Any]]:
        """The next answer, without its worker, and its task."""
        assert self._answers is not None, "the feed is closed"
        try:
            answer = next(self._answers)
        except Exception as error:
            # The end of a worker shows itself in many ways: tensors are fetched from it.
            ended = self._ended()
            if ended is None:
                raise
            raise RuntimeError(ended) from error
        task = self._sent.popleft()
        worker, count = answer[0], answer[1]
        for place in task.places[:count]:
            self._kept[task.epoch, place] = worker
        return task, answer[2:]

    def _ended(self) -> Optional[str]:
        """Which worker has ended and how, if one has: none ends by itself before the feed does."""
        ready = wait([one.sentinel for one in self._processes], ENDING)
        for number, one in enumerate(self._processes):
            if one.sentinel in ready:
                one.join(ENDING)
                code = one.exitcode
                how = f"with exit code {code}"
                if code is not None and code < 0:
                    how = f"by signal {-code} ({signal.strsignal(-code)})"
                return (
                    f"worker {number} of the DataLoader (process {one.pid}) ended {how}: where "
                    "memory ran out (signal 9), use fewer workers or smaller batches"
                )
        return None

    def _arrived(self, planned: _Planned) -> tuple[Share, Any]:
        share, samples, arrived = planned.share, {}, 0
        batch: Any = None
        readings: list[Reading] = []
        while arrived < planned.tasks:
            task, (data, failure, count, last, times) = self._receive()
            if task.plan != int(self._plan):
                continue
            arrived += 1
            if failure is not None:
                raise _error(failure)
            if times is not None:
                readings.append(Reading(*times))
            if task.whole:
                batch = data
            elif data is not None:
                samples.update(zip(task.places, data))
            if self.is_stream:
                share = self._shortened(share, count, last)
        if planned.tasks > 1:
            ordered = [samples[place] for place in share.places]
            batch, failure = together(self._collate, ordered, tuple(share.indices.tolist()))
            if failure is not None:
                raise _error(failure)
        # Of pieces that were read in parallel, the one that came last was waited for.
        self.reading = max(readings, key=lambda reading: reading.ended, default=None)
        self._floor = (share.epoch, share.offset)
        for key in [key for key in self._kept if key < self._floor]:
            del self._kept[key]
        return share, batch

    def _shortened(self, share: Share, count: int, last: bool) -> Share:
        """The share of a step that the end of the stream has cut."""
        end = share.offset + count
        wrong = last != (end >= self.length) if self.length is not None else last and count == 0
        if wrong:
            said = "is empty or has changed" if self.length is None else f"says {self.length}"
            raise RuntimeError(
                f"the stream of epoch {share.epoch} {'ends' if last else 'goes on'} after {end} "
                f"samples, but its data set {said}: each sample is used once only if the stream is "
                "the same at every member and each time"
            )
        share = replace(share, batch=count, last=last)
        places = share.places
        return replace(share, indices=torch.arange(places.start, places.stop))


class _Tasks:
    """The sampler of the DataLoader; it has no end."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        return self._feed.next_task()


def _like(
    loader: "DataLoader[Any]", reader: Reader, workers: int, tasks: _Tasks
) -> "DataLoader[Any]":
    """A DataLoader with the settings of another one, another data set and another sampler."""
    options: dict[str, Any] = {}
    if workers > 0:
        options = {
            "prefetch_factor": loader.prefetch_factor,
            "multiprocessing_context": loader.multiprocessing_context,
            "timeout": loader.timeout,
            "worker_init_fn": Start(loader.worker_init_fn),
        }
    if getattr(loader, "pin_memory_device", ""):
        options["pin_memory_device"] = loader.pin_memory_device
    made: "DataLoader[Any]" = DataLoader(
        reader,  # type: ignore[arg-type]
        batch_size=None,
        sampler=tasks,  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=loader.pin_memory,
        generator=loader.generator,
        **options,
    )
    return made


def _length(data: Any) -> Optional[int]:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None


def _as_it_is(answer: Any) -> Any:
    return answer


def _error(failure: Failure) -> RuntimeError:
    return RuntimeError(f"{failure[0]}:\n{failure[1]}")
