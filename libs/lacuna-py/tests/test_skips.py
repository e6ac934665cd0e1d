"""A skipped test is a line of six fields, and a failure where its need is required."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import conftest


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """The outcome of a test that was skipped for a reason, and the fields of its line."""
    listed = tmp_path / "skipped"
    monkeypatch.setenv("LACUNA_SKIPPED", str(listed))

    def judge(reason, required=""):
        monkeypatch.setenv("LACUNA_REQUIRE", required)
        listed.write_text("")
        report = SimpleNamespace(skipped=True, outcome="skipped")
        report.longrepr = ("test_x.py", 1, f"Skipped: {reason}")
        item = SimpleNamespace(name="test_y[1]", path=Path("test_x.py"))
        hook = conftest.pytest_runtest_makereport(item)
        next(hook)
        with pytest.raises(StopIteration):
            hook.send(SimpleNamespace(get_result=lambda: report))
        return report.outcome, *(line.split("\t") for line in listed.read_text().splitlines())

    return judge


def test_missing_data_are_counted_and_may_be_required(judged):
    fields = ["test", "data", "libs/lacuna-py/tests/test_x.py", "test_y[1]", "a.json: not there"]
    fields.append(conftest.REMEDIES["data"])
    assert judged("data: a.json: not there") == ("skipped", fields)
    assert judged("data: a.json: not there", "torch, docker") == ("skipped", fields)
    for required in ("torch, data", "all"):
        assert judged("data: a.json: not there", required) == ("failed",)


def test_an_older_pytorch_is_counted_and_not_required(judged):
    outcome, fields = judged("newer-torch: torch.compile", "all")
    assert outcome == "skipped" and fields[0] in ("test", "part") and fields[1] == "newer-torch"


def test_a_reason_without_a_need_fails(judged):
    assert judged("no time") == ("failed",) and judged("docker: none") == ("failed",)
