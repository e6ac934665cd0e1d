"""A model that is sharded over the workers of its node, or whole with ``--whole``, in float64.

Like `program.py` it counts in its own state how often each sample was used. At the end each worker
writes how many numbers it holds of the parameters and of the optimisers' state.
"""

import argparse
import json
import logging
import os
import time

import torch
from torch import nn

import lacuna
from lacuna import buckets, link
from lacuna.sharding import is_sharded, local
from program import here


class Net(nn.Module):
    """Some layers have rows that do not come out even, and one has fewer rows than workers."""

    def __init__(self, samples):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(8, 15), nn.BatchNorm1d(15), nn.Tanh(), nn.Linear(15, 16), nn.Tanh()),
            nn.Linear(16, 1),
        )
        self.used = nn.Parameter(torch.zeros(samples))

    def forward(self, x, indices):
        return self.layers(x), self.used[indices].mean()


def held(tensors):
    """Numbers of some tensors: those here, and those of all workers."""
    tensors = list(tensors)
    return [sum(local(t).numel() for t in tensors), sum(t.numel() for t in tensors)]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--whole", action="store_true")
    options.add_argument("--samples", type=int, default=90)
    options.add_argument("--epochs", type=int, default=None)
    options.add_argument("--batch", type=int, default=18)
    options.add_argument("--passes", type=int, default=1, help="backward passes of a step")
    options.add_argument("--sleep", type=float, default=0.0, help="seconds of a step")
    options.add_argument("--every", type=int, default=None, help="steps between checkpoints")
    options.add_argument("--keep", type=int, default=3, help="checkpoints")
    options.add_argument("--busy-at", type=int, default=None, help="step of SHARDED_BUSY's work")
    options.add_argument("--into", required=True, help="folder of the logs of steps")
    options = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    torch.set_num_threads(1)
    # Several messages for a small model.
    buckets.FIRST = buckets.SIZE = 512

    torch.manual_seed(1)
    x = torch.randn(options.samples, 8, dtype=torch.float64)
    y = x.pow(2).sum(1, keepdim=True) / 8
    model = Net(options.samples).double()
    # Running averages of shares are not those of the whole batch.
    model.layers[1].eval()
    if not options.whole:
        from torch.distributed.fsdp import fully_shard

        mesh = lacuna.node_mesh()
        fully_shard(model.layers, mesh=mesh)
        fully_shard(model, mesh=mesh)
    rest = [p for name, p in model.named_parameters() if name != "used"]
    optimizers = [
        torch.optim.AdamW(rest, lr=0.01),
        torch.optim.SGD([model.used], lr=float(options.batch)),
    ]
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizers[0], 0.99)
    name = here().replace("/", ".")
    log = open(os.path.join(options.into, f"{name}.steps"), "a", buffering=1)
    with lacuna.elastic(
        model,
        optimizers,
        scheduler=scheduler,
        batch=options.batch,
        seed=7,
        checkpoint_every=options.every,
        checkpoint_seconds=None,
        keep=options.keep,
        clip_norm=100.0,
        timeout=float(os.environ.get("PROGRAM_TIMEOUT", "5")),
    ) as run:
        for indices in run.shares(options.samples, epochs=options.epochs):
            for optimizer in optimizers:
                optimizer.zero_grad()
            total = 0.0
            for part in indices.chunk(options.passes):
                guess, used = model(x[part], part)
                loss = (guess - y[part]).pow(2).mean() * len(part) / len(indices)
                (loss - used * len(part) / len(indices)).backward()
                total += float(loss.detach())
            time.sleep(options.sleep)
            if run.step(total):
                line = [run.steps_done, run.loss, run.run_id, run.rank, time.time()]
                log.write(json.dumps(line) + "\n")
            if run.steps_done == options.busy_at and os.environ.get("SHARDED_BUSY") == here():
                with run.busy():
                    time.sleep(3.0)
    whole = {
        name: p.full_tensor() if is_sharded(p) else p for name, p in model.named_parameters()
    }
    states = [t for one in optimizers for s in one.state.values() for t in s.values() if t.dim()]
    result = {
        "used": whole["used"].tolist(),
        "weights": torch.cat([p.detach().flatten() for p in whole.values()]).tolist(),
        "parameters": held(model.parameters()),
        "optimisers": held(states),
        "steps": run.steps_done,
    }
    with open(os.path.join(options.into, f"{name}.result"), "w") as file:
        json.dump(result, file)
    # The interpreter's own end takes a second.
    link.leave_now(0)


if __name__ == "__main__":
    main()
