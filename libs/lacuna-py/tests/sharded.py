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
from torch.utils.data import DataLoader, IterableDataset

import lacuna
from lacuna import buckets, link, order
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


class Indices:
    """Samples are their own indices."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(0.002)
        return index


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return iter(range(self.length))


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
    options.add_argument("--noise", choices=("sgd", "adam"), help="measured with this optimiser")
    options.add_argument("--slow", help="node whose samples take 3 times as long; shares follow it")
    options.add_argument("--data", choices=("stream", "items"), help="default: indices alone")
    options.add_argument("--turns", action="store_true", help="a second model has its own turn")
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
    critic = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    if not options.whole:
        from torch.distributed.fsdp import fully_shard

        mesh = lacuna.node_mesh()
        fully_shard(model.layers, mesh=mesh)
        fully_shard(model, mesh=mesh)
        fully_shard(critic, mesh=mesh)
    rest = [p for name, p in model.named_parameters() if name != "used"]
    optimizers = [
        torch.optim.AdamW(rest, lr=0.01),
        torch.optim.SGD([model.used], lr=float(options.batch)),
    ]
    if options.noise:
        # Shares of both are alike then.
        order.TRIED = ()
        sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        optimizers = [sgd if options.noise == "sgd" else torch.optim.AdamW(model.parameters())]
    if options.turns:
        optimizers = [
            torch.optim.AdamW(model.parameters(), lr=0.01),
            torch.optim.SGD(critic.parameters(), lr=0.1),
        ]
    data = None
    if options.data:
        kind = Stream if options.data == "stream" else Indices
        data = DataLoader(kind(options.samples), num_workers=0)
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
        clip_norm=None if options.noise else 100.0,
        noise=bool(options.noise),
        balance=bool(options.slow),
        state={"critic": critic} if options.turns else None,
        timeout=float(os.environ.get("PROGRAM_TIMEOUT", "5")),
    ) as run:
        epochs, loaders = options.epochs, 0
        shares = run.shares(options.samples, epochs=epochs)
        for indices in shares if data is None else run.steps(data, epochs=epochs):
            loaders = max(loaders, run.loaders)
            for optimizer in optimizers:
                optimizer.zero_grad()
            total = 0.0
            for part in indices.chunk(options.passes):
                guess, used = model(x[part], part)
                loss = (guess - y[part]).pow(2).mean() * len(part) / len(indices)
                (loss - used * len(part) / len(indices)).backward()
                total += float(loss.detach())
            times = 3 if options.slow == os.environ.get("LACUNA_NODE") else 1
            time.sleep(options.sleep + 0.004 * times * len(indices) * bool(options.slow))
            if options.turns:
                run.step(total, optimizers[0])
                optimizers[1].zero_grad()
                wrong = (guess.detach() - y[part]).abs()
                loss = (critic(guess.detach()) - wrong).pow(2).mean()
                loss.backward()
                total = float(loss.detach())
            if run.step(total, optimizers[1] if options.turns else None):
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
        "noise": run.noise and [run.noise.variance, run.noise.square],
        "shares": run.shares_by_speed,
        "loaders": loaders,
    }
    with open(os.path.join(options.into, f"{name}.result"), "w") as file:
        json.dump(result, file)
    # The interpreter's own end takes a second.
    link.leave_now(0)


if __name__ == "__main__":
    main()
