"""A real loop over changes of members: loaders, long work, metrics, validation."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import lacuna
from conftest import begin, goes_on, start
from loop import Items


def make(cluster, *arguments, **options):
    return cluster(*arguments, program="loop.py", **options)


def events(cluster, name, key):
    """What a program has told, one value after the other."""
    path = cluster.logs / f"{name}.events"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in found if key in event]


def broken(cluster):
    """Names of the members that have called their group broken."""
    return {n for n, node in cluster.nodes.items() for m in node.said if m["say"] == "broken"}


def assert_no_step_twice(cluster):
    numbers = [line[0] for line in cluster.steps() if line[3] == 0]
    assert numbers == list(range(1, len(numbers) + 1))


def assert_used_once(cluster, samples, epochs):
    assert cluster.result()["samples"] == samples * epochs
    assert [round(n, 3) for n in cluster.result()["used"]] == [epochs] * samples


def children(pid):
    """Processes whose parent this is."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(words[1]) == pid and words[0] != "Z":
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("kind", ["items", "stream"])
def test_each_sample_is_used_once_over_changes_of_members(cluster, kind):
    samples, epochs = 256, 40
    c = make(
        cluster,
        *("--kind", kind, "--samples", str(samples), "--epochs", str(epochs)),
        *("--item", "0.001", "--sleep", "0.01"),
    )
    spare = ["x0", "x2", "x4", "x6"]
    for name in spare:
        c.start(name)
    for name in spare:
        c.wait_ready(name)
    start(c, "n0", "n1")
    changes = ["join", "sigkill", "join", "leave", "join", "sigterm", "join"]
    for i, change in enumerate(changes):
        run = c.run
        if change == "join":
            c.join(f"x{i}")
        elif change == "leave":
            c.leave(c.members[0])
        else:
            number = {"sigkill": signal.SIGKILL, "sigterm": signal.SIGTERM}[change]
            c.signal(c.members[-1 if i % 2 else 0], number)
        c.wait(lambda run=run: c.run > run, 30.0, f"{change} has led to a new run")
        goes_on(c, 5)
    done = c.progress[-1]["samples"] + c.progress[-1]["base"]
    assert done < samples * epochs, "the training was over before the changes were"
    (c.folder / "hurry").touch()
    assert all(c.wait_gone(name, 120.0) == 0 for name in list(c.members))
    assert_used_once(c, samples, epochs)


def test_sigterm_to_all_processes_of_a_node_leaves_in_order(cluster):
    """It reaches no worker of the loader, whose end would be an error of the program."""
    c = make(cluster, "--sleep", "0.01")
    start(c, "n1", "n2")
    assert len(children(c.nodes["n1"].workers[0].process.pid)) == 2
    c.signal("n1", signal.SIGTERM)
    assert c.wait_gone("n1") == 75
    goes_on(c)
    assert_no_step_twice(c)


def test_workers_end_with_their_trainer(cluster):
    c = make(cluster, "--item", "0.3", "--samples", "64")
    start(c, "n1")
    pid = c.nodes["n1"].workers[0].process.pid
    workers = children(pid)
    assert len(workers) == 2
    os.kill(pid, signal.SIGKILL)
    c.wait_gone("n1")
    end = time.monotonic() + 2.0
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < end, "a worker has outlived its trainer"
        time.sleep(0.02)


def test_a_sample_that_cannot_be_read_ends_its_member_alone(cluster):
    c = make(cluster, "--kind", "bad", "--sleep", "0.01", LOOP_BAD="n2")
    start(c, "n1", "n2")
    assert c.wait_gone("n2") == 1
    words = c.words("n2")
    assert "sample 40 could not be read" in words and "OSError: the file is gone" in words
    goes_on(c)
    assert c.members == ["n1"]
    assert_no_step_twice(c)


def test_a_sample_that_takes_long_breaks_no_group(cluster):
    """Longer than the timeout: the others find that this member waits for its data."""
    c = make(
        cluster,
        *("--kind", "slow", "--sleep", "0.01", "--samples", "96", "--epochs", "2"),
        LOOP_SLOW="n2",
        PROGRAM_TIMEOUT="2",
    )
    start(c, "n1", "n2")
    run = c.run
    assert [c.wait_gone(name, 120.0) for name in ("n1", "n2")] == [0, 0]
    assert {line[2] for line in c.steps()} == {run} and not broken(c)
    assert "was let go" in c.words("n2")
    assert_used_once(c, 96, 2)


