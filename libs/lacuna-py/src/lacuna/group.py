"""One process group: members meet, sum and part.

A group is built from the public interface of torch.distributed on a store that lives elsewhere,
under the prefix ``<token>/<trainer>/<run>/<attempt>``. The store of control opens to the token of a
run alone, and drops the keys of a run some time after its end. Found by measurement:

* Before the group is built, members meet by keys in the store. So no member enters
  ``init_process_group``, which cannot be cancelled, for a peer that never comes.
* No function here raises for a lost peer; failures are returned as text. An exception's
  traceback keeps the old group's sockets open, and then the peers wait for a timeout.
* Operations are waited for in portions, so that one with a paused peer can be abandoned when a
  newer run leaves that peer out. The abandoned group is kept by a thread of its own, since its
  destructor waits for its operations. Their tensors must not be used again.
* Of several operations under way those with a dead peer fail at once, one after the other. Only
  when all have ended does the end of the group close its sockets, by which the others notice.
* A group that could not be built changes the keys of all later ones: :func:`_forget_failure`.

The group is PyTorch's default one. Where that is the group of a node's workers, which hold the
shards of one model (:mod:`lacuna.sharding`), it is one of its own.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Iterable, Optional, Union

import torch
import torch.distributed as dist

from .keys import peek, put, version
from .messages import Membership, endpoint
from .network import choose_interface

log = logging.getLogger("lacuna")

#: Seconds between two polls of the members' keys: at first, and in a long wait.
POLL = 0.002
SLOW_POLL = 0.05
#: Seconds between two attempts to reach a store that does not answer.
RETRY = 0.1
#: An operation is waited for in portions of this many seconds. The end of a portion is an
#: exception with PyTorch's stack, which costs more than the wait for a small sum.
PORTION = 0.1
#: When one operation has failed, the others have this many seconds to fail as well.
DRAIN = 0.1
#: Seconds between two looks at operations on GPUs, whose waits cannot be cut into portions.
GPU_POLL = 0.0002
#: The limit of the last barrier, seconds.
FAREWELL = 0.2
#: A busy member without a new sign of life for this many seconds counts as silent, as at its agent.
BUSY_SILENCE = 5.0

#: The first version of PyTorch that can abort NCCL, see :func:`_abort_on_gpu`.
ABORTS = (2, 6)
#: Set to 0 unless the user has set them. By default NCCL's watchdog ends the process when a peer is
#: gone. Before that it sleeps a minute, for a dump. Each second it asks the store for a key that is
#: none of the run's. Source: PyTorch, "ProcessGroupNCCL Environment Variables" and its code.
NCCL = (
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
)

#: Called again and again during a wait; a text is the reason to give up.
Watch = Callable[[], Optional[str]]
#: Looks at a store until it returns True; hears whether the connection is new to it.
Look = Callable[[Any, bool], bool]


def _nothing() -> None:
    """What is called at the end of a sum without a listener."""


def check_backend(backend: str, wire: Optional[torch.dtype]) -> None:
    """Refuses messages that PyTorch here cannot carry. Raises ValueError with the remedy."""
    if backend == "nccl":
        raise ValueError("nccl carries no tensors of the CPU: backend='cpu:gloo,cuda:nccl'")
    if ":" in backend and version() < ABORTS:
        raise ValueError(
            f"backend {backend!r} needs PyTorch {ABORTS[0]}.{ABORTS[1]}, which can abort NCCL, "
            f"this is {torch.__version__}: leave it out, gloo sums tensors of GPUs too"
        )
    if wire not in (None, torch.float16, torch.bfloat16):
        raise ValueError(f"wire must be torch.float16 or torch.bfloat16, not {wire}")
    if wire == torch.bfloat16 and "gloo" in backend and version() < (2, 2):
        raise ValueError(
            f"gloo sums torch.bfloat16 from PyTorch 2.2 on, this is {torch.__version__}: "
            "use wire=torch.float16"
        )


def backend_of(parameters: Iterable[torch.Tensor]) -> str:
    """The backend without a setting: gloo, and NCCL for what is on GPUs if PyTorch here has it."""
    on_gpu = any(parameter.is_cuda for parameter in parameters)
    nccl = on_gpu and version() >= ABORTS and dist.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if nccl else "gloo"


@dataclass
class Rendezvous:
    """The way to the store; the connection is kept from one run to the next."""

    _endpoint: str = ""
    _store: Any = None
    #: The last sign of life of busy members, by key.
    _signs: dict[str, bytes] = field(default_factory=dict)

    def store(self, run: Membership, watch: Watch) -> tuple[Any, Optional[str]]:
        """The keys of a run in the store, as soon as it answers; or the reason to give up."""
        store, reason = self._connect(run.store, watch)
        return (None, reason) if store is None else (dist.PrefixStore(run.token, store), None)

    def once(self, run: Membership) -> Any:
        """The keys of a run in the store, if it answers at the first attempt; else None."""
        answers = iter([None])
        return self.store(run, lambda: next(answers, "no answer"))[0]

    def _connect(self, where: str, watch: Watch) -> tuple[Any, Optional[str]]:
        """The store, as soon as it answers; or the reason to give up."""
        if self._store is not None and self._endpoint == where:
            return self._store, None
        host, port = endpoint(where)
        warned = False
        while True:
            reason = watch()
            if reason is not None:
                return None, reason
            # PyTorch's own attempts cannot be cancelled, so a plain connection comes first.
            error = _probe(host, port)
            if error is None:
                try:
                    self._store = dist.TCPStore(
                        host,
                        port,
                        is_master=False,
                        wait_for_workers=False,
                        timeout=timedelta(seconds=5),
                    )
                    self._endpoint = where
                    choose_interface(host, port)
                    return self._store, None
                except (RuntimeError, OSError) as failure:
                    error = str(failure)
            if not warned:
                log.warning("the store at %s does not answer: %s", where, error)
                warned = True
            time.sleep(RETRY)

    def drop(self) -> None:
        """The connection is broken; the next use makes a new one."""
        self._store = None

    def meet(
        self, prefix: str, run: Membership, card: dict[str, Any], watch: Watch, limit: float
    ) -> Union[list[dict[str, Any]], str]:
        """Shows the own card and waits for those of all members; or the reason to give up.

        ``limit``: seconds for which the others are waited for at a store that answers; a busy one
        is waited for as long as it shows signs of life. A store that refuses the token is tried for
        as long. One that meets a later group of the run already is not waited for.
        """
        key = f"{prefix}/card/{{}}".format
        trainer = prefix.rsplit("/", 2)[0]
        cards: dict[int, dict[str, Any]] = {}
        end, refused = 0.0, time.monotonic() + limit
        here, ahead = met(f"meets {prefix}".encode()), ""

        def look(store: Any, first: bool) -> bool:
            nonlocal end, ahead
            if first:
                put(store, key(run.rank), json.dumps(card))
                put(store, doing(trainer, run, run.rank), f"meets {prefix}")
                end = time.monotonic() + limit
            for rank in range(run.world_size):
                if rank not in cards:
                    text = peek(store, key(rank))
                    if not text:
                        does = doing(trainer, run, rank)
                        if self.lives(store, does):
                            end = time.monotonic() + max(limit, BUSY_SILENCE)
                        elif met(peek(store, does)) > here:
                            ahead = run.members[rank]
                        return ahead != "" or time.monotonic() > end
                    cards[rank] = json.loads(text)
            return True

        def lost() -> Optional[str]:
            return f"the store failed for {limit:g} s" if time.monotonic() > refused else None

        reason = self.poll(run, look, watch, lost)
        missing = [name for rank, name in enumerate(run.members) if rank not in cards]
        if reason is None and ahead:
            reason = f"{ahead} meets a later group already"
        elif reason is None and missing:
            reason = f"not met within {limit:g} s: {', '.join(missing)}"
        return [cards[rank] for rank in range(run.world_size)] if reason is None else reason

    def withdraw(self, prefix: str, run: Membership) -> None:
        """Takes the own card back: who comes later would wait for this member in vain."""
        store = self.once(run)
        try:
            if store is not None:
                put(store, f"{prefix}/card/{run.rank}", "")
        except (RuntimeError, OSError) as failure:
            self.drop()
            log.debug("the card stays in the store: %s", failure)

    def announce(self, prefix: str, run: Membership, watch: Watch) -> Optional[str]:
        """Announces that the state is available; or returns the reason to give up."""

        def set_key(store: Any, first: bool) -> bool:
            put(store, f"{prefix}/loaded", "yes")
            return True

        return self.poll(run, set_key, watch)

    def await_announced(self, prefix: str, run: Membership, watch: Watch) -> Optional[str]:
        """Waits for :meth:`announce` of another member; or the reason to give up."""
        return self.poll(
            run, lambda store, first: peek(store, f"{prefix}/loaded") is not None, watch
        )

    def lives(self, store: Any, key: str) -> bool:
        """Whether a member is busy and has shown a new sign of life."""
        value = peek(store, key)
        if value is None or not value.startswith(b"busy ") or self._signs.get(key) == value:
            return False
        self._signs[key] = value
        return True

    def poll(
        self, run: Membership, look: Look, watch: Watch, lost: Watch = lambda: None
    ) -> Optional[str]:
        """Looks every few milliseconds, on a new connection if the store fails.

        ``look`` hears whether the connection is new to it: a restarted store has no
        keys. ``lost``: asked when the store has failed; a store that refuses the token fails again
        and again. Returns the reason to give up, None if ``look`` has succeeded.
        """
        began = time.monotonic()
        warned = False
        while True:
            store, reason = self.store(run, watch)
            if reason is not None:
                return reason
            first = True
            try:
                while not look(store, first):
                    first = False
                    reason = watch()
                    if reason is not None:
                        return reason
                    waited = time.monotonic() - began
                    time.sleep(min(POLL + 0.01 * waited, SLOW_POLL))
                return None
            except (RuntimeError, OSError) as failure:
                if not warned:
                    log.warning("the store failed, it is tried again: %s", failure)
                warned = True
            self.drop()
            reason = lost()
            if reason is not None:
                return reason
            time.sleep(RETRY)


def doing(trainer: str, run: Membership, rank: int) -> str:
    """The key under which a member shows what it does outside of steps."""
    return f"{trainer}/doing/{run.members[rank]}"


def met(shown: Optional[bytes]) -> tuple[int, int]:
    """Run and attempt of the group that a member shows that it meets, (0, 0) if it shows none."""
    if shown is None or not shown.startswith(b"meets "):
        return 0, 0
    _, number, attempt = shown.decode().rsplit("/", 2)
    return int(number), int(attempt.split(".")[0])


class Group:
    """The members that train together now; of one member, no process group is needed.

    ``timeout``: seconds of silence in an operation. ``among``: the process group, None for
    PyTorch's default one.
    """

    def __init__(
        self, rank: int, world_size: int, timeout: float = 0.0, among: Optional[Any] = None
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        self._timeout = timeout
        self._among = among
        self._closed = False
        #: Operations under way, in the order in which they were launched.
        self._pending: "deque[_Operation]" = deque()
        #: Why an operation could not be launched.
        self._failure: Optional[str] = None

    @classmethod
    def form(
        cls,
        store: Any,
        prefix: str,
        run: Membership,
        timeout: float,
        backend: str,
        patience: float,
        apart: bool = False,
    ) -> Union["Group", str]:
        """Builds the process group of members that have met; or why it could not be built.

        ``timeout``: seconds of silence in an operation of the group, and of PyTorch's own wait for
        the others' addresses; ``patience``: the same for what it reads from the store. ``apart``:
        the default group is another one.
        """
        if run.world_size == 1:
            return cls(run.rank, 1)
        try:
            # The store's own is five seconds.
            store.set_timeout(timedelta(seconds=patience))
            meeting = dist.PrefixStore(prefix, store)
            limit = timedelta(seconds=timeout)
            if apart:
                among = dist.ProcessGroupGloo(meeting, run.rank, run.world_size, limit)
                return cls(run.rank, run.world_size, timeout, among)
            if "nccl" in backend:
                for name in NCCL:
                    os.environ.setdefault(name, "0")
            dist.init_process_group(
                backend, store=meeting, rank=run.rank, world_size=run.world_size, timeout=limit
            )
            return cls(run.rank, run.world_size, timeout)
        except (RuntimeError, OSError, ValueError) as failure:
            text = str(failure)
        if not apart:
            if dist.is_initialized():
                dist.destroy_process_group()
            else:
                _forget_failure()
        return f"the group could not be built: {text}"

    @classmethod
    def adopted(cls, among: Optional[Any]) -> "Group":
        """The process group that exists already (``torchrun``)."""
        return cls(dist.get_rank(among), dist.get_world_size(among), among=among)

    def launch(self, tensor: torch.Tensor, ended: Callable[[], None] = _nothing) -> None:
        """Begins to sum a tensor over all members, in place; :meth:`wait` tells how it went.

        All members launch the same sums in the same order. ``ended`` is called when the sum is
        seen to have ended, in :meth:`look` or in :meth:`wait`: never by another thread, which
        might outlive the interpreter.
        """
        self._launch(
            tensor, lambda: dist.all_reduce(tensor, group=self._among, async_op=True), ended
        )

    def look(self) -> None:
        """Looks whether sums have ended, in the order in which they were launched."""
        # A thread may close the group meanwhile.
        for operation in tuple(self._pending):
            if not operation.seen:
                if not operation.work.is_completed():
                    return
                operation.see()

    def broadcast(self, tensor: torch.Tensor, source: int, watch: Watch) -> Optional[str]:
        """Copies a tensor from one member to all, in place; the reason if it failed."""
        # Of a group apart, PyTorch 1.13 has none.
        where = {"src": source} if self._among is None else {"group_src": source}
        self._launch(
            tensor, lambda: dist.broadcast(tensor, group=self._among, async_op=True, **where)
        )
        return self.wait(watch)

    def wait(self, watch: Watch) -> Optional[str]:
        """Waits for all that was launched; the reason if anything failed."""
        # Those on the CPU come first: they fail at once for a dead peer, those on GPUs do not.
        operations = sorted(self._pending, key=lambda operation: operation.on_gpu)
        failure, given_up = self._failure, False
        for operation in operations:
            if failure is None:
                failure, given_up = self._outcome(operation, watch)
        if failure is None:
            self._pending.clear()
        elif not given_up:
            end = time.monotonic() + DRAIN
            while not self._ended() and time.monotonic() < end:
                time.sleep(POLL)
        return failure

    def part(self, words: Optional[torch.Tensor] = None) -> bool:
        """Ends a group at a boundary that all have agreed on. True if all took part.

        ``words`` are summed over all members, in place; they are invalid if not all took part. With
        this barrier all members read the last sum before the first socket closes.
        """
        if self.world_size == 1:
            return True
        end = time.monotonic() + FAREWELL
        self.launch(torch.zeros(1) if words is None else words)
        failure = self.wait(lambda: "time is up" if time.monotonic() > end else None)
        self.close()
        return failure is None

    def close(self) -> None:
        """Closes the sockets, so that peers that wait for this member wait no more."""
        if self.world_size == 1 or self._closed:
            return
        self._closed = True
        self._failure = self._failure or "this member has left the group"
        apart, self._among = self._among, None
        if apart is None and any(operation.on_gpu for operation in self._pending):
            _abort_on_gpu()
        ended = self._ended()
        kept = [apart or dist.group.WORLD, *(operation.work for operation in self._pending)]
        self._pending.clear()
        if apart is None and dist.is_initialized():
            dist.destroy_process_group()
        # A group apart ends with the last reference to it.
        del apart
        if not ended:
            threading.Thread(target=_outlast, args=(kept,), name="lacuna-old", daemon=True).start()
        del kept

    def _ended(self) -> bool:
        return all(operation.work.is_completed() for operation in self._pending)

    def _launch(
        self, tensor: torch.Tensor, begin: Callable[[], Any], ended: Callable[[], None] = _nothing
    ) -> None:
        if self.world_size == 1 or self._failure is not None:
            return
        try:
            self._pending.append(_Operation(begin(), tensor.is_cuda, ended))
        except (RuntimeError, OSError, ValueError) as failure:
            self._failure = str(failure)

    def _outcome(self, operation: "_Operation", watch: Watch) -> tuple[Optional[str], bool]:
        """Why an operation failed, or None; and whether ``watch`` has given it up."""
        work, began = operation.work, time.monotonic()
        while operation.on_gpu and not work.is_completed():
            reason = watch()
            if reason is None and time.monotonic() - began > self._timeout > 0.0:
                reason = f"a sum on the GPU took more than {self._timeout:g} s"
            if reason is not None:
                return reason, True
            time.sleep(GPU_POLL)
        while True:
            # It may end between a portion's timeout and the question whether it has ended, so the
            # answer is always that of a wait that began after the end.
            ended = work.is_completed()
            try:
                work.wait(timedelta(seconds=PORTION))
                operation.see()
                return None, False
            except RuntimeError as failure:
                if ended:
                    return str(failure), False
            reason = None if work.is_completed() else watch()
            if reason is not None:
                return reason, True


@dataclass
class _Operation:
    """An operation of torch.distributed."""

    work: Any
    on_gpu: bool
    ended: Callable[[], None]
    #: Whether it is known to have ended.
    seen: bool = False

    def see(self) -> None:
        """It is known to have ended."""
        if not self.seen:
            self.seen = True
            self.ended()


def _abort_on_gpu() -> None:
    """Ends all operations of NCCL at once: they do not notice that a peer is gone.

    PyTorch 2.6 or newer can; before, the destructor aborts (not tested, for want of a GPU).
    """
    abort = getattr(dist.group.WORLD, "abort", None)
    if abort is not None:
        abort()


def _forget_failure() -> None:
    """Sets PyTorch's count of groups back, as the end of a working group does.

    The count is part of the keys under which members of a group find each other. A group that
    could not be built leaves the count one higher at this member alone: it would never meet the
    others again. A group of one member, built and destroyed, is the public way to set it back.
    """
    try:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        dist.destroy_process_group()
    except (RuntimeError, OSError, ValueError) as failure:
        log.warning("PyTorch's count of groups stays as it is: %s", failure)


#: Held by a thread of :func:`_outlast` while it is within PyTorch, and for good when the interpreter
#: ends: a thread that is ended there aborts the process.
_LOOKING = threading.Lock()
atexit.register(_LOOKING.acquire)


def _outlast(kept: list[Any]) -> None:
    """Holds an abandoned group until its operations have ended by their own timeouts."""
    while True:
        with _LOOKING:
            if all(work.is_completed() for work in kept[1:]):
                kept.clear()
                return
        time.sleep(0.05)


def _probe(host: str, port: int) -> Optional[str]:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return None
    except OSError as error:
        return str(error)
