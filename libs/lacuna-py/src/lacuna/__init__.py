"""Training that joins, leaves and survives while it runs.

    import lacuna

    with lacuna.elastic(model, optimizer, batch=64, seed=1) as run:
        for x, y in run.steps(data, epochs=10):
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            run.step(loss)

The same program runs alone, under ``torchrun``, and under Lacuna's launcher ``regroup``, where
nodes come and go without a restart. See :func:`elastic`.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .policy import Adaptive, BatchPolicy, PerNode, WholeGroup
    from .run import Elastic, elastic
    from .sharding import node_mesh
    from .state import Value
    from .worker import device

__all__ = [
    "Adaptive",
    "BatchPolicy",
    "Elastic",
    "PerNode",
    "Value",
    "WholeGroup",
    "device",
    "elastic",
    "node_mesh",
]

_HOMES = {
    "elastic": "run",
    "Elastic": "run",
    "Adaptive": "policy",
    "BatchPolicy": "policy",
    "PerNode": "policy",
    "WholeGroup": "policy",
    "device": "worker",
    "node_mesh": "sharding",
    "Value": "state",
}


def __getattr__(name: str) -> Any:
    """Imports PyTorch only when something that needs it is asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lacuna' has no attribute {name!r}")
    import importlib

    try:
        module = importlib.import_module(f".{home}", __name__)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ModuleNotFoundError(
                "lacuna needs PyTorch, which your site chooses: install a build of torch >= 1.13",
                name="torch",
            ) from error
        raise
    value = getattr(module, name)
    globals()[name] = value
    return value
