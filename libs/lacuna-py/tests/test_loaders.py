"""Remote loaders: who takes what, loaders that come, go, hang and lie, and who may connect."""

import json
import multiprocessing
import os
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from conftest import HERE, SOURCE, start
from lacuna import frames, remote, serving
from lacuna.feed import Feed
from lacuna.messages import Membership
from lacuna.order import Order, Position
from lacuna.remote import Remote

BATCH = 4
#: Forks of a process without threads and stores; PyTorch is loaded there once.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "lacuna.serving"])


class Slow(Dataset):
    """Sample i is i and the process that read it."""

    def __init__(self, length=80, seconds=0.0, bad=()):
        self.length, self.seconds, self.bad = length, seconds, bad

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.seconds)
        if index in self.bad and get_worker_info() is None:
            raise ValueError("not on this node")
        return index, os.getpid(), torch.rand(2)


def loading(data, workers=0):
    return DataLoader(data, num_workers=workers)


class Training:
    """A store, and the loaders and members that meet there."""

    def __init__(self, folder, store):
        self.file = str(folder / "loaders.json")
        self.store = store
        self.token = folder.name
        self.run = self.membership(1, 0)
        self.processes = []
        self.members = []

    def membership(self, run, rank, world_size=1):
        names = tuple(f"n{i}" for i in range(world_size))
        return Membership(run, rank, names, self.store, f"{self.token}-{run}")

    def loader(self, data, seed=3, idle=20.0):
        """A loader of its own process."""
        job = FORKS.Process(target=_serve, args=(data, seed, self.file, idle), daemon=True)
        job.start()
        self.processes.append(job)
        return job

    def member(self, data, workers=0, rank=0, world_size=1, seed=3):
        feed = Feed(loading(data, workers), seed)
        made = Member(
            Remote(feed, seed, "t", lambda: self.run, self.file), rank, world_size, len(data)
        )
        self.members.append(made)
        return made

    def close(self):
        for member in self.members:
            member.source.close()
        for process in self.processes:
            process.kill()
            process.join()


def _serve(data, seed, file, idle):
    os.environ[serving.IDLE] = str(idle)
    serving.serve(loading(data), None, seed, file)


class Member:
    def __init__(self, source, rank, world_size, length):
        self.source = source
        self.order = Order(length, seed=5)
        self.at = Position()
        self.rank, self.world_size = rank, world_size

    def take(self):
        def ahead():
            return self.order.ahead(self.at, self.rank, self.world_size, BATCH, epochs=3)

        share = next(ahead())
        found, batch = self.source.take(share, ahead)
        assert batch[0].tolist() == share.indices.tolist()
        self.at.advance(share.batch, self.order.length)
        return batch

    def epoch(self):
        first, batches = self.at.epoch, []
        while self.at.epoch == first:
            batches.append(self.take())
        return batches

    def wait_loaders(self, count):
        end = time.monotonic() + 10.0
        while self.source.loaders != count:
            assert time.monotonic() < end, f"{self.source.loaders} loaders, not {count}"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def store():
    """The address of a store in a process of its own: workers are forked from this one."""
    command = [sys.executable, "-m", "lacuna.store", "--host", "127.0.0.1", "--port", "0"]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().split()[-1]
        process.kill()


@pytest.fixture
def training(tmp_path, store):
    made = Training(tmp_path, store)
    yield made
    made.close()


def test_members_and_loaders_come_and_go_and_each_sample_is_used_once(cluster, tmp_path):
    join = str(tmp_path / "loaders.json")
    arguments = ("--samples", "128", "--epochs", "7", "--item", "0.005")
    c = cluster(*arguments, LACUNA_LOADERS=join)
    launcher = [sys.executable, "-m", "lacuna.loader", "--join", join, "--processes", "1"]
    program = [sys.executable, str(HERE / "program.py"), *arguments]
    env = {**os.environ, "PYTHONPATH": SOURCE, "PROGRAM_SEED": "3"}
    command = [*launcher, "--idle", "2", "--", *program]
    begun = [subprocess.Popen(command, env=env, start_new_session=True) for _ in range(2)]
    try:
        c.start("n2")
        start(c, "n1")
        c.join("n2")
        c.wait_together()
        c.wait_step(c.progress[-1]["step"] + 4)
        os.killpg(begun[0].pid, signal.SIGKILL)
        c.wait_step(c.progress[-1]["step"] + 4)
        c.signal("n1", signal.SIGKILL)
        assert c.wait_gone("n2", 30.0) == 0
        assert [round(n, 3) for n in c.result()["used"]] == [7] * 128
        assert begun[1].wait(10.0) == 0
    finally:
        for process in begun:
            process.kill()
            process.wait()


