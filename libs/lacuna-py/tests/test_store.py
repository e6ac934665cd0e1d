"""The token of a run in the keys that PyTorch sends, at a store that only reads them."""

import socket
import struct
import threading

import pytest
import torch.distributed as dist

from lacuna import group, keys
from lacuna.calls import Calls, Place
from lacuna.group import Rendezvous
from lacuna.keys import first, peek, put, remove
from lacuna.messages import Membership

TOKEN = "lacuna-token-0123"
#: The first bytes of a client of PyTorch 2.
VALIDATION = b"\x00\xce\xf7\x85\x3c"


class Door:
    """Keeps the first key of each connection, then closes it: a store that refuses all tokens."""

    def __init__(self):
        self.keys = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.where = "127.0.0.1:%d" % self._server.getsockname()[1]
        self._last = socket.socket()
        self._last.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            connection, client = self._server.accept()
            if client == self._last.getsockname():
                connection.close()
                return
            threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection):
        with connection, connection.makefile("rb") as stream:
            first = stream.read(5)
            if first == VALIDATION:
                # A ping, which is answered by its nonce.
                connection.sendall(stream.read(5)[1:])
                first = stream.read(5)
            length = (first + stream.read(4))[1:]
            # PyTorch 1.13 has a second connection, on which nothing comes.
            if len(length) == 8:
                self.keys.append(stream.read(struct.unpack("<Q", length)[0]).decode())

    def close(self):
        # The end of a server resets the connections that it has not accepted. PyTorch 1.13 aborts
        # a process whose second connection is reset.
        self._last.connect(self._server.getsockname())
        self._thread.join()
        self._last.close()
        self._server.close()


@pytest.fixture
def door():
    one = Door()
    yield one
    one.close()


def test_every_key_of_a_member_shows_the_token_of_its_run(door):
    run = Membership(7, 0, ("n1", "n2"), door.where, TOKEN)
    store = Rendezvous().once(run)
    with pytest.raises((RuntimeError, OSError)):
        peek(store, "t/7/0/card/1")
    (shown,) = door.keys
    assert shown.startswith(f"/{TOKEN}/t/7/0/card/1")


class OldStore:
    """A store before PyTorch 2.5: its ``compare_set`` may end the process."""

    def __init__(self, store):
        for name in ("set", "get", "add", "delete_key"):
            setattr(self, name, getattr(store, name))


@pytest.mark.parametrize("old", [True, False])
def test_keys_are_looked_at_without_a_wait(monkeypatch, old):
    store = dist.HashStore()
    if old:
        store = OldStore(store)
        monkeypatch.setattr(keys, "version", lambda: (1, 13))
    elif keys.version() < keys.COMPARES:
        pytest.skip("newer-torch: compare_set that does not end the process, PyTorch 2.5")
    assert peek(store, "k") is None
    put(store, "k", "v")
    assert peek(store, "k") == b"v" and first(store, "k", "w") == b"v"
    put(store, "k", "")
    assert peek(store, "k") == b""
    remove(store, "k")
    assert peek(store, "k") is None
    assert first(store, "k", "w") == b"w" and first(store, "k", "x") == b"w"
    assert peek(store, "k") == b"w"


def test_of_two_members_at_an_old_store_one_is_the_first(monkeypatch):
    """The other one waits until it sees the value."""
    monkeypatch.setattr(keys, "version", lambda: (1, 13))
    store = OldStore(dist.HashStore())
    assert store.add("k/first", 1) == 1
    assert first(store, "k", "mine") is None
    put(store, "k", "of the other one")
    assert first(store, "k", "mine") == b"of the other one"


def test_a_refused_member_gives_its_run_up(door, monkeypatch):
    monkeypatch.setattr(group, "RETRY", 0.01)
    run = Membership(7, 0, ("n1", "n2"), door.where, TOKEN)
    reason = Rendezvous().meet("t/7/0", run, {}, lambda: None, 0.2)
    assert isinstance(reason, str) and "the store failed" in reason
    assert set(door.keys) == {f"/{TOKEN}/t/7/0/card/0"} and len(door.keys) > 1


def test_a_call_in_a_run_that_is_over_ends_without_the_others():
    place = Place("t/7/0", 1, 3, lambda look: "the run is over", lambda store, rank: False)
    assert Calls().gather(place, 5, "mine") == [None, "mine", None]
    made = Calls().gather(place, 5, "mine", lambda rank: f"for {rank}")
    assert made == ["for 0", "mine", "for 2"]


def test_the_rendezvous_of_torchrun_shows_the_token_as_its_id(door):
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousParameters
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend

    parameters = RendezvousParameters("c10d", door.where, TOKEN, 1, 1, is_host=0)
    with pytest.raises(RendezvousConnectionError):
        create_backend(parameters)
    assert door.keys == [f"/torch.rendezvous.{TOKEN}"]


def test_torchrun_takes_its_id_from_the_environment(monkeypatch):
    from torch.distributed.run import get_args_parser

    monkeypatch.setenv("PET_RDZV_ID", TOKEN)
    assert get_args_parser().parse_args(["program.py"]).rdzv_id == TOKEN
