#!/usr/bin/env python3
"""A small convolutional network learns to tell shapes in generated, noisy images.

The lines that make it elastic are marked with `# lacuna`.
"""

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import common
import lacuna  # lacuna
from shapes import images, network

EPILOG = """examples:
  python3 cnn_images.py                                       alone
  python3 cnn_images.py --workers 2                           two processes read ahead
  torchrun --standalone --nproc_per_node 2 cnn_images.py      two processes train
"""


def main():
    parser = common.parser(__doc__, EPILOG, epochs=5, batch=64, batch_of="images", rate=0.05)
    parser.add_argument("--images", type=int, default=4096, help="default: %(default)s")
    parser.add_argument("--size", type=int, default=16, help="pixels a side, a multiple of 4")
    parser.add_argument("--noise", type=float, default=0.3, help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=0, help="processes that read ahead")
    options = common.parsed(parser)

    torch.manual_seed(options.seed)
    train = TensorDataset(*images(options.images, options.size, options.noise, options.seed))
    test = TensorDataset(*images(512, options.size, options.noise, options.seed + 1))
    loader = DataLoader(train, shuffle=True, num_workers=options.workers)
    model = network(options.size)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)

    def right(batch):
        x, y = batch
        return {"right": (model(x).argmax(1) == y).float().mean()}

    with lacuna.elastic(  # lacuna
        model,
        optimizer,
        batch=options.batch,
        seed=options.seed,
        checkpoint_dir=options.checkpoints,
    ) as run:
        for x, y in run.steps(loader, epochs=options.epochs):  # lacuna
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            run.step(loss)  # lacuna, in place of optimizer.step()
            common.tell(run, options.every)
            if run.epoch_ended:
                found = run.evaluate(test, right)  # lacuna: each member judges a part
                if run.rank == 0:
                    accuracy = f"accuracy {found['right']:.3f} on images not seen"
                    print(f"{run.samples} samples, {accuracy}", flush=True)


if __name__ == "__main__":
    main()
