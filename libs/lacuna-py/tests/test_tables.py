"""Tables at members of their own: moved bit by bit, brought back from checkpoints, updated once."""

import argparse
import io
import json
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch

from benches import two_stage
from conftest import SOURCE, start
from lacuna import elastic, frames, stages
from lacuna.loopback import Loopback
from lacuna.messages import Membership
from lacuna.profile_layers import Call, _bytes, seconds
from lacuna_tables import Table, Tables, messages
from lacuna_tables.map import Directory, Map
from lacuna_tables.member import Holder, Refused, Server, _ask_for_share, connected
from lacuna_tables.rows import PARTS, Rows
from lacuna_tables.saving import restore, save
from tabled import BATCH, TABLES, ids, trained


class Member:
    """A table member in this process."""

    def __init__(self, folder, name, every=1000):
        self.name, self.directory = name, Directory(folder)
        self.holder = Holder(name, self.directory, every)
        self.server = Server(self.holder, "127.0.0.1", "secret")
        self.directory.announce(name, self.server.address, "secret")
        _ask_for_share(self.directory, name)

    def leave(self):
        self.directory.announce(self.name, self.server.address, "secret", leaving=True)
        whole = self.server.leave()
        self.directory.forget(self.name)
        return whole


def program(folder, name, *arguments):
    """A table member in a process of its own."""
    argv = [sys.executable, "-m", "lacuna_tables", str(folder), "--name", name]
    argv += ["--host", "127.0.0.1", *arguments]
    return subprocess.Popen(argv, env={"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"})


def ready(folder, count):
    end = time.monotonic() + 60.0
    while len(Directory(folder).members()) < count:
        assert time.monotonic() < end
        time.sleep(0.05)


def reference(steps):
    """The rows after steps at one member."""
    rows = {table.name: Rows(table) for table in TABLES}
    for one in rows.values():
        one.begin(range(PARTS))
    from lacuna.order import Order, Position

    order, at = Order(1024, 1), Position()
    for step in range(1, steps + 1):
        share = order.share(at, 0, 1, BATCH)
        for name, of in ids(share.indices).items():
            flat = of.reshape(-1)
            gradients = torch.full((len(flat), rows[name].table.width), 1.0 / BATCH)
            rows[name].stage(step, (0, 1), 0, 1, flat, gradients)
            rows[name].apply(step)
        at.advance(share.batch, 1024)
    return {name: one.look_up(torch.arange(one.table.rows)) for name, one in rows.items()}


def test_a_message_comes_as_it_was_sent_and_nothing_else_is_taken():
    one, other = socket.socketpair()
    tensors = {"ids": torch.arange(5), "rows": torch.randn(5, 3), "none": torch.empty(0, 4)}
    messages.send(one, {"say": "look_up"}, tensors)
    header, found = messages.receive(other)
    assert header["say"] == "look_up" and found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    short = '{"tensors": [["float32", [9]]], "state": {"dict": [["a", {"tensor": 0}]]}}'
    for text in ("[]", short):
        frames.send(one, {"tensors": text})
        with pytest.raises(ValueError):
            messages.receive(other)
    none = b"\0" * 8
    for wrong in (b"\xff" * 12, b"\0\0\0\3" + none + b"abc", b"\0\0\0\2" + none + b"[]"):
        with pytest.raises(ValueError):
            frames.receive(io.BytesIO(wrong))
    long = b"".join(bytes(piece) for piece in frames.pieces({}, [torch.zeros(9)]))
    with pytest.raises(ValueError, match="too long"):
        frames.receive(io.BytesIO(long), 40)
    with pytest.raises(ConnectionError):
        frames.receive(io.BytesIO(long[:-1]))


