"""Times of steps: what a member measures, what rank 0 reports, and what it leaves out."""

import json
import math
import os
import subprocess
import sys
import time

import pytest
import torch

from conftest import HERE, SOURCE, start
from lacuna import timing
from lacuna.moments import SUMS, WARM_UP, WIDTH, Reading, Stopwatch
from lacuna.order import Position
from lacuna.progress import Reporter, Span
from lacuna.timing import ENOUGH, NUMBERS, WINDOW, Timing


class Clock:
    """A clock that is set by hand, in milliseconds."""

    def __init__(self, monkeypatch):
        self.now = 1.0
        monkeypatch.setattr(timing, "clock", lambda: self.now)

    def after(self, milliseconds):
        self.now += milliseconds * 1e-3


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def step(one, clock, wait=10.0, gradient=20.0, buckets=2, together=None):
    """A step whose batch is read while it waits; each gradient takes a time, each sum 5 ms."""
    one.asked()
    began = clock.now - 0.030
    clock.after(wait)
    ended = clock.now
    clock.after(1)
    one.got(Reading(began, ended, 0.015))
    if one._members > 1:
        one.sums([1000] * buckets)
        for bucket in range(buckets):
            clock.after(gradient)
            one.launched(bucket)
            clock.after(5)
            one.ended(bucket)
        one.launched(None)
        slots = one.slots(80)
        clock.after(2)
        one.ended(None)
        one.summed()
        if slots is not None:
            one.take(slots if together is None else together(slots))
    else:
        clock.after(gradient)
        one.summed()
    clock.after(3)
    one.updated()
    clock.after(4)


def steps(one, clock, count, **options):
    for _ in range(count):
        step(one, clock, **options)


def test_durations_are_those_of_the_clock(clock):
    one = Timing(None, {})
    one.formed(2, 0)
    # The other member has done the same.
    same = lambda slots: slots.view(2, WIDTH)[[0, 0]].reshape(-1)  # noqa: E731
    steps(one, clock, WARM_UP + 12, together=same)
    report = one.report()
    assert report["members"] == 2 and report["silent"] == []
    assert report["bytes"] == [1000, 1000, 80 + 8 * 2 * WIDTH]
    for rank, times in enumerate(report["ranks"]):
        assert times["rank"] == rank
        assert times["wait"] == [10_000] * 12 and times["hand"] == [1000] * 12
        assert times["prep"] == [15_000] * 12 and times["fetch"] == [25_000] * 12
        assert times["update"] == [3000] * 12 and times["rest"] == [4000] * 12
        assert times["ready"] == [[20_000] * 12, [45_000] * 12, [50_000] * 12]
        assert times["done"] == [[25_000] * 12, [50_000] * 12, [52_000] * 12]


def test_a_member_alone_has_one_sum_of_no_time(clock):
    one = Timing(None, {})
    one.formed(1, 0)
    steps(one, clock, WARM_UP + 12)
    (times,) = one.report()["ranks"]
    assert times["ready"] == times["done"] == [[20_000] * 11]
    assert one.report()["workers"] == 0


def test_a_silent_member_is_named_and_its_steps_do_not_count(clock):
    one = Timing(None, {})
    one.formed(2, 0)
    steps(one, clock, WARM_UP + 12)
    report = one.report()
    assert report["silent"] == [1]
    assert [times["rank"] for times in report["ranks"]] == [0]


@pytest.mark.parametrize("jump", [-0.5, math.nan, math.inf, -math.inf])
def test_a_clock_that_jumps_costs_the_figures_of_one_step(clock, jump):
    one = Timing(None, {})
    one.formed(1, 0)
    steps(one, clock, WARM_UP + 5)
    one.asked()
    one.got(None)
    held, clock.now = clock.now, clock.now + jump
    one.summed()
    clock.now = held
    one.updated()
    steps(one, clock, 10)
    (times,) = one.report()["ranks"]
    assert len(times["rest"]) == 14
    assert set(times["ready"][0]) == {20_000}


def test_a_step_that_was_not_applied_does_not_count(clock):
    one = Timing(None, {})
    one.formed(1, 0)
    steps(one, clock, WARM_UP + 5)
    one.asked()
    one.got(None)
    clock.after(1000)
    one.summed()
    one.dropped()
    steps(one, clock, 5)
    (times,) = one.report()["ranks"]
    assert set(times["ready"][0]) == {20_000}


def test_another_group_begins_afresh(clock):
    one = Timing(None, {})
    one.formed(1, 0)
    steps(one, clock, WINDOW)
    one.formed(2, 0)
    assert one.report() is None
    steps(one, clock, WARM_UP + 3)
    assert len(one.report()["ranks"][0]["rest"]) == 3


