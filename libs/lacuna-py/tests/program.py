"""The program that the tests train: its state itself counts how often each sample was used.

The parameter ``used`` has one number per sample. Its gradient is minus one part of the batch for
each sample of the batch, and its learning rate is the batch, so a step adds exactly one for each
sample that the step used. The counts are part of the state, whatever happens to the members.
"""

import argparse
import json
import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

import lacuna
from lacuna.group import Group
from lacuna.messages import Membership


class Counted(nn.Module):
    def __init__(self, samples, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1)
        )
        self.used = nn.Parameter(torch.zeros(samples))

    def forward(self, x):
        return self.net(x)


class Items(Dataset):
    """Sample i is i, and takes its time."""

    def __init__(self, length, seconds):
        self.length, self.seconds = length, seconds

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index


def die_forming(group):
    """Dies while it builds its n-th group, when all others have met it."""
    build, built = dist.init_process_group, []

    def init(*arguments, **options):
        built.append(1)
        if len(built) == group:
            os.kill(os.getpid(), signal.SIGKILL)
        return build(*arguments, **options)

    dist.init_process_group = init


def fail_forming():
    """Tries to build a group with a member that never comes."""
    alone = Membership(run=1, rank=0, members=("n2", "never"), store="127.0.0.1:1")
    reason = Group.form(dist.HashStore(), "before", alone, 0.2, "gloo", 0.2)
    assert isinstance(reason, str), "the group works"


def pause(folder, seconds):
    """Seconds to sleep in a step: more if the test says "hold", none if it says "hurry"."""
    if folder and os.path.exists(os.path.join(folder, "hold")):
        return 0.25
    return 0.0 if folder and os.path.exists(os.path.join(folder, "hurry")) else seconds


def here():
    """The name of this process: its node, and its local rank if the node has several workers."""
    names = os.environ.get("LACUNA_NODE", "alone"), os.environ.get("LACUNA_LOCAL_RANK")
    return "/".join(filter(None, names))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=256)
    options.add_argument("--epochs", type=int, default=None)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--per-node", action="store_true", help="the batch is that of a node")
    options.add_argument("--dropout", type=float, default=0.0)
    options.add_argument("--item", type=float, help="seconds of a sample, read by a worker")
    options.add_argument("--sleep", type=float, default=0.0, help="seconds of a step")
    options.add_argument("--every", type=int, default=None, help="steps between checkpoints")
    options.add_argument("--fail-at", type=int, default=None, help="step at PROGRAM_FAILS")
    options.add_argument("--slow-at", type=int, default=None, help="step at PROGRAM_SLOW")
    options.add_argument("--into", default=None, help="folder of the logs of steps")
    options = options.parse_args()

    # Sums of other orders then differ in the last of fifteen digits.
    torch.set_default_dtype(torch.float64)
    data = torch.Generator().manual_seed(2)
    x = torch.randn(options.samples, 8, generator=data)
    y = x.pow(2).sum(1, keepdim=True) / 8
    torch.manual_seed(os.getpid())  # Members begin with different weights: one set must win.
    model = Counted(options.samples, options.dropout)
    optimizer = torch.optim.SGD(
        [
            {"params": model.net.parameters(), "lr": 0.05, "momentum": 0.9},
            {"params": [model.used], "lr": float(options.batch)},
        ],
        lr=0.05,
    )
    if os.environ.get("PROGRAM_DIES_FORMING") == here():
        die_forming(2)
    if os.environ.get("PROGRAM_FAILED_FORMING") == here():
        fail_forming()
    if "PROGRAM_SEED" in os.environ:
        torch.manual_seed(int(os.environ["PROGRAM_SEED"]))
        for layer in (model.net[0], model.net[3]):
            layer.reset_parameters()
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, [lambda step: 1.0 / (1.0 + step / 500.0), lambda step: 1.0]
    )
    log = None
    if options.into:
        name = os.environ.get("LACUNA_NODE", "alone")
        log = open(os.path.join(options.into, f"{name}.steps"), "a", buffering=1)
    with lacuna.elastic(
        model,
        optimizer,
        scheduler=scheduler,
        batch=lacuna.PerNode(options.batch) if options.per_node else options.batch,
        seed=int(os.environ.get("PROGRAM_SEED", "7")),
        checkpoint_every=options.every,
        checkpoint_seconds=None,
        timeout=float(os.environ.get("PROGRAM_TIMEOUT", "5")),
    ) as run:
        if options.item is None:
            batches = run.shares(options.samples, epochs=options.epochs)
        else:
            items = DataLoader(Items(options.samples, options.item), shuffle=True, num_workers=1)
            batches = run.steps(items, epochs=options.epochs)
        for indices in batches:
            optimizer.zero_grad()
            loss = (model(x[indices]) - y[indices]).pow(2).mean()
            (loss - model.used[indices].mean()).backward()
            if run.steps_done == options.fail_at:
                if os.environ["PROGRAM_FAILS"] == here():
                    raise RuntimeError("a failure on request")
            if run.steps_done == options.slow_at:
                if os.environ["PROGRAM_SLOW"] == here():
                    time.sleep(3.0)
            if options.sleep:
                time.sleep(pause(options.into, options.sleep))
            if run.step(loss) and log:
                line = [run.steps_done, run.loss, run.run_id, run.rank, time.time()]
                log.write(json.dumps(line) + "\n")
    if log and run.rank == 0:
        used = model.used.detach().tolist()
        model.eval()
        loss = (model(x) - y).pow(2).mean().item()
        result = {"used": used, "steps": run.steps_done, "samples": run.samples, "loss": loss}
        with open(os.path.join(options.into, "result.json"), "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
