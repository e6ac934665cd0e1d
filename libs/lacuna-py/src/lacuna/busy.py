"""Work of one member outside of steps: validation, saving, a slow sample.

The others of its group wait in a collective meanwhile, which ends the group after its timeout. So
a member that is busy for half of that time shows it in the store, and lets go of the group. The
others see that their connection has ended, find it busy, and wait to meet it again: in the same
run, or in a newer one if members change meanwhile. Work that ends before costs nothing.

A busy member shows new signs of life all the time. If they end, it counts as silent. If its
process ends, its agent says so, as ever.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable

log = logging.getLogger("lacuna")

#: Seconds between two looks at the clock.
TICK = 0.05
#: Seconds between two signs of life.
BEAT = 0.5


class Busy:
    """Knows since when the program is busy; a thread of its own acts on it.

    ``show``: shows a sign of life in the store. ``let_go``: closes the connections of the group;
    False if there are none.
    """

    def __init__(self, show: Callable[[], None], let_go: Callable[[], bool]) -> None:
        self._show = show
        self._let_go = let_go
        self._lock = threading.Lock()
        self._depth = 0
        self._gone = False
        #: Moments of the monotonic clock: of the next sign, and of the last one.
        self._due = 0.0
        self._end = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lacuna-busy", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    @property
    def on(self) -> bool:
        """Whether the program is busy."""
        return self._depth > 0

    def begin(self, patience: float, limit: float) -> None:
        """The program is busy. The group is let go after ``patience`` seconds.

        Signs of life end after ``limit`` seconds.
        """
        now = time.monotonic()
        with self._lock:
            if self._depth == 0:
                self._due, self._end = now + patience, now + limit
            self._depth += 1
            self._end = max(self._end, now + limit)

    def end(self) -> bool:
        """The program is back. True if the group was let go."""
        with self._lock:
            self._depth -= 1
            gone = self._gone and self._depth == 0
            self._gone = self._gone and not gone
            return gone

    def _watch(self) -> None:
        warned = False
        while not self._closed.wait(TICK):
            now = time.monotonic()
            if self._depth == 0 or now < self._due:
                warned = False
                continue
            if now > self._end:
                if not warned:
                    log.warning("busy for longer than its limit: the others are no longer told")
                warned = True
                continue
            # The store may be slow to answer, so the lock is not held meanwhile.
            self._show()
            with self._lock:
                if self._depth > 0 and now >= self._due:
                    self._due = time.monotonic() + BEAT
                    self._gone = self._gone or self._let_go()
