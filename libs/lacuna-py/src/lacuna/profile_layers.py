"""Profiles the layers of a module for ``lacuna place``: ``python3 -m lacuna.profile_layers``.

Each layer runs by itself, forward and backward, on inputs of one pass through the module. A layer
is a child of the module, or a child of a child with ``--depth 2``, and so on; the layers count in
the order of their calls, as a chain. The time of a batch of B samples is taken for B and for B/4.
With ``t(b) = a + c b`` a share ``a / t(B)`` is not divided when four units take a quarter each, so

    a = (4 t(B/4) - t(B)) / 3        parallel_compute = 1 - a / t(B)

A profile has one kind of unit: the processor or GPU that ran it. ``--add FILE`` puts it beside the
kinds of a profile of the same layers that was made elsewhere.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

EPILOG = """MODEL is module:function, found from here. The function returns the module and the inputs
of one batch: a tensor, or a tuple of them, whose first dimension is the batch.

examples:
  python3 -m lacuna.profile_layers ctr:build --kind cpu --price 0.04 --memory 8e9 --out ctr.json
  python3 -m lacuna.profile_layers ctr:build --device cuda --kind a100 --price 2.4 --link 1e10 \\
      --add ctr.json --out ctr.json
  lacuna place ctr.json --rate 200000
"""

#: Shortest time over which a layer is measured, seconds, and least number of runs.
LONG = 0.2
RUNS = 5


class Wrong(Exception):
    """The command line, the model or the other profile is wrong."""


class Call(NamedTuple):
    """A layer with the inputs of its call."""

    name: str
    module: Any
    inputs: tuple[Any, ...]
    keywords: dict[str, Any]
    out_bytes: float


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m lacuna.profile_layers",
        description="Measures what each layer of a module takes, for lacuna place.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="module:function")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 (default: cpu)")
    parser.add_argument("--threads", type=int, help="of the processor (default: PyTorch's)")
    parser.add_argument("--depth", type=int, default=1, help="of layers (default: 1, children)")
    parser.add_argument("--kind", help="name of this kind of unit (default: the device)")
    parser.add_argument("--price", type=float, default=0.0, help="of a unit for an hour")
    parser.add_argument("--memory", type=float, help="of a unit, bytes (default: measured)")
    parser.add_argument("--link", type=float, default=1e9, help="of a unit, bytes/s (default: 1e9)")
    parser.add_argument("--limit", type=int, help="the most units")
    parser.add_argument(
        "--table-state",
        type=float,
        default=1.0,
        help="bytes of the optimizer for each byte of a table (default: 1)",
    )
    parser.add_argument(
        "--parallel-communication",
        type=float,
        default=1.0,
        help="share of the communication that more units divide (default: 1)",
    )
    parser.add_argument("--samples", type=float, default=1e9, help="of the whole work")
    parser.add_argument("--rate", type=float, default=1.0, help="samples/s that are wanted at least")
    parser.add_argument("--add", metavar="FILE", help="a profile of the same layers elsewhere")
    parser.add_argument("--out", metavar="FILE", help="(default: standard output)")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Writes the profile; 64 for wrong arguments, 69 if PyTorch is missing."""
    options = arguments().parse_args(argv)
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"lacuna.profile_layers: PyTorch is missing: {error}", file=sys.stderr)
        return 69
    try:
        profile = _profile(options)
        if options.add:
            profile = added(_read(options.add), profile)
    except Wrong as error:
        print(f"lacuna.profile_layers: {error}", file=sys.stderr)
        return 64
    text = json.dumps(profile, indent=2) + "\n"
    if options.out:
        whole = Path(options.out)
        half = whole.with_name(whole.name + ".half")
        half.write_text(text, encoding="utf-8")
        half.replace(whole)
    else:
        sys.stdout.write(text)
    return 0


def _read(path: str) -> dict[str, Any]:
    try:
        profile = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Wrong(f"cannot read {path}: {error}") from error
    if not isinstance(profile, dict) or not {"kinds", "layers"} <= profile.keys():
        raise Wrong(f"{path} is no profile: kinds or layers are missing")
    return profile


