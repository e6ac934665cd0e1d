"""Shared by the example trainers: common options, and a line of progress."""

import argparse


def parser(description, epilog, *, epochs, batch, batch_of, rate):
    """A parser with the common options; trainers differ in the defaults."""
    made = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--epochs", type=int, default=epochs, help="default: %(default)s")
    made.add_argument("--batch", type=int, default=batch, help=f"{batch_of} of a step")
    made.add_argument("--rate", type=float, default=rate, help="learning rate")
    made.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    made.add_argument("--every", type=int, default=50, help="steps between lines")
    made.add_argument("--checkpoints", default=None, metavar="FOLDER")
    return made


def parsed(made):
    """The options of the command line; prints the seed."""
    options = made.parse_args()
    print(f"seed {options.seed}", flush=True)
    return options


def tell(run, every):
    """Prints the progress of the training now and then, on one node."""
    if run.rank == 0 and run.steps_done % every == 0:
        print(
            f"step {run.steps_done} epoch {run.epoch} loss {run.loss:.4f} nodes {run.world_size}",
            flush=True,
        )


def writer():
    """A writer for TensorBoard into the folder `runs`, or one that prints, where it is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return Printer()
    return SummaryWriter("runs")


class Printer:
    """Prints what a writer for TensorBoard would write."""

    def add_scalar(self, name, value, step):
        print(f"{name} {float(value):.3f} after {step}", flush=True)
