"""Loading by itself: data sets, streams, workers, changes of the plan, and what goes wrong."""

import multiprocessing
import os
import random
import signal
import time

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

from lacuna.data import Tensors, source, whole
from lacuna.feed import Feed
from lacuna.order import Order, Position
from lacuna.policy import WholeGroup

BATCH = 12


class Squares(Dataset):
    """Sample i is i * i; counts how often each was read, by whatever process."""

    def __init__(self, length=60, seconds=0.0):
        self.length = length
        self.seconds = seconds
        self.reads = torch.zeros(length, dtype=torch.int64).share_memory_()
        # Two workers may read one sample for two epochs at once.
        self.counts = multiprocessing.Lock()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with self.counts:
            self.reads[index] += 1
        time.sleep(self.seconds)
        return index * index


class Bad(Squares):
    def __getitem__(self, index):
        if index == 13:
            return 1 // 0
        return super().__getitem__(index)


class Pids(Squares):
    def __getitem__(self, index):
        return os.getpid()


class Dice(Squares):
    """Random samples, by the generators of PyTorch and of Python."""

    def __getitem__(self, index):
        return torch.rand(1).item() + random.random()


class Together(Squares):
    """Gives several samples at once, as PyTorch's own fetcher asks for them."""

    def __getitems__(self, indices):
        with self.counts:
            self.reads[indices] += 1
        return [index * index for index in indices]


class Stream(IterableDataset):
    """The numbers up to a length."""

    def __init__(self, length=30, says=None, seeks=False):
        self.length = length
        self.epoch = None
        self.begun = torch.zeros(1, dtype=torch.int64).share_memory_()
        self.reads = torch.zeros(max(1, length), dtype=torch.int64).share_memory_()
        if says is not None:
            self.__class__ = type("Sized", (Stream,), {"__len__": lambda self: says})
        if seeks:
            self.starting_at = self.numbers

    def set_epoch(self, epoch):
        self.epoch = epoch

    def numbers(self, begin):
        self.begun += 1
        for n in range(begin, self.length):
            self.reads[n] += 1
            yield 1000 * self.epoch + n

    def __iter__(self):
        return self.numbers(0)


def values(batch):
    return [int(value) for value in batch]


class Member:
    """Takes its shares of an order as the training loop does."""

    def __init__(self, loader, shuffle=True, seed=None):
        self.feed = Feed(loader, seed)
        self.order = Order(self.feed.length, seed=5, shuffle=shuffle and not self.feed.is_stream)
        self.at = Position()
        self.rank, self.world_size, self.weights = 0, 1, ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.feed.close()

    def ahead(self):
        options = {"epochs": 3, "weights": self.weights}
        return self.order.ahead(self.at, self.rank, self.world_size, BATCH, **options)

    def take(self):
        share, batch = self.feed.take(next(self.ahead()), self.ahead)
        self.order.reached(share)
        return share, batch

    def step(self):
        share, batch = self.take()
        self.at.advance(share.batch, self.order.length)
        return share, batch


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("data", [Squares, Together])
def test_batches_are_those_of_the_order(data, workers):
    with Member(DataLoader(data(), num_workers=workers)) as member:
        for _ in range(15):
            share, batch = member.step()
            assert values(batch) == [i * i for i in share.indices.tolist()]
        assert (member.at.epoch, member.at.offset) == (3, 0)
        reads = member.feed.data.reads
        assert reads.tolist() == [3] * 60


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("seconds, wait", [(0.0, 0.1), (0.003, 0.0)])
def test_after_a_change_of_members_no_sample_is_read_again(workers, seconds, wait):
    """What was read ahead is used, wherever the shares begin and end now.

    Workers have read all that they were asked for, or the change cuts their reading short.
    """
    data = Squares(600, seconds)
    with Member(DataLoader(data, num_workers=workers)) as member:
        used = []
        for world_size, rank in [(1, 0), (3, 0), (2, 1), (2, 1), (4, 3), (1, 0)]:
            member.rank, member.world_size = rank, world_size
            for _ in range(4):
                share, batch = member.step()
                assert values(batch) == [i * i for i in share.indices.tolist()]
                used += share.indices.tolist()
            time.sleep(wait)
        assert len(set(used)) == len(used)
        assert max(data.reads.tolist()) == 1
        assert all(data.reads[i] == 1 for i in used)


