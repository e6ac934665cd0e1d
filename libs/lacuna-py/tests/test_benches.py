"""The command line of measurements and the arithmetic of two, without a training."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from benches import choices, stalls, stalls_counted
from benches.stalls_cost import interval, of_median
from conftest import HERE, SOURCE

WITHOUT = """
import sys

sys.modules["torch"] = None
from benches.__main__ import OTHERS, main

print([main(argv) for argv in ([], *([name] for name in OTHERS))])
main(["--help"])
"""


def test_without_pytorch_each_measurement_says_so():
    argv, env = [sys.executable, "-c", WITHOUT], {"PYTHONPATH": SOURCE}
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{[69] * 12}\nusage: "), done.stdout
    assert done.stderr.count("benches: PyTorch is missing: ") == 12, done.stderr


def test_the_page_about_layers_has_a_command_that_runs_in_its_folder():
    page = (HERE.parents[2] / "deploy" / "layers.md").read_text()
    found = re.search(r"In `(\S+)`, `([^`]* -m benches two_stage)`", page)
    assert found, "the page names the folder and the command"
    command = found[2].replace("python3", shlex.quote(sys.executable)) + " --help"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = HERE.parents[2] / found[1]
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "two_stage" in done.stdout, done.stderr


def test_options_without_effect_are_refused(capsys):
    for words in ("--split --nodes 4", "--cost --cases nothing", "--predict --split"):
        assert stalls.main(words.split()) == 64
        assert "go without each other" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        choices.main(["--nodes", "4"])


def test_the_interval_of_a_mean_is_students():
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (low + high) / 2 == pytest.approx(3.0)
    # 2.776 times the deviation (the root of 2.5) over the root of 5.
    assert high - 3.0 == pytest.approx(1.963, abs=1e-3)
    # An outlier moves the mean alone: of 25 values the 8th and the 18th.
    values = [*map(float, range(24)), 1e6]
    assert of_median(values) == [7.0, 17.0] and interval(values)[1] > 1e4


def test_seconds_inside_a_function_that_calls_another_count_once(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(stalls_counted.time, "perf_counter", lambda: now[0])

    def works(seconds):
        now[0] += seconds

    counter = stalls_counted.Counter()
    inner = counter.around(works)

    def both():
        works(1.0)
        inner(2.0)

    counter.around(both)()
    inner(4.0)
    assert counter.wall == 7.0
    with pytest.raises(ZeroDivisionError):
        counter.around(lambda: 1 / 0)()
    # A failure inside ends the count, and the next call begins one.
    inner(1.0)
    assert counter.wall == 8.0


def test_a_late_choice_and_a_dear_one_are_told_from_near_ones(monkeypatch):
    workload = choices.Workload.drawn(0)
    all_ = list(choices.candidates())
    assert len(all_) == 20 and choices.TRACED in all_
    groups = choices._alike(workload)
    # Only the first one of a run has its readings kept.
    first = [group[0] for group in groups]
    assert all(workload.config(one) in first for one in (choices.TRACED, choices.BESIDE))
    assert sorted(len(group) for group in groups) == [4] * 5
    # A step takes as long as there are samples for a node, so all numbers of nodes cost the same.
    measured = {one: {"step": 0.4 / one.nodes, "stalls": {}} for one in all_}
    given = []

    def answers(chosen):
        def recommended(tool, stalls, asked):
            given.append(asked)
            seconds = {one: choices.START + 20_000 * measured[one]["step"] for one in all_}
            others = [one for one in all_ if one != chosen]
            return [(one, seconds[one]) for one in (chosen, *others)]

        monkeypatch.setattr(choices, "_recommended", recommended)
        return list(choices._choices("tool", 0, measured, 5))

    fast = answers(choices.Candidate("old", 4, False, 1))
    assert all(not row["late"] and len(row["errors"]) == 20 for row in fast)
    assert all(row["off"] == 0.0 for row in fast) and given[0]["site"]["kind"][0]["nodes"]
    slow = answers(choices.Candidate("old", 1, False, 1))
    assert all(row["late"] == (row["budget"] < choices.START + 8000.0) for row in slow)
    found = choices._summary(fast + slow)
    assert found["choices"] == 10
    assert found["misses_percent"] == 10.0 * sum(row["late"] for row in slow)
    assert found["near_percent"] <= 100.0 - found["misses_percent"]
