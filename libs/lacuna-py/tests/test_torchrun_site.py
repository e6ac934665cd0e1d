"""The rendezvous that stands in front of torchrun, with real torchruns."""

import os
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import lacuna
from torch.distributed import TCPStore

TOKEN = "lacuna-token-" + "0" * 32
SAYS = 'echo "$RANK of $WORLD_SIZE at $MASTER_PORT $LACUNA_SITE" >"$0/$RANK"'


def torchrun(front, port, rank, logs, *more):
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
    words += ["--nproc_per_node=2", "--max_restarts=0", "--rdzv_backend=lacuna"]
    # As the agent does it: without files torch 1.13 under Python 3.11 fails.
    words += [f"--log_dir={logs}", "--redirects=1", "--tee=1"]
    words += [f"--rdzv_endpoint=127.0.0.1:{port}", f"--rdzv_conf=rank={rank},join_timeout=60"]
    environment = {**os.environ, "PET_RDZV_ID": TOKEN, "PYTHONPATH": front}
    return subprocess.Popen(
        [*words, "--no_python", *more], env=environment, stderr=subprocess.PIPE, text=True
    )


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
        torchrun(front, store.port, rank, tmp_path / f"l{rank}", "sh", "-c", SAYS, str(tmp_path))
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
        torchrun(front, store.port, rank, tmp_path / f"l{rank}", "sh", "-c", script, str(began))
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
