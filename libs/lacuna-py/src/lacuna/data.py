"""What a program may train on: tensors, data sets, and the loaders of PyTorch."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Optional, Protocol, Sequence

import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from .feed import Ahead, Feed
from .moments import Loading, Reading, Stopwatch
from .order import Share
from .policy import BatchPolicy


class Source(Protocol):
    """Gives the batch of a share."""

    #: Samples of an epoch; None for a stream that does not say it.
    length: Optional[int]
    #: How batches are read ahead, and how the last one was read.
    loading: Loading
    reading: Optional[Reading]

    def take(self, share: Share, ahead: Ahead) -> tuple[Share, Any]:
        """The batch; of a stream, the share may have become shorter."""

    def close(self) -> None:
        """Ends what reads ahead."""


class Indices:
    """Gives the indices themselves."""

    loading = Loading()
    reading: Optional[Reading] = None

    def __init__(self, length: int) -> None:
        self.length: Optional[int] = length

    def take(self, share: Share, ahead: Ahead) -> tuple[Share, Any]:
        return share, share.indices

    def close(self) -> None:
        """Nothing is read ahead."""


class Tensors:
    """Gives rows of one tensor, or of a tuple of tensors of the same length."""

    loading = Loading()

    def __init__(self, tensors: Sequence[torch.Tensor], alone: bool) -> None:
        lengths = {len(t) for t in tensors}
        if len(lengths) != 1:
            raise ValueError(f"tensors of different lengths: {sorted(lengths)}")
        self.length: Optional[int] = lengths.pop()
        self._tensors = tensors
        self._alone = alone
        self.reading: Optional[Reading] = None

    def take(self, share: Share, ahead: Ahead) -> tuple[Share, Any]:
        watch = Stopwatch()
        rows = tuple(t[share.indices] for t in self._tensors)
        self.reading = watch.read()
        return share, rows[0] if self._alone else rows

    def close(self) -> None:
        """Nothing is read ahead."""


def source(
    data: Any,
    collate: Optional[Callable[[list[Any]], Any]],
    policy: Optional[BatchPolicy],
    shuffle: Optional[bool],
    seed: Optional[int],
) -> tuple[Source, bool]:
    """Where the batches come from, and whether their order is shuffled.

    ``policy``: with what a DataLoader's size of a batch must agree; None if with nothing. Raises
    TypeError or ValueError for what cannot be trained on; the text says what to do.
    """
    if isinstance(data, TensorDataset) and collate is None:
        data = data.tensors
    if isinstance(data, torch.Tensor):
        return Tensors([data], alone=True), shuffle is not False
    if isinstance(data, tuple) and data and all(isinstance(t, torch.Tensor) for t in data):
        return Tensors(data, alone=False), shuffle is not False
    loader, shuffle = loader_of(data, collate, policy, shuffle)
    return Feed(loader, seed), shuffle


def loader_of(
    data: Any,
    collate: Optional[Callable[[list[Any]], Any]],
    policy: Optional[BatchPolicy],
    shuffle: Optional[bool],
) -> tuple["DataLoader[Any]", bool]:
    """The loader of data that are not in memory, and whether their order is shuffled.

    Raises as :func:`source` does.
    """
    if isinstance(data, DataLoader):
        if collate is not None:
            raise ValueError("give collate to the DataLoader, as collate_fn, and not to Lacuna")
        shuffle = _shuffle(data, policy, shuffle)
    elif isinstance(data, IterableDataset):
        data, shuffle = DataLoader(data, collate_fn=collate), bool(shuffle)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        data, shuffle = DataLoader(data, collate_fn=collate), shuffle is not False
    else:
        raise TypeError(
            f"data needs a length and items, which {type(data).__name__} has not; what can only be "
            "iterated over becomes a torch.utils.data.IterableDataset"
        )
    if isinstance(data.dataset, IterableDataset) and shuffle:
        raise ValueError(
            "an iterable data set has its own order: leave shuffle out; if it has a set_epoch(), "
            "that is called with the number of the epoch"
        )
    return data, shuffle


def whole(
    data: Any,
    collate: Optional[Callable[[list[Any]], Any]],
    policy: BatchPolicy,
    seed: Optional[int],
) -> tuple[Source, int]:
    """Where the batches of a validation come from, and how many samples a batch has."""
    feed, _ = source(data, collate, None, None, seed)
    if not feed.length:
        feed.close()
        raise ValueError("run.evaluate() needs data with samples and a length")
    # 1 is PyTorch's default.
    stated = isinstance(data, DataLoader) and data.batch_size != 1
    return feed, int(data.batch_size) if stated else policy.batch


def _shuffle(
    loader: "DataLoader[Any]", policy: Optional[BatchPolicy], shuffle: Optional[bool]
) -> bool:
    """Whether a loader's order is shuffled.

    Raises ValueError if it wants what a group that changes cannot give.
    """
    sampler = loader.sampler
    if loader.batch_size is None:
        raise ValueError(
            "the DataLoader makes batches of its own (batch_sampler, or batch_size=None): a step's "
            "batch is cut by the number of members, so give it neither; lacuna.elastic(batch=...) "
            "is the batch"
        )
    # 1 is PyTorch's default.
    if policy is not None and loader.batch_size not in (1, policy.batch):
        raise ValueError(
            f"the DataLoader has batch_size={loader.batch_size}, lacuna.elastic has "
            f"batch={policy.batch}: leave batch_size out, or make both the same"
        )
    if loader.drop_last:
        raise ValueError(
            "drop_last=True would leave samples out, and each is used once: leave it out; the last "
            "batch of an epoch is smaller"
        )
    if isinstance(loader.dataset, IterableDataset):
        return bool(shuffle)
    if type(sampler) is RandomSampler:
        if sampler.replacement or sampler.num_samples != len(sampler.data_source):
            raise ValueError(
                "the RandomSampler takes some samples twice or not at all, and each is used once: "
                "give shuffle=True to the DataLoader; a torch.utils.data.Subset shortens epochs"
            )
        if shuffle is False:
            raise ValueError(
                "the DataLoader has shuffle=True, run.steps() has shuffle=False: leave one out"
            )
        return True
    if type(sampler) is SequentialSampler:
        return bool(shuffle)
    raise ValueError(
        f"the DataLoader has a {type(sampler).__name__}, but the order of the samples and their "
        "shares are Lacuna's: leave the sampler out, and give shuffle=True or False to the "
        "DataLoader. What a sampler chooses, the same at all members, is a data set: "
        "DataLoader(torch.utils.data.Subset(data, list(sampler)), shuffle=True), where the sampler "
        "has generator=torch.Generator().manual_seed(0)"
    )


#: Rows of a tensor, and places of a subset, by which data are told apart.
LOOKED_AT = 64


def mark(data: Any) -> str:
    """A text that is the same at members with the same data in memory; empty for other data.

    It is of some rows of tensors, and of the places in a subset. A data set of the program's own
    may give other samples each time.
    """
    if isinstance(data, DataLoader):
        data = data.dataset
    found: list[Any] = []
    while isinstance(data, Subset):
        places = data.indices
        found.append([int(places[i]) for i in _some(len(places))])
        data = data.dataset
    if isinstance(data, TensorDataset):
        data = data.tensors
    for tensor in [data] if isinstance(data, torch.Tensor) else data if type(data) is tuple else []:
        if isinstance(tensor, torch.Tensor) and tensor.dim() > 0 and len(tensor) > 0:
            rows = tensor.detach()[_some(len(tensor))].to("cpu").contiguous()
            found.append([tuple(tensor.shape), rows.view(-1).to(torch.float64).tolist()[:4096]])
    return hashlib.sha256(repr(found).encode()).hexdigest()[:12] if found else ""


def _some(count: int) -> list[int]:
    """Places from the first to the last one."""
    return sorted({i * (count - 1) // (LOOKED_AT - 1) for i in range(LOOKED_AT)}) if count else []
