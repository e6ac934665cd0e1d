"""Common loops are right with Lacuna, or refused with the line to write."""

import gc
import json
import os
import subprocess
import sys

import pytest
import torch
import turns
from torch.utils.checkpoint import checkpoint

import lacuna
from benches import loops
from conftest import HERE, SOURCE, data
from lacuna.checkpoint import Checkpoints
from lacuna.loopback import Loopback
from lacuna.order import TRIED, Order, Position, cut, uneven
from lacuna.scales import LOOKS, Scales


@pytest.fixture(autouse=True)
def collected():
    """Tensors of earlier tests are looked at as a program's are, as long as they are there."""
    gc.collect()


ENV = {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("name", loops.LOOPS)
def test_a_loop_is_right_or_refused(name):
    found = loops.row(name, loops.on_two, ENV)
    if "needs" in found:
        pytest.skip(f"newer-torch: {found['needs']}")
    assert found["right"], found


def test_an_average_is_found_among_older_tensors_of_its_shape():
    """As those that earlier tests have left, which are garbage in no certain moment."""
    older = [torch.zeros(8, 4, dtype=torch.float64) for _ in range(20)]
    loop = loops.LOOPS["moving average in a dict"]
    assert str(loop.refused) in str(loops.ended(loop.after, loop.samples)) and len(older) == 20


@pytest.mark.parametrize("total", [{}, {"LACUNA_SAMPLES_TOTAL": "256"}])
def test_the_loop_that_trained_a_quarter_says_so(total, tmp_path):
    program = data("cases/steps-in-an-epoch-loop/input.py")
    env = {**os.environ, **ENV, **total, "LACUNA_CHECKPOINT_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "epoch 0 steps 8\n"
    assert "all 1 epochs are done: `epochs` counts from the beginning" in done.stderr


def test_a_program_that_begins_again_when_all_is_done_just_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("LACUNA_CHECKPOINT_DIR", str(tmp_path))
    text = loops.LOOPS["an outer loop that counts"].after
    first = loops.train(text, 70)
    assert loops.train(text, 70) == first


def test_the_best_is_saved_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("LACUNA_CHECKPOINT_DIR", str(tmp_path))
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count, news = lacuna.Value(0), []
    for epochs, found in ((1, 0.5), (2, 0.04), (3, 0.6)):
        with lacuna.elastic(model, optimizer, batch=8, state={"count": count}) as run:
            for x in run.steps(torch.ones(8, 2), epochs=epochs):
                model(x).mean().backward()
                run.step()
                count.value += 1
                news.append(run.best("right", {"right": found}))
            assert run.bests == {"right": max(0.5, found)}
        # The next one has what was saved, and nothing else.
        count = lacuna.Value(0)
    assert news == [True, False, True]
    state = Checkpoints(str(tmp_path), 3).load()[0]
    assert state["extra"]["count"]["value"] == 3


def test_optimiser_and_scheduler_are_as_before_behind_the_loop():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before, state = optimizer.step, set(scheduler.state_dict())
    with lacuna.elastic(model, optimizer, scheduler=scheduler, batch=8) as run:
        optimizer.step()
        for x in run.steps(torch.ones(16, 2), epochs=1):
            model(x).mean().backward()
            run.step()
            break
        optimizer.step()
        scheduler.step()
    assert optimizer.step == before and set(scheduler.state_dict()) == state


def test_a_program_may_look_at_gradients_and_give_its_own():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []
    with lacuna.elastic(model, optimizer, batch=8) as run:
        for x in run.steps(torch.ones(16, 2), epochs=1):
            loss = model(x).mean()
            if not norms:
                loss.backward()
            else:
                own = list(model.parameters())
                for p, grad in zip(own, torch.autograd.grad(loss, own)):
                    p.grad = grad
            norms.append(sum(float(p.grad.norm()) for p in model.parameters()))
            run.step(loss)
    assert len(norms) == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_passes_within_passes_are_no_change(reentrant):
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with lacuna.elastic(model, optimizer, batch=8) as run:
        for x in run.steps(torch.ones(24, 4), epochs=1):
            x.requires_grad_()
            for layer in layers:
                x = checkpoint(layer, x, use_reentrant=reentrant)
            (grad,) = torch.autograd.grad(model[-1](x).sum(), x, create_graph=True)
            loss = model[-1](x).mean() + grad.pow(2).mean()
            loss.backward(retain_graph=True)
            other = model(torch.ones(2, 4)).mean()
            other.backward()
            run.step(loss + other)
        assert run.steps_done == 3


def test_a_newcomer_has_the_best_of_the_others(tmp_path):
    """Its own first number, which is worse, does not become the best, and no member saves it."""
    argv = [sys.executable, str(HERE / "bests.py"), str(tmp_path)]
    with Loopback(argv, tmp_path, env=ENV) as cluster:
        cluster.start("n2")
        cluster.join("n2")
        cluster.wait_step(12)
        # Control gives the first of all names rank 0.
        cluster.start("n1")
        cluster.join("n1")
        cluster.wait_together()
        (tmp_path / "end").touch()
        assert [cluster.wait_gone(name, 60.0) for name in ("n1", "n2")] == [0, 0]
    said = {n: json.loads((tmp_path / f"{n}.bests").read_text()) for n in ("n1", "n2")}
    assert said["n1"]["bests"] == said["n2"]["bests"] == {"right": 1.0}
    assert said["n1"]["news"] == [] and said["n2"]["news"] == [1], said


def test_a_member_that_dies_between_two_turns_leaves_each_of_them_done_once(tmp_path):
    both, optimizers, data = turns.parts()
    batches = list(zip(*(part.split(turns.BATCH) for part in data))) * turns.EPOCHS
    wanted = turns.trained(both, optimizers, batches, lambda loss, optimizer: optimizer.step())
    argv = [sys.executable, str(HERE / "turns.py"), str(tmp_path)]
    with Loopback(argv, tmp_path, env=ENV) as cluster:
        for name in ("n1", "n2", "n3"):
            cluster.start(name)
        cluster.join("n1", "n2")
        cluster.wait_step(turns.DIES_AT + 3)
        cluster.join("n3")
        assert [cluster.wait_gone(name, 60.0) for name in ("n1", "n3")] == [0, 0]
        assert {said["world_size"] for said in cluster.progress} == {1, 2}
    for name in ("n1", "n3"):
        found = json.loads((tmp_path / f"{name}.end").read_text())
        assert max(abs(a - b) for a, b in zip(found, wanted)) < 1e-9, name


def test_a_block_for_each_epoch_says_so_where_a_checkpoint_has_done_them(tmp_path, monkeypatch):
    text = loops.LOOPS["a with block for each epoch"].after
    loops.train(text, 70)
    monkeypatch.setenv("LACUNA_CHECKPOINT_DIR", str(tmp_path))
    with pytest.raises(RuntimeError, match="all 1 epochs are done"):
        loops.train(text, 70)


def looked_at(loss_of, seed):
    """Looks at losses of the shares that one of two members gets of 64 samples."""
    generator = torch.Generator().manual_seed(seed)
    order, at, found = Order(64, seed), Position(), Scales()
    found.begin()
    try:
        for _ in range(3 * LOOKS):
            share = order.share(at, seed % 2, 2, 8, tries=True)
            rows = torch.ones(share.count, 1, requires_grad=True)
            found.batch(share.count)
            loss = loss_of(rows, generator)
            loss.backward()
            found.check(loss, 2)
            at.advance(share.batch, 64)
    finally:
        found.close()


def tokens(rows, generator):
    """As many as one to three for each sample."""
    return int(torch.randint(1, 4, (len(rows),), generator=generator).sum())


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda rows, _: rows.mean() / 7,
        lambda rows, _: rows.sum() / len(rows),
        lambda rows, _: 0.5 * rows.pow(2).sum() / rows.numel(),
        lambda rows, _: rows.pow(2).sum() / (2 * len(rows)),
        lambda rows, _: (rows / len(rows)).sum(),
        lambda rows, _: (rows * torch.full_like(rows, 1 / len(rows))).sum(),
        lambda rows, _: rows.sum(1).mean() + rows.sum() * 0.0,
        lambda rows, _: (rows / len(rows)).sum(1).sum(),
        lambda rows, _: torch.stack([row.mean() / len(rows) for row in rows]).sum(),
        lambda rows, _: (rows / len(rows) + rows.pow(2) / len(rows)).sum(),
        lambda rows, _: (rows / len(rows) ** 0.5).pow(2).sum(),
        lambda rows, given: rows.sum() / tokens(rows, given),
        lambda rows, given: rows.mean() * tokens(rows, given),
    ],
)
def test_no_loss_is_refused_whose_divisor_may_be_its_samples(loss_of):
    for seed in range(40):
        looked_at(loss_of, seed)


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda rows, _: rows.sum() / 8,
        lambda rows, _: rows.sum() * 0.125,
        lambda rows, _: (rows / 8).sum(),
        lambda rows, _: -rows.mean() + rows.view(-1).sum() / 100,
        lambda rows, _: rows.mean() * len(rows) / 8,
        lambda rows, _: torch.nn.functional.mse_loss(rows, rows.detach(), reduction="sum") / 8,
    ],
)
def test_a_constant_in_place_of_the_samples_is_found(loss_of):
    for seed in range(4):
        with pytest.raises(RuntimeError, match="divided by|multiplied by"):
            looked_at(loss_of, seed)


