"""Two optimisers that take turns on each batch: the program of a test in test_loops.py."""

import json
import os
import signal
import sys
import time

import torch
from torch import nn

import lacuna

EPOCHS, BATCH, DIES_AT = 6, 16, 5


def parts():
    """A generator and a critic, their optimisers, and data."""
    torch.manual_seed(5)
    made = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    both = nn.ModuleDict({"made": made, "critic": critic}).double()
    turns = [
        torch.optim.Adam(critic.parameters(), lr=0.01),
        torch.optim.Adam(made.parameters(), lr=0.01),
    ]
    data = (torch.randn(100, 2).double() + 1.0, torch.randn(100, 3).double())
    return both, turns, data


def trained(both, turns, batches, step, between=lambda: None):
    """Each optimiser in its turn, as ``step`` steps it; the numbers at the end."""
    made, critic = both["made"], both["critic"]
    for x, z in batches:
        turns[0].zero_grad()
        fake = made(z)
        (real_loss := (critic(x) - 1.0).pow(2).mean()).backward()
        (fake_loss := critic(fake.detach()).pow(2).mean()).backward()
        step(real_loss + fake_loss, turns[0])
        between()
        turns[1].zero_grad()
        loss = (critic(fake) - 1.0).pow(2).mean()
        loss.backward()
        step(loss, turns[1])
    return [float(number) for p in both.parameters() for number in p.detach().flatten()]


def main(folder):
    both, turns, data = parts()
    name = os.environ["LACUNA_NODE"]

    def between():
        time.sleep(0.03)
        if name == "n2" and run.steps_done == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    with lacuna.elastic(both, turns, batch=BATCH, timeout=5.0) as run:
        batches = run.steps(data, epochs=EPOCHS, shuffle=False)
        numbers = trained(both, turns, batches, run.step, between)
    with open(os.path.join(folder, f"{name}.end"), "w") as file:
        json.dump(numbers, file)


if __name__ == "__main__":
    main(sys.argv[1])
