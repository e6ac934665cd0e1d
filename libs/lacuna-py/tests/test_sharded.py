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
from conftest import HERE, SOURCE, Cluster, goes_on, newer, start
from lacuna import sharding
from lacuna.checkpoint import Checkpoints
from lacuna.keys import version
from lacuna.sharding import Node, Piece, joined
from lacuna.state import frozen

if version() >= sharding.NEEDED:
    from torch.distributed.fsdp import fully_shard
sharded = newer(version() >= sharding.NEEDED, "sharded models, PyTorch 2.9")
#: Sums in another order differ by this much at most.
TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The losses, weights and numbers of the same model on one process, which has it whole."""
    made = {}

    def train(*arguments):
        if arguments not in made:
            folder = tmp_path_factory.mktemp("whole")
            env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
            env["LACUNA_NODE"] = "alone"
            argv = [sys.executable, str(HERE / "sharded.py"), "--whole", "--into", str(folder)]
            subprocess.run([*argv, *arguments], env=env, check=True, timeout=120)
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


def assert_same(c, whole):
    """The losses and weights are those of the whole model."""
    losses, one = whole
    mine = c.losses()
    assert mine.keys() == losses.keys()
    assert max(abs(mine[step] - losses[step]) for step in losses) < TOLERANCE
    for result in results(c).values():
        apart = zip(result["weights"], one["weights"])
        assert max(abs(a - b) for a, b in apart) < TOLERANCE


@sharded
def test_two_nodes_of_two_workers_train_as_one_process_with_the_whole_model(nodes, whole):
    # The last step of an epoch has two samples for four workers, and one of them is busy once.
    arguments = ("--epochs", "4", "--samples", "92", "--passes", "2")
    busy = {"SHARDED_BUSY": "n1/1", "PROGRAM_TIMEOUT": "1"}
    c, wanted = nodes(*arguments, "--busy-at", "12", **busy), whole(*arguments)
    start(c, "n1", "n2")
    assert [c.wait_gone(name, 60.0) for name in ("n1", "n2")] == [0, 0], c.words("n1")
    assert_same(c, wanted)
    assert "was let go at step 12: busy" in c.words("n1")
    assert c.progress[-1]["world_size"] == 4
    assert {rank for *_, rank, _t in c.steps()} == {0, 1, 2, 3}
    found = results(c)
    for kind in ("parameters", "optimisers"):
        for node in ("n1", "n2"):
            parts = [found[f"{node}.{rank}"][kind] for rank in (0, 1)]
            total = parts[0][1]
            assert sum(here for here, _ in parts) == total == wanted[1][kind][1]
            # Rows that do not come out even are those of the first worker.
            assert total / 2 <= parts[0][0] < 0.56 * total


def ended(c, *names):
    start(c, *names)
    assert [c.wait_gone(name, 60.0) for name in names] == [0] * len(names), c.words(names[0])
    return list(results(c).values())


@sharded
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_the_noise_scale_is_that_of_nodes_with_the_whole_model(nodes, optimiser):
    arguments = ("--noise", optimiser, "--epochs", "7", "--samples", "96", "--batch", "12")
    found = ended(nodes(*arguments, folder="sharded"), "n1", "n2")
    wanted = ended(nodes(*arguments, "--whole", folder="whole", workers=1), "n1", "n2")
    assert wanted[0]["noise"] is not None
    for one in found:
        # The squared norm of the true gradient is a difference of two large numbers.
        variance, square = wanted[0]["noise"]
        assert one["noise"][0] == pytest.approx(variance, rel=1e-6)
        assert one["noise"][1] == pytest.approx(square, abs=1e-9 * variance, rel=1e-6)
    alone = ended(nodes(*arguments, folder="alone"), "n1")
    assert alone[0]["noise"] is None, "one node has nothing to compare its gradient with"


@sharded
def test_nodes_of_unequal_speed_share_by_it(nodes, whole):
    arguments = ("--epochs", "14", "--batch", "24", "--samples", "96")
    c = nodes(*arguments, "--slow", "n1")
    found = ended(c, "n1", "n2")
    assert_same(c, whole(*arguments))
    shares = found[0]["shares"]
    assert all(one["shares"] == shares for one in found) and sum(shares) == 24
    # Workers of a node have even parts, and the best is 6 and 18 samples.
    assert all(abs(a - b) <= 1 for a, b in (shares[:2], shares[2:]))
    assert 4 <= sum(shares[:2]) <= 9


@sharded
@pytest.mark.parametrize("more", [("--data", "stream"), ("--turns",)], ids=["stream", "turns"])
def test_streams_and_turns_of_optimisers_train_as_the_whole_model(nodes, whole, more):
    # The last step of an epoch has two samples for four workers.
    arguments = ("--epochs", "4", "--samples", "92", *more)
    c = nodes(*arguments)
    ended(c, "n1", "n2")
    assert_same(c, whole(*arguments))


@sharded
def test_loaders_on_other_nodes_read_for_workers_with_shards(nodes, whole):
    arguments = ("--epochs", "40", "--data", "items")
    c = nodes(*arguments, folder="run")
    file = str(c.folder / "loaders.json")
    c._env["LACUNA_LOADERS"] = file
    c._argv += ["--sleep", "0.02"]
    argv = [sys.executable, "-m", "lacuna.loader", "--join", file, "--processes", "1", "--"]
    loader = subprocess.Popen([*argv, *c._argv, "--whole"], env={**os.environ, **c._env})
    try:
        found = ended(c, "n1", "n2")
    finally:
        loader.terminate()
        loader.wait(10.0)
    assert_same(c, whole(*arguments))
    assert all(one["loaders"] == 1 for one in found)


EPOCHS = ("--epochs", "40")


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A cluster that has trained to its end; its nodes joined, left and died meanwhile."""
    folder = tmp_path_factory.mktemp("changed")
    arguments = (*EPOCHS, "--sleep", "0.01", "--every", "10", "--keep", "100")
    with Cluster(folder, *arguments, workers=2, program="sharded.py") as c:
        c.start("n3")
        start(c, "n1", "n2")
        c.wait_step(20)
        c.join("n3")
        goes_on(c, 15)
        # The first node has rank 0, and only one of its workers is asked.
        c.signal("n1", signal.SIGTERM, 1)
        assert c.wait_gone("n1") == 75, c.words("n1")
        goes_on(c, 15)
        c.signal("n2", signal.SIGKILL, 1)
        assert c.wait_gone("n2") == -signal.SIGKILL
        c.wait_together()
        assert c.progress[-1]["world_size"] == 2
        assert c.wait_gone("n3", 60.0) == 0, c.words("n3")
        yield c


