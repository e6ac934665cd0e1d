"""Things of the program that are alive in this process."""

from __future__ import annotations

import gc
from typing import Any


def alive(*kinds: type) -> list[Any]:
    """All things of these kinds. Asking a thing for its class may run its code."""
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]
