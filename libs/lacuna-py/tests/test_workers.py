"""Several workers a node: one member each, and a node that comes and goes as one."""

import os
import signal
import time

import pytest
import torch

from conftest import start
from lacuna.checkpoint import Checkpoints
from lacuna.loopback import Loopback
from lacuna.messages import Membership
from lacuna.worker import Worker, device


def goes_on(cluster, members, steps=10):
    """The members, and no others, have done some steps of the newest run."""
    cluster.wait_together()
    cluster.wait_step(cluster.progress[-1]["step"] + steps)
    assert cluster.members == members
    assert cluster.progress[-1]["world_size"] == 2 * len(members)


def last_steps(cluster, run, ranks):
    """The last step of each of some ranks in a run."""
    done = [(step, rank) for step, _loss, at, rank, _t in cluster.steps() if at == run]
    return {max(step for step, rank in done if rank == one) for one in ranks}


def assert_no_step_twice(cluster):
    runs = {}
    for step, _loss, run, _rank, _t in cluster.steps():
        runs.setdefault(step, set()).add(run)
    assert [step for step, found in runs.items() if len(found) > 1] == []


def test_two_nodes_of_two_workers_train_as_four_nodes_of_one(cluster):
    made = {}
    for workers, names in ((1, ["n1", "n2", "n3", "n4"]), (2, ["n1", "n2"])):
        made[workers] = c = cluster(
            *("--samples", "90", "--batch", "18", "--epochs", "6"),
            folder=f"by{workers}",
            workers=workers,
        )
        start(c, *names)
        assert [c.wait_gone(name, 60.0) for name in names] == [0] * len(names)
        assert c.progress[-1]["world_size"] == 4
    assert [round(n, 3) for n in made[2].result()["used"]] == [6] * 90
    # The same numbers in the same order: nothing may differ.
    assert made[2].losses() == made[1].losses()
    assert {rank for *_, rank, _t in made[2].steps()} == {0, 1, 2, 3}


def test_a_node_joins_and_leaves_with_all_of_its_workers(cluster):
    c = cluster("--sleep", "0.01", workers=2)
    start(c, "n1", "n2")
    goes_on(c, ["n1", "n2"])
    start(c, "n3")
    goes_on(c, ["n1", "n2", "n3"])
    run = c.run
    # The first node has rank 0, which reports.
    c.leave("n1")
    assert c.wait_gone("n1") == 75
    goes_on(c, ["n2", "n3"])
    assert len(last_steps(c, run, range(6))) == 1
    assert_no_step_twice(c)
    reporters = {n.name for n in c.nodes.values() for m in n.said if m["say"] == "progress"}
    assert reporters == {"n1", "n2"}


@pytest.mark.parametrize("local_rank", [None, 1])
def test_sigterm_to_a_node_or_to_one_worker_makes_the_node_leave(cluster, local_rank):
    c = cluster("--sleep", "0.01", workers=2)
    start(c, "n1", "n2")
    c.wait_step(10)
    run = c.run
    c.signal("n2", signal.SIGTERM, local_rank)
    assert c.wait_gone("n2") == 75
    assert [w.process.returncode for w in c.nodes["n2"].workers] == [75, 75]
    goes_on(c, ["n1"])
    assert len(last_steps(c, run, range(4))) == 1
    assert_no_step_twice(c)


@pytest.mark.parametrize("local_rank", [0, 1])
def test_a_worker_that_is_killed_takes_its_node_along_and_nothing_else(cluster, local_rank):
    c = cluster("--sleep", "0.01", workers=2)
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    c.signal("n2", signal.SIGKILL, local_rank)
    assert c.wait_gone("n2") == -signal.SIGKILL
    goes_on(c, ["n1", "n3"])
    assert_no_step_twice(c)


def test_a_worker_that_fails_is_named_in_the_output_and_ends_its_node(cluster):
    c = cluster("--sleep", "0.01", "--fail-at", "25", workers=2, PROGRAM_FAILS="n2/1")
    start(c, "n1", "n2")
    assert c.wait_gone("n2") == 1
    assert "RuntimeError: a failure on request" in c.words("n2")
    goes_on(c, ["n1"])
    assert_no_step_twice(c)


