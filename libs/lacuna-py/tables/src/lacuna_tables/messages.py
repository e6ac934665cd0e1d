"""Frames with named tensors: what table members are asked and answer, and their checkpoints."""

from __future__ import annotations

import socket
from typing import Any, Mapping

import torch

from lacuna import frames

from .rows import Tensors

Header = dict[str, Any]

#: Most bytes of a message: all parts of a table may go at once.
LIMIT = 1 << 36


def message(
    header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
) -> tuple[Header, list[torch.Tensor]]:
    """A frame's header and tensors."""
    text, listed = frames.encoded(dict(tensors))
    return {**header, "tensors": text}, listed


def named(header: Header, data: bytearray) -> Tensors:
    """The tensors of a frame. ValueError if it has none, or others than its header says."""
    try:
        found: Tensors = frames.decoded(header["tensors"], data, False)
    except (LookupError, TypeError, RuntimeError) as error:
        raise ValueError(f"a frame has no tensors: {error!r}") from None
    if not isinstance(found, dict) or not all(map(torch.is_tensor, found.values())):
        raise ValueError("a frame has no named tensors")
    return found


def send(to: socket.socket, header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Sends a message. OSError if the other side is gone."""
    frames.send(to, *message(header, tensors))


def receive(source: socket.socket) -> tuple[Header, Tensors]:
    """The next message. OSError if the connection ends before, ValueError if it is none."""
    header, data = frames.receive(source, LIMIT)
    return header, named(header, data)
