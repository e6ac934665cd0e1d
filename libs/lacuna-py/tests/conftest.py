"""Shared by the tests: a cluster on this machine, and the logs of its programs."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
#: The PYTHONPATH of programs: both packages, and the measurements.
SOURCE = os.pathsep.join(str(HERE.parent / folder) for folder in ("src", "tables/src", "."))
sys.path[:0] = SOURCE.split(os.pathsep)

import warm  # noqa: E402

from lacuna.loopback import Loopback  # noqa: E402

# Without PyTorch there is nothing to test; check.sh says so.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
if not collect_ignore_glob:
    warm.install(SOURCE)


#: What a skipped test can lack, which its reason names first; and the remedy, as in libs/skip.
REMEDIES = {
    "data": "LACUNA_DATA=FOLDER of the recordings",
    "newer-torch": "libs/lacuna-py/newer_torch.py libs/lacuna-py/.venv",
}


def data(name):
    """A file of the recordings. Without it the test is skipped."""
    beside = HERE.parents[2].parent / "shared" / "data"
    path = Path(os.environ.get("LACUNA_DATA") or beside, name)
    if not path.exists():
        pytest.skip(f"data: {path} is not there")
    return path


def newer(there, what):
    """A mark that skips tests without ``what``, of a PyTorch newer than this one."""
    return pytest.mark.skipif(not there, reason=f"newer-torch: {what}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Counts a skipped test for integration-tests/not_run.py; it fails where its need is required.

    Not so by its version of PyTorch: check.sh runs it with a newer one, where that is installed.
    """
    report = (yield).get_result()
    if not report.skipped:
        return
    need, _, what = report.longrepr[2].removeprefix("Skipped: ").partition(": ")
    by_version, required = need == "newer-torch", os.environ.get("LACUNA_REQUIRE", "")
    if need not in REMEDIES:
        report.outcome, report.longrepr = "failed", f"{need!r} is none of {', '.join(REMEDIES)}"
    elif not by_version and {need, "all"} & {name.strip() for name in required.split(",")}:
        report.outcome, report.longrepr = "failed", f"LACUNA_REQUIRE={required}: {what}"
    elif path := os.environ.get("LACUNA_SKIPPED"):
        elsewhere = by_version and (HERE.parent / ".venv" / "whole").exists()
        which, file = "part" if elsewhere else "test", f"libs/lacuna-py/tests/{item.path.name}"
        with open(path, "a", encoding="utf-8") as lines:
            lines.write("\t".join((which, need, file, item.name, what, REMEDIES[need])) + "\n")


class Cluster(Loopback):
    """Runs ``program.py`` with some arguments on each node."""

    def __init__(
        self,
        folder,
        *arguments,
        hang_after=5.0,
        control=True,
        workers=1,
        program="program.py",
        **env,
    ):
        self.logs = folder
        env = {
            "PYTHONPATH": SOURCE,
            "PROGRAM_SEED": "3",
            "LACUNA_CHECKPOINT_DIR": str(folder / "checkpoints"),
            **env,
        }
        argv = [sys.executable, str(HERE / program), "--into", str(folder), *arguments]
        super().__init__(
            argv, folder, env=env, hang_after=hang_after, control=control, workers=workers
        )

    def steps(self):
        """All steps that any member has applied: [step, loss, run, rank, time], by time."""
        found = []
        for path in self.logs.glob("*.steps"):
            text = path.read_text()
            found += [json.loads(line) for line in text.splitlines() if line.endswith("]")]
        return sorted(found, key=lambda line: line[4])

    def result(self):
        """The result of rank 0."""
        return json.loads((self.logs / "result.json").read_text())

    def losses(self):
        """The loss of each step; of a repeated step, the last one."""
        newest = {}
        for step, loss, run, _rank, _time in self.steps():
            if step not in newest or run >= newest[step][0]:
                newest[step] = (run, loss)
        return {step: loss for step, (_run, loss) in newest.items()}


@pytest.fixture
def cluster(tmp_path):
    """Makes clusters that are gone after the test, with all of their processes."""
    made = []

    def make(*arguments, folder="run", **options):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        made.append(Cluster(path, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
        for node in one.nodes.values():
            for worker in node.workers:
                with pytest.raises(ProcessLookupError):
                    os.killpg(worker.process.pid, 0)


def begin(cluster, *names):
    for name in names:
        cluster.start(name)
    cluster.join(*names)


def start(cluster, *names):
    begin(cluster, *names)
    cluster.wait_together()


def goes_on(cluster, steps=10):
    cluster.wait_together()
    cluster.wait_step(cluster.progress[-1]["step"] + steps)
