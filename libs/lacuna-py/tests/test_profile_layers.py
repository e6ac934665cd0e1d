"""Profiles of layers: names, bytes, times, a second kind, and what is refused."""

import json

import pytest
import torch

from lacuna import profile_layers

SOURCE = '''
import torch
from torch import nn

BATCH = 64


def build():
    module = nn.Sequential(
        nn.EmbeddingBag(1000, 16),
        nn.Linear(16, 1024),
        nn.ReLU(),
        nn.Linear(1024, 1024),
        nn.Linear(1024, 1),
    )
    return module, torch.randint(0, 1000, (BATCH, 5))


class Twice(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.one, self.times = nn.Linear(4, 4), times

    def forward(self, x):
        for _ in range(self.times):
            x = self.one(x)
        return x


def twice():
    return Twice(2), torch.ones(8, 4)


def never():
    return Twice(0), torch.ones(8, 4)


def small():
    return nn.Linear(4, 4), torch.ones(2, 4)


def alone():
    return nn.Linear(4, 4)
'''


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    (tmp_path / "model_of_test.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(profile_layers, "LONG", 0.02)


def made(*arguments):
    fixed = ["model_of_test:build", "--threads", "1", "--out", "p.json"]
    code = profile_layers.main([*fixed, *arguments])
    assert code == 0
    return json.loads(open("p.json").read())


def test_layers_have_their_bytes_and_times():
    profile = made("--kind", "small", "--price", "0.04", "--memory", "8e9", "--limit", "3")
    (kind,) = profile["kinds"]
    assert kind["name"] == "small" and kind["limit"] == 3 and kind["memory_bytes"] == 8e9
    layers = profile["layers"]
    assert [layer["name"] for layer in layers] == ["0", "1", "2", "3", "4"]
    assert [layer["out_bytes"] for layer in layers] == [64, 4096, 4096, 4096, 4]
    # A table with as many bytes of its optimizer; weights with biases.
    assert [layer["table_bytes"] for layer in layers] == [2 * 64_000, 0, 0, 0, 0]
    assert layers[0]["weight_bytes"] == 0 and layers[1]["weight_bytes"] == 4 * 17 * 1024
    times = [layer["seconds"]["small"] for layer in layers]
    assert all(time > 0 for time in times)
    assert max(times) == times[3], times
    assert all(0 <= layer["parallel_compute"] <= 1 for layer in layers)
    assert profile["batch"] == 64


def test_a_second_kind_stands_beside_the_first():
    first = made("--kind", "one")
    both = made("--kind", "two", "--add", "p.json", "--price", "1")
    assert [kind["name"] for kind in both["kinds"]] == ["one", "two"]
    for before, layer in zip(first["layers"], both["layers"]):
        assert set(layer["seconds"]) == {"one", "two"}
        assert layer["seconds"]["one"] == before["seconds"]["one"]
    again = made("--kind", "two", "--add", "p.json")
    assert [kind["name"] for kind in again["kinds"]] == ["one", "two"]


def test_times_divide_into_a_fixed_and_a_parallel_part(monkeypatch):
    # Two milliseconds a call and one for each sample.
    monkeypatch.setattr(
        profile_layers, "seconds", lambda call, batch, samples: 0.002 + 0.001 * samples
    )
    for layer in made()["layers"]:
        assert layer["parallel_compute"] == pytest.approx(64 / 66)
        assert layer["seconds"]["cpu"] == pytest.approx(0.066 / 64)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["model_of_test"], "is no model: expected module:function"),
        (["no_such:build"], "cannot find no_such:build"),
        (["model_of_test:twice"], "layer one is called twice"),
        (["model_of_test:never"], "layer one is not called"),
        (["model_of_test:small"], "has 2 samples: expected 4 or more"),
        (["model_of_test:alone"], "expected the module and its inputs"),
        (["model_of_test:build", "--price", "-1"], "--price -1.0: expected a number from 0"),
        (["model_of_test:build", "--link", "0"], "--link 0.0: expected a number above 0"),
        (["model_of_test:build", "--depth", "0"], "--depth 0: expected 1 or more"),
        (["model_of_test:build", "--device", "tpu0"], "--device tpu0"),
        (["model_of_test:build", "--add", "none.json"], "cannot read none.json"),
    ],
)
def test_what_is_wrong_is_named(arguments, words, capsys):
    assert profile_layers.main(arguments) == 64
    assert words in capsys.readouterr().err


def test_other_layers_are_not_added(capsys):
    profile = made()
    profile["layers"].pop()
    with open("other.json", "w") as file:
        json.dump(profile, file)
    assert profile_layers.main(["model_of_test:build", "--add", "other.json"]) == 64
    assert "the layers differ: 0, 1, 2, 3 there, 0, 1, 2, 3, 4 here" in capsys.readouterr().err


def test_a_missing_gpu_is_named(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert profile_layers.main(["model_of_test:build", "--device", "cuda"]) == 64
    assert "no CUDA device" in capsys.readouterr().err