def added(there: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """The profile of elsewhere with the kind of this one. A kind of the same name is replaced."""
    names = [[layer["name"] for layer in profile["layers"]] for profile in (there, here)]
    if names[0] != names[1]:
        raise Wrong(f"the layers differ: {', '.join(names[0])} there, {', '.join(names[1])} here")
    (kind,) = here["kinds"]
    there["kinds"] = [known for known in there["kinds"] if known["name"] != kind["name"]] + [kind]
    for layer, ours in zip(there["layers"], here["layers"]):
        layer["seconds"].update(ours["seconds"])
        # The smaller share holds on all kinds.
        share = min(layer.get("parallel_compute", 1.0), ours["parallel_compute"])
        layer["parallel_compute"] = share
    return there


def _built(model: str) -> tuple[Any, tuple[Any, ...]]:
    """The module and the inputs of a batch."""
    import torch

    name, colon, function = model.partition(":")
    if not colon or not name or not function:
        raise Wrong(f"{model!r} is no model: expected module:function")
    sys.path.insert(0, os.getcwd())
    try:
        build = getattr(importlib.import_module(name), function)
    except (ImportError, AttributeError) as error:
        raise Wrong(f"cannot find {model}: {error}") from error
    built = build()
    if not isinstance(built, tuple) or len(built) != 2:
        raise Wrong(f"{model} returns {type(built).__name__}: expected the module and its inputs")
    module, inputs = built
    if not isinstance(module, torch.nn.Module):
        raise Wrong(f"{model} returns {type(module).__name__} first: expected a torch.nn.Module")
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    if not inputs or not all(isinstance(one, torch.Tensor) and one.dim() > 0 for one in inputs):
        raise Wrong(f"{model} returns inputs that are no tensors with a batch")
    if inputs[0].shape[0] < 4:
        raise Wrong(f"the batch of {model} has {inputs[0].shape[0]} samples: expected 4 or more")
    return module, inputs


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)


def _layers(module: Any, depth: int, name: str = "") -> Iterator[tuple[str, Any]]:
    children = list(module.named_children())
    if not children or depth == 0:
        yield name or type(module).__name__.lower(), module
        return
    for part, child in children:
        yield from _layers(child, depth - 1, f"{name}.{part}" if name else part)


def calls(module: Any, inputs: tuple[Any, ...], depth: int) -> list[Call]:
    """The layers in the order of their calls in one pass. A layer that is called twice is refused."""
    found: list[Call] = []
    batch = inputs[0].shape[0]

    def hook(name: str) -> Callable[..., None]:
        def called(layer: Any, given: Any, keywords: Any, out: Any) -> None:
            if any(call.name == name for call in found):
                raise Wrong(f"layer {name} is called twice: it is no chain at depth {depth}")
            size = sum(one.numel() * one.element_size() for one in _tensors(out)) / batch
            found.append(Call(name, layer, given, keywords, size))

        return called

    layers = list(_layers(module, depth))
    handles = []
    for name, layer in layers:
        called = hook(name)
        try:
            handles.append(layer.register_forward_hook(called, with_kwargs=True))
        except TypeError:
            # PyTorch before 2.0 does not give hooks the keywords.
            plain = lambda layer, given, out, called=called: called(layer, given, {}, out)  # noqa: E731
            handles.append(layer.register_forward_hook(plain))
    try:
        module(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    missing = [name for name, _ in layers if all(call.name != name for call in found)]
    if missing:
        raise Wrong(f"layer {missing[0]} is not called: change --depth, or leave it out of the module")
    return found


def _part(value: Any, batch: int, samples: int) -> Any:
    """The first samples of what a layer is given, without its history."""
    import torch

    if isinstance(value, torch.Tensor):
        cut = value[:samples] if value.dim() and value.shape[0] == batch else value
        cut = cut.detach().clone()
        return cut.requires_grad_() if cut.is_floating_point() else cut
    if isinstance(value, (tuple, list)):
        return type(value)(_part(one, batch, samples) for one in value)
    if isinstance(value, dict):
        return {key: _part(one, batch, samples) for key, one in value.items()}
    return value


def seconds(call: Call, batch: int, samples: int) -> float:
    """Median seconds of forward and backward with these samples."""
    import torch

    inputs = _part(call.inputs, batch, samples)
    keywords = _part(call.keywords, batch, samples)
    on_gpu = any(one.is_cuda for one in _tensors(inputs))

    def once() -> float:
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        out = [one for one in _tensors(call.module(*inputs, **keywords)) if one.requires_grad]
        if out:
            torch.autograd.backward(out, [torch.ones_like(one) for one in out])
        if on_gpu:
            torch.cuda.synchronize()
        taken = time.perf_counter() - start
        call.module.zero_grad(set_to_none=True)
        return taken

    once()
    times: list[float] = []
    while len(times) < RUNS or sum(times) < LONG:
        times.append(once())
    return statistics.median(times)


def _is_table(module: Any) -> bool:
    import torch

    return isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))


