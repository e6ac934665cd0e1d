"""A model that is sharded within its node, and replicated over nodes that come and go."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

import lacuna
from conftest import HERE, SOURCE, start
from lacuna import sharding
from lacuna.checkpoint import Checkpoints
from lacuna.sharding import Node, Piece, joined
from lacuna.state import frozen

try:
    from torch.distributed.fsdp import FSDPModule, fully_shard

    THERE = hasattr(FSDPModule, "set_custom_reduce_scatter")
except ImportError:
    THERE = False
sharded = pytest.mark.skipif(not THERE, reason="sharded models: PyTorch 2.9")
#: Steps of an epoch of the test's program.
STEPS = 5


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The losses, weights and numbers of the same model on one process, which has it whole."""
    made = {}

    def train(*arguments):
        if arguments not in made:
            folder = tmp_path_factory.mktemp("whole")
            env = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
            env["LACUNA_NODE"] = "alone"
            argv = [sys.executable, str(HERE / "sharded.py"), "--whole", "--into", str(folder)]
            subprocess.run([*argv, *arguments], env=env, check=True, timeout=60)
            lines = (folder / "alone.steps").read_text().splitlines()
            losses = {step: loss for step, loss, *_ in map(json.loads, lines)}
            made[arguments] = losses, json.loads((folder / "alone.result").read_text())
        return made[arguments]

    return train


@pytest.fixture
def nodes(cluster):
    """Makes clusters of nodes with two workers that share a model."""

    def make(*arguments, **options):
        return cluster(*arguments, **{"workers": 2, "program": "sharded.py", **options})

    return make


def results(c):
    """What each worker wrote at its end, by name."""
    return {p.stem: json.loads(p.read_text()) for p in c.logs.glob("*.result")}


def assert_same(c, whole, epochs, tolerance=1e-12):
    """The losses and weights are those of the whole model, and each sample was used once."""
    losses, one = whole
    mine = c.losses()
    assert mine.keys() == losses.keys()
    assert max(abs(mine[step] - losses[step]) for step in losses) < tolerance
    for result in results(c).values():
        assert [round(n, 3) for n in result["used"]] == [epochs] * len(result["used"])
        apart = zip(result["weights"], one["weights"])
        assert max(abs(a - b) for a, b in apart) < tolerance


@sharded
@pytest.mark.parametrize(
    "arguments", [(), ("--batch", "3", "--samples", "30"), ("--passes", "2")], ids=str
)
def test_two_nodes_of_two_workers_train_as_one_process_with_the_whole_model(
    nodes, whole, arguments
):
    c, wanted = nodes("--epochs", "4", *arguments), whole("--epochs", "4", *arguments)
    start(c, "n1", "n2")
    assert [c.wait_gone(name, 60.0) for name in ("n1", "n2")] == [0, 0], c.words("n1")
    assert_same(c, wanted, 4)
    assert c.progress[-1]["world_size"] == 4
    found = results(c)
    assert len(found) == 4
    for kind in ("parameters", "optimisers"):
        for node in ("n1", "n2"):
            parts = [found[f"{node}.{rank}"][kind] for rank in (0, 1)]
            total = parts[0][1]
            assert sum(here for here, _ in parts) == total == wanted[1][kind][1]
            # Rows that do not come out even are those of the first worker.
            assert total / 2 <= parts[0][0] < 0.56 * total


@sharded
def test_nodes_join_leave_and_die_and_the_losses_stay(nodes, whole):
    c = nodes("--epochs", "60", "--sleep", "0.01")
    c.start("n3")
    start(c, "n1", "n2")
    c.wait_step(20)
    c.join("n3")
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 15)
    # The first node has rank 0.
    c.leave("n1")
    assert c.wait_gone("n1") == 75, c.words("n1")
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 15)
    c.signal("n2", signal.SIGKILL, 1)
    assert c.wait_gone("n2") == -signal.SIGKILL
    c.wait_together()
    assert c.progress[-1]["world_size"] == 2
    assert c.wait_gone("n3", 60.0) == 0, c.words("n3")
    assert_same(c, whole("--epochs", "60"), 60)


@sharded
def test_sigterm_to_one_worker_makes_its_node_leave_without_a_lost_step(nodes):
    c = nodes("--sleep", "0.01")
    start(c, "n1", "n2")
    c.wait_step(10)
    c.signal("n2", signal.SIGTERM, 1)
    assert c.wait_gone("n2") == 75
    assert [w.process.returncode for w in c.nodes["n2"].workers] == [75, 75]
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    runs = {}
    for step, _loss, run, _rank, _t in c.steps():
        runs.setdefault(step, set()).add(run)
    assert [step for step, found in runs.items() if len(found) > 1] == []


