"""The example trainers: alone, and unchanged with nodes that join and leave; one under torchrun."""

import os
import re
import signal
import subprocess
import sys

import pytest
import torch

from conftest import HERE, SOURCE
from lacuna.loopback import Loopback

EXAMPLES = HERE.parent / "examples"
SMALL = {
    "cnn_images.py": ["--images", "512", "--epochs", "3", "--rate", "0.01", "--every", "4"],
    "char_transformer.py": [
        *("--sentences", "200", "--epochs", "2", "--width", "16", "--layers", "1"),
        *("--length", "32", "--every", "4"),
    ],
    "lstm_language.py": [
        *("--tokens", "8000", "--epochs", "3", "--width", "16", "--layers", "1"),
        *("--words", "20", "--rate", "0.1", "--every", "4"),
    ],
}


def environment(folder):
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    env.pop("LACUNA_SOCKET", None)
    env["LACUNA_CHECKPOINT_DIR"] = str(folder / "checkpoints")
    return env


@pytest.mark.parametrize("name", SMALL)
def test_alone_it_learns_and_can_be_repeated(name, tmp_path):
    argv = [sys.executable, str(EXAMPLES / name), *SMALL[name]]
    outputs = []
    for i in range(2):
        done = subprocess.run(
            argv, env=environment(tmp_path / str(i)), capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] and outputs[0].startswith("seed 1\n")
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", outputs[0])]
    assert len(losses) >= 6 and sum(losses[-2:]) < 0.9 * sum(losses[:2]), losses


def test_the_loop_with_lacuna_learns_as_the_one_before(tmp_path):
    best = []
    for name in ("cnn_plain.py", "cnn_lacuna.py"):
        folder = tmp_path / name
        folder.mkdir()
        argv = [sys.executable, str(EXAMPLES / name), "--epochs", "2"]
        done = subprocess.run(
            argv, env=environment(folder), cwd=folder, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        best.append(float(re.findall(r"^best ([0-9.]+)$", done.stdout, re.MULTILINE)[0]))
        assert "4.weight" in torch.load(folder / "best.pt")
    assert min(best) > 0.5 and abs(best[0] - best[1]) < 0.25, best


JOINING = {**SMALL, "cnn_lacuna.py": []}


@pytest.mark.parametrize("name", JOINING)
def test_unchanged_while_nodes_join_and_leave(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [sys.executable, str(EXAMPLES / name), *JOINING[name], "--epochs", "100000"]
    env = {**environment(tmp_path), "LACUNA_SAMPLES_TOTAL": "6000"}
    with Loopback(argv, tmp_path, env=env) as cluster:
        cluster.start("n1")
        cluster.start("n2")
        cluster.join("n1")
        cluster.join("n2")
        cluster.wait_together()
        cluster.signal("n1", signal.SIGTERM)
        assert cluster.wait_gone("n1") == 75
        assert cluster.wait_gone("n2", 60.0) == 0
        last = cluster.progress[-1]
        assert last["base"] + last["samples"] == 6000.0
        assert {p["world_size"] for p in cluster.progress} == {1, 2}


def test_under_torchrun(tmp_path):
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes", "1"]
    argv += ["--nproc_per_node", "2", "-r", "1", "-t", "1", str(EXAMPLES / "cnn_images.py")]
    done = subprocess.run(
        [*argv, *SMALL["cnn_images.py"]],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "nodes 2" in done.stdout and "1536 samples, accuracy" in done.stdout


@pytest.mark.parametrize("name", SMALL)
def test_help(name):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--help"],
        env=environment(EXAMPLES),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "examples:" in done.stdout and "--seed" in done.stdout
