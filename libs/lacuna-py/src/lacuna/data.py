"""Samples by their indices, from tensors or data sets."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch.utils.data import TensorDataset, default_collate


def fetch(
    data: Any, collate: Optional[Callable[[list[Any]], Any]]
) -> tuple[int, Callable[[torch.Tensor], Any]]:
    """The number of samples, and a function from indices to samples."""
    if isinstance(data, TensorDataset) and collate is None:
        data = data.tensors
    if isinstance(data, torch.Tensor):
        return len(data), lambda indices: data[indices]
    if isinstance(data, tuple) and data and all(isinstance(t, torch.Tensor) for t in data):
        lengths = {len(t) for t in data}
        if len(lengths) != 1:
            raise ValueError(f"tensors of different lengths: {sorted(lengths)}")
        return len(data[0]), lambda indices: tuple(t[indices] for t in data)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise TypeError(f"data needs a length and items, which {type(data).__name__} has not")
    together = collate or default_collate
    return len(data), lambda indices: together([data[i] for i in indices.tolist()])
