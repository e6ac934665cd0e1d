"""Kinds of training steps on several nodes give what they give on one, in float64."""

import json
import sys

import pytest
import torch

import kinds
from conftest import HERE, SOURCE, newer
from lacuna.loopback import Loopback

compiles = newer(hasattr(torch, "compile"), "torch.compile, PyTorch 2.0")
scales = newer(hasattr(torch.amp, "GradScaler"), "a gradient scaler on the CPU, PyTorch 2.3")


def on_nodes(kind, folder, count=2):
    """Losses and weights of rank 0, and the cluster whose programs have all ended."""
    result = folder / "result"
    argv = [sys.executable, str(HERE / "kinds.py"), kind, str(result)]
    with Loopback(argv, folder, env={"PYTHONPATH": SOURCE}) as cluster:
        names = [f"n{i}" for i in range(count)]
        for name in names:
            cluster.start(name)
        cluster.join(*names)
        codes = [cluster.wait_gone(name, 60.0) for name in names]
        words = [cluster.nodes[name].output.read_text() for name in names]
    return json.loads(result.read_text()), codes, words


def differ(mine, wanted):
    assert len(mine) == len(wanted)
    return max(abs(a - b) for a, b in zip(mine, wanted))


@pytest.mark.parametrize(
    "kind, tolerance",
    [
        ("plain", 1e-12),
        ("accumulation", 1e-12),
        ("more-passes", 1e-12),
        ("optimisers", 1e-9),
        ("sparse", 1e-12),
        pytest.param("compile", 1e-12, marks=compiles),
        pytest.param("scaler", 1e-12, marks=scales),
    ],
)
def test_two_nodes_train_as_one(kind, tolerance, tmp_path):
    losses, weights, _ = kinds.train(kind)
    (mine, ours), codes, words = on_nodes(kind, tmp_path)
    assert codes == [0, 0], words
    assert differ(mine, losses) < tolerance and differ(ours, weights) < tolerance
    again = [text.count("is done again: more gradients came") for text in words]
    # A way that no sample of the first steps took is sent before its first gradient comes.
    assert again[0] == again[1] <= 6 and (kind != "more-passes" or again[0] >= 1)
    assert "broke" not in words[0]


@scales
def test_a_gradient_that_overflows_at_one_member_is_skipped_by_all(tmp_path):
    (losses, _), _, _ = on_nodes("scaler", tmp_path)
    assert losses[-1] == 512.0


def test_halves_on_the_wire_lose_digits_only(tmp_path):
    losses, weights, _ = kinds.train("halves")
    (mine, ours), _, _ = on_nodes("halves", tmp_path)
    assert 1e-9 < differ(mine, losses) < 1e-2 and 1e-9 < differ(ours, weights) < 1e-2


def test_a_loss_that_is_not_finite_is_said_once_and_breaks_no_group(tmp_path):
    (losses, _), codes, words = on_nodes("nan", tmp_path)
    assert codes == [0, 0] and len(losses) == kinds.SAMPLES * kinds.EPOCHS // kinds.BATCH
    assert losses[kinds.EVENT - 1] == losses[kinds.EVENT - 1]
    assert losses[kinds.EVENT] != losses[kinds.EVENT]
    for text in words:
        assert text.count("the loss of step 9 is nan; gradients that are not finite: param") == 1
        assert text.count("not finite") == 1 and "broke" not in text


def test_a_member_that_dies_while_sums_are_under_way_costs_no_sample(tmp_path):
    losses, weights, _ = kinds.train("death")
    (mine, ours), codes, words = on_nodes("death", tmp_path, count=3)
    assert codes == [0, -9, 0], words
    assert "broke at step 8" in words[0]
    assert differ(mine, losses) < 1e-12 and differ(ours, weights) < 1e-12