@sharded
def test_a_worker_that_is_busy_is_waited_for_with_its_node(nodes, whole):
    c = nodes("--epochs", "6", "--busy-at", "12", SHARDED_BUSY="n1/1", PROGRAM_TIMEOUT="1")
    start(c, "n1", "n2")
    assert [c.wait_gone(name, 60.0) for name in ("n1", "n2")] == [0, 0], c.words("n1")
    assert_same(c, whole("--epochs", "6"), 6)


@sharded
def test_a_checkpoint_is_read_by_any_number_of_nodes_and_of_workers(nodes, whole):
    wanted = whole("--epochs", "8")
    saved = nodes("--epochs", "8", "--sleep", "0.02", "--every", "5", folder="saved")
    start(saved, "n1", "n2")
    saved.wait_step(12)
    for name in ("n1", "n2"):
        saved.signal(name, signal.SIGTERM)
    assert [saved.wait_gone(name) for name in ("n1", "n2")] == [75, 75]
    last = max(line[0] for line in saved.steps())
    assert 12 <= last < 8 * STEPS
    for folder, names, workers, arguments in (
        ("one", ["n5"], 2, ()),
        ("three", ["n6", "n7", "n8"], 2, ()),
        ("workers", ["n9"], 3, ()),
        ("whole", ["n10"], 1, ("--whole",)),
    ):
        c = nodes("--epochs", "8", *arguments, folder=folder, workers=workers)
        shutil.copytree(saved.folder / "checkpoints", c.folder / "checkpoints")
        start(c, *names)
        assert [c.wait_gone(name, 60.0) for name in names] == [0] * len(names), c.words(names[0])
        assert min(c.losses()) == last + 1
        rest = {step: loss for step, loss in wanted[0].items() if step > last}
        assert_same(c, (rest, wanted[1]), 8)


@sharded
def test_under_torchrun(tmp_path, whole):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    env.pop("LACUNA_SOCKET", None)
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes", "1"]
    argv += ["--nproc_per_node", "2", str(HERE / "sharded.py"), "--epochs", "4"]
    done = subprocess.run(
        [*argv, "--into", str(tmp_path)], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "alone.steps").read_text().splitlines()]
    losses = whole("--epochs", "4")[0]
    assert {line[3] for line in lines} == {0, 1}
    assert max(abs(loss - losses[step]) for step, loss, *_ in lines) < 1e-12


@sharded
def test_the_example_of_the_readme_trains(tmp_path, cluster):
    text = (HERE.parent / "README.md").read_text()
    section = text[text.index("## Models larger than a device") :]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)
    program = tmp_path / "program.py"
    program.write_text(code + "\nprint('steps', run.steps_done)\n")
    c = cluster(workers=2, program=program)
    start(c, "n1", "n2")
    assert [c.wait_gone(name, 60.0) for name in ("n1", "n2")] == [0, 0], c.words("n1")
    assert re.findall(r"steps (\d+)", c.words("n1"))[0] != "0"


def part_of(tensor, dim, rank, count):
    """The piece of a worker as PyTorch cuts it."""
    chunks = list(tensor.chunk(count, dim))
    empty = tensor.narrow(dim, 0, 0)
    return Piece((chunks + [empty] * count)[rank], dim, tuple(tensor.shape))


@pytest.mark.parametrize("shape, dim", [((7, 3), 0), ((1,), 0), ((2, 6), 1), ((5, 2), 0)])
def test_pieces_of_any_number_of_workers_are_cut_anew(shape, dim):
    tensor = torch.randn(shape)
    for before in (1, 2, 3, 4):
        pieces = [part_of(tensor, dim, rank, before) for rank in range(before)]
        for after in (1, 2, 3, 4):
            for rank in range(after):
                found, wanted = joined(pieces, rank, after), part_of(tensor, dim, rank, after)
                assert torch.equal(found.part, wanted.part) and found.shape == wanted.shape


class Worker(Node):
    """A worker that agrees with itself, whatever the others have."""

    def __init__(self, rank, count):
        super().__init__()
        self.rank, self.count, self.token = rank, count, "abcdef"

    def gather(self, *numbers):
        return [numbers] * self.count


