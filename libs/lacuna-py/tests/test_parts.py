"""The parts by themselves: order of the data, policies, messages, the state's way."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch.utils.data import TensorDataset

from lacuna import messages
from lacuna.data import source
from lacuna.link import Link
from lacuna.order import Order, Position, Share
from lacuna.policy import PerNode, WholeGroup, checked
from lacuna.state import _runs, frozen


def test_shares_of_any_number_of_members_make_up_the_same_batches():
    """Also with members that change at each step, and a batch that changes with them."""
    dice = random.Random(11)
    for _ in range(200):
        length, batch = dice.randrange(1, 60), dice.randrange(1, 20)
        order, at, used = Order(length, seed=3), Position(), []
        policy = dice.choice([WholeGroup(batch), PerNode(batch)])
        while at.epoch < 2:
            world, epoch = dice.randrange(1, 9), at.epoch
            size = policy.batch_of(world)
            shares = [order.share(at, rank, world, size) for rank in range(world)]
            counts = [share.count for share in shares]
            first = shares[0].indices[:1]
            assert all(share.count or share.indices.equal(first) for share in shares)
            assert sum(counts) == shares[0].batch and max(counts) - min(counts) <= 1
            assert counts == sorted(counts, reverse=True)
            mine = [share for share in shares if not share.lent]
            used += [(epoch, int(i)) for share in mine for i in share.indices]
            at.advance(shares[0].batch, length)
        expected = [(e, int(i)) for e in (0, 1) for i in Order(length, seed=3).of_epoch(e)]
        assert used == expected
        assert at.samples == 2 * length


def test_epochs_are_shuffled_differently_and_seeds_too():
    order = Order(100, seed=1)
    first, second = order.of_epoch(0).clone(), order.of_epoch(1).clone()
    assert not torch.equal(first, second)
    assert not torch.equal(first, Order(100, seed=2).of_epoch(0))
    assert torch.equal(first, Order(100, seed=1).of_epoch(0))
    assert torch.equal(Order(5, seed=1, shuffle=False).of_epoch(3), torch.arange(5))


def test_the_last_step_takes_only_what_is_left():
    share = Order(100, seed=1).share(Position(), 0, 1, 16, left=2.5)
    assert share.batch == 3 and len(share.indices) == 3


def test_policies():
    assert WholeGroup(64).batch_of(7) == 64 and WholeGroup(64).factor(7) == 1.0
    assert PerNode(8).batch_of(4) == 32 and PerNode(8).factor(4) == 4.0
    assert PerNode(8, "sqrt", reference_nodes=2).factor(8) == 2.0
    assert PerNode(8, "none").factor(8) == 1.0
    assert PerNode(8, lambda ratio: 1.0 + ratio).factor(3) == 4.0
    assert checked(5) == WholeGroup(5)
    for wrong in (0, -1, True, 1.5, PerNode(8, "cubic"), PerNode(8, reference_nodes=0)):
        with pytest.raises(ValueError):
            checked(wrong)


def test_messages_of_the_agent():
    line = b'{"tell":"run","run":7,"rank":1,"members":["a","b"],"store":"h:1","leader":"a",'
    line += b'"token":"secret",'
    message = messages.decode(line + b'"new":1}')
    expected = messages.Membership(7, 1, ("a", "b"), "h:1", "secret")
    assert message == expected and message.world_size == 2 and "secret" not in repr(message)
    assert messages.decode(b'{"tell":"leave","deadline":5.5}').deadline == 5.5
    assert messages.decode(b'{"tell":"leave"}').deadline is None
    assert messages.decode(b'{"tell":"dance"}') is None
    for damaged in (
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"tell":"run"}',
        b'{"tell":"run","run":1,"rank":2,"members":["a"]}',
        b'{"tell":"run","run":true,"rank":0,"members":["a"]}',
        b'{"tell":"run","run":1,"rank":0,"members":"a"}',
        b'{"tell":"run","run":1,"rank":0,"members":["a"],"store":5}',
        b'{"tell":"run","run":1,"rank":0,"members":["a"],"token":5}',
        b'{"tell":"leave","deadline":"soon"}',
    ):
        with pytest.raises(ValueError):
            messages.decode(damaged)


def test_numbers_that_json_does_not_know_become_null():
    line = messages.encode({"say": "progress", "loss": float("nan"), "step": 3})
    assert json.loads(line) == {"say": "progress", "loss": None, "step": 3}


def test_endpoints():
    assert messages.endpoint("host.example:29400") == ("host.example", 29400)
    assert messages.endpoint("[::1]:5") == ("::1", 5)
    for wrong in ("", "host", "host:", ":5", "host:x", "host:70000", "host:0"):
        with pytest.raises(ValueError):
            messages.endpoint(wrong)


def listener(tmp_path):
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "agent"))
    server.listen(1)
    return server


def test_the_link_keeps_the_newest_run_and_survives_garbage(tmp_path):
    server = listener(tmp_path)
    ended = []
    link = Link(str(tmp_path / "agent"), exit_now=ended.append)
    link.start()
    agent, _ = server.accept()

    def run(number):
        return messages.encode(
            {"tell": "run", "run": number, "rank": 0, "members": ["a"], "store": ""}
        )

    try:
        agent.sendall(run(3) + b"garbage\n\n" + run(5) + run(4)[:10])
        assert link.wait(lambda: link.newest is not None and link.newest.run == 5, 5.0)
        agent.sendall(run(4)[10:] + run(6))
        assert link.wait(lambda: link.newest.run == 6, 5.0)
        heard = agent.makefile()
        assert json.loads(heard.readline())["say"] == "hello"
        assert json.loads(heard.readline())["say"] == "alive"
        assert not ended
        agent.sendall(b'{"tell":"leave","deadline":%f}\n' % (time.time() + 0.2))
        assert link.wait(lambda: link.leaving is not None, 5.0)
        time.sleep(0.5)
        assert ended and set(ended) == {75}
    finally:
        link.close()
        agent.close()
        server.close()


ENDS = """
import sys, time
from lacuna.link import Link

