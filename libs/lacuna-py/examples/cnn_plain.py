#!/usr/bin/env python3
"""A usual training loop without Lacuna; `cnn_lacuna.py` is the same with it.

It has accumulation, clipping, AMP, validation, the best model, and TensorBoard.
"""

import os

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import common
from shapes import accuracy, data, network


def train(options, writer):
    """Trains, and returns the best accuracy; the model that has it is in best.pt."""
    train_set, test_set = data(options)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = network(16).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    steps = options.epochs * len(train_set) // 256
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=steps)
    loader = DataLoader(train_set, batch_size=64, shuffle=True)
    best = 0.0
    for epoch in range(options.epochs):
        for i, (x, y) in enumerate(loader):
            with torch.autocast(device.type, torch.bfloat16):
                loss = cross_entropy(model(x.to(device)), y.to(device)) / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            right = accuracy(model, *test_set[:])
        model.train()
        writer.add_scalar("right", right, epoch + 1)
        if right > best:
            best = right
            torch.save(model.state_dict(), "best.new")
            os.replace("best.new", "best.pt")
    return best


if __name__ == "__main__":
    given = common.parsed(
        common.parser(__doc__, "", epochs=4, batch=256, batch_of="images", rate=0.01)
    )
    print(f"best {float(train(given, common.writer())):.3f}")
