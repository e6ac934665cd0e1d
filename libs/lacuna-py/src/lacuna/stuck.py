"""Says once in the log where a program is that comes to no step for long.

Code that holds the interpreter's lock ends by ``agent.hang_after``. A lock that is never released,
or an answer that never comes, looks like long work, and ends nothing.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import Callable

log = logging.getLogger("lacuna")

#: Seconds without a step after which it is said; more where steps are slow.
AFTER = 60.0
#: Times the longest step, at least.
TIMES = 10.0
#: Lines of the program's place that are shown, the innermost ones.
SHOWN = 5


class Stuck:
    """Looks at the thread that has made it, from a thread of its own.

    ``at_work``: whether the program's own lines run, outside of ``run.busy()``.
    """

    def __init__(self, at_work: Callable[[], bool], after: float = AFTER) -> None:
        self._at_work = at_work
        self._after = after
        self._looked_at = threading.get_ident()
        self._last = time.monotonic()
        self._longest = 0.0
        self._has_said = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lacuna-stuck", daemon=True)

    def start(self) -> None:
        """Starts the thread; steps are counted from here on."""
        self._last = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def asked(self) -> None:
        """The program asks for a batch."""
        now = time.monotonic()
        if not self._has_said:
            self._longest = max(self._longest, now - self._last)
        self._last, self._has_said = now, False

    def _watch(self) -> None:
        while not self._closed.wait(self._after / 8.0):
            waited = time.monotonic() - self._last
            if not self._at_work():
                self._last = time.monotonic()
            elif waited > max(self._after, TIMES * self._longest) and not self._has_said:
                self._has_said = True
                log.warning("no step for %.0f s; the program is here:\n%s", waited, self._place())

    def _place(self) -> str:
        frame = sys._current_frames().get(self._looked_at)
        return "".join(traceback.format_stack(frame)[-SHOWN:]).rstrip()