for done in {trainings}:
    link = Link(sys.argv[1])
    link.start()
    link.part(done)
time.sleep(1.5)
{last}
"""


def words(tmp_path, trainings, last=""):
    """What a program says in each of its trainings, which end in order or not, and its exit code."""
    server = listener(tmp_path)
    server.settimeout(60.0)
    script = ENDS.format(trainings=trainings, last=last)
    program = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "agent")])
    said = []
    try:
        for _ in trainings:
            with server.accept()[0] as agent:
                agent.settimeout(60.0)
                said.append([json.loads(line)["say"] for line in agent.makefile()])
        return said, program.wait(60.0)
    finally:
        program.kill()
        program.wait()
        server.close()


def test_a_program_says_that_it_is_done_and_lives_until_its_interpreter_ends(tmp_path):
    said, code = words(tmp_path, [True])
    assert (said, code) == ([["hello", "done", "alive", "exiting"]], 0)


def test_a_training_that_failed_is_not_done_and_what_fails_after_one_is(tmp_path):
    assert words(tmp_path, [False], "sys.exit(2)") == ([["hello", "alive", "exiting"]], 2)
    (tmp_path / "agent").unlink()
    said, code = words(tmp_path, [True], "raise OSError")
    assert (said, code) == ([["hello", "done", "alive", "exiting"]], 1)


def test_a_second_training_of_a_program_says_hello_again(tmp_path):
    said, code = words(tmp_path, [True, True])
    assert (said, code) == ([["hello", "done"], ["hello", "done", "alive", "exiting"]], 0)


def test_a_slow_agent_does_not_hold_up_the_program(tmp_path):
    server = listener(tmp_path)
    link = Link(str(tmp_path / "agent"), exit_now=lambda code: None)
    link.start()
    agent, _ = server.accept()
    try:
        began = time.monotonic()
        for i in range(3000):
            link.say({"say": "progress", "padding": "x" * 1000, "i": i})
        assert time.monotonic() - began < 2.0
        assert not link.flush(0.2)
        got = []
        reader = threading.Thread(
            target=lambda: [got.append(json.loads(line)) for line in agent.makefile()]
        )
        reader.start()
        assert link.flush(10.0)
        link.close()
        reader.join(10.0)
        assert [m["i"] for m in got if m["say"] == "progress"] == list(range(3000))
    finally:
        link.close()
        agent.close()
        server.close()


def test_a_forked_child_takes_neither_signals_nor_the_agent_away(tmp_path):
    """Data loaders fork workers and end them with SIGTERM."""
    server = listener(tmp_path)
    ended = []
    link = Link(str(tmp_path / "agent"), exit_now=ended.append)
    link.start()
    agent, _ = server.accept()
    try:
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        time.sleep(0.2)
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGTERM
        time.sleep(0.3)
        assert link.leaving is None and not ended
        os.kill(os.getpid(), signal.SIGUSR1)
        assert link.wait(lambda: link.leaving is not None, 5.0)
        assert link.leaving.reason == "sigusr1"
    finally:
        link.close()
        agent.close()
        server.close()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_frozen_state_is_a_copy_with_the_same_nesting():
    state = {"a": [torch.ones(2), (1, torch.zeros(1))], 7: {"b": None}, "t": 1.5}
    copy = frozen(state)
    state["a"][0].zero_()
    assert copy["a"][0].tolist() == [1.0, 1.0] and copy[7] == {"b": None}
    assert isinstance(copy["a"][1], tuple)


def test_buffers_of_the_broadcast_hold_each_tensor_once():
    sizes = [10 << 20, 30 << 20, 100 << 20, 0, 5, 40 << 20]
    runs = _runs(sizes)
    assert [i for begin, end in runs for i in range(begin, end)] == list(range(6))
    assert all(sum(sizes[b:e]) <= 32 << 20 or e - b == 1 for b, e in runs)
    assert _runs([]) == []


def test_data_of_all_kinds():
    def batch(data, indices, collate=None):
        feed, shuffled = source(data, collate, WholeGroup(len(indices)), None, None)
        assert shuffled and feed.length == len(data[0] if isinstance(data, tuple) else data)
        share = Share(0, 0, len(indices), 0, 1, torch.tensor(indices))
        return feed.take(share, lambda: iter([share]))[1]

    x = torch.arange(10)
    assert batch(x, [3, 1]).tolist() == [3, 1]
    assert batch((x, x * 2), [3, 1])[1].tolist() == [6, 2]
    assert batch(TensorDataset(x), [4])[0].tolist() == [4]
    assert batch([(i, i * i) for i in range(5)], [2, 4])[1].tolist() == [4, 16]
    assert batch(["a", "b"], [1, 0], "".join) == "ba"
