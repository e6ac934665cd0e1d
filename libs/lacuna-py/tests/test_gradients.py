"""Gradients in buckets, sent while the backward pass runs, between members that are threads."""

import threading

import pytest
import torch
from torch import nn

from lacuna import buckets
from lacuna.arrivals import Arrivals
from lacuna.buckets import Buckets
from lacuna.gradients import Gradients, Vote
from lacuna.group import check_backend

ONE = threading.Lock()
NOTHING = Vote(0.0, 0.0, None)


class Member:
    """The sums of one of several threads: tensors wait until all have launched theirs."""

    def __init__(self, rank, gate, table):
        self.rank, self._gate, self._table = rank, gate, table
        self.launched = []

    def launch(self, tensor, ended=lambda: None):
        self.launched.append(tensor)

    def wait(self, watch):
        self._table[self.rank] = [tensor.clone() for tensor in self.launched]
        self._gate.wait(10)
        shapes = [[tensor.shape for tensor in sent] for sent in self._table.values()]
        assert all(shape == shapes[0] for shape in shapes)
        for i, tensor in enumerate(self.launched):
            tensor.copy_(sum(sent[i] for sent in self._table.values()))
        self._gate.wait(10)
        self.launched = []
        return None


def together(count, work):
    """Calls ``work(sums)`` in a thread per member; its results by rank."""
    gate, table, results = threading.Barrier(count), {}, {}

    def member(rank):
        try:
            results[rank] = work(Member(rank, gate, table))
        except BaseException as error:
            gate.abort()
            results[rank] = error

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(count)]
    [thread.start() for thread in threads]
    [thread.join(30) for thread in threads]
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return [results[rank] for rank in range(count)]


class Alone:
    """The sums of a single member; how many were launched before the end of each step."""

    rank = 0

    def __init__(self, failure=None):
        self.failure = failure
        self.launched = []

    def launch(self, tensor, ended=lambda: None):
        self.launched.append(tensor)

    def wait(self, watch):
        return self.failure


def never():
    return None


def of(model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Gradients(model, [optimizer], **options)


def linear(*sizes):
    """The same weights at each call, also from several threads at once."""
    with ONE:
        torch.manual_seed(5)
        return nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))


def same(model, whole, tolerance=1e-6):
    for mine, wanted in zip(model.parameters(), whole.parameters()):
        assert (mine.grad is None) == (wanted.grad is None)
        if mine.grad is not None:
            assert torch.allclose(mine.grad, wanted.grad.to(mine.grad.dtype), atol=tolerance)


def plain_gradients(model, x):
    model(x).pow(2).mean().backward()
    return model


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("make", [lambda: linear(3, 4, 1), lambda: linear(3, 4, 1).double()])
def test_uneven_shares_give_the_gradient_of_the_whole_batch(set_to_none, make):
    whole = make()
    dtype = next(whole.parameters()).dtype
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(6)).to(dtype)
    plain_gradients(whole, x)

    def member(sums):
        model = make()
        gradients = of(model)
        part = x[:4] if sums.rank == 0 else x[4:]
        for _ in range(3):
            for p in model.parameters():
                p.grad = None if set_to_none or p.grad is None else p.grad.zero_()
            gradients.begin(sums, len(part) / 7)
            loss = model(part).pow(2).mean()
            loss.backward()
            agreed, _ = gradients.finish(Vote(0.0, float(sums.rank), float(loss)), never)
            assert (agreed.moving, agreed.leaving) == (0.0, 1.0)
            assert agreed.loss == pytest.approx(float(whole(x).pow(2).mean()), rel=1e-5)
            same(model, whole, 1e-6 if dtype == torch.float32 else 1e-15)
        return gradients.order

    orders = together(2, member)
    # Arrivals of rank 0, the last layer first.
    assert orders[0] == orders[1] and set(orders[0][:2]) == {2, 3}


