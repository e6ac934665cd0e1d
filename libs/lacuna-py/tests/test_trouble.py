"""Trouble beside the training: agent, store, newcomers, deadlines, a second SIGTERM."""

import os
import signal
import subprocess
import sys
import time

import pytest

import benches.__main__ as bench
from conftest import HERE, SOURCE, goes_on, start
from lacuna.stuck import Stuck


def test_a_newcomer_that_dies_before_it_comes_does_not_hold_up_the_others(cluster):
    c = cluster("--sleep", "0.01")
    start(c, "n1", "n2")
    c.start("n3")
    c.wait_ready("n3")
    # Paused, it hears of the run but never comes to meet the others.
    c.signal("n3", signal.SIGSTOP)
    c.join("n3")
    time.sleep(0.3)
    before = time.time()
    c.signal("n3", signal.SIGKILL)
    c.wait_gone("n3")
    goes_on(c)
    assert c.members == ["n1", "n2"]
    first = [t for *_, run, _rank, t in c.steps() if run == c.run][0]
    assert first - before < 1.5


def test_the_others_go_on_when_a_member_dies_while_the_group_is_built(cluster):
    """They are inside of PyTorch then, where nothing calls them off before the timeout."""
    c = cluster("--sleep", "0.01", PROGRAM_DIES_FORMING="n2", PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2")
    c.start("n3")
    c.wait_ready("n3")
    since = time.time()
    c.join("n3")
    assert c.wait_gone("n2") == -signal.SIGKILL
    goes_on(c)
    assert c.members == ["n1", "n3"]
    first = [t for *_, run, _rank, t in c.steps() if run == c.run][0]
    print(f"stood still for {first - since:.2f} s")
    numbers = [line[0] for line in c.steps() if line[3] == 0]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_member_that_could_not_build_a_group_meets_the_others_in_the_next_one(cluster):
    """PyTorch counts the groups of a process, and members of another count never meet."""
    c = cluster("--sleep", "0.01", PROGRAM_FAILED_FORMING="n2", PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2")
    goes_on(c)
    assert c.members == ["n1", "n2"]


def test_the_store_is_needed_only_when_members_change(cluster):
    c = cluster("--sleep", "0.01")
    start(c, "n1", "n2")
    c.start("n3")
    c.wait_ready("n3")
    c.stop_store()
    step = c.progress[-1]["step"]
    c.wait_step(step + 30)
    # A change without a store: all wait for it, and go on when it is back, empty.
    c.join("n3")
    time.sleep(0.5)
    c.restart_store()
    goes_on(c)
    assert c.progress[-1]["world_size"] == 3
    assert "does not answer" in c.words("n1") or "the store failed" in c.words("n1")


def test_a_second_sigterm_ends_the_process_at_once(cluster):
    c = cluster("--sleep", "20")
    c.start("n1")
    c.join("n1")
    time.sleep(0.5)
    c.signal("n1", signal.SIGTERM)
    time.sleep(0.5)
    assert not c.nodes["n1"].gone
    began = time.monotonic()
    c.signal("n1", signal.SIGTERM)
    assert c.wait_gone("n1") == 75
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize("how", ["message", "file"])
def test_the_deadline_ends_a_process_that_is_in_the_middle_of_a_step(cluster, tmp_path, how):
    deadline_file = tmp_path / "deadline"
    c = cluster("--sleep", "20", LACUNA_DEADLINE_FILE=str(deadline_file))
    c.start("n1")
    c.join("n1")
    time.sleep(0.3)
    deadline = time.time() + 0.7
    if how == "message":
        c.leave("n1", deadline)
    else:
        deadline_file.write_text(f"{deadline}\n")
    assert c.wait_gone("n1") == 75
    assert 0.0 <= time.time() - deadline < 1.0


def test_one_that_waits_leaves_at_once(cluster):
    c = cluster()
    c.start("n1")
    c.wait_ready("n1")
    began = time.monotonic()
    c.signal("n1", signal.SIGTERM)
    assert c.wait_gone("n1") == 75
    assert time.monotonic() - began < 1.0


def test_a_program_does_not_outlive_its_agent(cluster):
    c = cluster("--sleep", "0.01")
    start(c, "n1")
    c.nodes["n1"].workers[0].connection.shutdown(2)
    assert c.wait_gone("n1", 10.0) == 75


def test_without_an_agent_at_the_socket_the_program_says_so(tmp_path):
    env = {**os.environ, "PYTHONPATH": SOURCE, "LACUNA_SOCKET": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, str(HERE / "program.py")], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no agent answers" in done.stderr and "LACUNA_SOCKET" in done.stderr


def test_several_nodes_that_cannot_meet_are_refused():
    env = {**os.environ, "PYTHONPATH": SOURCE, "LACUNA_WORLD_SIZE": "3"}
    done = subprocess.run(
        [sys.executable, str(HERE / "program.py")], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1 and "launcher regroup or torchrun" in done.stderr


def test_samples_of_lacuna_end_the_training(cluster):
    c = cluster("--samples", "64", "--sleep", "0.002", LACUNA_SAMPLES_TOTAL="1000.0")
    for name in ("n1", "n2"):
        c.start(name)
    c.join("n1", "n2")
    assert [c.wait_gone(name, 60.0) for name in ("n1", "n2")] == [0, 0]
    last = c.progress[-1]
    assert last["base"] + last["samples"] == 1000.0
    assert last["saved"] == 1000.0 and os.path.exists(last["checkpoint"])


def test_help_of_the_commands():
    env = {**os.environ, "PYTHONPATH": SOURCE}
    for module in ("lacuna.store", "benches"):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0 and "examples:" in done.stdout


def test_torchft_that_is_missing_is_named_with_the_remedy(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torchft", None)
    assert bench.main(["--under", "torchft"]) == bench.main(["rates", "--under", "torchft"]) == 69
    assert capsys.readouterr().err.count("`libs/lacuna-py/newer_torch.py FOLDER torchft`") == 2


def test_a_program_that_comes_to_no_step_says_once_where_it_is(caplog):
    stuck = Stuck(lambda: True, after=0.1)

    def lines_that_hang(said):
        end = time.monotonic() + 20.0
        while len(caplog.records) < said and time.monotonic() < end:
            time.sleep(0.01)

    stuck.start()
    try:
        for said in (1, 2):
            stuck.asked()
            lines_that_hang(said)
            # It is said once.
            time.sleep(0.3)
            assert len(caplog.records) == said
            assert "in lines_that_hang" in caplog.text
    finally:
        stuck.close()