def state(step, rank, count):
    tensor = torch.arange(10.0) + step
    position = {"step": step, "epoch": 0, "offset": 0, "samples": step * 10}
    return {"model": {"w": part_of(tensor, 0, rank, count)}, "position": position, "sharded": True}


def test_a_checkpoint_is_complete_when_all_parts_are(tmp_path, caplog):
    stores = [Checkpoints(str(tmp_path), 2, Worker(rank, 2)) for rank in (0, 1)]
    for step in (1, 2, 3):
        for rank, store in enumerate(stores):
            assert store.save(state(step, rank, 2))
    stores[0].save(state(4, 0, 2))
    assert stores[1].look().step == 3
    # The part without the other one stays, the oldest checkpoint has gone.
    assert sorted({int(p.name[5:17]) for p in tmp_path.iterdir()}) == [2, 3, 4]
    for count in (1, 2, 3):
        found = [Checkpoints(str(tmp_path), 2, Worker(rank, count)).load() for rank in range(count)]
        assert {saved.step for _, saved in found} == {3}
        parts = [loaded["model"]["w"].part for loaded, _ in found]
        assert torch.equal(torch.cat(parts), torch.arange(10.0) + 3)
    damaged = stores[0].look().files[1].path
    damaged.write_bytes(damaged.read_bytes()[:-7])
    assert Checkpoints(str(tmp_path), 2, Worker(1, 2)).load()[1].step == 2
    assert "1of2.pt" in caplog.text
    # Its own part is whole, but the other worker finds its own damaged.
    class Other(Worker):
        def gather(self, samples, read):
            return [(samples, read), (samples, float(read and samples < 30))]

    assert Checkpoints(str(tmp_path), 2, Other(0, 2)).load()[1].step == 2


def test_frozen_pieces_do_not_change():
    part = torch.zeros(3)
    kept = frozen({"w": Piece(part, 0, (6,))})
    part += 1.0
    assert torch.equal(kept["w"].part, torch.zeros(3)) and kept["w"].shape == (6,)


def test_an_older_pytorch_is_refused_with_the_version_needed(monkeypatch):
    import torch.distributed.fsdp as fsdp

    monkeypatch.setattr(sharding, "_mesh", None)
    monkeypatch.delattr(fsdp, "FSDPModule", raising=False)
    with pytest.raises(RuntimeError, match=r"needs PyTorch 2\.9 or newer, this is "):
        lacuna.node_mesh()


@pytest.fixture
def mesh(monkeypatch):
    """A mesh of this process alone."""
    monkeypatch.delenv("LACUNA_SOCKET", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(sharding, "_mesh", None)
    yield lacuna.node_mesh()
    torch.distributed.destroy_process_group()


def trained(model, optimizer, **options):
    x = torch.randn(8, 4)
    with lacuna.elastic(model, optimizer, batch=4, checkpoint_every=1, **options) as run:
        for (rows,) in run.steps((x,), epochs=2):
            optimizer.zero_grad()
            loss = model(rows).pow(2).mean()
            loss.backward()
            run.step(loss)
    return run


@sharded
def test_models_that_are_not_sharded_as_a_whole_are_refused(mesh, tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))

    def refused(words, **options):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises((ValueError, RuntimeError), match=words):
            trained(model, optimizer, **options)

    refused(r"no parameter is sharded over it: call fully_shard")
    fully_shard(model[0], mesh=mesh)
    refused(r"parameter 1\.weight is not sharded, others are: call fully_shard on the whole")
    fully_shard(model, mesh=mesh)
    refused(r"shards are summed over nodes by gloo", backend="cpu:gloo,cuda:nccl")


@sharded
def test_a_state_of_a_whole_model_is_refused_by_a_sharded_one(monkeypatch, tmp_path):
    def made():
        model = nn.Linear(4, 2)
        return model, torch.optim.Adam(model.parameters())

    monkeypatch.setattr(sharding, "_mesh", None)
    trained(*made(), checkpoint_dir=str(tmp_path))
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    model = nn.Linear(4, 2)
    fully_shard(model, mesh=lacuna.node_mesh())
    try:
        with pytest.raises(RuntimeError, match="is that of a model which is not sharded"):
            trained(model, torch.optim.Adam(model.parameters()), checkpoint_dir=str(tmp_path))
        run = trained(model, torch.optim.Adam(model.parameters()), checkpoint_dir=None)
        assert run.steps_done == 4
    finally:
        torch.distributed.destroy_process_group()
