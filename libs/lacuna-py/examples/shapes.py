"""Generated, noisy images of shapes, and a network that tells them: for the examples with `cnn`."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

SHAPES = ("disc", "square", "cross", "stripes")


def images(count, size, noise, seed):
    """Images (count, 1, size, size) of the shapes at random places, and their labels (count)."""
    dice = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(SHAPES), (count,), generator=dice)
    centre = size * (0.35 + 0.3 * torch.rand(count, 2, 1, 1, generator=dice))
    radius = size * (0.15 + 0.15 * torch.rand(count, 1, 1, generator=dice))
    grid = torch.arange(size, dtype=torch.float32)
    dy = (grid.view(1, size, 1) - centre[:, 0]).abs()
    dx = (grid.view(1, 1, size) - centre[:, 1]).abs()
    inside = torch.maximum(dx, dy) <= radius
    kinds = torch.stack(
        [
            (dx.pow(2) + dy.pow(2)).sqrt() <= radius,
            inside,
            inside & (torch.minimum(dx, dy) <= radius / 3),
            inside & ((dx + dy).remainder(4) < 2),
        ],
        dim=1,
    )
    clean = kinds[torch.arange(count), labels].float().unsqueeze(1)
    return clean + noise * torch.randn(clean.shape, generator=dice), labels


def network(size):
    """Two convolutions with batch normalisation, and a classifier."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (size // 4) ** 2, len(SHAPES)),
    )


def data(options):
    """Two data sets of 16 by 16 pixels: 2,048 images to train on, and 512 to test."""
    torch.manual_seed(options.seed)
    return (
        TensorDataset(*images(2048, 16, 0.3, options.seed)),
        TensorDataset(*images(512, 16, 0.3, options.seed + 1)),
    )


def accuracy(model, x, y):
    """The share of images that the model tells."""
    device = next(model.parameters()).device
    return (model(x.to(device)).argmax(1) == y.to(device)).float().mean()
