"""Under torchrun: resume, progress, a worker that is killed, a worker that is asked to leave."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import HERE, SOURCE
from lacuna.checkpoint import Checkpoints


def launched(folder, *arguments, restarts=0):
    """torchrun with two workers of the test's program, in a session of its own."""
    env = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "LACUNA_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "LACUNA_PROGRESS_FILE": str(folder / "progress"),
        "PROGRAM_SEED": "3",
        "OMP_NUM_THREADS": "1",
    }
    env.pop("LACUNA_SOCKET", None)
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nnodes", "1"]
    argv += ["--nproc_per_node", "2", "--max_restarts", str(restarts), "--monitor_interval", "0.1"]
    argv += ["-r", "1", "-t", "1", str(HERE / "program.py"), "--into", str(folder), *arguments]
    return subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


@pytest.fixture
def torchrun(tmp_path):
    started = []

    def make(*arguments, **options):
        started.append(launched(tmp_path, *arguments, **options))
        return started[-1]

    yield make
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        # Workers have sessions of their own.
        for pid in workers(tmp_path):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=10)


def workers(folder):
    """The workers that write to a folder, by their place in the system's table."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if str(folder).encode() in words and b"torch.distributed.run" not in words:
            found.append(int(entry.name))
    return sorted(found)


def wait_for_steps(folder, count, process):
    log = folder / "alone.steps"
    end = time.monotonic() + 60
    while not log.exists() or len(log.read_text().splitlines()) < count:
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)


def result(folder):
    return json.loads((folder / "result.json").read_text())


def test_it_resumes_and_reports(torchrun, tmp_path):
    assert torchrun("--samples", "64", "--epochs", "4").wait(100) == 0
    assert result(tmp_path)["steps"] == 16
    assert torchrun("--samples", "64", "--epochs", "9").wait(100) == 0
    assert result(tmp_path)["steps"] == 36
    assert [round(n, 3) for n in result(tmp_path)["used"]] == [9] * 64
    lines = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    # Samples count from the start of each program.
    assert lines[-1]["world_size"] == 2 and lines[-1]["samples"] == 5 * 64
    assert max(line["samples"] for line in lines) == 5 * 64


def test_a_killed_worker_costs_a_restart_but_no_step(torchrun, tmp_path):
    args = ("--samples", "64", "--epochs", "40", "--sleep", "0.01")
    process = torchrun(*args, restarts=3)
    wait_for_steps(tmp_path, 60, process)
    os.kill(workers(tmp_path)[0], signal.SIGKILL)
    assert process.wait(100) == 0
    assert [round(n, 3) for n in result(tmp_path)["used"]] == [40] * 64
    steps = [json.loads(line)[0] for line in (tmp_path / "alone.steps").read_text().splitlines()]
    # Each of two workers logs each step once, except what was under way.
    assert len(steps) - 2 * len(set(steps)) <= 2


def test_one_that_is_asked_to_leave_takes_all_along_and_the_state_is_saved(torchrun, tmp_path):
    process = torchrun("--samples", "64", "--sleep", "0.01")
    wait_for_steps(tmp_path, 40, process)
    os.kill(workers(tmp_path)[1], signal.SIGTERM)
    assert process.wait(60) != 0
    assert workers(tmp_path) == []
    steps = [json.loads(line)[0] for line in (tmp_path / "alone.steps").read_text().splitlines()]
    assert Checkpoints(str(tmp_path / "checkpoints")).look().step == max(steps)