def test_maps_give_the_parts_of_one_that_leaves_to_all_and_a_newcomer_its_share():
    first = Map(1, {"t": Table("t", 10, 1)}, {"t": ["a", "b", "c"] * 10 + ["a", "b"]})
    without = first.without("b", ["a", "c"])
    assert [len(without.parts("t", one)) for one in "abc"] == [16, 0, 16]
    assert set(without.parts("t", "a")) > set(first.parts("t", "a"))
    joined = without.with_one("d")
    assert [len(joined.parts("t", one)) for one in "acd"] == [11, 11, 10]
    moved = [p for p in range(PARTS) if joined.holders["t"][p] != without.holders["t"][p]]
    assert len(moved) == 10


def test_a_map_has_one_writer(tmp_path):
    directory = Directory(str(tmp_path))
    one = Map(1, {"t": Table("t", 10, 1)}, {"t": ["a"] * PARTS})
    assert directory.publish(one) and not directory.publish(one)
    assert directory.newest() == one and directory.is_newest(1)
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())


def test_members_leave_and_join_and_every_bit_stays(tmp_path):
    members = {name: Member(str(tmp_path), name) for name in ("a", "b", "c")}

    def change(step):
        if step == 8:
            assert members["a"].leave()
        if step == 14:
            members["d"] = Member(str(tmp_path), "d")
        if step == 20:
            assert members["b"].leave()

    with Tables(str(tmp_path), TABLES, members=3) as tables:
        losses = trained(tables, 30, each=change)
        moved = tables.whole(30)
        assert tables.lost == {"users": {}, "items": {}}
    assert Directory(str(tmp_path)).newest().members == ["c", "d"]
    still = tmp_path / "still"
    Member(str(still), "a")
    with Tables(str(still), TABLES) as tables:
        assert trained(tables, 30) == losses
        rows = tables.whole(30)
    assert all(torch.equal(rows[name], moved[name]) for name in rows)
    expected = reference(30)
    assert all(torch.allclose(rows[name], expected[name], atol=1e-6) for name in rows)


def test_rows_that_move_while_they_are_looked_up_ahead_have_the_same_bits(tmp_path):
    def losses(folder, lookup):
        """Member ``a`` leaves in this lookup of rows, before its answer."""
        members = {name: Member(str(folder), name) for name in ("a", "b")}
        seen = []

        def wanted(index):
            seen.append(index)
            if len(seen) == lookup:
                assert members["a"].leave()
            return ids(index)

        with Tables(str(folder), TABLES, members=2) as tables:
            return trained(tables, 12, ids=wanted)

    still = losses(tmp_path / "still", 0)
    # Each step looks up its own rows, then those of the next one: step 4 ahead, step 5 its own.
    for lookup in (8, 9):
        assert losses(tmp_path / str(lookup), lookup) == still


def test_the_last_member_leaves_its_rows_in_a_checkpoint(tmp_path):
    one = Member(str(tmp_path), "a")
    with Tables(str(tmp_path), TABLES) as tables:
        trained(tables, 10)
        before = tables.whole(10)
    assert not one.leave()
    Member(str(tmp_path), "b")
    with Tables(str(tmp_path), TABLES) as tables:
        after = tables.whole(10)
        assert tables.lost == {"users": {}, "items": {}}
    assert all(torch.equal(after[name], before[name]) for name in after)


def test_a_killed_member_comes_back_from_its_checkpoint_and_the_loss_is_stated(tmp_path):
    programs = [program(tmp_path, name, "--every", "10") for name in ("a", "b")]
    try:
        ready(str(tmp_path), 2)
        with Tables(str(tmp_path), TABLES, members=2) as tables:
            first = Directory(str(tmp_path)).newest()
            victim = next(name for name in first.members if name.startswith("a"))

            def change(step):
                if step == 26:
                    programs[0].kill()
                    programs[0].wait(10.0)

            trained(tables, 40, each=change)
            found = tables.whole(40)
            lost = tables.lost
    finally:
        for one in programs:
            one.kill()
            one.wait(10.0)
    expected = reference(40)
    for table in TABLES:
        mine = first.parts(table.name, victim)
        # Saved at step 20; the first lookup without it is that of step 25 or 26.
        assert sorted(lost[table.name]) == mine
        assert set(lost[table.name].values()) <= {5, 6}
        of = torch.arange(table.rows) % PARTS
        others = ~torch.isin(of, torch.tensor(mine))
        assert torch.allclose(found[table.name][others], expected[table.name][others], atol=1e-6)
        assert not torch.allclose(found[table.name], expected[table.name], atol=1e-6)


