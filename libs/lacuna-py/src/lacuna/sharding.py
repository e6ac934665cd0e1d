"""A model that is sharded over the workers of a node (FSDP2), and replicated over nodes.

The program shards it over :func:`node_mesh`. A node comes and goes with all of its workers, so the
group of that mesh lives as long as they do: it is PyTorch's default group. FSDP sums gradients over
the workers of a node. Lacuna sums each shard over the workers of the same place, which is the local
rank, in all nodes. Each place has a group of its own, which is built again when nodes change.

The shards of a node belong to one state, so a node is one member: it has met the others or not, and
has applied a step or not. Its workers agree at each such point (:class:`Node`), as torchft's
``should_commit`` does. If one of them has lost its group, all leave theirs and undo the step.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Client, Listener
from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist
from torch import nn

from .group import RETRY, Group, Watch
from .keys import version
from .worker import Worker, device

#: PyTorch's first version with the calls of FSDP that are used here.
NEEDED = (2, 9)
#: Seconds that the workers of a node wait for each other to make their mesh.
MEETING = 300.0
#: Seconds after which an operation within a node fails. A worker may wait for another one that is
#: busy for long; one that dies or hangs is ended by the agent, with its node.
PATIENCE = 24.0 * 3600.0
#: Numbers in a message of :meth:`Node.gather`. All have the same size, so that one which another
#: worker does not expect is harmless.
_WIDTH = 3
#: Seconds that a worker waits for those of its node before it ends.
FAREWELL = 2.0

#: The mesh of this node's workers, and under torchrun the group of this worker's place.
_mesh: Any = None
_place: Any = None


def node_mesh() -> Any:
    """The workers of this node, for ``fully_shard(model, mesh=lacuna.node_mesh())``.

    A ``torch.distributed.device_mesh.DeviceMesh`` of one dimension, which is made once. PyTorch's
    default group is then that of the node's workers; under torchrun it is that of all workers.
    Raises RuntimeError if PyTorch is older than 2.9, or if a worker of the node does not come.
    """
    global _mesh, _place
    if _mesh is not None:
        return _mesh
    if version() < NEEDED:
        raise RuntimeError(
            f"a sharded model needs PyTorch {NEEDED[0]}.{NEEDED[1]} or newer, this is "
            f"{torch.__version__}: train the whole model at each worker, without lacuna.node_mesh()"
        )
    from torch.distributed.device_mesh import init_device_mesh

    worker = Worker.of(os.environ)
    kind = device().type
    backend = "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"
    limit = timedelta(seconds=PATIENCE)
    if "LACUNA_SOCKET" not in os.environ and "WORLD_SIZE" in os.environ:
        if not dist.is_initialized():
            dist.init_process_group(backend, timeout=limit)
        shape = (dist.get_world_size() // worker.count, worker.count)
        both = init_device_mesh(kind, shape, mesh_dim_names=("nodes", "workers"))
        _place, _mesh = both.get_group("nodes"), both["workers"]
        return _mesh
    store = dist.HashStore() if worker.count == 1 else _meet(worker)
    dist.init_process_group(
        backend, store=store, rank=worker.rank, world_size=worker.count, timeout=limit
    )
    _mesh = init_device_mesh(kind, (worker.count,), mesh_dim_names=("workers",))
    return _mesh


def _meet(worker: Worker) -> Any:
    """A store for the workers of this node; they learn its port beside the agent's socket."""
    address = os.environ["LACUNA_SOCKET"] + ".mesh"
    if address.startswith("@"):
        address = "\0" + address[1:]
    store: Any
    if worker.rank == 0:
        if not address.startswith("\0") and os.path.exists(address):
            # It is that of a process that was killed.
            os.unlink(address)
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        with Listener(address, "AF_UNIX", backlog=worker.count) as listener:
            for _ in range(worker.count - 1):
                with listener.accept() as one:
                    one.send_bytes(b"%d" % store.port)
        return store
    end = time.monotonic() + MEETING
    while True:
        try:
            with Client(address, "AF_UNIX") as connection:
                port = int(connection.recv_bytes(8))
            return dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        except (OSError, EOFError, ValueError) as error:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"worker 0 of this node has not called lacuna.node_mesh(): {error}"
                ) from None
        time.sleep(RETRY)


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a DTensor; before PyTorch 2 there are none."""
    return hasattr(tensor, "to_local")


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This worker's part of a tensor: of one that is not sharded, the tensor itself."""
    if not hasattr(tensor, "to_local"):
        return tensor
    with torch.no_grad():
        part: torch.Tensor = tensor.to_local()
        return part


