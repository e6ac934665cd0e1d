"""Sums on GPUs, with operations that stand for those of NCCL: no GPU is needed."""

from types import SimpleNamespace

import pytest
import torch.distributed as dist

from lacuna import group
from lacuna.group import Group, backend_of
from lacuna.messages import Membership

BOTH = "cpu:gloo,cuda:nccl"


class Operation:
    """An operation that ends at the n-th look. Of NCCL, a wait for one under way never returns."""

    def __init__(self, said, name, looks, failure=None):
        self.said, self.name, self.looks, self.failure = said, name, looks, failure

    def is_completed(self):
        self.looks -= 1
        return self.looks <= 0

    def wait(self, timeout):
        assert self.name == "cpu" or self.looks <= 0, "a wait for an operation under way"
        self.said.append(self.name)
        if self.failure:
            raise RuntimeError(self.failure)


@pytest.fixture
def launched(monkeypatch):
    """Makes a group in which a sum on each of some devices is under way; and what is said."""
    said, operations = [], []

    def abort():
        said.append("abort")
        for operation in operations:
            operation.looks = 0

    monkeypatch.setattr(dist, "group", SimpleNamespace(WORLD=SimpleNamespace(abort=abort)))
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: said.append("destroy"))
    monkeypatch.setattr(dist, "all_reduce", lambda *_, **__: operations[-1])

    def make(timeout=5.0, **devices):
        one = Group(0, 2, timeout)
        for name, (looks, *failure) in devices.items():
            operations.append(Operation(said, name, looks, *failure))
            tensor = SimpleNamespace(is_cuda=name == "gpu")
            one.launch(tensor, lambda name=name: said.append(f"{name} ended"))
        return one

    return make, said


def test_a_sum_on_a_gpu_is_looked_at_until_it_has_ended_and_comes_last(launched):
    make, said = launched
    one = make(gpu=(5,), cpu=(1,))
    assert one.wait(lambda: None) is None
    assert said == ["cpu", "cpu ended", "gpu", "gpu ended"]
    one.close()
    assert said[4:] == ["destroy"], "nothing is under way"


def test_a_failed_sum_on_a_gpu_fails_the_step(launched):
    make, said = launched
    assert make(gpu=(2, "a peer is gone")).wait(lambda: None) == "a peer is gone"
    assert said == ["gpu"]


def test_a_sum_on_a_gpu_without_an_end_is_given_up_and_aborted(launched):
    make, said = launched
    one = make(timeout=0.02, gpu=(10**9,))
    assert one.wait(lambda: None) == "a sum on the GPU took more than 0.02 s"
    one = make(gpu=(10**9,))
    assert one.wait(lambda: "a newer run is known") == "a newer run is known"
    one.close()
    one.close()
    assert said == ["abort", "destroy"]


def test_a_lost_peer_ends_sums_on_gpus_before_the_group(launched):
    make, said = launched
    one = make(gpu=(10**9,), cpu=(1, "connection closed by peer"))
    assert one.wait(lambda: None) == "connection closed by peer"
    one.close()
    assert said == ["cpu", "abort", "destroy"]


def test_nccl_leaves_the_end_of_a_peer_to_lacuna(monkeypatch):
    run = Membership(run=1, rank=0, members=("n1", "n2"), store="127.0.0.1:1")
    seen = []

    def formed(backend, **environment):
        with monkeypatch.context() as patch:
            patch.setattr(group.os, "environ", environment)
            patch.setattr(dist, "init_process_group", lambda *_, **__: seen.append({**environment}))
            assert isinstance(Group.form(dist.HashStore(), "t/1/0", run, 2.0, backend, 2.0), Group)
        return seen[-1]

    assert formed(BOTH) == dict.fromkeys(group.NCCL, "0")
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in group.NCCL
    own = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    assert formed(BOTH, **own) == {**dict.fromkeys(group.NCCL, "0"), **own}
    assert formed("gloo") == {}


def test_the_backend_follows_from_the_parameters(monkeypatch):
    here, there = SimpleNamespace(is_cuda=False), SimpleNamespace(is_cuda=True)
    monkeypatch.setattr(group, "version", lambda: (2, 6))
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    assert [backend_of(one) for one in ([here], [here, there], [])] == ["gloo", BOTH, "gloo"]
    monkeypatch.setattr(group, "version", lambda: (2, 5))
    assert backend_of([there]) == "gloo"
    monkeypatch.setattr(group, "version", lambda: (2, 6))
    monkeypatch.setattr(dist, "is_nccl_available", lambda: False)
    assert backend_of([there]) == "gloo"
