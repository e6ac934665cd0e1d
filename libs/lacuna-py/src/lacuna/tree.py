"""Nested states as text and tensors: what comes over a network or from a file is never unpickled.

Unpickling runs whatever code the sender has chosen, so it is no way to read what others may have
written. A state is dicts, lists, tuples, sets, numbers, texts, bytes, and what PyTorch and NumPy
put into states: tensors, dtypes, devices, arrays. In the text each tensor is a number, its place
in a list of tensors that travels beside it. A JSON object has one key, which names the kind.
"""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter, OrderedDict
from typing import Any, Callable, Sequence

import torch

from .sharding import Piece
from .unsaved import Absent, Own

#: The type and the shape of a tensor.
Shape = tuple[torch.dtype, tuple[int, ...]]

_SEQUENCES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, Callable[[Any], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "Own": Own,
}


def pack(state: Any) -> tuple[str, list[torch.Tensor]]:
    """The text of a state, and its tensors, which are not copied.

    Raises TypeError that names the place of a value of another type.
    """
    tensors: list[torch.Tensor] = []
    nested = _out(state, "", tensors)
    shapes = [[_name(tensor.dtype), list(tensor.shape)] for tensor in tensors]
    return json.dumps({"tensors": shapes, "state": nested}), tensors


def shapes(text: str) -> list[Shape]:
    """The types and shapes of the tensors that belong to a text."""
    return [(_dtype(name), tuple(shape)) for name, shape in json.loads(text)["tensors"]]


def unpack(text: str, tensors: Sequence[torch.Tensor]) -> Any:
    """The state of a text and its tensors. Raises ValueError for a text that :func:`pack` has not
    made."""
    try:
        return _in(json.loads(text)["state"], tensors)
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"the text is no state: {error!r}") from None


def _out(value: Any, place: str, tensors: list[torch.Tensor]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    if isinstance(value, Piece):
        return {"piece": [_out(value.part, place, tensors), value.dim, list(value.shape)]}
    if isinstance(value, Absent):
        return {"absent": value.kind}
    kind = type(value).__name__
    if type(value) is list:
        return [_out(part, f"{place}[{i}]", tensors) for i, part in enumerate(value)]
    if isinstance(value, torch.Size) or type(value) in (tuple, set, frozenset):
        kind = "tuple" if isinstance(value, tuple) else kind
        return {kind: [_out(part, f"{place}[{i}]", tensors) for i, part in enumerate(value)]}
    if type(value) in (dict, OrderedDict, Counter, Own):
        pairs = [
            [_out(key, place, tensors), _out(part, f"{place}[{key!r}]", tensors)]
            for key, part in value.items()
        ]
        # The versions of modules, with which Module.load_state_dict reads older states.
        metadata = getattr(value, "_metadata", None)
        return {kind: pairs, **({} if metadata is None else {"of": _out(metadata, place, tensors)})}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.dtype):
        return {"dtype": _name(value)}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        array = numpy.ascontiguousarray(value)
        if array.dtype.hasobject:
            raise TypeError(f"state{place} is an array of objects, which would be pickled")
        data = base64.b64encode(array.tobytes()).decode()
        kind = "array" if isinstance(value, numpy.ndarray) else "scalar"
        return {kind: [array.dtype.str, list(value.shape), data]}
    raise TypeError(
        f"state{place} is a {type(value).__module__}.{kind}: state_dict() must hold numbers, "
        "texts, tensors, arrays, and lists, tuples, sets and dicts of these. If the class is not "
        "yours, give a subclass a state_dict() of these, and a load_state_dict() that takes it"
    )


def _in(node: Any, tensors: Sequence[torch.Tensor]) -> Any:
    if isinstance(node, list):
        return [_in(part, tensors) for part in node]
    if not isinstance(node, dict):
        return node
    first: tuple[str, Any] = next(iter(node.items()), ("", None))
    kind, value = first
    if kind in _MAPPINGS:
        mapping = _MAPPINGS[kind]((_in(k, tensors), _in(v, tensors)) for k, v in value)
        if "of" in node:
            mapping._metadata = _in(node["of"], tensors)
        return mapping
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_in(part, tensors) for part in value)
    if kind in ("array", "scalar"):
        import numpy

        dtype, shape, data = value
        array = numpy.frombuffer(base64.b64decode(data), numpy.dtype(dtype)).reshape(shape).copy()
        return array if kind == "array" else array[()]
    return _LEAVES[kind](value, tensors)


_LEAVES: dict[str, Callable[[Any, Sequence[torch.Tensor]], Any]] = {
    "tensor": lambda place, tensors: tensors[place],
    "piece": lambda parts, tensors: Piece(_in(parts[0], tensors), parts[1], tuple(parts[2])),
    "bytes": lambda text, _: base64.b64decode(text),
    "complex": lambda parts, _: complex(*parts),
    "dtype": lambda name, _: _dtype(name),
    "device": lambda name, _: torch.device(name),
    "absent": lambda kind, _: Absent(kind),
}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no type of tensors in PyTorch {torch.__version__}")
    return dtype
