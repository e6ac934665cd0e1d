"""Whether batches of a training are also prepared on other nodes: :mod:`lacuna.remote`."""

from __future__ import annotations

import logging
import os
from typing import Any, Optional

from .data import Source
from .feed import Feed
from .link import Link
from .member import Regroup
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

    def beside(self, feed: Source) -> Source:
        """The same batches, also prepared on other nodes if the program asks for that.

        It trains without them where they do not go with it, and a log says why.
        """
        file, trainer = self._file, self._trainer
        if file is None or not isinstance(feed, Feed):
            return feed
        words = None
        if trainer is None:
            words = "remote loaders need the launcher regroup"
        elif feed.is_stream:
            words = (
                "remote loaders need items by index, and this is a stream: use a map-style data set"
            )
        elif self._data is not None and self._data is not feed.data:
            words = "remote loaders read the first data set alone, and this is another one"
        if words is not None or trainer is None:
            log.warning("%s: %s is not used", words, file)
            return feed
        self._data = feed.data
        folder = os.environ.get("LACUNA_CHECKPOINT_DIR")
        if folder and os.path.dirname(file) == folder:
            os.makedirs(folder, exist_ok=True)
        self._remote = Remote(feed, self._seed, trainer, lambda: self._link.newest, file)
        return self._remote
