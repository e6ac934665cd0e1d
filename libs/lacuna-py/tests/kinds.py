"""Kinds of training steps: the program that test_step.py runs on one node and on several.

``python3 kinds.py KIND FILE`` trains in float64, and rank 0 writes losses and weights to the file.
"""

import json
import logging
import os
import signal
import sys

import torch
from torch import nn

import lacuna
from lacuna import buckets

SAMPLES, BATCH, EPOCHS = 60, 12, 4
#: The step at which something happens.
EVENT = 8


class Net(nn.Module):
    """Each sample takes one of two ways, and a layer is never used."""

    def __init__(self, sparse):
        super().__init__()
        self.words = nn.Embedding(10, 4, sparse=sparse)
        self.ways = nn.ModuleList([nn.Linear(4, 8), nn.Linear(4, 8)])
        self.unused = nn.Linear(2, 2)
        self.out = nn.Linear(8, 1)

    def forward(self, words, way):
        x = self.words(words)
        hidden = x.new_zeros(len(words), 8)
        for i, layer in enumerate(self.ways):
            mine = (way == i).nonzero()[:, 0]
            if len(mine) > 0:
                hidden = hidden.index_add(0, mine, torch.tanh(layer(x[mine])))
        return self.out(hidden)


def scaler_of(kind):
    return torch.amp.GradScaler("cpu", init_scale=1024.0) if kind == "scaler" else None


def passes_of(kind, step):
    return {"accumulation": 3, "more-passes": 1 if step < EVENT else 2}.get(kind, 1)


def train(kind):
    """The loss of each step, and the weights after the last one."""
    torch.manual_seed(3)
    words, way = torch.randint(10, (SAMPLES,)), torch.randint(2, (SAMPLES,))
    # Whole batches take one way, others both.
    way[:BATCH], way[BATCH : BATCH + 6] = 0, 1
    target = torch.randn(SAMPLES, 1, dtype=torch.float64)
    model = Net(kind == "sparse").double()
    trained = torch.compile(model, backend="aot_eager") if kind == "compile" else model
    words_alone = torch.optim.SGD(model.words.parameters(), lr=0.1)
    rest = [p for name, p in model.named_parameters() if not name.startswith("words")]
    optimizers = [words_alone, torch.optim.Adam(rest, lr=0.01)]
    if kind != "optimisers":
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(one, 0.95) for one in optimizers]
    scaler = scaler_of(kind)
    dies = kind == "death" and os.environ.get("LACUNA_NODE") == "n1"
    losses = []
    with lacuna.elastic(
        model,
        optimizers,
        scheduler=schedulers,
        scaler=scaler,
        wire=torch.float16 if kind == "halves" else None,
        batch=BATCH,
        seed=7,
        checkpoint_seconds=None,
    ) as run:
        if dies:
            model.words.weight.register_hook(lambda grad: die(run.steps_done))
        for own in run.shares(SAMPLES, epochs=EPOCHS, shuffle=False):
            step = run.steps_done
            for one in optimizers:
                one.zero_grad()
            total = 0.0
            for part in own.chunk(passes_of(kind, step)):
                loss = (trained(words[part], way[part]) - target[part]).pow(2).sum() / len(own)
                total += float(loss.detach())
                if kind == "nan" and step == EVENT:
                    loss, total = loss * float("nan"), float("nan")
                if scaler is not None:
                    # One member alone overflows: the one with the first sample of the batch.
                    first_of_batch = step == EVENT and own[0] == EVENT * BATCH % SAMPLES
                    loss = scaler.scale(loss) * (float("inf") if first_of_batch else 1.0)
                loss.backward()
            if run.step(total):
                losses.append(run.loss)
        if scaler is not None:
            losses.append(scaler.get_scale())
        rank = run.rank
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(), rank


def die(step):
    """Dies in the middle of a backward pass, when some sums are under way."""
    if step == EVENT:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)
    # Many messages for a small model.
    buckets.FIRST = buckets.SIZE = 64
    losses, weights, rank = train(sys.argv[1])
    if rank == 0:
        with open(sys.argv[2], "w") as file:
            json.dump([losses, weights], file)
