"""The thread that listens while the program computes.

It talks to the agent, hears signals, and watches for the deadline. The training loop only
reads its results (:attr:`Link.newest`, :attr:`Link.leaving`), so a step is never interrupted.
By itself the thread only ends the process when no time is left: at the deadline, or at a second
SIGTERM.

After the training (:meth:`Link.part`) the thread says ``alive`` until the interpreter ends, however
long the program's own code takes, and signals are the program's again. An interpreter that ends says
``exiting`` first, since its threads stop then.
"""

from __future__ import annotations

import atexit
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
import weakref
from typing import Any, Callable, Optional

from .messages import EXIT_LEFT, VERSION, Leave, Membership, decode, encode
from .worker import ONLY, Worker

log = logging.getLogger("lacuna")

#: Seconds between two ``alive``.
ALIVE_EVERY = 1.0
#: The deadline file is looked for this often, in seconds.
TICK = 0.1
#: A program whose agent is gone has this many seconds to reach a step boundary.
ORPHAN_GRACE = 5.0
#: A line of the agent is never longer than this.
LINE_LIMIT = 16 << 20

_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def leave_now(code: int = EXIT_LEFT) -> None:
    """Ends the process at once, without the interpreter's slow shutdown."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)


class Link:
    """A worker's connection to its agent (``address`` of the socket, None if there is none).

    ``absent``: nodes, by name, that take no part in the group of this worker.
    """

    def __init__(
        self,
        address: Optional[str],
        deadline_file: Optional[str] = None,
        worker: Worker = ONLY,
        *,
        absent: Optional[Callable[[str], bool]] = None,
        exit_now: Callable[[int], None] = leave_now,
    ) -> None:
        self._absent = absent
        self._deadline_file = deadline_file or None
        self._worker = worker
        self._exit_now = exit_now
        self._changed = threading.Condition()
        self._newest: Optional[Membership] = None
        self._newest_at = 0.0
        self._leave: Optional[Leave] = None
        self._terms = 0
        self._idle = False
        self._out = bytearray()
        self._in = bytearray()
        self._closed = False
        #: The training is over: signals and the agent's wishes are the program's.
        self._parted = False
        self._old_handlers: dict[int, Any] = {}
        self._old_wakeup = -1
        self._wake_read, self._wake_write = _pipe()
        self._signal_read, self._signal_write = _pipe()
        self._socket = _connect(address) if address else None
        self._thread = threading.Thread(target=self._serve, name="lacuna-link", daemon=True)
        _links.add(self)

    def start(self) -> None:
        """Takes over SIGTERM and SIGUSR1, says hello, starts to listen.

        An earlier training of this process gives up its connection.
        """
        for other in list(_links):
            if other._parted:
                other.close()
        self._take_signals()
        if self._socket is not None:
            hello = {"say": "hello", "pid": os.getpid(), "version": VERSION}
            self.say({**hello, "local_rank": self._worker.rank})
        self._thread.start()

    def part(self, done: bool) -> None:
        """The training has ended; ``done``: in order, so that this member's work is done."""
        if self._socket is None:
            self.close()
            return
        if done:
            self.say({"say": "done"})
        self._parted = True
        self.flush()
        self._return_signals()

    def close(self) -> None:
        """Ends the thread and gives the signals back."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
        self._wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2.0)
        self._return_signals()
        if self._socket is not None:
            self._socket.close()
        for fd in (self._wake_read, self._wake_write, self._signal_read, self._signal_write):
            os.close(fd)

    # Received.

    @property
    def newest(self) -> Optional[Membership]:
        """The newest run that the agent has announced."""
        return self._newest

    @property
    def newest_age(self) -> float:
        """Seconds since :attr:`newest` was announced."""
        return time.monotonic() - self._newest_at

    @property
    def leaving(self) -> Optional[Leave]:
        """Set once this process must leave; never unset."""
        return self._leave

    @property
    def idle(self) -> bool:
        """Whether an end would lose nothing: then this thread itself leaves when asked to."""
        return self._idle

    @idle.setter
    def idle(self, idle: bool) -> None:
        with self._changed:
            self._idle = idle
        self._wake()

    def wait(self, ready: Callable[[], bool], timeout: Optional[float]) -> bool:
        """Waits until ``ready()``, which is called after each message, or until the timeout."""
        with self._changed:
            return self._changed.wait_for(ready, timeout)

    # Sent.

    def say(self, message: dict[str, Any]) -> None:
        """Queues a message for the agent; without an agent, nothing."""
        if self._socket is None:
            return
        with self._changed:
            self._out += encode(message)
        self._wake()

    def flush(self, timeout: float = 1.0) -> bool:
        """Waits until all queued messages are handed to the system. False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._out or self._socket is None, timeout)

    # The thread.

    def _serve(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ)
        selector.register(self._signal_read, selectors.EVENT_READ)
        if self._socket is not None:
            selector.register(self._socket, selectors.EVENT_READ)
        next_alive = time.monotonic() + ALIVE_EVERY
        while not self._closed:
            connection = self._socket
            if connection is not None:
                if time.monotonic() >= next_alive:
                    next_alive = time.monotonic() + ALIVE_EVERY
                    with self._changed:
                        self._out += encode({"say": "alive"})
                if not self._write(connection):
                    selector.unregister(connection)
                    self._agent_gone()
            for key, _ in selector.select(TICK):
                if key.fileobj == self._signal_read:
                    self._hear_signals(os.read(self._signal_read, 512))
                elif key.fileobj == self._wake_read:
                    os.read(self._wake_read, 512)
                elif connection is not None and self._socket is not None:
                    if not self._read(connection):
                        selector.unregister(connection)
                        self._agent_gone()
            self._look_at_deadline()

    def _write(self, connection: socket.socket) -> bool:
        with self._changed:
            while self._out:
                try:
                    sent = connection.send(self._out)
                except BlockingIOError:
                    return True
                except OSError:
                    return False
                del self._out[:sent]
            self._changed.notify_all()
        return True

    def _read(self, connection: socket.socket) -> bool:
        try:
            data = connection.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._in += data
        # Of several new runs the training loop sees the newest alone.
        with self._changed:
            while (end := self._in.find(b"\n")) >= 0:
                line = bytes(self._in[:end])
                del self._in[: end + 1]
                self._hear(line)
        if len(self._in) > LINE_LIMIT:
            log.warning("the agent sent a line without end, which is thrown away")
            self._in.clear()
        return bool(data)

    def _hear(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = decode(line)
        except ValueError as error:
            log.warning("a line of the agent is damaged: %s", error)
            return
        if isinstance(message, Leave):
            self._must_leave(message)
        elif message is not None:
            with self._changed:
                if self._newest is None or message.run > self._newest.run:
                    if self._absent is not None:
                        message = message.without(self._absent)
                    self._newest = message.by_worker(self._worker.rank, self._worker.count)
                    self._newest_at = time.monotonic()
                    self._changed.notify_all()

    def _must_leave(self, leave: Leave) -> None:
        with self._changed:
            first = self._leave
            if first is not None and leave.deadline is None:
                return
            if first is not None and first.deadline is not None:
                leave = Leave(min(first.deadline, leave.deadline or first.deadline), first.reason)
            self._leave = leave
            self._changed.notify_all()

    def _agent_gone(self) -> None:
        # Without its agent nothing would stop this process: it must not outlive the agent.
        with self._changed:
            if self._socket is not None:
                self._socket.close()
            self._socket = None
            self._out.clear()
            self._changed.notify_all()
        if not self._closed and not self._parted:
            self._must_leave(Leave(time.time() + ORPHAN_GRACE, "the agent is gone"))

    def _hear_signals(self, numbers: bytes) -> None:
        self._terms += numbers.count(signal.SIGTERM)
        if self._terms > 1:
            self._exit_now(EXIT_LEFT)
        elif signal.SIGTERM in numbers:
            self._must_leave(Leave(None, "sigterm"))
        elif signal.SIGUSR1 in numbers:
            self._must_leave(Leave(None, "sigusr1"))

    def _look_at_deadline(self) -> None:
        if self._parted:
            return
        if self._deadline_file is not None:
            deadline = _read_deadline(self._deadline_file)
            if deadline is not None:
                self._deadline_file = None
                self._must_leave(Leave(deadline, "the deadline file"))
        leave = self._leave
        if leave is not None and self._idle:
            self._exit_now(EXIT_LEFT)
        if leave is not None and leave.deadline is not None and time.time() >= leave.deadline:
            log.warning("the deadline has come, leaving at once")
            self._exit_now(EXIT_LEFT)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"w")
        except OSError:
            # A full pipe wakes as well as one more byte would.
            pass

    # Signals: the handler written in C puts the number into a pipe even while the main thread
    # is inside a long operation of PyTorch, where no Python handler would run.

    def _take_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            log.warning("not entered from the main thread: sigterm is not heard")
            return
        self._old_wakeup = signal.set_wakeup_fd(self._signal_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            self._old_handlers[number] = signal.signal(number, lambda *_: None)

    def _return_signals(self) -> None:
        if not self._old_handlers or threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(self._old_wakeup, warn_on_full_buffer=False)
        self._old_handlers = {}

    def _forget_in_child(self) -> None:
        """A forked child (a data loader's) shares neither signals nor the agent's socket."""
        if self._old_handlers:
            signal.set_wakeup_fd(-1)
            for number in self._old_handlers:
                signal.signal(number, signal.SIG_DFL)
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _after_fork() -> None:
    for link in list(_links):
        if not link._closed:
            link._forget_in_child()


os.register_at_fork(after_in_child=_after_fork)


def _exiting() -> None:
    for link in list(_links):
        if not link._closed and link._thread.is_alive():
            link.say({"say": "exiting"})
            link.flush()


# Registered when this module is read, so handlers that the program registers later run before.
atexit.register(_exiting)


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return read, write


def _connect(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect("\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        connection.close()
        raise ConnectionError(f"no agent answers at {address} (LACUNA_SOCKET): {error}") from error
    connection.setblocking(False)
    return connection


def _read_deadline(path: str) -> Optional[float]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return float(file.read(64).strip())
    except (OSError, ValueError):
        # The file may exist but be empty still: it is read again at the next poll.
        return None
