"""Keys of a store of torch.distributed that are looked at without a wait for them.

PyTorch's ``get`` waits for a key that is not there. ``compare_set`` does not. But before PyTorch 2.5
it makes its answer without Python's interpreter lock (pytorch pull request 128212, issues 123983
and 125990). That ends the process by SIGSEGV: now and then where other threads of the program run,
always with some versions of Python. There a number beside each key says whether the key has a
value.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

#: The first version of PyTorch whose ``compare_set`` holds the lock.
COMPARES = (2, 5)


def version() -> tuple[int, ...]:
    """Major and minor number of PyTorch here."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def put(store: Any, key: str, value: str) -> None:
    """Sets a key that :func:`peek` and :func:`first` may look at."""
    store.set(key, value)
    if version() < COMPARES:
        store.add(_count(key), 1)


def peek(store: Any, key: str) -> Optional[bytes]:
    """The value of a key that :func:`put` or :func:`first` has set, or None."""
    value: bytes
    if version() < COMPARES:
        # The key is set before its number.
        if store.add(_count(key), 0) == 0:
            return None
        value = store.get(key)
        return value
    # A comparison with a value that no key has sets nothing; for a key that is not there, the
    # store answers with the value compared with.
    value = store.compare_set(key, "?", "?")
    return None if value == b"?" else value


def first(store: Any, key: str, value: str) -> Optional[bytes]:
    """Sets a key that has no value; returns its value then.

    None if another member was the first one and has not yet set it.
    """
    found: Optional[bytes]
    if version() < COMPARES:
        found = peek(store, key)
        if found is None and store.add(f"{key}/first", 1) == 1:
            put(store, key, value)
            found = value.encode()
        return found
    found = store.compare_set(key, "", value)
    return found


def remove(store: Any, key: str) -> None:
    """Deletes a key at which no member looks any more."""
    store.delete_key(key)
    if version() < COMPARES:
        store.delete_key(_count(key))
        store.delete_key(f"{key}/first")


def _count(key: str) -> str:
    """The number of times that a key was set."""
    return f"{key}/set"