def test_dense_members_die_and_each_update_counts_once(tmp_path, cluster):
    folder = tmp_path / "tables"
    argv = [sys.executable, "-m", "lacuna_tables", str(folder), "--host", "127.0.0.1"]
    with Loopback(argv, tmp_path, env={"PYTHONPATH": SOURCE}) as holders:
        holders.start("a")
        holders.start("b")
        one = cluster(
            *("--tables", str(folder), "--steps", "75", "--pause", "0.02"), program="tabled.py"
        )
        start(one, "n1", "n2", "n3")
        holders.join("a", "b")
        one.wait_step(10)
        one.signal("n1", signal.SIGKILL)
        one.wait_step(30)
        holders.leave("a")
        assert holders.wait_gone("a") == 75
        one.wait_step(50)
        one.leave("n2")
        assert one.wait_gone("n3", 60.0) == 0
        result = json.loads((tmp_path / "run" / "rows.json").read_text())
    assert result["lost"] == {"users": {}, "items": {}}
    expected = reference(75)
    for name, rows in result["rows"].items():
        assert torch.allclose(torch.tensor(rows), expected[name], atol=1e-5), name


def test_one_trainer_has_both_stages_on_nodes_of_its_own(tmp_path, cluster):
    one = cluster("--steps", "60", "--pause", "0.02", program="tabled.py", LACUNA_TABLE_NODES="c*")
    start(one, "c1", "c2", "n1", "n2")
    one.wait_step(8)
    one.leave("c1")
    assert one.wait_gone("c1") == 75
    one.wait_step(20)
    one.signal("n1", signal.SIGKILL)
    one.wait_step(30)
    assert (one.wait_gone("n2", 60.0), one.wait_gone("c2")) == (0, 0)
    assert len(list((tmp_path / "run" / "tables").glob("*.rows"))) == 2
    result = json.loads((tmp_path / "run" / "rows.json").read_text())
    assert result["lost"] == {"users": {}, "items": {}}
    assert {said["world_size"] for said in one.progress} == {1, 2}
    expected = reference(60)
    for name, rows in result["rows"].items():
        assert torch.allclose(torch.tensor(rows), expected[name], atol=1e-5), name


def test_nodes_of_tables_are_named_by_patterns(monkeypatch, tmp_path):
    assert stages.holds_tables({}) is None and not stages.is_table_node({"LACUNA_NODE": "c1"})
    names = {"LACUNA_TABLE_NODES": "cpu*, fat1"}
    holds = stages.holds_tables(names)
    assert [holds(name) for name in ("cpu7", "fat1", "fat12", "gpu1")] == [True, True, False, False]
    run = Membership(7, 2, ("cpu1", "gpu1", "gpu2"), "s:1").without(holds)
    assert (run.rank, run.members) == (1, ("gpu1", "gpu2"))
    monkeypatch.setenv("LACUNA_TABLE_NODES", "c*")
    monkeypatch.setenv("LACUNA_NODE", "c1")
    model = torch.nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match="lacuna_tables.Tables before"):
        elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
    Directory(str(tmp_path)).end()
    monkeypatch.setattr("lacuna_tables.tables.leave_now", sys.exit)
    with pytest.raises(SystemExit) as ended:
        Tables(str(tmp_path), TABLES)
    assert ended.value.code == 0


def test_a_wrong_token_is_refused_and_wrong_rows_are_named(tmp_path):
    one = Member(str(tmp_path), "a")
    with pytest.raises(Refused, match="token"):
        connected(one.server.address, "guessed")
    with Tables(str(tmp_path), [Table("users", 200, 4)]) as tables:
        with pytest.raises(Refused, match="rows 0 to 199"):
            tables._look_up({"users": torch.tensor([200])}, 0)
    with pytest.raises(ValueError, match="other tables"):
        Tables(str(tmp_path), [Table("users", 300, 4)])
    with pytest.raises(TimeoutError, match="-m lacuna_tables"):
        Tables(str(tmp_path / "empty"), TABLES, patience=0.1)


