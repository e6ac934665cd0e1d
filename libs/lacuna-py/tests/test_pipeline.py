"""The parts of a step: each has numbers and a state of its own, and one may end a call."""

import logging
import re
import time
import weakref
from types import SimpleNamespace

import pytest
import torch

import lacuna
from lacuna import misuse
from lacuna.data import source
from lacuna.loaders import Loaders
from lacuna.part import Part, Step
from lacuna.pipeline import Pipeline
from lacuna.policy import checked
from lacuna.settings import Settings
from lacuna.sharding import Node
from lacuna.state import Parts


def settings(**changed):
    given = {"noise": False, "balance": False, "loaders": None, **changed}
    names = ("clip_norm", "before_step", "wire", "total")
    rest = dict.fromkeys(names, None)
    return Settings(checked(8), 1, True, 2.0, "gloo", **rest, **given)


def pipeline(**changed):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Pipeline(Parts(model, [optimizer], [], None, {}), settings(**changed), Node())


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(8))


class Counted(Stream):
    def __len__(self):
        return 8


@pytest.mark.parametrize("kind", [Stream, Counted])
def test_a_stream_is_trained_on_without_loaders_and_a_log_says_why(kind, caplog):
    feed, _ = source(kind(), None, checked(8), None, 1)
    loaders = Loaders(settings(loaders="/tmp/loaders.json"), None, None)
    loaders._trainer = "trainer"
    with caplog.at_level(logging.WARNING):
        assert loaders.beside(feed) is feed
    assert "this is a stream" in caplog.text and "/tmp/loaders.json is not used" in caplog.text
    feed.close()


def alone():
    model = torch.nn.Linear(2, 1)
    return model, lacuna.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), batch=8)


def test_the_time_of_a_step_holds_the_work_that_its_loss_waits_for(monkeypatch):
    convert = torch.Tensor.__float__

    def waits(tensor):
        time.sleep(0.05)
        return convert(tensor)

    model, elastic = alone()
    with elastic as run:
        for x in run.steps(torch.randn(16, 2), epochs=1):
            loss = model(x).pow(2).mean()
            loss.backward()
            with monkeypatch.context() as patch:
                patch.setattr(torch.Tensor, "__float__", waits)
                assert run.step(loss)
            assert run._step.took >= 0.05 and run._step.loss == float(loss)


def test_behind_the_loop_nothing_holds_the_last_batch():
    model, elastic = alone()
    with elastic as run:
        for x in run.steps(torch.randn(16, 2), epochs=1):
            model(x).pow(2).mean().backward()
            run.step()
            last = weakref.ref(x)
        del x
        assert last() is None
        with pytest.raises(RuntimeError, match=re.escape(misuse.NO_BATCH)):
            run.step()


def test_parts_with_a_state_have_names_of_their_own():
    line = pipeline(noise=True, balance=True)
    names = [part.name for part in line._parts if part.name]
    assert sorted(names) == ["arrivals", "balance", "best", "learning", "turns"]
    assert list(line.state_dict()) == names
    line.close()


def test_what_has_no_measurements_saves_none():
    line = pipeline()
    assert set(line.state_dict()) == {"arrivals", "best", "turns"}
    line.close()


def test_a_part_that_ends_the_call_keeps_those_behind_it_out():
    class Ends(Part):
        def vote(self, step):
            step.answer = False

    class Fails(Part):
        def vote(self, step):
            raise AssertionError

    line = pipeline()
    step = Step(*[None] * 5, [])
    line._parts = [Part(), Ends(), Fails()]
    assert line.vote(step) is False
    line._parts = [Part()]
    step.called(None, None)
    assert line.vote(step) is None
    line.close()


def test_each_part_gets_the_sums_of_its_own_numbers():
    one, other, step = Part(), Part(), Step(*[None] * 5, [])
    step.send(one, (1.0, 2.0))
    step.send(other, (3.0,))
    assert step.summed(one) == ()
    step.sums = SimpleNamespace(more=(10.0, 20.0, 30.0))
    assert step.summed(one) == (10.0, 20.0) and step.summed(other) == (30.0,)
