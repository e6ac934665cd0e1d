"""A program whose gradient and noise are known: each sample's gradient is its row of data.

The learning rate is zero, so the truth stays. ``--slow`` names the seconds of a sample by node.
"""

import argparse
import json
import os
import time

import torch
from torch import nn

import lacuna


def rows(samples, width, signal):
    """Rows with a common mean of squared norm ``signal`` and unit variance."""
    dice = torch.Generator().manual_seed(4)
    mean = torch.full((width,), (signal / width) ** 0.5)
    return mean + torch.randn(samples, width, generator=dice)


def truth(data, batch):
    """Noise scale at a batch, exactly: samples are drawn without return."""
    data = data.double()
    trace = data.var(0, unbiased=True).sum().item()
    square = data.mean(0).pow(2).sum().item() - trace / len(data)
    return trace / (batch * square)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=4096)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--signal", type=float, default=1.0)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--slow", default="{}", help="seconds of a sample by node, as JSON")
    options.add_argument("--overhead", type=float, default=0.0)
    options.add_argument("--balance", action="store_true")
    options.add_argument("--momentum", type=float, default=0.0)
    options.add_argument("--into", required=True)
    options = options.parse_args()
    name = os.environ.get("LACUNA_NODE", "alone")
    slow = json.loads(options.slow).get(name, 0.0)
    data = rows(options.samples, options.width, options.signal)
    model = nn.ParameterDict({"w": nn.Parameter(torch.zeros(options.width))})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=options.momentum)
    seen, counts, times = [], [], []
    began = time.monotonic()
    with lacuna.elastic(
        model,
        optimizer,
        batch=options.batch,
        seed=3,
        noise=True,
        balance=options.balance,
        checkpoint_seconds=None,
    ) as run:
        for indices in run.shares(options.samples):
            optimizer.zero_grad()
            loss = (data[indices] * model["w"]).sum(1).mean()
            loss.backward()
            if slow > 0.0 or options.overhead > 0.0:
                time.sleep(options.overhead + slow * len(indices))
            if run.step(loss):
                now = time.monotonic()
                times.append(now - began)
                began = now
                counts.append(len(indices))
            seen += indices.tolist()
            if run.steps_done >= options.steps:
                break
    found = run.noise
    result = {
        "phi": None if found is None else [found.phi, found.error, found.steps],
        "truth": truth(data, options.batch),
        "counts": counts,
        "times": times,
        "seen": seen,
        "weights": list(run.shares_by_speed),
    }
    with open(os.path.join(options.into, f"{name}.result"), "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
