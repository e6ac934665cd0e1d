"""Messages of tensors: a JSON header, then the raw bytes of the tensors.

    4 bytes   length of the header, big-endian
    header    JSON object; "tensors" lists name, type and shape of each tensor
    body      the tensors one after another, as they lie in memory (little-endian)

Nothing of a message is ever executed, and what it may be long is bounded.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from typing import Any, BinaryIO, Mapping, Union

import torch

#: The longest header and the longest body, bytes.
HEADER_LIMIT = 16 << 20
BODY_LIMIT = 1 << 36

_TYPES = {"float32": torch.float32, "int64": torch.int64}
_NAMES = {type_: name for name, type_ in _TYPES.items()}

Header = dict[str, Any]
Tensors = dict[str, torch.Tensor]


def packed(header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> list[bytearray]:
    """The pieces of a message. TypeError for tensors of other types than float32 and int64."""
    listed, body = [], []
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise TypeError(f"{name} is {tensor.dtype}: expected float32 or int64")
        listed.append({"name": name, "type": _NAMES[tensor.dtype], "shape": list(tensor.shape)})
        if tensor.numel():
            piece = bytearray(tensor.numel() * tensor.element_size())
            torch.frombuffer(piece, dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
            body.append(piece)
    head = json.dumps({**header, "tensors": listed}, separators=(",", ":")).encode()
    return [bytearray(struct.pack(">I", len(head)) + head), *body]


def send(to: socket.socket, header: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
    """Sends a message. OSError if the other side is gone."""
    for piece in packed(header, tensors):
        to.sendall(piece)


def receive(source: Union[socket.socket, BinaryIO]) -> tuple[Header, Tensors]:
    """The next message of a connection or a file.

    EOFError if it ends before, ValueError if it is no message.
    """
    header = head(source)
    found: Tensors = {}
    for name, type_, shape in _listed(header):
        count = math.prod(shape)
        if not count:
            found[name] = torch.empty(shape, dtype=type_)
            continue
        piece = _exactly(source, count * torch.empty(0, dtype=type_).element_size())
        found[name] = torch.frombuffer(piece, dtype=type_).reshape(shape)
    return header, found


def head(source: Union[socket.socket, BinaryIO]) -> Header:
    """The header alone, as for :func:`receive`."""
    (length,) = struct.unpack(">I", _exactly(source, 4))
    if length > HEADER_LIMIT:
        raise ValueError(f"a header of {length} bytes")
    try:
        header = json.loads(bytes(_exactly(source, length)))
    except ValueError as error:
        raise ValueError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("tensors"), list):
        raise ValueError("the header lists no tensors")
    return header


def _listed(header: Header) -> list[tuple[str, torch.dtype, list[int]]]:
    found, total = [], 0
    for one in header["tensors"]:
        try:
            name, type_, shape = str(one["name"]), _TYPES[one["type"]], one["shape"]
            sizes = [int(size) for size in shape]
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"the header lists {one!r}, which is no tensor") from None
        total += 8 * math.prod(sizes)
        if min(sizes, default=0) < 0 or total > BODY_LIMIT:
            raise ValueError(f"tensor {name} has the shape {sizes}")
        found.append((name, type_, sizes))
    return found


def _exactly(source: Union[socket.socket, BinaryIO], count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = source.recv_into(view) if isinstance(source, socket.socket) else _read(source, view)
        if not got:
            raise EOFError("the message ends too early")
        view = view[got:]
    return data


def _read(source: BinaryIO, view: memoryview) -> int:
    return source.readinto(view) or 0  # type: ignore[attr-defined]
