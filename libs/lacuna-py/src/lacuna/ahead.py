"""The shares that come next, as far as no member comes or goes before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, Optional

from .feed import Ahead
from .order import Order, Share
from .part import Now
from .pipeline import Pipeline


def shares_of(
    now: Now, line: Pipeline, order: Order, epochs: Optional[int], total: Optional[float]
) -> Ahead:
    """What gives them from here on. ``total``: samples at which Lacuna ends the training."""
    at, rank, world_size = replace(now.position), now.rank, now.world_size
    # A node with one model has shares alike; reading cuts a stream.
    is_even = now.shards > 1 or line.shares.on or order.is_stream
    options: dict[str, Any] = {
        "epochs": None if line.learning.counts_progress else epochs,
        "total": total,
        "weights": line.shares.weights,
        "tries": not is_even,
    }
    batch = line.learning.batch(now.nodes)

    def ahead() -> Iterator[Share]:
        return order.ahead(at, rank, world_size, batch, **options)

    return ahead
