#!/usr/bin/env python3
"""The training loop of `cnn_plain.py` with Lacuna: nodes may come and go while it runs.

It has accumulation, clipping, AMP, validation, the best model, and TensorBoard.
"""

import os

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import common
import lacuna
from shapes import accuracy, data, network


def train(options, writer):
    """Trains, and returns the best accuracy; the model that has it is in best.pt."""
    train_set, test_set = data(options)
    device = lacuna.device()
    model = network(16).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    steps = options.epochs * len(train_set) // 256
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=steps)
    loader = DataLoader(train_set, shuffle=True)
    with lacuna.elastic(model, optimizer, scheduler=scheduler, batch=256, clip_norm=1.0) as run:
        for batch in run.steps(loader, epochs=options.epochs):
            optimizer.zero_grad()
            for x, y in run.parts(batch, 64):
                with torch.autocast(device.type, torch.bfloat16):
                    loss = cross_entropy(model(x.to(device)), y.to(device))
                run.backward(loss)
            run.step()
            if run.epoch_ended:
                found = run.evaluate(test_set, lambda rows: {"right": accuracy(model, *rows)})
                if run.best("right", found) and run.rank == 0:
                    torch.save(model.state_dict(), "best.new")
                    os.replace("best.new", "best.pt")
                if run.rank == 0:
                    writer.add_scalar("right", found["right"], run.epoch)
    return run.bests["right"]


if __name__ == "__main__":
    given = common.parsed(
        common.parser(__doc__, "", epochs=4, batch=256, batch_of="images", rate=0.01)
    )
    print(f"best {float(train(given, common.writer())):.3f}")
