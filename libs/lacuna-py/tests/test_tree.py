"""States as text and tensors, without pickle."""

import json
import math
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from lacuna.tree import pack, shapes, unpack


def again(state):
    text, tensors = pack(state)
    assert shapes(text) == [(t.dtype, tuple(t.shape)) for t in tensors]
    return unpack(text, tensors)


@pytest.mark.parametrize(
    "state",
    [
        *(None, True, 7, -(2**70), 0.1, math.inf, "text", b"\x00\xff", 1 - 2j),
        *([1, [2]], (1, (2,)), {3, 4}, frozenset({5}), {}),
        {"a": 1, 2: "b", (3, "c"): None, None: 4.0},
        OrderedDict([("z", 1), ("a", 2)]),
        Counter({3: 2, 5: 1}),
        *(torch.float16, torch.device("cpu")),
        *(np.float32(0.1), np.int64(-3)),
        {"tensor": 1, "dict": [["x", 2]]},
    ],
)
def test_values_and_their_types_come_back(state):
    back = again(state)
    assert type(back) is type(state)
    assert back == state


def test_tensors_are_not_copied_and_arrays_keep_their_type():
    state = {"w": torch.randn(2, 3), "n": torch.tensor(5), "r": [torch.zeros(0, dtype=torch.int16)]}
    back = again(state)
    assert back["w"].data_ptr() == state["w"].data_ptr()
    assert back["n"].shape == () and back["r"][0].dtype == torch.int16
    array = np.arange(6, dtype=">u4").reshape(2, 3)[:, ::2]
    back = again({"a": array})["a"]
    assert back.dtype == array.dtype and np.array_equal(back, array)
    back[0, 0] = 9


def test_not_a_number_comes_back():
    assert math.isnan(again(math.nan))


def test_states_of_models_optimisers_and_schedulers_come_back():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    back = again([one.state_dict() for one in (model, optimizer, scheduler)])
    assert back[0]._metadata == model.state_dict()._metadata
    for one, state in zip((model, optimizer, scheduler), back):
        one.load_state_dict(state)
    assert type(scheduler.state_dict()["milestones"]) is Counter


class Odd:
    pass


@pytest.mark.parametrize(
    "value, named",
    [(Odd(), "test_tree.Odd"), (np.array([Odd()]), "array of objects"), (print, "function")],
)
def test_other_types_are_refused_with_their_place(value, named):
    with pytest.raises(TypeError, match=r"state\['extra'\]\['ema'\]\[1\]") as error:
        pack({"extra": {"ema": [1, value]}})
    assert named in str(error.value)


@pytest.mark.parametrize(
    "nested", [{"odd": 1}, {"tensor": 3}, {"dict": 5}, {"dtype": "load"}, {"device": "no"}, {}]
)
def test_a_text_that_is_no_state_is_an_error(nested):
    with pytest.raises(ValueError):
        unpack(json.dumps({"tensors": [], "state": nested}), [])
