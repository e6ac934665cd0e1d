"""A loop whose metric is best after its first step: the program of a test in test_loops.py."""

import json
import os
import sys
import time

import torch

import lacuna


def main(folder):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end, news = os.path.join(folder, "end"), []
    with lacuna.elastic(model, optimizer, batch=4, timeout=5.0) as run:
        for x in run.steps(torch.ones(8, 2)):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            if not run.step(loss):
                continue
            if run.best("right", {"right": 1.0 / run.steps_done}):
                news.append(run.steps_done)
            time.sleep(0.02)
            if run.reduce({"end": os.path.exists(end)}, "max")["end"]:
                break
    name = os.environ["LACUNA_NODE"]
    with open(os.path.join(folder, f"{name}.bests"), "w") as file:
        json.dump({"bests": run.bests, "news": news}, file)


if __name__ == "__main__":
    main(sys.argv[1])