def test_many_buckets_share_the_places_of_a_slot(clock):
    one = Timing(None, {})
    one.formed(2, 0)
    same = lambda slots: slots.view(2, WIDTH)[[0, 0]].reshape(-1)  # noqa: E731
    steps(one, clock, WARM_UP + 12, buckets=23, gradient=1.0, together=same)
    report = one.report()
    assert len(report["bytes"]) == SUMS and sum(report["bytes"][:-1]) == 23_000
    ready = [column[0] for column in report["ranks"][0]["ready"]]
    assert ready == sorted(ready) and ready[-2] == 23_000 + 22 * 5000


def test_reports_are_small_for_any_number_of_members(clock):
    one = Timing(None, {})
    for members in (1, 8, 300):
        one.formed(members, 0)
        even = lambda slots: slots.view(-1, WIDTH)[:1].expand(members, WIDTH)  # noqa: B023,E731
        steps(one, clock, WARM_UP + WINDOW, buckets=20, together=even)
        report = one.report(NUMBERS)
        assert len(json.dumps(report)) < 40_000
        assert len(report["ranks"]) <= 16 and len(report["ranks"][0]["rest"]) >= ENOUGH // 2
        assert report["members"] == members


def test_without_readings_nothing_is_sent_and_nothing_said(clock):
    one = Timing(None, {"LACUNA_STALLS": "off"})
    one.formed(2, 0)
    assert one.slots(10) is None and one.numbers == 0
    steps(one, clock, WINDOW)
    assert one.report() is None and one.due() is None


def test_sleep_is_fetching_and_computing_is_preparing():
    watch = Stopwatch()
    time.sleep(0.05)
    began, ended, prep = watch.read()
    assert ended - began >= 0.05 and prep < 0.04
    watch = Stopwatch()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    began, ended, prep = watch.read()
    # A wait for a processor counts as well.
    assert 0.05 <= prep <= ended - began + 1e-9 and prep > 0.8 * (ended - began)


def test_a_file_of_progress_carries_the_times_once(tmp_path, clock):
    one = Timing(None, {})
    one.formed(1, 0)
    steps(one, clock, WARM_UP + ENOUGH + 1)

    class Deaf:
        def say(self, message):
            self.heard = message

    link = Deaf()
    reporter = Reporter(link, str(tmp_path / "progress"))

    def news():
        due = one.due()
        return {} if due is None else {"stalls": due}

    for _ in range(2):
        reporter.report(Span(0, 1, 0), Position(), 1.0, None, news, last=True)
    lines = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert "stalls" in lines[0] and "stalls" not in lines[1]
    assert lines[0]["stalls"]["version"] == 1
    assert "stalls" not in link.heard


def test_rank_0_of_a_group_reports_the_times_of_all(cluster):
    c = cluster("--sleep", "0.02")
    start(c, "n1", "n2")
    c.wait_step(WARM_UP + ENOUGH + 25)
    found = [p["stalls"] for p in c.progress if "stalls" in p]
    assert len(found) == 1
    report = found[0]
    assert report["silent"] == [] and report["workers"] == 0 and report["members"] == 2
    assert report["follows"] == "whole"
    for times in report["ranks"]:
        # The program sleeps behind its backward pass.
        assert min(times["ready"][-1]) >= 20_000
        assert all(a <= b for a, b in zip(times["ready"][-1], times["done"][-1]))


def test_members_that_disagree_about_readings_are_told_so(cluster):
    c = cluster("--sleep", "0.02")
    start(c, "n1")
    c._env["LACUNA_STALLS"] = "off"
    c.start("n2")
    c.join("n2")
    assert c.wait_gone("n2") == 1
    assert "length:seed:batch:model" in c.words("n2")


ACCUMULATES = """
import json, time, torch, lacuna
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(4) * index

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
with lacuna.elastic(model, optimizer, batch=8) as run:
    for x in run.steps(DataLoader(Slow(), num_workers=1), epochs=1):
        optimizer.zero_grad()
        for part in x.chunk(2):
            loss = model(part).pow(2).mean() / 2
            loss.backward()
            time.sleep(0.01)
        run.step(loss)
    print(json.dumps(run.stalls))
"""


def test_two_backward_passes_of_a_step_are_one_step():
    env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ACCUMULATES], env=env, stdout=subprocess.PIPE, cwd=HERE, timeout=60
    )
    report = json.loads(done.stdout.splitlines()[-1])
    (times,) = report["ranks"]
    assert report["workers"] == 1 and report["depth"] == 2
    assert len(times["rest"]) == 50 - WARM_UP
    assert min(times["ready"][0]) >= 20_000
    middle = sorted(times["fetch"])[len(times["fetch"]) // 2]
    # Preparation contains waits for a processor, which a busy machine has.
    assert middle >= 15_000


def test_slots_of_members_add_up_without_a_loss_of_digits():
    members = [Timing(None, {}) for _ in range(3)]
    for rank, one in enumerate(members):
        one.formed(3, rank)
        one._slot = [1.0, *(rank + 1 / 3 for _ in range(WIDTH - 1))]
    total = sum(one.slots(0) for one in members)
    assert torch.equal(total.view(3, WIDTH)[:, 5], torch.arange(3.0).double() + 1 / 3)