def like(tensor: Any, part: torch.Tensor) -> torch.Tensor:
    """A part as the whole tensor is: sharded in the same way, or the part itself."""
    if not is_sharded(tensor):
        return part
    return _whole(part, tensor.device_mesh, tensor.placements, tensor.shape)


def _whole(part: torch.Tensor, mesh: Any, placements: Any, shape: Sequence[int]) -> torch.Tensor:
    from torch.distributed.tensor import DTensor

    size = torch.Size(shape)
    stride = torch.empty(size, device="meta").stride()
    with torch.no_grad():
        made: torch.Tensor = DTensor.from_local(
            part, mesh, placements, run_check=False, shape=size, stride=stride
        )
    return made


@dataclass
class Piece:
    """A worker's part of a sharded tensor, which has ``shape`` and is cut along ``dim``.

    Cuts are those of ``torch.chunk``: the last parts may be smaller, or empty.
    """

    part: torch.Tensor
    dim: int
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Any) -> "Piece":
        """The piece of a DTensor. Raises ValueError if it is cut along several dimensions."""
        if len(tensor.placements) != 1 or not tensor.placements[0].is_shard():
            raise ValueError(
                f"a tensor of the state is placed as {tensor.placements}: only tensors that are "
                "sharded along one dimension, over lacuna.node_mesh(), can be carried"
            )
        return cls(local(tensor).detach(), tensor.placements[0].dim, tuple(tensor.shape))

    def whole(self, mesh: Any) -> torch.Tensor:
        """The DTensor of which this is the piece here; without a mesh, the tensor itself."""
        if mesh is None:
            return self.part
        from torch.distributed.tensor import Shard

        return _whole(self.part.to(mesh.device_type), mesh, [Shard(self.dim)], self.shape)