def _bytes(layer: Any) -> tuple[float, float]:
    """Bytes of weights and of tables; a layer without parameters may have ``table_bytes``."""
    weights = tables = 0.0
    for module in layer.modules():
        tables += getattr(module, "table_bytes", 0.0)
        own = sum(p.numel() * p.element_size() for p in module.parameters(recurse=False))
        if _is_table(module):
            tables += own
        else:
            weights += own
    return weights, tables


def measured(call: Call, batch: int, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """A layer of the profile."""
    quarter = batch // 4
    whole, part = seconds(call, batch, batch), seconds(call, batch, quarter)
    # t(b) = a + c b from two points; noise may make a negative.
    fixed = (batch * part - quarter * whole) / (batch - quarter)
    weights, tables = _bytes(call.module)
    return {
        "name": call.name,
        "seconds": {kind: whole / batch},
        "out_bytes": call.out_bytes,
        "weight_bytes": weights,
        "table_bytes": tables * (1.0 + options.table_state),
        "parallel_compute": 1.0 - min(max(fixed / whole, 0.0), 1.0),
        "parallel_communication": options.parallel_communication,
    }


def _memory(device: Any) -> float:
    import torch

    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _profile(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    numbers = {"price": 0.0, "link": None, "samples": None, "rate": None, "memory": None}
    for name, least in numbers.items():
        value = getattr(options, name)
        good = value is None or (math.isfinite(value) and (value > 0 or value == least))
        if not good:
            raise Wrong(f"--{name} {value}: expected a number {'from' if least == 0 else 'above'} 0")
    if options.depth < 1:
        raise Wrong(f"--depth {options.depth}: expected 1 or more")
    try:
        device = torch.device(options.device)
    except RuntimeError as error:
        raise Wrong(f"--device {options.device}: {error}") from error
    if device.type not in ("cpu", "cuda"):
        raise Wrong(f"--device {options.device}: expected cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise Wrong("--device cuda: this PyTorch has no CUDA device")
    if options.threads:
        torch.set_num_threads(options.threads)
    module, inputs = _built(options.model)
    module = module.to(device).train()
    inputs = tuple(one.to(device) for one in inputs)
    batch = inputs[0].shape[0]
    kind = options.kind or options.device
    unit = {
        "name": kind,
        "price_per_hour": options.price,
        "memory_bytes": options.memory or _memory(device),
        "link_bytes_per_s": options.link,
    }
    if options.limit is not None:
        unit["limit"] = options.limit
    chain = calls(module, inputs, options.depth)
    return {
        "name": options.model,
        "batch": batch,
        "samples": options.samples,
        "min_rate": options.rate,
        "kinds": [unit],
        "layers": [measured(call, batch, kind, options) for call in chain],
    }


if __name__ == "__main__":
    sys.exit(main())