def test_a_step_that_is_done_again_reads_nothing_again():
    data = Squares(600)
    with Member(DataLoader(data, num_workers=2)) as member:
        member.step()
        first = member.take()
        again = member.take()
        assert values(first[1]) == values(again[1]) and first[0].is_same(again[0])
        assert values(member.step()[1]) == values(first[1])
        assert max(data.reads.tolist()) == 1


def test_the_first_batch_of_a_new_plan_is_read_by_all_workers_and_waits_for_no_old_one():
    class Slow(Pids):
        """The process that read the sample, and how many samples were begun before."""

        def __getitem__(self, index):
            self.reads += 1
            time.sleep(0.02)
            return os.getpid(), int(self.reads[0])

    with Member(DataLoader(Slow(600), num_workers=3)) as member:
        for _ in range(3):
            pids, before = member.step()[1]
            assert len(set(pids.tolist())) == (3 if member.at.step == 1 else 1)
        member.at.epoch = 1
        pids, begun = member.step()[1]
        assert len(set(pids.tolist())) == 3
        # Each worker has ended the sample that it was at, and begins no other one of the old plan.
        assert int(begun.max()) <= int(member.feed.data.reads[0])
        assert int(begun.min()) - int(before.max()) < 6 * BATCH


@pytest.mark.parametrize("workers", [0, 2])
def test_random_samples_do_not_depend_on_who_reads_them(workers):
    with Member(DataLoader(Dice()), seed=9) as alone:
        expected = [value for _ in range(5) for value in alone.step()[1].tolist()]
    with Member(DataLoader(Dice(), num_workers=workers), seed=9) as member:
        found = []
        for _ in range(5):
            parts = []
            for rank in (0, 1):
                member.rank, member.world_size = rank, 2
                parts += member.take()[1].tolist()
            member.at.advance(BATCH, 60)
            found += parts
    assert found == expected and len(set(found)) == 60


def test_a_sample_that_cannot_be_read_is_named_with_its_traceback():
    for workers in (0, 2):
        with Member(DataLoader(Bad(), num_workers=workers), shuffle=False) as member:
            member.step()
            with pytest.raises(RuntimeError) as failure:
                member.step()
            text = str(failure.value)
            assert "sample 13 could not be read" in text
            assert "return 1 // 0" in text and "ZeroDivisionError" in text


def test_samples_that_cannot_be_put_together_are_named():
    def collate(samples):
        raise ValueError("sizes differ")

    for workers in (0, 2):
        with Member(DataLoader(Squares(), num_workers=workers, collate_fn=collate)) as member:
            with pytest.raises(RuntimeError, match="could not be put together") as failure:
                member.step()
            assert "sizes differ" in str(failure.value)


def test_a_worker_that_is_killed_is_an_error():
    with Member(DataLoader(Pids(), num_workers=2)) as member:
        _, pids = member.step()
        os.kill(int(pids[0]), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="worker"):
            for _ in range(10):
                member.step()


@pytest.mark.parametrize("error", [FileNotFoundError, ConnectionRefusedError, EOFError])
def test_the_end_of_a_worker_is_named_whatever_shows_it(error):
    """A tensor is fetched from its worker, which may be gone then or may go meanwhile."""

    def fetch(pid):
        os.kill(pid, signal.SIGKILL)
        raise error("while a tensor was fetched")
        yield

    with Member(DataLoader(Pids(), num_workers=2)) as member:
        _, pids = member.step()
        member.feed._answers, answers = fetch(int(pids[0])), member.feed._answers
        # PyTorch's own handler of SIGCHLD may be the first to say it.
        words = f"{int(pids[0])}.*(ended by signal 9|is killed by signal)"
        with pytest.raises(RuntimeError, match=words):
            member.step()
        del answers