@sharded
def test_nodes_join_leave_and_die_and_the_losses_stay(changed, whole):
    assert_same(changed, whole(*EPOCHS))
    for result in results(changed).values():
        assert [round(n, 3) for n in result["used"]] == [40] * 90
    assert [w.process.returncode for w in changed.nodes["n1"].workers] == [75, 75]
    runs = {}
    for step, _loss, run, _rank, _t in changed.steps():
        runs.setdefault(step, set()).add(run)
    # The one that died cost at most one step, the others none.
    assert len([step for step, found in runs.items() if len(found) > 1]) <= 1


@sharded
def test_a_checkpoint_is_read_by_any_number_of_nodes_and_of_workers(changed, nodes, whole):
    losses, _ = whole(*EPOCHS)

    def resumed(before, names, *arguments, folder, **options):
        """A cluster that has gone on from the checkpoint of another one."""
        c = nodes("--sleep", "0.01", *arguments, folder=folder, **options)
        shutil.copytree(before, c.folder / "checkpoints")
        start(c, *names)
        goes_on(c)
        mine = c.losses()
        assert all(abs(loss - losses[step]) < TOLERANCE for step, loss in mine.items())
        return c, min(mine)

    early = changed.folder / "early"
    early.mkdir()
    for path in (changed.folder / "checkpoints").glob("step-000000000020-*"):
        shutil.copy(path, early)
    assert len(list(early.iterdir())) == 4
    one, first = resumed(early, ["n5"], folder="one")
    assert first == 21
    # All leave: each worker saves its part of the last step.
    one.signal("n5", signal.SIGTERM)
    assert one.wait_gone("n5") == 75
    last = max(one.losses())
    late = one.folder / "checkpoints"
    assert resumed(late, ["n6", "n7", "n8"], folder="three")[1] == last + 1
    assert resumed(late, ["n9"], "--whole", folder="alone", workers=1)[1] == last + 1


@sharded
def test_the_example_of_the_page_trains_under_torchrun(tmp_path):
    text = (HERE.parent / "ADVANCED.md").read_text()
    section = text[text.index("## Models larger than a device") :]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)
    program = tmp_path / "program.py"
    program.write_text(code + "\nprint(f'{run.rank} of {run.world_size}: {run.steps_done}')\n")
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes", "1"]
    done = subprocess.run(
        [*argv, "--nproc_per_node", "2", str(program)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"([01]) of 2: 16", done.stdout)) == {"0", "1"}


def part_of(tensor, dim, rank, count):
    """The piece of a worker as PyTorch cuts it."""
    chunks = list(tensor.chunk(count, dim))
    empty = tensor.narrow(dim, 0, 0)
    return Piece((chunks + [empty] * count)[rank], dim, tuple(tensor.shape))


@pytest.mark.parametrize("shape, dim", [((7, 3), 0), ((1,), 0), ((2, 6), 1), ((5, 2), 0)])
def test_pieces_of_any_number_of_workers_are_cut_again(shape, dim):
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
    monkeypatch.setattr(torch, "__version__", "2.8.1")
    with pytest.raises(RuntimeError, match=r"needs PyTorch 2\.9 or newer, this is 2\.8\.1"):
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