@pytest.mark.parametrize("who", ["rank 0", "another one"])
def test_the_others_wait_for_a_busy_member(cluster, who):
    name = "n1" if who == "rank 0" else "n2"
    c = make(
        cluster,
        *("--sleep", "0.01", "--busy-at", "20", "--busy", "5", "--epochs", "6"),
        LOOP_BUSY=name,
        PROGRAM_TIMEOUT="2",
        hang_after=4.0,
    )
    start(c, "n1", "n2", "n3")
    run = c.run
    assert [c.wait_gone(f"n{i}", 60.0) for i in (1, 2, 3)] == [0, 0, 0]
    assert not broken(c)
    begun, ended = (event["t"] for event in events(c, name, "busy"))
    assert ended - begun >= 5.0
    during = [line for line in c.steps() if begun + 0.5 < line[4] < ended]
    after = [line[4] for line in c.steps() if line[4] > ended]
    assert not during and after[0] - ended < 1.5
    assert {line[2] for line in c.steps()} == {run}
    assert_no_step_twice(c)
    assert_used_once(c, 256, 6)


def test_short_work_keeps_the_group(cluster):
    c = make(
        cluster,
        *("--sleep", "0.01", "--busy-at", "20", "--busy", "0.5"),
        LOOP_BUSY="n1",
        PROGRAM_TIMEOUT="4",
    )
    start(c, "n1", "n2")
    c.wait_step(30)
    assert "was let go" not in c.words("n1") + c.words("n2")
    assert_no_step_twice(c)


def busy_member(cluster, *names, seconds="8", timeout="2"):
    """A cluster in which n1 has been busy for so long that the others wait to meet it again."""
    c = make(
        cluster,
        *("--sleep", "0.01", "--busy-at", "20", "--busy", seconds),
        LOOP_BUSY="n1",
        PROGRAM_TIMEOUT=timeout,
    )
    start(c, *names)
    c.wait(lambda: bool(events(c, "n1", "busy")), 30.0, "n1 is busy")
    time.sleep(1.5)
    return c


def test_one_that_joins_meanwhile_is_a_member_when_the_work_ends(cluster):
    c = busy_member(cluster, "n1", "n2", seconds="4")
    c.start("n3")
    c.join("n3")
    goes_on(c)
    assert c.progress[-1]["world_size"] == 3 and not broken(c)
    assert_no_step_twice(c)


def test_one_that_leaves_meanwhile_does_so_at_once(cluster):
    c = busy_member(cluster, "n1", "n2", "n3")
    began = time.monotonic()
    c.leave("n2")
    assert c.wait_gone("n2") == 75
    assert time.monotonic() - began < 2.0
    goes_on(c)
    assert not broken(c)
    assert_no_step_twice(c)


def test_the_others_go_on_when_a_busy_member_dies(cluster):
    c = busy_member(cluster, "n1", "n2", "n3", seconds="60")
    since = time.time()
    c.signal("n1", signal.SIGKILL)
    c.wait_gone("n1")
    goes_on(c)
    first = [t for *_, t in c.steps() if t > since][0]
    assert first - since < 1.5 and c.members == ["n2", "n3"]
    assert_no_step_twice(c)


def test_a_busy_member_that_must_leave_does_so_when_its_work_ends(cluster):
    c = busy_member(cluster, "n1", "n2", seconds="4")
    c.leave("n1")
    # The other one goes on meanwhile.
    goes_on(c, 30)
    assert not c.nodes["n1"].gone
    assert c.wait_gone("n1") == 75
    assert_no_step_twice(c)


def test_a_busy_member_that_is_paused_is_left_out(cluster):
    """It shows no sign of life in the store, and its agent does not speak for it."""
    c = busy_member(cluster, "n1", "n2", "n3", seconds="60")
    c.nodes["n1"].workers[0].process.send_signal(signal.SIGSTOP)
    # On a busy machine its agent may have heard it so late that one more run has it.
    c.wait(lambda: c.members == ["n2", "n3"], 30.0, "n1 is left out")
    goes_on(c)


JUDGE = ("--sleep", "0.01", "--judge-at", "10")


def judged(cluster, *names):
    """What each of these programs has got, once all have."""
    cluster.wait(
        lambda: all(events(cluster, name, "evaluated") for name in names), 60.0, "validation"
    )
    results = [
        [events(cluster, name, key)[-1][key] for key in ("reduced", "largest", "evaluated")]
        for name in names
    ]
    assert all(result == results[0] for result in results)
    return results[0]


