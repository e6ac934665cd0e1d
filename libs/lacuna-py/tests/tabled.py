"""Trains with tables at members of their own: the program of dense members in test_tables.py."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch

import lacuna

# The services start this program with the path of the first package alone.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tables" / "src"))

from lacuna_tables import Table, Tables  # noqa: E402

SAMPLES, BATCH = 1024, 32
TABLES = [Table("users", 200, 4), Table("items", 90, 8, rate=0.5)]


def ids(index):
    """Rows of samples: one user, and two items."""
    return {"users": index * 7 % 200, "items": torch.stack([index % 90, index * 5 % 90], 1)}


def trained(tables, steps, *, ids=ids, each=lambda step: None, pause=0.0, into=None):
    """Trains to a number of steps; the loss of each.

    The gradient of a row is one over the batch, whatever members there are.
    """
    torch.manual_seed(1)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with lacuna.elastic(model, optimizer, batch=BATCH, seed=1) as run:
        for index, rows in tables.steps(run, SAMPLES, ids):
            if run.steps_done >= steps:
                tables.step()
                break
            each(run.steps_done)
            time.sleep(pause)
            optimizer.zero_grad()
            found = rows["users"].sum(1) + rows["items"].sum((1, 2))
            loss = (found + model(torch.ones(len(index), 1)).squeeze(1)).mean()
            loss.backward()
            if tables.step(loss):
                losses.append(loss.item())
        if into is not None and run.rank == 0:
            values = {name: rows.tolist() for name, rows in tables.whole(steps).items()}
            half = into.with_suffix(".half")
            half.write_text(json.dumps({"rows": values, "lost": tables.lost}))
            half.replace(into)
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--into", type=Path)
    parser.add_argument("--tables")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    where = options.tables or str(options.into / "tables")
    with Tables(where, TABLES, members=2, ahead=False, host="127.0.0.1") as tables:
        into = options.into / "rows.json"
        trained(tables, options.steps, pause=options.pause, into=into)
    os._exit(0)


if __name__ == "__main__":
    main()
