"""A small trainer whose state counts how often each of its samples was used.

The parameter `used` has one number per sample, a gradient of minus one part of the batch for each
sample of a step, and the batch as its learning rate: a step adds exactly one for each sample that
it used. The count is part of the state on which members agree, whatever happens to them.

Rank 0 appends a line for each step to `<checkpoint folder>/steps.jsonl`:
[steps done, loss, run, world size, unix time], and writes `result.json` at the end of all work.
"""

import argparse
import json
import os
import time

import torch
from torch import nn

import lacuna


class Counted(nn.Module):
    def __init__(self, samples: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        self.used = nn.Parameter(torch.zeros(samples))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=256, help="samples of an epoch")
    options.add_argument("--batch", type=int, default=32, help="samples of a step, over all members")
    options.add_argument("--seconds", type=float, default=0.05, help="how long a step takes at least")
    options.add_argument("--per-sample", type=float, default=0.0, help="work for each sample of a share, seconds")
    options.add_argument("--hurry", default="", help="steps take no longer than they must once this file is there")
    options.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    options.add_argument("--end", type=float, default=1.0, help="work after the last step, seconds")
    options = options.parse_args()

    folder = os.environ.get("LACUNA_CHECKPOINT_DIR") or "."
    os.makedirs(folder, exist_ok=True)
    data = torch.Generator().manual_seed(2)
    x = torch.randn(options.samples, 8, generator=data)
    y = x.pow(2).sum(1, keepdim=True) / 8
    torch.manual_seed(1)
    model = Counted(options.samples)
    optimizer = torch.optim.SGD(
        [
            {"params": model.net.parameters(), "lr": 0.05, "momentum": 0.9},
            {"params": [model.used], "lr": float(options.batch)},
        ],
        lr=0.05,
    )
    with lacuna.elastic(model, optimizer, batch=options.batch, seed=7, checkpoint_every=options.every) as run:
        with open(os.path.join(folder, "steps.jsonl"), "a", buffering=1, encoding="utf-8") as log:
            for share in run.shares(options.samples):
                optimizer.zero_grad()
                loss = (model.net(x[share]) - y[share]).pow(2).mean()
                (loss - model.used[share].mean()).backward()
                if not os.path.exists(options.hurry):
                    time.sleep(options.seconds + options.per_sample * len(share))
                if run.step(loss) and run.rank == 0:
                    # torchrun restarts a program for each incarnation, which the environment names.
                    number = run.run_id or int(os.environ.get("LACUNA_RUN", "0"))
                    line = [run.steps_done, run.loss, number, run.world_size, time.time()]
                    log.write(json.dumps(line) + "\n")
    time.sleep(options.end)
    if run.rank == 0:
        result = {"used": model.used.detach().tolist(), "steps": run.steps_done, "samples": run.samples}
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
