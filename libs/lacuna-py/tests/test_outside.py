"""Programs that know nothing of Lacuna: their steps are timed from outside."""

import json
import os
import statistics
import subprocess
import sys

import pytest

import unchanged
from conftest import HERE
from lacuna import outside
from lacuna.moments import WARM_UP, Reading


def trained(tmp_path, *arguments, members=2, steps=None, timed=True):
    """Runs the program; returns the readings by rank, and what was printed."""
    front, into = tmp_path / "front", tmp_path / "readings"
    into.mkdir()
    outside.folder(front)
    if steps is not None:
        text = (front / "lacuna_stalls" / "outside.py").read_text()
        assert "\nSTEPS = 200\n" in text
        text = text.replace("\nSTEPS = 200\n", f"\nSTEPS = {steps}\n")
        (front / "lacuna_stalls" / "outside.py").write_text(text)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONPATH", None)
    if timed:
        env.update(PYTHONPATH=str(front), LACUNA_STALLS_INTO=str(into))
    argv = [sys.executable]
    if members == 1 and "alone" not in arguments:
        # A group of one, as torchrun would describe it.
        env.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    if members > 1:
        argv += ["-m", "torch.distributed.run", "--standalone", "--nnodes", "1", "-r", "1"]
        argv += ["-t", "1", "--nproc_per_node", str(members)]
    argv += [str(HERE / "unchanged.py"), *arguments]
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    found = [json.loads(path.read_text()) for path in sorted(into.glob("*.json"))]
    return found, done.stdout


def mean(times):
    return statistics.mean(times) * 1e-6


def test_torchrun_without_changes_is_timed_by_each_member(tmp_path):
    found, text = trained(tmp_path, "--steps", "30")
    assert [one["ranks"][0]["rank"] for one in found] == [0, 1]
    first, second = (one["ranks"][0] for one in found)
    for one in found:
        assert (one["members"], one["workers"], one["depth"]) == (2, 1, 2)
        assert one["passes"] == 1 and one["bytes"] == [4 * (16 * 64 + 64 + 64 + 1)]
    steps = len(first["wait"])
    assert steps == len(second["wait"]) == 30 - WARM_UP
    for times in (first, second):
        assert mean(times["prep"]) >= unchanged.PREPARED
        # On a busy machine a part of it is time in the run queue, which counts as preparation.
        assert mean(times["fetch"]) >= 0.8 * unchanged.FETCHED
    assert text.count("wrapped True") == 2
    # The slow member launches late, and the other one waits for it.
    assert mean(second["ready"][0]) >= unchanged.BEHIND > mean(first["ready"][0])
    assert mean(first["done"][0]) - mean(first["ready"][0]) > unchanged.BEHIND / 2


def test_the_same_weights_come_out_and_wrappers_are_gone_after_enough_steps(tmp_path):
    found, timed = trained(tmp_path, "--steps", "30", steps=10)
    assert all(len(one["ranks"][0]["wait"]) == 10 for one in found)
    assert timed.count("wrapped False") == 2
    (tmp_path / "plain").mkdir()
    nothing, plain = trained(tmp_path / "plain", "--steps", "30", timed=False)
    assert not nothing

    def weights(text):
        return [line.split()[-1] for line in text.splitlines() if "weights" in line]

    assert weights(timed) == weights(plain) and len(weights(plain)) == 2


@pytest.mark.parametrize("mode", ["hook", "none", "sums"])
def test_other_programs(tmp_path, mode):
    arguments = ("--steps", "20", "--mode", mode, "--workers", "0")
    (one,), _ = trained(tmp_path, *arguments, members=1)
    assert one["bytes"] == [4 * (16 * 64 + 64 + 64 + 1)]
    assert one["passes"] == (2 if mode == "sums" else 1)
    times = one["ranks"][0]
    if mode == "none":
        assert mean(times["fetch"]) == 0.0
    else:
        # A busy machine wakes a sleeper late, and may cut one reading short.
        assert statistics.median(times["fetch"]) * 1e-6 >= unchanged.FETCHED


def test_a_program_of_one_process_is_timed(tmp_path):
    found, _ = trained(tmp_path, "--mode", "alone", "--steps", "20", members=1)
    assert len(found) == 1 and found[0]["bytes"] == [0]
    assert len(found[0]["ranks"][0]["wait"]) == 20 - WARM_UP


class Device:
    """A device whose work takes its time while the program runs ahead of it."""

    def __init__(self):
        self.host, self.device, self.done = 100.0, 100.0, 100.0

    def works(self, seconds):
        self.device = max(self.device, self.host) + seconds

    def event(self):
        return Event(self)


class Event:
    """Stands for torch.cuda.Event: passed when the device has come to it."""

    def __init__(self, device):
        self.of = device

    def record(self):
        self.at = max(self.of.device, self.of.host)

    def query(self):
        return self.at <= self.of.done

    def elapsed_time(self, other):
        assert self.query() and other.query(), "nothing may wait for the device"
        return 1e3 * (other.at - self.at)


class Optimizer:
    param_groups: list = []


def test_events_of_a_device_are_read_when_they_have_passed(tmp_path, monkeypatch):
    device = Device()
    monkeypatch.setattr(outside, "clock", lambda: device.host)
    watch = outside.Watch(tmp_path, event=device.event)
    watch._on_device = True
    for step in range(40):
        # The device lags behind by most of a step.
        device.done = device.host - 0.040
        watch.asked()
        read = Reading(device.host - 0.020, device.host - 0.005, 0.010)
        device.host += 0.001
        watch.got(read, 2, 2)
        device.works(0.030)
        sums = watch.launched(1000)
        device.works(0.010)
        watch.ended(sums)
        watch.entered(Optimizer())
        device.works(0.005)
        watch.left()
        # The program runs ahead of the device, but no further than a step.
        device.host = max(device.host, device.device - 0.020)
    watch.finish()
    found = json.loads((tmp_path / "rank-0.json").read_text())
    times = found["ranks"][0]
    steps = len(times["wait"])
    # The newest steps have not passed at the end; without waiting they are not known.
    assert 40 - WARM_UP - 5 <= steps < 40 - WARM_UP
    assert mean(times["ready"][0]) == pytest.approx(0.030, abs=1e-5)
    assert mean(times["done"][0]) == pytest.approx(0.040, abs=1e-5)
    assert mean(times["update"]) == pytest.approx(0.005, abs=1e-5)
    # The device has work while the program fetches a batch: nothing waits for data.
    assert mean(times["wait"]) == mean(times["hand"]) == 0.0
    assert mean(times["prep"]) == pytest.approx(0.010) and mean(times["fetch"]) > 0.004
