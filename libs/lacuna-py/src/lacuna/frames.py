"""What processes of a training say to each other: JSON headers, and the raw bytes of tensors.

    4 bytes   length of the header, big-endian
    8 bytes   length of the body
    header    a JSON object
    body      tensors one after another, each padded to a multiple of 16 bytes

A connection begins with a proof of both sides that they know a token: each answers the other's
random challenge with an HMAC-SHA256, so the token itself does not travel. Then the caller asks, and
the server answers. Nothing is unpickled. Files of such frames have no proof.
"""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import logging
import math
import secrets
import socket
import struct
import threading
from typing import Any, BinaryIO, Callable, Iterable, Sequence, Union

import torch

from .tree import pack, shapes, unpack

log = logging.getLogger("lacuna")

#: Version of this protocol, a part of each proof.
VERSION = 1
#: Most bytes of a header, and of a body.
HEADER_LIMIT = 16 << 20
BODY_LIMIT = 4 << 30
#: Seconds in which a connection must be made and proved.
HELLO_LIMIT = 5.0
#: Most connections of a server at a time.
CONNECTIONS = 1024
#: Tensors begin at multiples of this, as their elements need it.
_ALIGNED = 16
_PREFIX = struct.Struct("!IQ")
_NONCE, _PROOF = 16, 32

Source = Union[socket.socket, BinaryIO]


class Refused(Exception):
    """The other side does not know the token, or does not accept this one's hello."""


def _proof(token: str, side: str, nonces: bytes) -> bytes:
    words = f"lacuna frames {VERSION} {side} ".encode() + nonces
    return hmac.new(token.encode(), words, hashlib.sha256).digest()


def admit(connection: socket.socket, tokens: Iterable[str]) -> None:
    """The server's side of the proof, for a caller that knows one of the tokens. Raises Refused."""
    mine = secrets.token_bytes(_NONCE)
    connection.sendall(mine)
    answer = bytes(_exactly(connection, _NONCE + _PROOF))
    nonces = mine + answer[:_NONCE]
    for token in tokens:
        if token and hmac.compare_digest(answer[_NONCE:], _proof(token, "caller", nonces)):
            connection.sendall(_proof(token, "server", nonces))
            return
    raise Refused("it does not know the token of this training")


def introduce(connection: socket.socket, token: str) -> None:
    """The caller's side of the proof. Raises Refused."""
    mine = secrets.token_bytes(_NONCE)
    nonces = bytes(_exactly(connection, _NONCE)) + mine
    connection.sendall(mine + _proof(token, "caller", nonces))
    try:
        proved = bytes(_exactly(connection, _PROOF))
    except ConnectionError:
        raise Refused("it does not accept this training's token") from None
    if not hmac.compare_digest(proved, _proof(token, "server", nonces)):
        raise Refused("it does not know the token of this training")


def stay(connection: socket.socket) -> None:
    """A proved connection has no timeout, but notices within half a minute that a node is dead."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Server:
    """Takes connections whose callers know one of ``tokens()``, and has a thread for each.

    ``answer`` does all that follows the proof. It ends by an exception, a ConnectionError where the
    caller is gone.
    """

    def __init__(
        self, tokens: Callable[[], Iterable[str]], answer: Callable[[socket.socket], None]
    ) -> None:
        self._tokens = tokens
        self._answer = answer
        self._lock = threading.Lock()
        self._socket = socket.create_server(("", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        #: Callers that are connected now.
        self.connections = 0

    def start(self) -> None:
        """Takes connections from now on."""
        threading.Thread(target=self._accept, name="lacuna-accept", daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, peer = self._socket.accept()
            if self.connections >= CONNECTIONS:
                connection.close()
                continue
            self._count(1)
            threading.Thread(
                target=self._serve, args=(connection, peer[0]), name="lacuna-caller", daemon=True
            ).start()

    def _count(self, more: int) -> None:
        with self._lock:
            self.connections += more

    def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            with connection:
                connection.settimeout(HELLO_LIMIT)
                admit(connection, self._tokens())
                self._answer(connection)
        except ConnectionError:
            # Callers go when they have to; what was made for one is made again where it is needed.
            pass
        except (Refused, OSError, ValueError) as reason:
            log.warning("the connection from %s is closed: %s", peer, reason)
        finally:
            self._count(-1)


def pieces(header: dict[str, Any], tensors: Sequence[torch.Tensor] = ()) -> list[Any]:
    """The bytes of a frame with the tensors, which lie on the CPU; they may be views of these."""
    text = json.dumps(header).encode()
    views = [_bytes_of(tensor.contiguous()) for tensor in tensors]
    padded = [_padded(view.nbytes) for view in views]
    found: list[Any] = [_PREFIX.pack(len(text), sum(padded)) + text]
    for view, size in zip(views, padded):
        found += [view, bytes(size - view.nbytes)]
    return found


def send(
    connection: socket.socket, header: dict[str, Any], tensors: Sequence[torch.Tensor] = ()
) -> None:
    """Sends a header, and the bytes of tensors on the CPU."""
    for piece in pieces(header, tensors):
        connection.sendall(piece)


def head(source: Source, limit: int = BODY_LIMIT) -> tuple[dict[str, Any], int]:
    """The next header, and how many bytes come after it, at most ``limit``.

    Raises ConnectionError if the source ends before, ValueError for what is no frame.
    """
    length, total = _PREFIX.unpack(_exactly(source, _PREFIX.size))
    if length > HEADER_LIMIT or total > limit:
        raise ValueError(f"a frame of {length} and {total} bytes is too long")
    header = json.loads(bytes(_exactly(source, length)))
    if not isinstance(header, dict):
        raise ValueError("a header is no JSON object")
    return header, total


def receive(source: Source, limit: int = BODY_LIMIT) -> tuple[dict[str, Any], bytearray]:
    """The next header and the bytes after it, as for :func:`head`."""
    header, total = head(source, limit)
    return header, _exactly(source, total)


def encoded(batch: Any) -> tuple[str, list[torch.Tensor]]:
    """The text of a batch and its tensors. Raises TypeError for what cannot travel."""
    text, tensors = pack(batch)
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            raise TypeError("only dense tensors of the CPU are sent")
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
    """The memory of a contiguous tensor, which lives as long as the view."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    memory = (ctypes.c_ubyte * size).from_address(tensor.data_ptr())
    memory.tensor = tensor
    return memoryview(memory).cast("B")


def _exactly(source: Source, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        if isinstance(source, socket.socket):
            got = source.recv_into(view)
        else:
            got = source.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise ConnectionError("it ends too early")
        view = view[got:]
    return data
