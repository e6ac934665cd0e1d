"""Members that join, leave, die and fall silent, with real processes and real groups."""

import signal
import time

import pytest


def stall(cluster, since):
    """The longest time without a step of anybody, from shortly before a moment."""
    times = [t for *_, t in cluster.steps() if t > since - 0.5]
    return max(b - a for a, b in zip(times, times[1:]))


def start(cluster, *names):
    for name in names:
        cluster.start(name)
    cluster.join(*names)
    cluster.wait_together()


def test_a_node_joins_and_is_brought_to_the_state_of_the_others(cluster):
    c = cluster("--sleep", "0.02")
    start(c, "n1")
    c.wait_step(10)
    c.start("n2")
    since = time.time()
    c.join("n2")
    joined = time.time()
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 20)
    last = [line for line in c.steps() if line[2] == c.run]
    assert {rank for _s, _l, _run, rank, _t in last} == {0, 1}
    by_step = {}
    for step, loss, _run, rank, _t in last:
        by_step.setdefault(step, {})[rank] = loss
    both = [losses for losses in by_step.values() if len(losses) == 2]
    assert both and all(losses[0] == losses[1] for losses in both)
    assert c.progress[-1]["base"] > 0
    assert stall(c, joined) < 1.5, since


def test_a_node_that_is_told_to_leave_costs_no_step(cluster):
    c = cluster("--sleep", "0.02")
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    c.leave("n2")
    assert c.wait_gone("n2") == 75
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    assert_no_step_twice(c)
    assert c.members == ["n1", "n3"]


def test_sigterm_means_leave(cluster):
    c = cluster("--sleep", "0.02")
    start(c, "n1", "n2")
    c.wait_step(10)
    c.signal("n1", signal.SIGTERM)
    assert c.wait_gone("n1") == 75
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    assert_no_step_twice(c)


def test_sigkill_costs_at_most_one_step(cluster):
    c = cluster("--sleep", "0.02")
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    since = time.time()
    c.signal("n1", signal.SIGKILL)
    assert c.wait_gone("n1") == -signal.SIGKILL
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    again = steps_done_twice(c)
    assert len(again) <= 1
    assert stall(c, since) < 1.5


@pytest.mark.parametrize("hang_after", [2.5])
def test_a_paused_peer_is_dropped(cluster, hang_after):
    c = cluster("--sleep", "0.02", hang_after=hang_after)
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    c.signal("n2", signal.SIGSTOP)
    assert c.wait_gone("n2") == -signal.SIGKILL
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    assert len(steps_done_twice(c)) <= 1


def steps_done_twice(c):
    """Steps that were applied in more than one run: all but one of these were lost."""
    runs = {}
    for step, _loss, run, _rank, _t in c.steps():
        runs.setdefault(step, set()).add(run)
    return [step for step, found in runs.items() if len(found) > 1]


def assert_no_step_twice(c):
    assert steps_done_twice(c) == []