def joined(pieces: Sequence[Piece], rank: int, count: int) -> Piece:
    """The piece of one of ``count`` workers, from those of any other number, by rank."""
    first = pieces[0]
    whole = torch.cat([piece.part for piece in pieces], first.dim)
    size = -(-first.shape[first.dim] // count)
    begin = min(rank * size, first.shape[first.dim])
    end = min(begin + size, first.shape[first.dim])
    part = whole.narrow(first.dim, begin, end - begin).clone()
    return Piece(part, first.dim, first.shape)


class Weighted:
    """FSDP's sum over the workers of a node, weighted by samples.

    FSDP itself divides by their number, which is the mean for shares of the same size only.
    """

    weight = 1.0

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        input_tensor.mul_(self.weight)
        return dist.reduce_scatter_tensor(
            output_tensor, input_tensor, op=op, group=group, async_op=async_op
        )


class Node:
    """The workers that have the shards of one state: ``rank`` of ``count``.

    A worker that has the whole state is one of one, and agrees with itself.
    """

    def __init__(self, mesh: Any = None) -> None:
        self.mesh = mesh
        self.rank = 0 if mesh is None else mesh.get_local_rank()
        self.count = 1 if mesh is None else mesh.size()
        #: Under torchrun, the group of the workers of this place.
        self.place = _place
        among = None if mesh is None else mesh.get_group()
        self._group = Group(self.rank, self.count, among=among)
        self._sum = Weighted()
        #: The same at all workers of the node, and different from those of other nodes.
        self.token = secrets.token_hex(3)
        if self.count > 1:
            mine = int(self.token, 16) if self.rank == 0 else 0
            self.token = f"{int(sum(row[0] for row in self.gather(mine))):06x}"

    def weigh(self, weight: float) -> float:
        """Sets the weight of this worker's gradients; returns what FSDP leaves to be weighted."""
        self._sum.weight = weight
        return weight if self.count == 1 else 1.0

    def gather(self, *numbers: float) -> list[tuple[float, ...]]:
        """The numbers of all workers, by rank. RuntimeError if one of them has ended."""
        rows = self.try_gather(lambda: None, *numbers)
        if rows is None:
            raise RuntimeError("another worker of this node has ended")
        return rows

    def try_gather(self, watch: Watch, *numbers: float) -> Optional[list[tuple[float, ...]]]:
        """Like :meth:`gather`; None if a worker has ended, or ``watch`` gives a reason to stop."""
        if self.count == 1:
            return [numbers]
        rows = torch.zeros(self.count, _WIDTH, dtype=torch.float64)
        rows[self.rank, : len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
        self._group.launch(rows)
        if self._group.wait(watch) is not None:
            return None
        return [tuple(row[: len(numbers)]) for row in rows.tolist()]

    def all(self, mine: bool) -> bool:
        """Whether it is true for all workers."""
        return all(row[0] > 0.0 for row in self.gather(float(mine)))

    def any(self, mine: bool) -> bool:
        """Whether it is true for one of them."""
        return any(row[0] > 0.0 for row in self.gather(float(mine)))

    def add(self, sums: torch.Tensor, failure: Optional[str]) -> Optional[str]:
        """Adds up the places' sums, in place; the reason if a worker has none (``failure``)."""
        if self.count == 1:
            return failure
        message = torch.cat([sums, sums.new_tensor([float(failure is not None)])])
        self._group.launch(message)
        if self._group.wait(lambda: None) is not None:
            raise RuntimeError("another worker of this node has ended")
        if message[-1] > 0.0:
            return failure or "another worker of this node has lost its group"
        sums.copy_(message[:-1])
        return None

    def part(self) -> None:
        """Waits until all workers have come here, but not for long: some may have ended."""
        end = time.monotonic() + FAREWELL
        self.try_gather(lambda: "time is up" if time.monotonic() > end else None)


def node_of(
    models: Sequence[nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
    backend: Optional[str],
) -> Node:
    """The workers with which this one shares the models that are trained.

    Takes FSDP's average over them into its own hands. Raises ValueError for a model that is only
    partly sharded, or otherwise than over :func:`node_mesh`.
    """
    named = {id(p): name for model in models for name, p in model.named_parameters()}
    held = [p for one in optimizers for group in one.param_groups for p in group["params"]]
    whole = [named.get(id(p), "one of the optimisers") for p in held if not is_sharded(p)]
    if len(whole) == len(held):
        if _mesh is not None:
            raise ValueError(
                "lacuna.node_mesh() was called, but no parameter is sharded over it: call "
                "fully_shard(model, mesh=lacuna.node_mesh()) before the optimiser is made"
            )
        return Node()
    if whole:
        raise ValueError(
            f"parameter {whole[0]} is not sharded, others are: call fully_shard on the whole "
            "model too, after its parts and before the optimiser is made"
        )
    for p in held:
        if p.device_mesh != _mesh or len(p.placements) != 1 or not p.placements[0].is_shard():
            raise ValueError(
                f"parameter {named.get(id(p))} is placed as {p.placements} on {p.device_mesh}: "
                "shard the model by fully_shard(model, mesh=lacuna.node_mesh()) alone"
            )
    if backend not in (None, "gloo"):
        raise ValueError(
            f"backend={backend!r}: shards are summed over nodes by gloo, leave backend out"
        )
    from torch.distributed.fsdp import FSDPModule

    node = Node(_mesh)
    for module in (module for model in models for module in model.modules()):
        if isinstance(module, FSDPModule):
            module.set_custom_reduce_scatter(node._sum)  # type: ignore[arg-type]
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    return node