def test_a_worker_that_hangs_ends_its_node(cluster):
    c = cluster("--sleep", "0.01", workers=2, hang_after=600.0, PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2")
    c.wait_step(10)
    run = c.run
    c.signal("n2", signal.SIGSTOP, 1)
    c.wait(lambda: c.run > run, 60.0, "another run")
    assert c.wait_gone("n2") == -signal.SIGKILL
    goes_on(c, ["n1"])
    assert_no_step_twice(c)


def test_when_all_nodes_leave_the_last_step_is_saved_once(cluster, tmp_path):
    c = cluster("--sleep", "0.01", workers=2)
    start(c, "n1", "n2")
    c.wait_step(20)
    # Not at the same time: some are asked before a step, and some after it.
    for name in ("n1", "n2"):
        for local_rank in (0, 1):
            c.signal(name, signal.SIGTERM, local_rank)
            time.sleep(0.005)
    assert [c.wait_gone(name) for name in ("n1", "n2")] == [75, 75]
    folder = c.folder / "checkpoints"
    last = max(line[0] for line in c.steps())
    assert Checkpoints(str(folder)).look().step == last
    assert len(list(folder.glob(f"step-{last:012d}-*.json"))) <= 2


def test_a_batch_per_node_is_cut_among_its_workers(cluster):
    c = cluster("--samples", "64", "--epochs", "2", "--batch", "16", "--per-node", workers=2)
    start(c, "n1")
    assert c.wait_gone("n1", 60.0) == 0
    assert c.result()["steps"] == 2 * 64 // 16
    assert [round(n, 3) for n in c.result()["used"]] == [2] * 64


def test_a_run_of_nodes_is_one_of_workers():
    run = Membership(7, 1, ("n1", "n2"), "host:1")
    assert run.by_worker(0, 1) == run
    by = run.by_worker(1, 2)
    assert (by.run, by.rank, by.world_size, by.store) == (7, 3, 4, "host:1")
    assert by.members == ("n1/0", "n1/1", "n2/0", "n2/1")


def test_the_launchers_variables_give_the_worker():
    local = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert Worker.of({}) == Worker(0, 1)
    assert Worker.of(local) == Worker(1, 4)
    own = {"LACUNA_LOCAL_RANK": "0", "LACUNA_LOCAL_WORLD_SIZE": "2"}
    assert Worker.of({**local, **own}) == Worker(0, 2)
    for rank, count in (("2", "2"), ("0", "0"), ("1", ""), ("", "2"), ("x", "2"), ("-1", "2")):
        wrong = {"LACUNA_LOCAL_RANK": rank, "LACUNA_LOCAL_WORLD_SIZE": count}
        with pytest.raises(ValueError, match="LACUNA_LOCAL_RANK=.*LACUNA_LOCAL_WORLD_SIZE="):
            Worker.of(wrong)


def test_each_worker_has_a_device_of_its_own_or_learns_that_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Worker(3, 4).device == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Worker(1, 4).device == torch.device("cuda", 1)
    used = []
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    monkeypatch.setenv("LACUNA_LOCAL_RANK", "1")
    monkeypatch.setenv("LACUNA_LOCAL_WORLD_SIZE", "4")
    assert [device()] == used == [torch.device("cuda", 1)]
    monkeypatch.setenv("LACUNA_LOCAL_RANK", "2")
    with pytest.raises(RuntimeError, match="worker 2 of 4 .* workers_per_node = 2"):
        device()


def test_more_workers_than_cores_are_a_warning(caplog):
    cores = len(os.sched_getaffinity(0))
    for quiet in (Worker(0, 1), Worker(1, cores + 1), Worker(0, cores)):
        quiet.warn()
    assert not caplog.records
    Worker(0, cores + 1).warn()
    assert f"{cores + 1} workers share {cores} cores" in caplog.text


def test_a_node_without_workers_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one worker"):
        Loopback(["true"], tmp_path, workers=0)
