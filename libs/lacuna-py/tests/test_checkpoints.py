"""Checkpoints: complete or not there, the newest good one wins, a full disk stops no training."""

import hashlib
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch

from conftest import HERE, SOURCE
from lacuna.checkpoint import Checkpoints
from lacuna.saving import Saver
from lacuna.sharding import Node


def state(step):
    return {
        "model": {"w": torch.full((1000,), float(step))},
        "position": {"step": step, "epoch": 0, "offset": 0, "samples": step * 10},
    }


def test_the_newest_complete_one_wins_and_old_ones_go(tmp_path):
    store = Checkpoints(str(tmp_path), keep=2)
    for step in (1, 2, 3):
        assert store.save(state(step))
    names = sorted(p.name for p in tmp_path.iterdir())
    assert [int(name[5:17]) for name in names] == [2, 2, 3, 3]
    loaded, saved = Checkpoints(str(tmp_path)).load()
    assert saved.step == 3 and saved.samples == 30
    assert torch.equal(loaded["model"]["w"], torch.full((1000,), 3.0))


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest", "empty manifest"])
def test_a_damaged_one_is_passed_over_loudly(tmp_path, caplog, damage):
    store = Checkpoints(str(tmp_path))
    store.save(state(1))
    store.save(state(2))
    data = store.newest.path
    manifest = data.with_suffix(".json")
    content = bytearray(data.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif damage == "cut":
        data.write_bytes(content[:-7])
    elif damage == "gone":
        data.unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:20])
    else:
        manifest.write_text("")
    with caplog.at_level(logging.WARNING, logger="lacuna"):
        again = Checkpoints(str(tmp_path))
        loaded, saved = again.load()
    assert saved.step == 1 and float(loaded["model"]["w"][0]) == 1.0
    assert again.damaged == 1
    assert "damaged" in caplog.text


def test_without_a_manifest_it_is_not_complete(tmp_path):
    store = Checkpoints(str(tmp_path))
    store.save(state(1))
    store.newest.path.with_suffix(".json").unlink()
    assert Checkpoints(str(tmp_path)).load() == (None, None)


def test_a_manifest_cannot_point_out_of_the_folder(tmp_path):
    inside = tmp_path / "in"
    store = Checkpoints(str(inside))
    store.save(state(1))
    manifest = store.newest.path.with_suffix(".json")
    text = json.loads(manifest.read_text())
    outside = tmp_path / text["file"]
    store.newest.path.rename(outside)
    manifest.write_text(json.dumps({**text, "file": f"../{text['file']}"}))
    assert Checkpoints(str(inside)).load() == (None, None)


def test_what_is_saved_beside_training_does_not_change_meanwhile(tmp_path):
    from lacuna.state import frozen

    current = state(1)
    store = Checkpoints(str(tmp_path))
    store.save_beside(frozen(current))
    current["model"]["w"].fill_(9.0)
    store.settle()
    loaded, _ = store.load()
    assert float(loaded["model"]["w"].sum()) == 1000.0


FULL = """
import resource, signal, sys
sys.path.insert(0, {source!r})
import torch
from lacuna.checkpoint import Checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Checkpoints({folder!r})
def state(step, size):
    return {{"model": {{"w": torch.zeros(size)}}, "position": {{"step": step, "samples": step}}}}
assert store.save(state(1, 100))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for step in range(2, 6):
    assert not store.save(state(step, 1_000_000))
assert store.failures == 4
assert store.save(state(6, 100))
print([p.name for p in sorted(store._folder.iterdir())])
print("went on")
"""


