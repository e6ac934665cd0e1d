"""A training loop as programs have it: loaders with workers, validation, metrics, long work.

Like `program.py` it counts in its own state how often each sample was used. Data sets give the
index of a sample with it.
"""

import argparse
import faulthandler
import json
import logging
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import lacuna
from program import Counted, pause


class Items(Dataset):
    """Samples by their index: (x, y, index)."""

    def __init__(self, length, seconds=0.0):
        dice = torch.Generator().manual_seed(2)
        self.x = torch.randn(length, 8, generator=dice)
        self.y = self.x.pow(2).sum(1, keepdim=True) / 8
        self.seconds = seconds

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.x[index], self.y[index], index


class Stream(IterableDataset):
    """The same, one after the other, without a length."""

    def __init__(self, length, seconds=0.0):
        self.items = Items(length, seconds)

    def __iter__(self):
        for index in range(len(self.items)):
            yield self.items[index]


class Slow(Items):
    """One sample takes long, at one node."""

    def __getitem__(self, index):
        if index == 40 and os.environ.get("LOOP_SLOW") == os.environ["LACUNA_NODE"]:
            time.sleep(5.0)
        return super().__getitem__(index)


class Bad(Items):
    """One sample cannot be read, at one node."""

    def __getitem__(self, index):
        if index == 40 and os.environ.get("LOOP_BAD") == os.environ["LACUNA_NODE"]:
            raise OSError("the file is gone")
        return super().__getitem__(index)


KINDS = {"items": Items, "stream": Stream, "slow": Slow, "bad": Bad}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--kind", choices=KINDS, default="items")
    options.add_argument("--samples", type=int, default=256)
    options.add_argument("--epochs", type=int, default=None)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--item", type=float, default=0.0, help="seconds of a sample")
    options.add_argument("--sleep", type=float, default=0.0, help="seconds of a step")
    options.add_argument("--busy-at", type=int, default=None, help="step of LOOP_BUSY's work")
    options.add_argument("--busy", type=float, default=3.0, help="seconds of it")
    options.add_argument("--judge-at", type=int, default=None, help="step of the validation")
    options.add_argument("--judge", type=float, default=0.0, help="seconds of its batches")
    options.add_argument("--into", default=None, help="folder of the logs of steps")
    options = options.parse_args()
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")

    name = os.environ.get("LACUNA_NODE", "alone")
    torch.manual_seed(3)
    model = Counted(options.samples)
    optimizer = torch.optim.SGD(
        [
            {"params": model.net.parameters(), "lr": 0.05, "momentum": 0.9},
            {"params": [model.used], "lr": float(options.batch)},
        ],
        lr=0.05,
    )
    data = KINDS[options.kind](options.samples, options.item)
    shuffle = None if options.kind == "stream" else True
    loader = DataLoader(
        data, batch_size=options.batch, shuffle=shuffle, num_workers=options.workers
    )
    test = DataLoader(Items(70), batch_size=8)
    log = open(os.path.join(options.into, f"{name}.steps"), "a", buffering=1)
    events = open(os.path.join(options.into, f"{name}.events"), "a", buffering=1)

    def tell(**event):
        events.write(json.dumps({"t": time.time(), "step": run.steps_done, **event}) + "\n")

    def judge(batch):
        tell(judged=batch[2].tolist(), training=model.training, grad=torch.is_grad_enabled())
        time.sleep(options.judge)
        x, y, index = batch
        return {"loss": (model.net(x) - y).pow(2).mean(), "index": index.float().mean()}

    with lacuna.elastic(
        model,
        optimizer,
        batch=options.batch,
        seed=7,
        checkpoint_seconds=None,
        timeout=float(os.environ.get("PROGRAM_TIMEOUT", "5")),
    ) as run:
        for x, y, indices in run.steps(loader, epochs=options.epochs):
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            (loss - model.used[indices].mean()).backward()
            time.sleep(pause(options.into, options.sleep))
            applied = run.step(loss)
            if applied:
                line = [run.steps_done, run.loss, run.run_id, run.rank, time.time()]
                log.write(json.dumps(line) + "\n")
            if run.steps_done == options.busy_at and os.environ.get("LOOP_BUSY") == name:
                tell(busy="begins")
                with run.busy():
                    time.sleep(options.busy)
                tell(busy="ends")
            if run.steps_done == options.judge_at:
                if os.environ.get("LOOP_LATE") == name:
                    tell(late=options.busy)
                    time.sleep(options.busy)
                tell(reduced=run.reduce({"rank": run.rank, "own": float(len(x))}), own=len(x))
                tell(largest=run.reduce({"rank": run.rank}, "max"))
                tell(evaluated=run.evaluate(test, judge))
    if run.rank == 0:
        used = model.used.detach().tolist()
        result = {"used": used, "steps": run.steps_done, "samples": run.samples}
        with open(os.path.join(options.into, "result.json"), "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
