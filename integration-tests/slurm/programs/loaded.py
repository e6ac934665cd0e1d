"""A small trainer that waits for its data: a sample takes its reader a while, in which it sleeps.

So readers elsewhere help, and not the cores of this machine. Rank 0 appends a line for each step to
`<checkpoint folder>/steps.jsonl`: [unix time, loaders, indices of the samples].
"""

import argparse
import json
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import lacuna


class Items(Dataset):
    def __init__(self, length: int, seconds: float):
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        time.sleep(self.seconds)
        return torch.full((8,), float(index)), index


def write(line: list) -> None:
    """Adds a line to the log. A loader runs all that comes before `run.steps` too, so none writes there."""
    folder = os.environ.get("LACUNA_CHECKPOINT_DIR") or "."
    with open(os.path.join(folder, "steps.jsonl"), "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=1600, help="samples of an epoch")
    options.add_argument("--batch", type=int, default=16, help="samples of a step")
    options.add_argument("--item", type=float, default=0.02, help="how long a sample takes, seconds")
    options.add_argument("--device", type=float, default=0.04, help="how long a step takes the device, seconds")
    options = options.parse_args()

    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    data = DataLoader(Items(options.samples, options.item), shuffle=True, num_workers=1)
    with lacuna.elastic(model, optimizer, batch=options.batch, seed=7) as run:
        for x, index in run.steps(data):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            time.sleep(options.device)
            if run.step(loss) and run.rank == 0:
                write([time.time(), run.loaders, index.tolist()])


if __name__ == "__main__":
    main()