def test_buckets_are_launched_during_the_backward_pass_from_the_second_step_on(monkeypatch):
    monkeypatch.setattr(buckets, "FIRST", 1)
    monkeypatch.setattr(buckets, "SIZE", 1)
    model, sums = linear(3, 4, 4, 1), Alone()
    gradients = of(model)
    early = []
    for _ in range(3):
        gradients.begin(sums, 1.0)
        model(torch.ones(2, 3)).sum().backward()
        early.append(len(sums.launched))
        gradients.finish(NOTHING, never)
        sums.launched.clear()
    assert early == [0, 6, 6]


def test_gradients_are_views_and_no_memory_is_taken_after_the_second_step():
    model, sums = linear(3, 4, 1), Alone()
    gradients = of(model)
    places = []
    for _ in range(4):
        for p in model.parameters():
            p.grad = None
        gradients.begin(sums, 1.0)
        model(torch.ones(2, 3)).sum().backward()
        gradients.finish(NOTHING, never)
        places.append([p.grad.data_ptr() for p in model.parameters()])
    assert places[1] == places[2] == places[3]


def test_several_backward_passes_are_sent_once_from_the_second_step_on():
    """Nothing marks the last one: it is the one with the number of the step before."""
    whole = linear(3, 4, 1)
    x = torch.randn(8, 3)
    plain_gradients(whole, x)

    def member(sums):
        model = linear(3, 4, 1)
        gradients = of(model)
        mine = x[4 * sums.rank :][:4]
        for passes in (2, 2, 4):
            done = False
            while not done:
                gradients.forget()
                gradients.begin(sums, 0.5)
                for i, micro in enumerate(mine.chunk(passes)):
                    assert i == 0 or passes == 4 or not sums.launched
                    (model(micro).pow(2).mean() / passes).backward()
                agreed, _ = gradients.finish(NOTHING, never)
                done = agreed.too_early == 0.0
                if not done:
                    gradients.undo()
            same(model, whole)
        return True

    assert together(2, member) == [True, True]


def test_more_passes_than_before_are_found_and_repeated_once():
    model, sums = linear(3, 1), Alone()
    gradients = of(model)
    repeats = []
    for passes in (1, 2, 1, 2, 1, 3):
        count = 0
        while True:
            gradients.forget()
            gradients.begin(sums, 1.0)
            for _ in range(passes):
                model(torch.ones(1, 3)).sum().backward()
            agreed, _ = gradients.finish(NOTHING, never)
            if agreed.too_early == 0.0:
                break
            gradients.undo()
            count += 1
        assert torch.equal(model[0].weight.grad, torch.full((1, 3), float(passes)))
        repeats.append(count)
    assert repeats == [0, 1, 0, 0, 0, 1]


def test_members_that_reach_different_parameters_neither_block_nor_lose_a_gradient(monkeypatch):
    """A parameter that one member used has the mean; one that no member used has no gradient."""
    monkeypatch.setattr(buckets, "FIRST", 1)

    def member(sums):
        model = nn.ModuleList(nn.Linear(2, 1, bias=False) for _ in range(3))
        gradients = of(model)
        seen = []
        for step in range(6):
            used = [0, sums.rank] if step % 2 else [0]
            while True:
                gradients.forget()
                gradients.begin(sums, 0.5)
                sum(model[i](torch.ones(1, 2)).sum() for i in set(used)).backward()
                agreed, _ = gradients.finish(NOTHING, never)
                if agreed.too_early == 0.0:
                    break
                gradients.undo()
            seen.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
        return seen

    first, second = together(2, member)
    assert first == second
    assert first[0] == first[2] == [[[1.0, 1.0]], None, None]
    assert first[1] == first[3] == first[5] == [[[1.0, 1.0]], [[0.5, 0.5]], None]


def test_a_member_without_samples_takes_part():
    def member(sums):
        model = linear(2, 1)
        gradients = of(model)
        for _ in range(3):
            gradients.begin(sums, 1.0 - sums.rank)
            gradients.forget()
            if sums.rank == 0:
                model(torch.ones(1, 2)).sum().backward()
            gradients.finish(NOTHING, never)
        return model[0].weight.grad.tolist(), gradients.order

    first, second = together(2, member)
    assert first == second and first[0] == [[1.0, 1.0]]


