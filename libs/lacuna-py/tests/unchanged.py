"""A program that knows nothing of Lacuna: DistributedDataParallel under torchrun, or alone.

``--mode``: ``plain``, ``hook`` (its own hook of DDP), ``none`` (no loader), ``sums`` (gradients of
two batches a step), ``alone`` (one process without a group).
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.utils.data import DataLoader, DistributedSampler

SAMPLES = 4
PREPARED, FETCHED, BEHIND = 0.004, 0.008, 0.020


class Items(torch.utils.data.Dataset):
    """Samples that are computed and waited for."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        end = time.thread_time() + PREPARED / SAMPLES
        while time.thread_time() < end:
            pass
        time.sleep(FETCHED / SAMPLES)
        return torch.full((16,), float(index % 7)), torch.ones(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="plain")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    alone = options.mode == "alone"
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    members, rank = 1, 0
    if not alone:
        dist.init_process_group("gloo")
        members, rank = dist.get_world_size(), dist.get_rank()
        model = nn.parallel.DistributedDataParallel(model)
    if options.mode == "hook":
        model.register_comm_hook(None, allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    passes = 2 if options.mode == "sums" else 1
    data = Items(SAMPLES * members * options.steps * passes)
    sampler = None if alone else DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, SAMPLES, sampler=sampler, num_workers=options.workers)
    if options.mode == "none":
        loader = [(torch.ones(SAMPLES, 16), torch.ones(SAMPLES, 1))] * options.steps
    for number, (x, y) in enumerate(loader):
        if rank == 1:
            time.sleep(BEHIND)
        (model(x) - y).pow(2).mean().backward()
        if number % passes == passes - 1:
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    print("weights", sum(p.double().sum().item() for p in model.parameters()))
    print("wrapped", "outside" in torch.optim.SGD.step.__code__.co_filename)


if __name__ == "__main__":
    main()