def samples_judged(cluster):
    return [
        i for name in cluster.nodes for e in events(cluster, name, "judged") for i in e["judged"]
    ]


def test_metrics_and_validation_are_the_same_at_every_member(cluster):
    c = make(cluster, *JUDGE, "--batch", "17", PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2", "n3")
    reduced, largest, evaluated = judged(c, "n1", "n2", "n3")
    own = [events(c, name, "own")[0]["own"] for name in ("n1", "n2", "n3")]
    assert own == [6, 6, 5]
    assert reduced["rank"] == pytest.approx((6 * 1 + 5 * 2) / 17)
    assert reduced["own"] == pytest.approx((36 + 36 + 25) / 17)
    assert largest == {"rank": 2.0}
    assert sorted(samples_judged(c)) == list(range(70))
    assert evaluated["index"] == pytest.approx(34.5)
    for event in events(c, "n1", "judged"):
        assert event["training"] is False and event["grad"] is False
    goes_on(c)
    assert not broken(c)
    assert_no_step_twice(c)


def test_a_member_that_comes_late_is_waited_for(cluster):
    c = make(cluster, *JUDGE, "--busy", "4", LOOP_LATE="n2", PROGRAM_TIMEOUT="2")
    begin(c, "n1", "n2")
    reduced, _, _ = judged(c, "n1", "n2")
    assert reduced == {"rank": 0.5, "own": 8.0}
    goes_on(c)
    assert not broken(c)
    assert_no_step_twice(c)


def test_the_part_of_a_member_that_dies_is_judged_by_the_others(cluster):
    calm = make(cluster, *JUDGE, folder="calm")
    start(calm, "n1")
    _, _, expected = judged(calm, "n1")
    # 70 samples in batches of 8: three members have 3 batches each, of one second.
    c = make(cluster, *JUDGE, "--judge", "1", PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2", "n3")
    c.wait(lambda: bool(events(c, "n2", "judged")), 60.0, "n2 judges")
    c.signal("n2", signal.SIGKILL)
    c.wait_gone("n2")
    _, _, evaluated = judged(c, "n1", "n3")
    assert evaluated["index"] == pytest.approx(34.5)
    assert evaluated["loss"] == pytest.approx(expected["loss"], rel=0.05)
    done = [i for n in ("n1", "n3") for e in events(c, n, "judged") for i in e["judged"]]
    assert sorted(done) == list(range(70))
    goes_on(c)
    assert c.members == ["n1", "n3"] and not broken(c)
    assert_no_step_twice(c)


def test_a_member_that_dies_before_it_calls_is_not_waited_for(cluster):
    c = make(cluster, *JUDGE, "--busy", "60", LOOP_LATE="n2", PROGRAM_TIMEOUT="2")
    begin(c, "n1", "n2")
    c.wait(lambda: bool(events(c, "n2", "late")), 30.0, "n2 is late")
    c.signal("n2", signal.SIGKILL)
    c.wait_gone("n2")
    reduced, _, evaluated = judged(c, "n1")
    assert reduced == {"rank": 0.0, "own": 8.0}
    assert evaluated["index"] == pytest.approx(34.5)
    goes_on(c)
    assert_no_step_twice(c)


def alone(**options):
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, lacuna.elastic(model, optimizer, batch=16, **options)


def test_alone_all_calls_work_too():
    model, elastic = alone()
    with elastic as run:
        with pytest.raises(RuntimeError, match="behind run.step"):
            run.barrier()
        for x, y, _ in run.steps(DataLoader(Items(64), shuffle=True), epochs=1):
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            with pytest.raises(RuntimeError, match="behind run.step"):
                run.reduce({"loss": loss})
            run.step(loss)
            run.barrier()
            with run.busy():
                assert run.reduce({"loss": loss}) == {"loss": float(loss)}
            assert run.reduce({"n": 2}, "sum") == {"n": 2.0}
            assert run.evaluate(Items(20), lambda b: {"i": b[2].float().mean()}) == {"i": 9.5}
            with pytest.raises(ValueError, match="mean, sum, min, max"):
                run.reduce({"n": 2}, "median")
            with pytest.raises(ValueError, match="n is no number"):
                run.reduce({"n": "two"})
    assert run.steps_done == 4 and model.training


def test_an_empty_data_set_is_refused():
    _, elastic = alone()
    with elastic as run, pytest.raises(ValueError, match="no samples"):
        run.steps(Items(0))
