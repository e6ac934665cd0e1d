"""The member's side of remote loading: batches that loaders on other nodes prepare.

The shares that come next wait in a queue. Whatever is free takes the next one: each of the two
connections to a loader, and the member's own workers (:class:`~lacuna.feed.Feed`). So a slow
loader takes fewer. Batches are given out in the order of the shares, each once. A share whose
loader is lost goes back to its place in the queue, and one that the program waits for too long is
given to a second one; the first answer counts. Without loaders the member reads as ever.

Rank 0 writes where loaders find the newest run, into a file that its user alone can read. Loaders
show their addresses in that run's store, under ``<trainer>/loaders/<number>``.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import torch

from .feed import Ahead, Feed
from .frames import HELLO_LIMIT, Refused, decoded, introduce, receive, send, stay
from .group import Rendezvous
from .keys import peek
from .messages import Membership, endpoint
from .moments import Loading, Reading, clock
from .order import Share

log = logging.getLogger("lacuna")

#: Connections to a loader: while one carries a batch, the loader reads for the other.
LANES = 2
#: Seconds between two looks for new loaders.
LOOK = 0.3
#: A loader is connected to this often in a run, however often it is lost.
ATTEMPTS = 3
#: A batch that the program has waited for this many times the longest usual time, and at least
#: PATIENCE seconds, is given to a second reader.
TOO_LONG = 4.0
PATIENCE = 1.0


@dataclass(eq=False)
class _Job:
    """A share in the queue."""

    share: Share
    #: Whether a reader has it.
    taken: bool = False
    done: bool = False
    batch: Any = None
    reading: Optional[Reading] = None
    #: Why the member itself could not read it.
    error: Optional[BaseException] = None


@dataclass
class _Loader:
    """A loader that was seen in the store."""

    attempts: int = 0
    #: Connections that are made or exist, and those that have said hello.
    begun: int = 0
    lanes: int = 0
    #: Why it is not asked any more.
    refused: bool = False


class Remote:
    """A source (:class:`~lacuna.data.Source`) that is read here and by loaders elsewhere."""

    def __init__(
        self,
        feed: Feed,
        seed: Optional[int],
        trainer: str,
        newest: Callable[[], Optional[Membership]],
        file: str,
    ) -> None:
        """``newest`` gives the newest run. Raises OSError if the folder of ``file`` is not there.
        """
        self._feed = feed
        self.length = feed.length
        self.reading: Optional[Reading] = None
        self._workers = feed.loading.workers
        self._hello = {"length": feed.length, "seed": seed}
        self._pin = feed.pins and torch.cuda.is_available()
        self._trainer = trainer
        self._newest = newest
        self._file = Path(file)
        if not self._file.parent.is_dir():
            raise OSError(f"loaders={file!r}: its folder does not exist")
        self._changed = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._ahead: Iterator[Share] = iter(())
        self._floor = (0, 0)
        self._loaders: dict[str, _Loader] = {}
        self._sockets: set[socket.socket] = set()
        self._longest = 0.0
        self._closed = False
        self._written: Optional[int] = None
        jobs = [self._find, *([self._read_here] if self._workers > 0 else [])]
        self._threads = [
            threading.Thread(target=job, name="lacuna-load", daemon=True) for job in jobs
        ]
        for thread in self._threads:
            thread.start()

    @property
    def loading(self) -> Loading:
        """The member's workers and the loaders that it has."""
        here = self._feed.loading
        found = self.loaders
        if found == 0:
            return here
        return Loading(here.workers + found, max(here.depth, LANES), found)

    @property
    def loaders(self) -> int:
        """Loaders that are connected now."""
        return sum(loader.lanes > 0 for loader in tuple(self._loaders.values()))

    def close(self) -> None:
        """Ends the workers and the connections; loaders find no training any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for connection in self._sockets:
                _end(connection)
        self._feed.close()
        for thread in self._threads:
            thread.join(2.0)
        if self._written is not None and self._says() == self._written:
            self._file.unlink(missing_ok=True)

    def take(self, share: Share, ahead: Ahead) -> tuple[Share, Any]:
        """The batch of a share, as :meth:`lacuna.feed.Feed.take` gives it."""
        self._feed.check(share)
        with self._changed:
            if not self._queue or not self._queue[0].share.is_same(share):
                self._plan(ahead)
            self._fill()
            job = self._queue[0]
        while self._is_mine(job):
            batch = self._feed.take(share, lambda: iter([share]))[1]
            with self._changed:
                self._done(job, batch, self._feed.reading)
        if job.error is not None:
            raise job.error
        with self._changed:
            self._queue.popleft()
            self._floor = (share.epoch, share.offset)
        self.reading = job.reading
        return share, job.batch

    def _is_mine(self, job: _Job) -> bool:
        """Waits until a share is read; True if the program itself must read it."""
        began, patience = time.monotonic(), 0.0
        with self._changed:
            while not job.done and job.error is None:
                if self._workers == 0 and not job.taken:
                    job.taken = True
                    return True
                self._changed.wait(0.5)
                patience = max(patience, PATIENCE, TOO_LONG * self._longest)
                if time.monotonic() - began > patience:
                    # The first answer counts. A loader that hangs answers late or never.
                    job.taken, began, patience = False, time.monotonic(), 2.0 * patience
                    self._changed.notify_all()
        return False

    # The queue; called with the lock held.

    def _plan(self, ahead: Ahead) -> None:
        """Another plan: what is the same share in both stays."""
        old = {_key(job.share): job for job in self._queue}
        self._queue.clear()
        self._ahead = ahead()
        self._fill(old)

    def _fill(self, old: Optional[dict[object, _Job]] = None) -> None:
        """The queue has twice the shares that all can read at a time."""
        here = self._feed.loading
        at_once = here.workers * max(here.depth, 1) + LANES * self.loaders
        while len(self._queue) < 2 + 2 * at_once:
            share = next(self._ahead, None)
            if share is None:
                break
            known = (old or {}).get(_key(share))
            self._queue.append(known if known is not None else _Job(share))
        self._changed.notify_all()

    def _done(self, job: _Job, batch: Any, reading: Optional[Reading]) -> None:
        if not job.done:
            job.batch, job.reading, job.done = batch, reading, True
            if reading is not None:
                self._longest = max(0.9 * self._longest, reading.ended - reading.began)
        self._changed.notify_all()

    # Readers, each with a thread.

    def free(self) -> Optional[_Job]:
        """The next share that no reader has, taken now."""
        with self._changed:
            job = next((j for j in self._queue if not (j.taken or j.done or j.error)), None)
            if job is not None:
                job.taken = True
            return job

    def wait_free(self) -> Optional[_Job]:
        """Waits for a share to read; None at the end."""
        with self._changed:
            while not self._closed:
                job = self.free()
                if job is not None:
                    return job
                self._changed.wait()
        return None

    def queued(self, jobs: deque[_Job]) -> deque[_Job]:
        """Those of some shares that the program will still take."""
        with self._changed:
            return deque(job for job in jobs if job in self._queue)

    def _read_here(self) -> None:
        """Gives shares to the member's own workers, and takes their batches."""
        mine = _Mine(self)
        while (job := mine.first()) is not None:
            try:
                batch = self._feed.take(job.share, mine.ahead)[1]
            except Exception as error:  # noqa: BLE001 - the program's loop raises it.
                with self._changed:
                    for one in mine.jobs:
                        one.error = None if one.done else error
                    self._changed.notify_all()
                return
            with self._changed:
                mine.jobs.popleft()
                self._done(job, batch, self._feed.reading)

    # Loaders.

    def _find(self) -> None:
        """Looks for loaders again and again, each by its number in the newest run's store."""
        rendezvous, run = Rendezvous(), None
        known: dict[int, str] = {}
        while not self._closed:
            newest = self._newest()
            if newest is not None and newest.store:
                if run is None or newest.run != run.run:
                    run, known = newest, {}
                    for loader in self._loaders.values():
                        loader.attempts = 0
                if run.rank == 0 and self._written != run.run:
                    self._write(run)
                try:
                    self._look(rendezvous.once(run), known)
                except (RuntimeError, OSError, ValueError) as failure:
                    # A store that has started again numbers loaders from one on.
                    rendezvous.drop()
                    known.clear()
                    log.debug("loaders are not known: %s", failure)
                for address in set(known.values()):
                    self._connect(address, run)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, LOOK)

    def _look(self, store: Any, known: dict[int, str]) -> None:
        if store is None:
            return
        count = store.add(f"{self._trainer}/loaders", 0)
        for number in range(1, count + 1):
            if number not in known:
                said = peek(store, f"{self._trainer}/loaders/{number}")
                if said is not None:
                    known[number] = said.decode()

    def _connect(self, address: str, run: Membership) -> None:
        if not address:
            return
        with self._changed:
            loader = self._loaders.setdefault(address, _Loader())
            if loader.begun or loader.refused or loader.attempts >= ATTEMPTS:
                return
            loader.attempts += 1
            loader.begun = LANES
        for _ in range(LANES):
            arguments = (address, loader, run.token)
            threading.Thread(
                target=self._lane, args=arguments, name="lacuna-lane", daemon=True
            ).start()

    def _lane(self, address: str, loader: _Loader, token: str) -> None:
        """Reads one share after the other by a loader, until one of both ends."""
        job: Optional[_Job] = None
        greeted = False
        try:
            with socket.create_connection(endpoint(address), timeout=HELLO_LIMIT) as connection:
                with self._changed:
                    self._sockets.add(connection)
                try:
                    self._greet(connection, token)
                    with self._changed:
                        greeted, loader.lanes = True, loader.lanes + 1
                    while (job := self.wait_free()) is not None:
                        self._by_loader(connection, job)
                finally:
                    with self._changed:
                        self._sockets.discard(connection)
        except Refused as reason:
            if not loader.refused:
                log.warning("the loader at %s is not asked: %s", address, reason)
            loader.refused = True
        except (OSError, ValueError, LookupError, TypeError) as failure:
            if not self._closed:
                log.info("the loader at %s is lost: %s", address, failure)
        finally:
            with self._changed:
                loader.begun -= 1
                loader.lanes -= greeted
                if job is not None:
                    # Another one reads it.
                    job.taken = False
                self._changed.notify_all()

    def _greet(self, connection: socket.socket, token: str) -> None:
        introduce(connection, token)
        node = os.environ.get("LACUNA_NODE") or socket.gethostname()
        send(connection, {**self._hello, "member": f"{node}/{os.getpid()}"})
        refused = receive(connection)[0].get("refused")
        if refused is not None:
            raise Refused(str(refused))
        stay(connection)

    def _by_loader(self, connection: socket.socket, job: _Job) -> None:
        share = job.share
        task = {
            "epoch": share.epoch,
            "places": list(share.places),
            "indices": share.indices.tolist(),
            "floor": list(self._floor),
        }
        send(connection, task)
        reply, data = receive(connection)
        if reply["failure"] is not None:
            raise Refused(": ".join(map(str, reply["failure"])).strip(": "))
        batch = decoded(reply["text"], data, self._pin)
        # Of a loader that serves several members, each has a part of the time.
        members, ended = max(1, int(reply["members"])), clock()
        took, prep = (members * float(reply[name]) for name in ("took", "prep"))
        reading = Reading(ended - took, ended, prep)
        with self._changed:
            self._done(job, batch, reading)

    # The file.

    def _write(self, run: Membership) -> None:
        text = {"trainer": self._trainer, "run": run.run, "store": run.store, "token": run.token}
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            draft.unlink(missing_ok=True)
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(text, file)
            os.replace(draft, self._file)
        except OSError as failure:
            log.warning("loaders cannot find this run, %s: %s", self._file, failure)
        self._written = run.run

    def _says(self) -> Optional[int]:
        try:
            run: int = json.loads(self._file.read_text())["run"]
            return run
        except (OSError, ValueError, LookupError, TypeError):
            return None


class _Mine:
    """The shares that the member's own workers have, in their order; an iterator without an end.

    It may give nothing now and more later: the feed asks again with each answer.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self.jobs: deque[_Job] = deque()
        #: Those that the feed does not know.
        self._unplanned: deque[_Job] = deque()

    def first(self) -> Optional[_Job]:
        """The share to be taken next; None at the end."""
        self.jobs = self._remote.queued(self.jobs)
        if not self.jobs:
            job = self._remote.wait_free()
            if job is None:
                return None
            self.jobs.append(job)
        return self.jobs[0]

    def ahead(self) -> "_Mine":
        """For the feed's new plan: all from the first one on."""
        self._unplanned = deque(self.jobs)
        return self

    def __iter__(self) -> "_Mine":
        return self

    def __next__(self) -> Share:
        if self._unplanned:
            return self._unplanned.popleft().share
        job = self._remote.free()
        # One that is read too slowly here is not read here twice.
        if job is None or job in self.jobs:
            raise StopIteration
        self.jobs.append(job)
        return job.share


def _key(share: Share) -> object:
    return share._part


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