def pids(batches):
    return {int(pid) for batch in batches for pid in batch[1]}


def indices(batches):
    return sorted(int(index) for batch in batches for index in batch[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_come_and_change_nothing_but_who_reads(training, workers):
    data = Slow(seconds=0.005)
    alone = training.member(data, workers)
    before = alone.epoch()
    alone.source.close()
    member = training.member(data, workers)
    loaders = [training.loader(data), training.loader(data)]
    member.wait_loaders(2)
    assert stat.S_IMODE(os.stat(training.file).st_mode) == 0o600
    member.take()
    batches = member.epoch()
    assert {loader.pid for loader in loaders} <= pids(batches)
    if workers:
        assert pids(batches) - {loader.pid for loader in loaders}
    # Random numbers of a sample follow from the seed and its index.
    assert [b[2].tolist() for b in batches] == [b[2].tolist() for b in before[1:]]
    assert member.source.reading.ended - member.source.reading.began >= BATCH * 0.005


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_is_killed_loses_and_doubles_nothing(training, workers):
    data = Slow(seconds=0.01)
    member = training.member(data, workers)
    loaders = [training.loader(data) for _ in range(2)]
    member.wait_loaders(2)
    batches = [member.take() for _ in range(6)]
    os.kill(loaders[0].pid, signal.SIGKILL)
    batches += member.epoch()
    assert indices(batches) == list(range(len(data)))
    assert loaders[0].pid in pids(batches[:6])
    assert loaders[1].pid in pids(batches[12:])


def test_without_the_last_loader_the_member_goes_on_alone(training):
    data = Slow(seconds=0.01)
    member = training.member(data)
    loader = training.loader(data)
    member.wait_loaders(1)
    batches = [member.take() for _ in range(6)]
    os.kill(loader.pid, signal.SIGKILL)
    batches += member.epoch()
    assert indices(batches) == list(range(len(data)))
    assert pids(batches[-4:]) == {os.getpid()}


def test_a_loader_that_hangs_costs_time_and_no_sample(training, monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE", 0.2)
    data = Slow(seconds=0.002)
    member = training.member(data)
    loader = training.loader(data)
    member.wait_loaders(1)
    batches = [member.take() for _ in range(3)]
    os.kill(loader.pid, signal.SIGSTOP)
    began = time.monotonic()
    batches += member.epoch()
    assert indices(batches) == list(range(len(data)))
    assert time.monotonic() - began < 5.0


def test_two_members_share_loaders_and_find_them_again_in_another_run(training):
    data = Slow(seconds=0.002)
    training.run = training.membership(1, 0, 2)
    members = [training.member(data, 0, rank, 2) for rank in range(2)]
    training.loader(data)
    for member in members:
        member.wait_loaders(1)
    both = [member.epoch() for member in members]
    assert indices(both[0] + both[1]) == list(range(len(data)))
    # One member leaves: the other one takes all samples, and a loader finds the new run's token.
    members[1].source.close()
    training.run = training.membership(2, 0)
    members[0].world_size = 1
    training.loader(data)
    members[0].wait_loaders(2)
    assert indices(members[0].epoch()) == list(range(len(data)))


def test_a_loader_with_other_data_is_not_asked(training, caplog):
    data = Slow()
    member = training.member(data)
    training.loader(Slow(length=81))
    training.loader(data, seed=4)
    end = time.monotonic() + 8.0
    while caplog.text.count("is not asked") < 2 and time.monotonic() < end:
        member.take()
        time.sleep(0.05)
    assert "81 samples here and 80 at the member" in caplog.text
    assert "seed or reseed differ" in caplog.text
    assert member.source.loaders == 0


def test_what_a_loader_cannot_read_is_read_here(training, caplog):
    data, bad = Slow(seconds=0.005), Slow(bad=range(80))
    member = training.member(data)
    loader = training.loader(bad)
    member.wait_loaders(1)
    assert indices(member.epoch()) == list(range(len(data)))
    assert "could not be read" in caplog.text and "not on this node" in caplog.text
    member.wait_loaders(0)
    assert loader.is_alive()
    # What this member cannot read either ends it, with the program's own traceback.
    with pytest.raises(RuntimeError, match="not on this node"):
        training.member(bad).epoch()


def test_a_loader_ends_when_no_member_asks(training):
    training.member(Slow())
    loader = training.loader(Slow(), idle=0.5)
    loader.join(8.0)
    assert loader.exitcode == 0


class Door:
    """A loader in this process."""

    def __init__(self, data):
        self.serving = serving.Serving(loading(data), None)
        self.serving.allow("right")
        self.serving.server.start()

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.serving.server.port), timeout=5.0)
        return made


def test_a_wrong_token_opens_nothing():
    door = Door(Slow())
    with door.connect() as connection, pytest.raises(frames.Refused):
        frames.introduce(connection, "wrong")
    with door.connect() as connection:
        connection.recv(16)
        connection.sendall(bytes(48))
        assert connection.recv(1) == b""
    # A loader without a token opens to no one, not even to an empty one.
    closed = Door(Slow())
    closed.serving._tokens.clear()
    with closed.connect() as connection, pytest.raises(frames.Refused):
        frames.introduce(connection, "")
    # A loader that does not know the token is not believed either.
    ours, theirs = socket.socketpair()
    theirs.sendall(bytes(16) + bytes(32))
    with pytest.raises(frames.Refused, match="does not know"):
        frames.introduce(ours, "right")


def greeted(door, **hello):
    connection = door.connect()
    frames.introduce(connection, "right")
    frames.send(connection, {"length": 80, "seed": None, "member": "m", **hello})
    assert frames.receive(connection)[0]["refused"] is None
    return connection


def test_a_member_that_goes_or_talks_nonsense_harms_no_other():
    door = Door(Slow(seconds=0.02))
    task = {"epoch": 0, "places": [0, 1], "indices": [5, 6], "floor": [0, 0]}
    gone = greeted(door)
    frames.send(gone, task)
    gone.close()
    for wrong in ({**task, "indices": [5]}, {**task, "places": ["x", 1]}, {}):
        with greeted(door) as odd, pytest.raises(ConnectionError):
            frames.send(odd, wrong)
            frames.receive(odd)
    with greeted(door) as odd, pytest.raises(ConnectionError):
        odd.sendall(b"\xff" * 64)
        frames.receive(odd)
    with greeted(door) as other:
        # What was read for the one that is gone is still there.
        frames.send(other, {**task, "places": [2, 3]})
        reply, data = frames.receive(other)
        assert frames.decoded(reply["text"], data, False)[0].tolist() == [5, 6]
        assert reply["took"] >= 0.04 and reply["members"] == 1


def test_batches_travel_as_they_are():
    batch = {
        "x": torch.arange(6).view(2, 3).t(),
        "y": [torch.tensor(True), torch.zeros(0, 3), "name", None, 2.5],
        "z": (torch.ones(3, dtype=torch.float16), torch.tensor([1.5, 2.5], dtype=torch.bfloat16)),
    }
    ours, theirs = socket.socketpair()
    text, tensors = frames.encoded(batch)
    frames.send(ours, {"text": text}, tensors)
    header, data = frames.receive(theirs)
    found = frames.decoded(header["text"], data, False)
    assert repr(found) == repr(batch) and json.loads(header["text"])
    with pytest.raises(ValueError, match="shorter"):
        frames.decoded(header["text"], data[:16], False)
    with pytest.raises(TypeError, match="Slow"):
        frames.encoded([Slow()])