def test_a_step_that_failed_leaves_no_trace():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    gradients, sums = of(model), Alone("a peer is gone")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    gradients.begin(sums, 1.0)
    model(torch.randn(8, 3)).sum().backward()
    assert not torch.equal(model[1].running_mean, before["1.running_mean"])
    agreed, reason = gradients.finish(Vote(0.0, 0.0, 1.0), never)
    assert agreed is None and reason == "a peer is gone"
    gradients.undo()
    assert torch.equal(model[1].running_mean, before["1.running_mean"])
    assert all(p.grad is None for p in model.parameters())
    # Sums that were abandoned may still write: another step has other memory.
    abandoned, sums.launched, sums.failure = sums.launched, [], None
    gradients.begin(sums, 1.0)
    model(torch.randn(8, 3)).sum().backward()
    gradients.finish(Vote(0.0, 0.0, 1.0), never)
    places = {tensor.data_ptr() for tensor in abandoned}
    assert len(sums.launched) > 1 and not places & {t.data_ptr() for t in sums.launched}


def test_running_averages_are_means_over_the_group():
    def member(sums):
        model = nn.BatchNorm1d(2)
        gradients = of(model)
        gradients.begin(sums, 0.25 if sums.rank else 0.75)
        model(torch.arange(8.0).view(4, 2) * (1 + sums.rank)).sum().backward()
        mine = model.running_mean.clone()
        gradients.finish(NOTHING, never)
        return mine, model.running_mean

    (a, mean), (b, other) = together(2, member)
    assert torch.equal(mean, other) and torch.allclose(mean, 0.75 * a + 0.25 * b)


def test_halves_are_summed_as_singles():
    model = nn.Linear(2, 2).to(torch.bfloat16)
    gradients, sums = of(model), Alone()
    gradients.begin(sums, 0.5)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    agreed, _ = gradients.finish(Vote(1.0, 0.0, 2.0), never)
    assert {tensor.dtype for tensor in sums.launched} == {torch.float32, torch.float64}
    assert agreed.moving == 1.0 and agreed.loss == 2.0
    assert model.weight.grad.dtype == torch.bfloat16 and float(model.weight.grad[0, 0]) == 0.5


def test_messages_may_be_halves():
    whole = linear(3, 4, 1)
    x = torch.randn(8, 3)
    plain_gradients(whole, x)

    def member(sums):
        model = linear(3, 4, 1)
        gradients = of(model, wire=torch.float16)
        for _ in range(2):
            gradients.forget()
            gradients.begin(sums, 0.5)
            plain_gradients(model, x[4 * sums.rank :][:4])
            sent = {tensor.dtype for tensor in sums.launched}
            gradients.finish(NOTHING, never)
        assert model[0].weight.grad.dtype == torch.float32 and sent <= {torch.float16}
        same(model, whole, 1e-3)

    together(2, member)


def test_sparse_gradients_are_summed_as_dense_ones():
    model, sums = nn.Embedding(5, 2, sparse=True), Alone()
    gradients = of(model)
    for _ in range(3):
        gradients.forget()
        gradients.begin(sums, 0.5)
        model(torch.tensor([1, 1, 3])).sum().backward()
        gradients.finish(NOTHING, never)
        assert model.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0], [0.5, 0.5], [0, 0]]


def test_gradients_lie_in_memory_as_their_parameters():
    model = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
    gradients, sums = of(model), Alone()
    for _ in range(2):
        gradients.forget()
        gradients.begin(sums, 1.0)
        model(torch.randn(2, 4, 8, 8)).sum().backward()
        wanted = model.weight.grad.clone()
        gradients.finish(NOTHING, never)
    assert model.weight.grad.stride() == model.weight.stride() != wanted.contiguous().stride()
    assert torch.equal(model.weight.grad, wanted)


