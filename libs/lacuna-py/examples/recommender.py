#!/usr/bin/env python3
"""A small recommender learns who clicks what, with its embedding tables at members of their own.

Clicks are generated: users and items have hidden tastes, and popular ones come more often. Without
--tables a table member is started beside. Lines that make it elastic are marked with `# lacuna`.
"""

import subprocess
import sys
import tempfile
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional

import common
import lacuna  # lacuna
import lacuna_tables  # lacuna

EPILOG = """examples:
  python3 recommender.py                                  alone, with one table member
  python3 -m lacuna_tables /shared/tables                 on each CPU node, then on fast nodes:
  python3 recommender.py --tables /shared/tables --members 2
"""


def clicks(count, users, items, seed):
    """Users, items, and whether they clicked: int64 of (count,) twice, float32 of (count,)."""
    generator = torch.Generator().manual_seed(seed)
    taste, kind = (torch.randn(n, 4, generator=generator) for n in (users, items))
    user = (users * torch.rand(count, generator=generator) ** 2).long()
    item = (items * torch.rand(count, generator=generator) ** 2).long()
    liked = (taste[user] * kind[item]).sum(1)
    clicked = torch.rand(count, generator=generator) < torch.sigmoid(2 * liked)
    return user, item, clicked.float()


def dense(width, hidden):
    """The part that all fast members hold."""
    return nn.Sequential(
        *(nn.Linear(2 * width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()),
        nn.Linear(hidden, 1),
    )


@contextmanager
def one_member():
    """A table member in a folder of its own, for a run alone."""
    with tempfile.TemporaryDirectory(prefix="recommender-") as folder:
        argv = [sys.executable, "-m", "lacuna_tables", folder, "--host", "127.0.0.1"]
        member = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        try:
            yield folder
        finally:
            member.terminate()
            member.wait(10.0)


def train(options, folder):
    user, item, clicked = clicks(options.clicks, options.users, options.items, options.seed)
    torch.manual_seed(options.seed)
    model = dense(options.width, options.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate)
    tables = lacuna_tables.Tables(  # lacuna
        folder,
        [
            lacuna_tables.Table("users", options.users, options.width, rate=0.1),
            lacuna_tables.Table("items", options.items, options.width, rate=0.1),
        ],
        members=options.members,
    )

    def ids(index):
        return {"users": user[index], "items": item[index]}

    with (
        tables,
        lacuna.elastic(  # lacuna
            model,
            optimizer,
            batch=options.batch,
            seed=options.seed,
            checkpoint_dir=options.checkpoints,
        ) as run,
    ):
        for index, rows in tables.steps(run, len(user), ids, epochs=options.epochs):  # lacuna
            optimizer.zero_grad()
            score = model(torch.cat([rows["users"], rows["items"]], dim=1)).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(score, clicked[index])
            loss.backward()
            tables.step(loss)  # lacuna, in place of optimizer.step()
            common.tell(run, options.every)
        if run.rank == 0:
            print(f"{run.samples} clicks, loss {run.loss:.4f}", flush=True)


def main():
    parser = common.parser(__doc__, EPILOG, epochs=3, batch=256, batch_of="clicks", rate=3e-3)
    parser.add_argument("--tables", default=None, metavar="FOLDER", help="of the table members")
    parser.add_argument("--members", type=int, default=1, help="table members at the start")
    parser.add_argument("--clicks", type=int, default=65536, help="default: %(default)s")
    parser.add_argument("--users", type=int, default=4000, help="default: %(default)s")
    parser.add_argument("--items", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--width", type=int, default=16, help="of a row, default: %(default)s")
    parser.add_argument("--hidden", type=int, default=64, help="default: %(default)s")
    options = common.parsed(parser)
    if options.tables is None:
        with one_member() as folder:
            train(options, folder)
    else:
        train(options, options.tables)


if __name__ == "__main__":
    main()