def test_a_full_disk_costs_the_checkpoint_and_nothing_else(tmp_path):
    """A limit on the size of files fails in the same place as a full disk does."""
    done = subprocess.run(
        [sys.executable, "-c", FULL.format(source=str(HERE.parent / "src"), folder=str(tmp_path))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "went on" in done.stdout and "training goes on" in done.stderr
    assert not [p for p in tmp_path.iterdir() if "unfinished" in p.name]
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("every, seconds", [(None, 0.25), (5, None)])
def test_groups_that_are_shorter_than_the_time_between_two_save_all_the_same(
    tmp_path, every, seconds
):
    saver = Saver(str(tmp_path), 3, every, seconds, Node())
    for step in range(8):
        saver.new_group(step)
        time.sleep(0.05)
        saver.if_due(step, lambda step=step: state(step))
        saver.settle()
    assert saver.newest is not None and 2 <= saver.newest.step < 8
    # A member that comes later and leads does not save at once.
    later = Saver(str(tmp_path), 3, every, seconds, Node())
    later.new_group(saver.newest.step)
    later.if_due(saver.newest.step, lambda: pytest.fail("it saves at once"))


def test_training_goes_on_from_a_checkpoint_when_all_have_died(cluster):
    calm = cluster("--samples", "512", "--epochs", "12", folder="reference")
    calm.start("r1")
    calm.join("r1")
    assert calm.wait_gone("r1", 60.0) == 0
    args = ("--samples", "512", "--epochs", "12", "--sleep", "0.005", "--every", "20")
    c = cluster(*args, folder="deaths")
    for name in ("n1", "n2"):
        c.start(name)
    c.join("n1", "n2")
    c.wait_step(70)
    c.wait(lambda: c.progress[-1]["saved"] is not None, 30.0, "a checkpoint is reported")
    for name in ("n1", "n2"):
        c.signal(name, signal.SIGKILL)
        c.wait_gone(name)
    reached = c.steps()[-1][0]
    # The newest is damaged on the way: the one before must do.
    store = Checkpoints(str(c.folder / "checkpoints"))
    newest = store.look()
    newest.path.write_bytes(newest.path.read_bytes()[:-1])
    for name in ("n3", "n4", "n5"):
        c.start(name)
    c.join("n3", "n4", "n5")
    c.wait_together()
    base = [p["base"] for p in c.progress if p["run"] == c.run][0]
    assert base in (newest.samples - 320, newest.samples - 640)
    assert 0 < base <= reached * 16
    assert [c.wait_gone(name, 60.0) for name in ("n3", "n4", "n5")] == [0, 0, 0]
    assert "is damaged and is passed over" in "".join(c.words(n) for n in ("n3", "n4", "n5"))
    assert [round(n, 3) for n in c.result()["used"]] == [12] * 512
    mine, wanted = c.losses(), calm.losses()
    assert max(abs(mine[s] - wanted[s]) for s in wanted) < 1e-3


def test_when_all_leave_nothing_is_lost(cluster):
    c = cluster("--samples", "512", "--epochs", "500", "--sleep", "0.005")
    for name in ("n1", "n2"):
        c.start(name)
    c.join("n1", "n2")
    c.wait_step(30)
    for name in ("n1", "n2"):
        c.signal(name, signal.SIGTERM)
    assert [c.wait_gone(name) for name in ("n1", "n2")] == [75, 75]
    reached = c.steps()[-1][0]
    c.start("n3")
    c.join("n3")
    c.wait_together()
    assert [p["base"] for p in c.progress if p["run"] == c.run][0] == reached * 16


def test_alone_sigterm_saves_and_the_next_start_goes_on(tmp_path):
    env = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "LACUNA_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "LACUNA_PROGRESS_FILE": str(tmp_path / "progress"),
        "PROGRAM_SEED": "3",
    }
    env.pop("LACUNA_SOCKET", None)
    argv = [sys.executable, str(HERE / "program.py"), "--into", str(tmp_path), "--samples", "64"]
    first = subprocess.Popen([*argv, "--sleep", "0.01"], env=env)
    log = tmp_path / "alone.steps"
    deadline = time.monotonic() + 60
    while not log.exists() or len(log.read_text().splitlines()) < 20:
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.05)
    first.terminate()
    assert first.wait(10) == 75
    reached = json.loads(log.read_text().splitlines()[-1])[0]
    total = 16 * (reached + 10)
    env["LACUNA_SAMPLES_TOTAL"] = str(total)
    assert subprocess.run(argv, env=env, timeout=60).returncode == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["samples"] == total and result["steps"] == reached + 10
    assert sum(result["used"]) == total
    lines = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    # Samples of the second program count from its own start.
    assert lines[-1]["samples"] == 160 and lines[-1]["world_size"] == 1
    assert any(line["checkpoint"] for line in lines)


assert resource  # Used by the program in FULL.


class Runs:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_code_in_a_checkpoint_does_not_run(tmp_path, caplog):
    store = Checkpoints(str(tmp_path))
    assert store.save(state(1))
    data, ran = store.newest.path, tmp_path / "ran"
    torch.save({"model": {}, "text": Runs(ran), "tensors": []}, data)
    content = data.read_bytes()
    manifest = data.with_suffix(".json")
    value = json.loads(manifest.read_text())
    value |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest.write_text(json.dumps(value))
    assert Checkpoints(str(tmp_path)).load() == (None, None)
    assert not ran.exists() and "cannot be read" in caplog.text