def test_a_parameter_that_changed_its_shape_is_named():
    model, sums = linear(3, 4, 1), Alone()
    gradients = of(model)
    gradients.begin(sums, 1.0)
    gradients.finish(NOTHING, never)
    gradients.begin(sums, 1.0)
    model[0].weight.data = torch.randn(4, 2)
    with pytest.raises(RuntimeError, match=r"parameter 0.weight has changed from \(4, 3\)"):
        model[0].weight.grad = torch.zeros(4, 2)
        gradients.finish(NOTHING, never)


def test_a_parameter_that_left_the_model_is_named():
    model, sums = linear(3, 4, 1), Alone()
    gradients = of(model)
    model[1] = nn.Linear(4, 1)
    gradients.begin(sums, 1.0)
    model(torch.ones(1, 3)).sum().backward()
    with pytest.raises(RuntimeError, match="parameter 1.weight is not in the model any more"):
        gradients.finish(NOTHING, never)


def test_parameters_that_come_later_are_refused():
    model, later = linear(3, 1), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gradients = Gradients(model, [optimizer])
    optimizer.add_param_group({"params": later.parameters()})
    with pytest.raises(RuntimeError, match="got more parameters after lacuna.elastic"):
        gradients.begin(None, 1.0)


def test_a_parameter_that_is_trained_only_later_is_refused():
    model, sums = linear(3, 4, 1), Alone()
    model[0].weight.requires_grad_(False)
    gradients = of(model)
    model[0].weight.requires_grad_(True)
    gradients.begin(sums, 1.0)
    model(torch.ones(1, 3)).sum().backward()
    with pytest.raises(RuntimeError, match="0.weight did not require a gradient"):
        gradients.finish(NOTHING, never)


def test_without_other_members_nothing_is_touched_and_hooks_come_off():
    model = linear(3, 1)
    gradients = of(model)
    gradients.begin(None, 1.0)
    model(torch.ones(1, 3)).sum().backward()
    assert model[0].weight.grad.tolist() == [[1.0] * 3]
    gradients.begin(Alone(), 1.0)
    gradients.close()
    model(torch.ones(1, 3)).sum().backward()
    assert gradients._arrivals.order() == [1, 0]


def test_members_whose_messages_differ_have_different_plans():
    plans = {
        of(linear(3, 1)).plan,
        of(linear(3, 2)).plan,
        of(linear(3, 1), wire=torch.float16).plan,
        of(nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1, affine=False))).plan,
    }
    assert len(plans) == 4 and of(linear(3, 1)).plan in plans


def test_buckets_hold_each_parameter_once_and_no_type_is_mixed():
    parameters = [nn.Parameter(torch.zeros(n)) for n in (10, 300_000, 5, 7_000_000, 1, 100)]
    parameters[2] = nn.Parameter(torch.zeros(5, dtype=torch.float64))
    made = Buckets(parameters, [5, 4, 3, 2, 1, 0], None).buckets
    assert [bucket.members for bucket in made] == [(5, 4, 3), (2,), (1, 0)]
    assert [bucket.flat.dtype for bucket in made] == [torch.float32, torch.float64, torch.float32]


def test_arrivals_are_ordered_by_the_last_one():
    arrivals = Arrivals(4)
    for place in (3, 1, 3, 2):
        arrivals.came(place)
    assert arrivals.order() == [1, 3, 2, 0]


def test_what_cannot_be_sent_is_refused_with_the_remedy():
    check_backend("gloo", None)
    check_backend("gloo", torch.float16)
    with pytest.raises(ValueError, match="cpu:gloo,cuda:nccl"):
        check_backend("nccl", None)
    with pytest.raises(ValueError, match="wire must be"):
        check_backend("gloo", torch.int8)
    if torch.__version__ < "2":
        with pytest.raises(ValueError, match="needs PyTorch 2.6"):
            check_backend("cpu:gloo,cuda:nccl", None)
        with pytest.raises(ValueError, match="PyTorch 2.2"):
            check_backend("gloo", torch.bfloat16)