def test_two_stages_overlap_and_are_as_fast_as_the_slower_one(tmp_path):
    options = argparse.Namespace(steps=3, no_ahead=False)
    tables, dense = {"kind": "slow", "units": 1}, {"kind": "fast", "units": 2}
    found = two_stage._measured(options, tmp_path, tables, dense)
    # 0.9 ms of the tables beside 1.4 / 2 ms of the dense part; one after the other 1.6 ms.
    assert found["steps"] == 3 and 1 / 1.6e-3 < found["rate"] < 1.02 / 0.9e-3


def test_the_profile_of_paced_layers_has_their_seconds():
    layer = two_stage.Paced(torch.nn.Linear(4, 4), 1e-3)
    took = seconds(Call("layer", layer, (torch.randn(20, 4),), {}, 0.0), 20, 20)
    assert 0.02 <= took < 0.1
    lookup, ids = two_stage.fast()[0][0], torch.zeros(8, 2, dtype=torch.int64)
    assert lookup(ids).shape == (8, 32) and _bytes(lookup) == (0.0, 4.0 * 16 * 25_000)


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("name", ["adagrad", "sgd", "adam"])
def test_rows_change_as_by_the_optimizer_of_pytorch(name, every, tmp_path):
    table = Table("t", 70, 3, rate=0.03, optimizer=name)
    rows = Rows(Table.of(table.described()))
    rows.begin(range(PARTS))
    weights = torch.nn.Parameter(rows.look_up(torch.arange(70)))
    kinds = {"adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimizer = kinds[name]([weights], lr=0.03)
    if name == "adam" and not every:
        # Adam moves rows that have no gradients; those of SparseAdam stay. It adds epsilon to the
        # root before that is corrected, so at step 1 its own is 32 times as large.
        optimizer = torch.optim.SparseAdam([weights], lr=0.03, eps=3e-10)
    generator = torch.Generator().manual_seed(1)
    for step in range(1, 13):
        drawn = torch.randint(70, (2, 25), generator=generator)
        drawn = [torch.cat([one, torch.arange(70)]) if every else one for one in drawn]
        whole = torch.zeros(70, 3)
        for rank, ids in enumerate(drawn):
            gradients = torch.randn(len(ids), 3, generator=generator)
            rows.stage(step, (0, 2), rank, 2, ids, gradients)
            whole.index_add_(0, ids, gradients)
        touched = torch.unique(torch.cat(list(drawn)))
        sparse = torch.sparse_coo_tensor(touched[None], whole[touched], (70, 3))
        weights.grad = sparse if isinstance(optimizer, torch.optim.SparseAdam) else whole
        optimizer.step()
        rows.apply(step)
        if step == 6:
            save(tmp_path, rows, "a")
            rows = Rows(table)
            assert restore(tmp_path, rows, list(range(PARTS))) == 6
    assert torch.allclose(rows.look_up(torch.arange(70)), weights.detach(), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="expected adagrad, sgd, adam"):
        Table("t", 70, 3, optimizer="lion")


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    table = Table("t", 70, 3)
    rows = Rows(table)
    rows.begin(range(PARTS))
    for step in (1, 2):
        rows.stage(step, (0, 1), 0, 1, torch.arange(70), torch.ones(70, 3))
        rows.apply(step)
        save(tmp_path, rows, "a")
        kept = kept if step == 2 else rows.look_up(torch.arange(70))  # noqa: F821
    newest = max(tmp_path.glob("*.rows"))
    data = bytearray(newest.read_bytes())
    data[-3] ^= 1
    newest.write_bytes(data)
    again = Rows(table)
    assert restore(tmp_path, again, list(range(PARTS))) == 1
    assert torch.equal(again.look_up(torch.arange(70)), kept)
    again.apply(2)
    assert again.lost == {part: 1 for part in range(PARTS)}
