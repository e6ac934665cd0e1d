"""Whether batches of a training are also prepared on other nodes: :mod:`lacuna.remote`."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Any, Optional

from .data import Source
from .feed import Feed
from .link import Link
from .member import Regroup
from .part import Use
from .remote import Remote
from .settings import Settings

log = logging.getLogger("lacuna")


class Loaders:
    """The loaders on other nodes, if the program asks for them by a file.

    ``member``, ``link``: how the program meets the others.
    """

    def __init__(self, settings: Settings, member: Any, link: Link) -> None:
        self._file = settings.loaders
        self._seed = settings.step_seed
        #: The trainer's name, None without the launcher ``regroup``.
        self._trainer = member.trainer if isinstance(member, Regroup) else None
        self._link = link
        #: The data set with which the program trains first: loaders read that one.
        self._data: Any = None
        self._remote: Optional[Remote] = None

    @property
    def count(self) -> int:
        """Processes that prepare batches for this member now."""
        return 0 if self._remote is None else self._remote.loaders

    def refuse(self, use: Use) -> Optional[str]:
        """Why they do not go with such a training. It trains without them, and a log says why."""
        if self._trainer is None or use.sharded:
            return "remote loaders need the launcher regroup, and a model that is not sharded"
        if use.stream:
            return (
                "remote loaders need items by index, and this is a stream: use a map-style data set"
            )
        return None

    def beside(self, feed: Source, use: Use) -> Source:
        """The same batches, also prepared on other nodes if the program asks for that."""
        file, trainer = self._file, self._trainer
        if file is None or not isinstance(feed, Feed):
            return feed
        # A stream that has a length is one too.
        words = self.refuse(replace(use, stream=feed.is_stream))
        if words is not None or trainer is None:
            log.warning("%s: %s is not used", words, file)
            return feed
        if self._data is None:
            self._data = feed.data
        folder = os.environ.get("LACUNA_CHECKPOINT_DIR")
        if folder and os.path.dirname(file) == folder:
            os.makedirs(folder, exist_ok=True)
        if self._data is not feed.data:
            log.warning("loaders read the first data set alone, and this is another one")
            return feed
        self._remote = Remote(feed, self._seed, trainer, lambda: self._link.newest, file)
        return self._remote
