"""The rendezvous that stands in front of torchrun, with real torchruns."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import TCPStore
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

import lacuna
from lacuna import torchrun_site

TOKEN = "lacuna-token-" + "0" * 32
SAYS = 'echo "$RANK of $WORLD_SIZE at $MASTER_PORT $LACUNA_SITE" >"$0/$RANK"'


#: One worker of four fails in its way while all others wait for it.
FAILS = """
import os, signal, subprocess, sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
rank, way = int(os.environ["RANK"]), sys.argv[1]
one = __import__("torch").ones(1)
dist.all_reduce(one)
if rank == 2:
    # A failure that the worker survives is none of its own.
    subprocess.run([sys.executable, "-c", "raise OSError"], stderr=subprocess.DEVNULL)
    if way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        raise KeyError("row 7")
    finally:
        if way == "close":
            dist.destroy_process_group()
try:
    dist.all_reduce(one)
except RuntimeError as error:
    raise ValueError("the step failed") from error
"""


def torchrun(front, port, rank, logs, *more):
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
    words += ["--nproc_per_node=2", "--max_restarts=0", "--rdzv_backend=lacuna"]
    # As the agent does it: without files torch 1.13 under Python 3.11 fails.
    words += [f"--log_dir={logs}", "--redirects=1", "--tee=1"]
    words += [f"--rdzv_endpoint=127.0.0.1:{port}", f"--rdzv_conf=rank={rank},join_timeout=60"]
    environment = {**os.environ, "PET_RDZV_ID": TOKEN, "PYTHONPATH": front}
    environment["LACUNA_PROGRESS_FILE"] = f"{logs}.jsonl"
    return subprocess.Popen(
        [*words, *more], env=environment, stderr=subprocess.PIPE, text=True
    )


def in_shell(front, port, rank, logs, *script):
    return torchrun(front, port, rank, logs, "--no_python", "sh", "-c", *script)


def in_front(folder):
    """The folder that the agent makes, before one of a site with a module of the same name."""
    front, site = folder / "front", folder / "site"
    for one in (front, site):
        one.mkdir()
    shutil.copy(Path(lacuna.__file__).with_name("torchrun_site.py"), front / "sitecustomize.py")
    (site / "sitecustomize.py").write_text("import os; os.environ['LACUNA_SITE'] = 'the site'\n")
    return f"{front}:{site}"


def test_nodes_meet_with_the_ranks_that_they_are_given_and_nothing_is_pickled(tmp_path):
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    # What PyTorch's own rendezvous would unpickle.
    store.set(f"torch.rendezvous.{TOKEN}", "no state")
    front = in_front(tmp_path)
    nodes = [
        in_shell(front, store.port, rank, tmp_path / f"l{rank}", SAYS, str(tmp_path))
        for rank in (1, 0)
    ]
    for node in nodes:
        _, said = node.communicate(timeout=60)
        assert node.returncode == 0, said
    said = [(tmp_path / str(rank)).read_text() for rank in range(4)]
    port = said[0].split()[4]
    assert said == [f"{rank} of 4 at {port} the site\n" for rank in range(4)]
    assert store.get(f"{TOKEN}/here/1") == b"1"


def test_a_torchrun_that_is_asked_to_end_says_so_in_a_line(tmp_path):
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    front, began = in_front(tmp_path), tmp_path / "began"
    script = 'echo >"$0"; exec sleep 60'
    nodes = [
        in_shell(front, store.port, rank, tmp_path / f"l{rank}", script, str(began))
        for rank in (1, 0)
    ]
    end = time.monotonic() + 60
    while not began.exists() and time.monotonic() < end:
        time.sleep(0.05)
    for node in nodes:
        node.terminate()
    for node in nodes:
        _, said = node.communicate(timeout=60)
        assert node.returncode != 0
        assert "torchrun was asked to end: Process" in said and "Traceback" not in said, said


def test_an_exit_code_is_told_and_those_that_torchrun_ends_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("LACUNA_PROGRESS_FILE", str(tmp_path / "lines"))
    codes = {0: -signal.SIGTERM, 1: 3}
    failures = {rank: ProcessFailure(rank, 1, code, "none") for rank, code in codes.items()}
    torchrun_site._tell_of(ChildFailedError, ChildFailedError("program", failures))
    (line,) = map(json.loads, (tmp_path / "lines").read_text().splitlines())
    assert (line["rank"], line["bare"]) == (1, True)
    assert line["failed"] == "worker 1 ended with exit code 3"


@pytest.mark.parametrize("way", ["raise", "close", "kill"])
def test_the_agent_hears_of_each_worker_that_fails(tmp_path, way):
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
    front, script = in_front(tmp_path), tmp_path / "fails.py"
    script.write_text(FAILS)
    nodes = [
        torchrun(front, store.port, rank, tmp_path / f"l{rank}", str(script), way)
        for rank in (1, 0)
    ]
    for node in nodes:
        node.communicate(timeout=100)
        assert node.returncode == 1
    said = []
    for node in (0, 1):
        lines = [json.loads(text) for text in (tmp_path / f"l{node}.jsonl").open()]
        first = {}
        for line in lines:
            first.setdefault(line["rank"], line)
        said.append(first)
    own = said[1][0]["failed"]
    assert ("ended by signal 9 (SIGKILL)" if way == "kill" else "KeyError: 'row 7'") in own, said
    assert said[0], "the node without a fault has a worker that failed too"
    for other in [*said[0].values(), *[one for rank, one in said[1].items() if rank]]:
        assert other["failed"].startswith("ValueError: the step failed, from RuntimeError: "), said
    if way == "raise":
        assert said[1][0]["t"] < min(one["t"] for one in said[0].values()), said
