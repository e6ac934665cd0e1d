"""What members and remote loaders say to each other: JSON headers, and the raw bytes of tensors.

A connection begins with a proof of both sides that they know the token of the training's run: each
answers the other's random challenge with an HMAC-SHA256, so the token itself does not travel. Then
the member says hello, and asks for one task at a time. Nothing is unpickled.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import math
import secrets
import socket
import struct
from typing import Any, Iterable, Sequence

import torch

from .tree import pack, shapes, unpack

#: Version of this protocol, a part of each proof.
VERSION = 1
#: Most bytes of a header, and of a batch.
HEADER_LIMIT = 16 << 20
BATCH_LIMIT = 4 << 30
#: Seconds in which a connection must be made and proved.
HELLO_LIMIT = 5.0
#: Tensors begin at multiples of this, as their elements need it.
_ALIGNED = 16
_PREFIX = struct.Struct("!IQ")
_NONCE, _PROOF = 16, 32


class Refused(Exception):
    """The other side does not know the token, or does not accept this one's hello."""


def _proof(token: str, side: str, nonces: bytes) -> bytes:
    words = f"lacuna loader {VERSION} {side} ".encode() + nonces
    return hmac.new(token.encode(), words, hashlib.sha256).digest()


def admit(connection: socket.socket, tokens: Iterable[str]) -> None:
    """The loader's side of the proof, for a member that knows one of the tokens. Raises Refused."""
    mine = secrets.token_bytes(_NONCE)
    connection.sendall(mine)
    answer = bytes(_exactly(connection, _NONCE + _PROOF))
    nonces = mine + answer[:_NONCE]
    for token in tokens:
        if token and hmac.compare_digest(answer[_NONCE:], _proof(token, "member", nonces)):
            connection.sendall(_proof(token, "loader", nonces))
            return
    raise Refused("it does not know the token of this training")


def introduce(connection: socket.socket, token: str) -> None:
    """The member's side of the proof. Raises Refused."""
    mine = secrets.token_bytes(_NONCE)
    nonces = bytes(_exactly(connection, _NONCE)) + mine
    connection.sendall(mine + _proof(token, "member", nonces))
    try:
        proved = bytes(_exactly(connection, _PROOF))
    except ConnectionError:
        raise Refused("it does not accept this training's token") from None
    if not hmac.compare_digest(proved, _proof(token, "loader", nonces)):
        raise Refused("it does not know the token of this training")


def stay(connection: socket.socket) -> None:
    """A proved connection has no timeout, but notices within half a minute that a node is dead."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send(
    connection: socket.socket, header: dict[str, Any], tensors: Sequence[torch.Tensor] = ()
) -> None:
    """Sends a header, and the bytes of tensors on the CPU."""
    text = json.dumps(header).encode()
    # Copies live until they are sent.
    whole = [tensor.contiguous() for tensor in tensors]
    views = [_bytes_of(tensor) for tensor in whole]
    total = sum(_padded(view.nbytes) for view in views)
    connection.sendall(_PREFIX.pack(len(text), total) + text)
    for view in views:
        connection.sendall(view)
        connection.sendall(bytes(_padded(view.nbytes) - view.nbytes))


def receive(connection: socket.socket) -> tuple[dict[str, Any], bytearray]:
    """The next header and the bytes after it.

    Raises ConnectionError at the end of the connection, ValueError for what is no frame.
    """
    length, total = _PREFIX.unpack(_exactly(connection, _PREFIX.size))
    if length > HEADER_LIMIT or total > BATCH_LIMIT:
        raise ValueError(f"a frame of {length} and {total} bytes is too long")
    header = json.loads(bytes(_exactly(connection, length)))
    if not isinstance(header, dict):
        raise ValueError("a header is no JSON object")
    return header, _exactly(connection, total)


def encoded(batch: Any) -> tuple[str, list[torch.Tensor]]:
    """The text of a batch and its tensors. Raises TypeError for what cannot travel."""
    text, tensors = pack(batch)
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            raise TypeError("remote loaders send dense tensors of the CPU only")
    return text, tensors


def decoded(text: str, data: bytearray, pin: bool) -> Any:
    """The batch of a text and the bytes of its tensors. Raises ValueError if they do not fit."""
    tensors, at = [], 0
    whole = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0).byte()
    for dtype, shape in shapes(text):
        size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
        if at + size > len(data):
            raise ValueError("a batch is shorter than its header says")
        part = whole[at : at + size]
        tensor = part.view(dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
        tensors.append(tensor.pin_memory() if pin else tensor)
        at += _padded(size)
    return unpack(text, tensors)


def _padded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous tensor; valid as long as that lives."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    view = memoryview((ctypes.c_ubyte * size).from_address(tensor.data_ptr()))
    return view.cast("B")


def _exactly(connection: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        got = connection.recv_into(view[at:])
        if got == 0:
            raise ConnectionError("the connection has ended")
        at += got
    return data