def test_each_member_gets_a_share_of_another_size():
    for world in range(2, 10):
        for batch in range(2 * world, 5 * world):
            even = [len(range(*cut(batch, rank, world))) for rank in range(world)]
            others = [uneven(batch, world, step) for step in TRIED]
            assert all(sum(one) == batch and min(one) > 0 for one in others)
            assert all(len({*sizes}) > 1 for sizes in zip(even, *others)), (world, batch)


@pytest.mark.parametrize(
    "follow",
    [
        lambda kept, w: kept.copy_(w),
        lambda kept, w: kept.copy_(0.5 * w),
        lambda kept, w: kept.copy_(w / w.norm()),
        lambda kept, w: kept.copy_(w * (w.abs() > 0.1)),
        lambda kept, w: kept.copy_(w.half()),
        lambda kept, w: kept.mul_(0.9).add_(w.grad),
        lambda kept, w: kept.add_(torch.randn_like(kept)),
        lambda kept, w: kept.add_(w),
        lambda kept, w: None,
    ],
)
def test_a_tensor_that_is_no_average_of_the_weights_needs_no_state(follow):
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = torch.zeros_like(model.weight)
    with lacuna.elastic(model, optimizer, batch=8) as run:
        for x in run.steps(torch.randn(64, 16), epochs=2):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            run.step(loss)
            with torch.no_grad():
                follow(kept, model.weight)


@pytest.mark.parametrize("decay", [0.5, 0.99, 0.999])
def test_an_average_is_found_in_any_type(decay):
    for kind in (torch.float32, torch.float64):
        model = torch.nn.Linear(16, 4).to(kind)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept = [p.detach().clone() for p in model.parameters()]
        with pytest.raises(RuntimeError, match="moving average"):
            with lacuna.elastic(model, optimizer, batch=8) as run:
                for x in run.steps(torch.randn(64, 16, dtype=kind), epochs=4):
                    optimizer.zero_grad()
                    loss = model(x).pow(2).mean()
                    loss.backward()
                    run.step(loss)
                    for old, new in zip(kept, model.parameters()):
                        old.lerp_(new.detach(), 1.0 - decay)