def test_an_error_that_no_end_of_a_worker_explains_stays_what_it_is():
    def fetch():
        raise FileNotFoundError("of the program's own")
        yield

    with Member(DataLoader(Pids(), num_workers=1)) as member:
        member.step()
        member.feed._answers, answers = fetch(), member.feed._answers
        with pytest.raises(FileNotFoundError, match="own"):
            member.step()
        del answers


def test_a_worker_is_not_reached_by_signals_to_the_group_of_its_trainer():
    with Member(DataLoader(Pids(), num_workers=2)) as member:
        _, pids = member.step()
        groups = {os.getpgid(int(pid)) for pid in pids}
        assert os.getpgid(0) not in groups


def test_data_whose_length_changes_are_refused():
    data = Squares()
    with Member(DataLoader(data)) as member:
        for _ in range(5):
            member.step()
        data.length = 50
        with pytest.raises(RuntimeError, match="has 50 samples now, it had 60"):
            member.step()


def test_the_function_of_the_program_starts_each_worker_and_finds_its_data_set():
    def begin(worker):
        get_worker_info().dataset.seconds = worker + 1

    class Seconds(Squares):
        def __getitem__(self, index):
            return self.seconds

    loader = DataLoader(Seconds(), num_workers=2, worker_init_fn=begin)
    with Member(loader) as member:
        assert {int(s) for _ in range(4) for s in member.step()[1]} == {1, 2}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("length", [30, 24, 5])
@pytest.mark.parametrize("says", [False, True])
def test_a_stream_is_numbered_as_it_comes(workers, length, says):
    """Also one that ends with a batch, and one that is shorter than a batch."""
    data = Stream(length, says=length if says else None)
    found = []
    with Member(DataLoader(data, num_workers=workers)) as member:
        while member.at.epoch < 3:
            _, batch = member.step()
            found += values(batch)
    assert found == [1000 * epoch + n for epoch in range(3) for n in range(length)]
    assert member.at.samples == 3 * length


class OfOneNode(Stream):
    """As a `WebDataset` without a `nodesplitter`: it asks the environment, then PyTorch."""

    def __iter__(self):
        names = ("RANK", "WORLD_SIZE")
        rank, count = [int(os.environ[name]) for name in names if name in os.environ] or (1, 2)
        if count > 1:
            raise ValueError("you need to add an explicit nodesplitter")
        return super().__iter__()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("launched", [False, True])
def test_a_stream_that_asks_for_its_node_reads_everything(workers, launched, monkeypatch):
    names = ("RANK", "WORLD_SIZE")
    for name, value in zip(names, ("3", "4")):
        monkeypatch.delenv(name, raising=False)
        if launched:
            monkeypatch.setenv(name, value)
    with Member(DataLoader(OfOneNode(31), num_workers=workers)) as member:
        found = [values(member.step()[1]) for _ in range(2)]
    assert sum(found, []) == list(range(len(sum(found, []))))
    assert [os.environ.get(name) for name in names] == (["3", "4"] if launched else [None, None])


@pytest.mark.parametrize("workers", [0, 1])
def test_members_of_a_stream_find_the_same_end_and_read_it_once(workers):
    data = Stream(31)
    with Member(DataLoader(data, num_workers=workers)) as member:
        found = {0: [], 1: []}
        changes = [(1, 3), (2, 3), (0, 1), (0, 2), (1, 2)]
        while member.at.epoch < 2:
            member.rank, member.world_size = changes[member.at.step % len(changes)]
            share, batch = member.step()
            numbers = values(batch)
            assert numbers == [1000 * share.epoch + place for place in share.places]
            found[share.epoch] += numbers
        assert member.at.samples == 62
        assert found[0] and found[1]
        # What was held for another share was not read again: each epoch was opened once.
        assert int(data.begun) == 2 and max(data.reads.tolist()) <= 2


