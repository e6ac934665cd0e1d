"""Reports of rank 0: to the agent's socket, or as lines of a file.

The file is that of programs under ``torchrun`` or under no launcher of Lacuna's own: one JSON
object a line in ``LACUNA_PROGRESS_FILE``, where ``samples`` counts from the start of the program.
"""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from .checkpoint import Saved
from .link import Link
from .order import Position

log = logging.getLogger("lacuna")

#: At least this many seconds between two reports, except for the last one of a group.
EVERY = 0.2


@dataclass
class Span:
    """The content of a group's reports."""

    run: int
    world_size: int
    #: Samples that the state had absorbed when this group formed.
    base: int


class Reporter:
    """Reports to the agent, or appends to the progress file, or neither."""

    def __init__(self, link: Link, file: Optional[str]) -> None:
        self._link = link
        self._file = file or None
        self._next = 0.0
        #: Samples at the start of the program; a file's samples count from here.
        self._origin: Optional[int] = None
        self._told: Optional[Saved] = None

    def report(
        self,
        span: Span,
        position: Position,
        loss: Optional[float],
        saved: Optional[Saved],
        news: Callable[[], dict[str, Any]],
        last: bool = False,
    ) -> None:
        """Reports, unless the last report was a moment ago.

        ``news``: what goes along, as far as it is due (:meth:`lacuna.part.Part.news`).
        """
        if self._origin is None:
            self._origin = span.base
        now = time.monotonic()
        if now < self._next and not last:
            return
        self._next = now + EVERY
        more = news()
        self._link.say(
            {
                **more,
                "say": "progress",
                "run": span.run,
                "base": float(span.base),
                "samples": float(position.samples - span.base),
                "step": position.step,
                "world_size": span.world_size,
                "loss": loss,
                "checkpoint": None if saved is None else str(saved.path),
                "saved": None if saved is None else float(saved.samples),
                "t": time.time(),
            }
        )
        if self._file is not None:
            self._append(self._file, span, position, loss, saved, more)

    def done(self, span: Span, position: Position) -> None:
        """Says in the file that this member's work is done; to the agent the link says it."""
        if self._file is not None:
            origin = position.samples if self._origin is None else self._origin
            line = {
                "t": time.time(),
                "step": position.step,
                "samples": position.samples - origin,
                "world_size": span.world_size,
                "done": True,
            }
            self._write(self._file, json.dumps(line) + "\n")

    def _append(
        self,
        path: str,
        span: Span,
        position: Position,
        loss: Optional[float],
        saved: Optional[Saved],
        more: dict[str, Any],
    ) -> None:
        origin = self._origin or 0
        lines: list[tuple[int, int, Optional[float], Optional[str]]] = [
            (position.samples, position.step, loss, None)
        ]
        if saved is not None and saved != self._told and saved.samples >= origin:
            # A line that names a checkpoint says how many samples that one covers.
            lines.insert(0, (saved.samples, saved.step, None, str(saved.path)))
        text = ""
        for samples, step, mean, checkpoint in lines:
            known = mean is not None and math.isfinite(mean)
            line = {
                "t": time.time(),
                "step": step,
                "samples": samples - origin,
                "world_size": span.world_size,
                "loss": mean if known else None,
                "checkpoint": checkpoint,
            }
            # The newest line carries what is more.
            text += json.dumps(line if checkpoint else {**line, **more}) + "\n"
        if self._write(path, text):
            self._told = saved

    def _write(self, path: str, text: str) -> bool:
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            log.warning("no progress in %s: %s", path, error)
            return False
        return True
