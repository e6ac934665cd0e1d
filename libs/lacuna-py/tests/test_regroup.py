"""Members that join, leave, die and fall silent, with real processes and real groups."""

import signal
import time

import pytest

from conftest import start


def stall(cluster, since):
    """The longest time without any step, from shortly before a moment."""
    times = [t for *_, t in cluster.steps() if t > since - 0.5]
    return max(b - a for a, b in zip(times, times[1:]))


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


def test_a_node_that_is_asked_to_leave_costs_no_step(cluster):
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


@pytest.mark.parametrize("pause", [2.0, 4.5])
def test_a_peer_that_only_paused_is_met_again_in_the_same_run(cluster, pause):
    """The group breaks by its timeout, and control is away: the same run is tried again.

    After the longer pause the others have given up a first attempt, which the peer has not made.
    """
    c = cluster("--sleep", "0.02", hang_after=60.0, control=False, PROGRAM_TIMEOUT="1")
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    run, step = c.run, c.steps()[-1][0]
    c.signal("n2", signal.SIGSTOP)
    time.sleep(pause)
    assert c.steps()[-1][0] <= step + 3
    c.signal("n2", signal.SIGCONT)
    c.wait_step(step + 20)
    assert c.run == run and c.progress[-1]["world_size"] == 3
    numbers = [line[0] for line in c.steps() if line[3] == 0]
    assert numbers == list(range(1, len(numbers) + 1))
    # Members that found the group broken have reported it, and then the repair.
    c.wait(lambda: all(node.broken == 0 for node in c.nodes.values()), 5.0, "all is well")
    said = [m["say"] for name in ("n1", "n3") for m in c.nodes[name].said if "run" in m]
    assert said.count("broken") == 2 and said.count("whole") == 2


def test_survivors_say_that_their_group_broke_and_go_on_without_the_paused_peer(cluster):
    """No agent kills it: it is left out because no agent answers for it."""
    c = cluster("--sleep", "0.02", hang_after=600.0, PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    run = c.run
    c.signal("n2", signal.SIGSTOP)
    c.wait(lambda: c.run > run, 60.0, "another run")
    assert c.members == ["n1", "n3"]
    broken = [m for name in ("n1", "n3") for m in c.nodes[name].said if m["say"] == "broken"]
    assert [m["run"] for m in broken] == [run, run]
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    assert len(steps_done_twice(c)) <= 1


def test_a_peer_that_is_only_slow_stays_a_member(cluster):
    """Its process speaks while its main thread is busy: another run begins, with all of them."""
    c = cluster("--sleep", "0.02", "--slow-at", "25", PROGRAM_SLOW="n2", PROGRAM_TIMEOUT="1")
    start(c, "n1", "n2", "n3")
    run = c.run
    c.wait(lambda: c.run > run, 60.0, "another run")
    c.wait_together()
    c.wait_step(60)
    assert c.members == ["n1", "n2", "n3"] and not c.nodes["n2"].gone
    numbers = [line[0] for line in c.steps() if line[3] == 0]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_first_step_that_takes_longer_than_the_timeout_is_done_in_the_end(cluster):
    """Also when it takes twelve times as long: such a member asks for more in the next group."""
    c = cluster("--sleep", "0.02", "--slow-at", "0", PROGRAM_SLOW="n2", PROGRAM_TIMEOUT="0.25")
    start(c, "n1", "n2", "n3")
    c.wait_step(20)
    assert c.members == ["n1", "n2", "n3"]


def test_a_peer_is_dropped_after_many_runs_that_newer_ones_have_overtaken(cluster):
    """As when pilots leave one after the other: the timeout is what it was."""
    c = cluster("--sleep", "0.02", hang_after=600.0, PROGRAM_TIMEOUT="2")
    start(c, "n1", "n2")
    c.start("n3")
    c.wait_ready("n3")
    # It comes to none of these runs, so the others are overtaken while they wait for it.
    c.signal("n3", signal.SIGSTOP)
    c.join("n3")
    for _ in range(9):
        time.sleep(0.1)
        c.join()
    c.signal("n3", signal.SIGCONT)
    c.wait_together()
    c.wait_step(c.progress[-1]["step"] + 10)
    assert c.members == ["n1", "n2", "n3"]
    run = c.run
    c.signal("n3", signal.SIGSTOP)
    c.wait(lambda: c.run > run, 60.0, "another run")
    assert c.members == ["n1", "n2"]


def test_a_newcomer_waits_for_members_in_the_middle_of_a_long_step(cluster):
    """Its own timeout says nothing of steps that it has not seen: one new run, no more."""
    c = cluster("--sleep", "3", PROGRAM_TIMEOUT="1")
    start(c, "n1", "n2")
    c.wait_step(2)
    c.start("n3")
    c.wait_ready("n3")
    # A step has just begun.
    c.wait_step(c.progress[-1]["step"] + 1)
    run = c.run
    c.join("n3")
    c.wait(lambda: c.progress[-1]["run"] > run and c.progress[-1]["samples"] > 0, 60.0, "a step")
    assert c.run == run + 1 and c.progress[-1]["world_size"] == 3
    assert not [m for node in c.nodes.values() for m in node.said if m["say"] == "broken"]


def test_a_run_without_the_paused_peer_ends_the_wait_at_once(cluster):
    """As when control hears no more of a node: survivors do not wait for their timeout."""
    c = cluster("--sleep", "0.02", hang_after=60.0, PROGRAM_TIMEOUT="30")
    start(c, "n1", "n2", "n3")
    c.wait_step(10)
    c.signal("n2", signal.SIGSTOP)
    time.sleep(0.5)
    since = time.time()
    c.leave("n2")
    goes_on = c.run
    c.wait_together()
    first = [t for *_, run, _rank, t in c.steps() if run == goes_on][0]
    assert first - since < 2.0
    # When it wakes, it learns that it must leave.
    c.signal("n2", signal.SIGCONT)
    assert c.wait_gone("n2") == 75
    c.wait_step(c.progress[-1]["step"] + 5)
    assert c.run == goes_on and c.members == ["n1", "n3"]


def test_a_program_that_fails_takes_nobody_along(cluster):
    c = cluster("--sleep", "0.02", "--fail-at", "25", PROGRAM_FAILS="n2")
    start(c, "n1", "n2")
    assert c.wait_gone("n2") == 1
    assert "RuntimeError: a failure on request" in c.words("n2")
    c.wait_together()
    c.wait_step(40)
    assert_no_step_twice(c)


def steps_done_twice(c):
    """Steps that were applied in more than one run: all but one of these were lost."""
    runs = {}
    for step, _loss, run, _rank, _t in c.steps():
        runs.setdefault(step, set()).add(run)
    return [step for step, found in runs.items() if len(found) > 1]


def assert_no_step_twice(c):
    assert steps_done_twice(c) == []