@pytest.mark.parametrize("says", [None, 26])
@pytest.mark.parametrize("weights", [(), (1, 4, 6, 1)])
def test_each_member_has_samples_of_a_streams_last_step(says, weights):
    """The step has two: a member without one gets the first, which counts nothing there."""
    for rank in range(4):
        with Member(DataLoader(Stream(26, says=says), num_workers=0)) as member:
            member.rank, member.world_size, member.weights = rank, 4, weights
            share, batch = member.step()
            assert len(values(batch)) == share.count == (weights[rank] if weights else 3)
            member.step()
            share, batch = member.step()
            assert member.at.epoch == 1 and sum(share.counts) == 2
            assert values(batch) == list(share.places)
            assert not share.lent or values(batch) == [24]


@pytest.mark.parametrize("seeks", [False, True])
def test_one_that_joins_a_stream_begins_where_the_others_are(seeks):
    data = Stream(30, seeks=seeks)
    with Member(DataLoader(data, num_workers=1)) as member:
        member.at.advance(24, 30)
        _, batch = member.step()
        assert values(batch) == [24, 25, 26, 27, 28, 29]
    assert data.reads[:24].sum() == (0 if seeks else 24)


@pytest.mark.parametrize("length, says", [(30, 40), (30, 24), (0, None)])
def test_a_stream_of_another_length_than_it_says_is_an_error(length, says):
    with Member(DataLoader(Stream(length, says=says))) as member:
        with pytest.raises(RuntimeError, match="stream of epoch 0"):
            while member.at.epoch < 1:
                member.step()


def loaders():
    data = Squares()
    order = SequentialSampler(data)
    yield DataLoader(data, batch_size=5), "batch_size=5, lacuna.elastic has batch=12"
    yield DataLoader(data, batch_sampler=BatchSampler(order, 12, False)), "batch_sampler"
    yield DataLoader(data, batch_size=None), "batch_size=None"
    yield DataLoader(data, batch_size=12, drop_last=True), "drop_last"
    yield DataLoader(data, sampler=WeightedRandomSampler([1.0] * 60, 60)), "Weighted"
    yield DataLoader(data, sampler=RandomSampler(data, replacement=True)), "twice"
    yield DataLoader(data, sampler=list(range(60))), "leave the sampler out"


@pytest.mark.parametrize("loader, words", loaders())
def test_a_loader_that_contradicts_is_refused_with_the_remedy(loader, words):
    with pytest.raises(ValueError, match=words):
        source(loader, None, WholeGroup(BATCH), None, None)


def test_what_cannot_be_trained_on_is_refused():
    policy, shuffled = WholeGroup(BATCH), DataLoader(Squares(), shuffle=True)
    with pytest.raises(TypeError, match="IterableDataset"):
        source(iter([1]), None, policy, None, None)
    with pytest.raises(ValueError, match="own order"):
        source(Stream(), None, policy, True, None)
    with pytest.raises(ValueError, match="leave one out"):
        source(shuffled, None, policy, False, None)
    with pytest.raises(ValueError, match="collate_fn"):
        source(shuffled, list, policy, None, None)
    with pytest.raises(ValueError, match="different lengths"):
        source((torch.zeros(3), torch.zeros(4)), None, policy, None, None)
    with pytest.raises(ValueError, match="empty"):
        Order(0, seed=1)
    with pytest.raises(ValueError, match="samples and a length"):
        whole(Stream(), None, policy, None)


def test_the_order_is_that_of_the_loader():
    policy, data = WholeGroup(BATCH), Squares()
    for loader, shuffle, expected in [
        (DataLoader(data, batch_size=BATCH), None, False),
        (DataLoader(data, shuffle=True), None, True),
        (DataLoader(data), True, True),
        (data, None, True),
        (data, False, False),
        (Stream(), None, False),
    ]:
        assert source(loader, None, policy, shuffle, None)[1] is expected
    feed, _ = source(TensorDataset(torch.arange(3)), None, policy, None, None)
    assert isinstance(feed, Tensors)
