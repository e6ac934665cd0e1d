#!/usr/bin/env python3
"""An LSTM language model with structured (variational) dropout, on generated sentences.

Dropout is structured as in Gal and Ghahramani (2016) and Merity et al. (2017): whole words are
dropped from the embedding, and the mask between layers is the same at every time step.
The lines that make it elastic are marked with `# lacuna`.
"""

import math
import random

import torch
from torch import nn
from torch.nn import functional

import common
import lacuna  # lacuna

EPILOG = """examples:
  python3 lstm_language.py                                     alone
  python3 lstm_language.py --per-node 16                       the batch grows with the nodes
  torchrun --standalone --nproc_per_node 2 lstm_language.py    two processes
"""


def sentences(count, words, seed):
    """Word codes of a hidden Markov chain: each word makes a few others likely after it."""
    dice = random.Random(seed)
    after = [dice.sample(range(words), 4) for _ in range(words)]
    code, codes = 0, []
    for _ in range(count):
        code = dice.choice(after[code]) if dice.random() < 0.9 else dice.randrange(words)
        codes.append(code)
    return torch.tensor(codes)


class SameMask(nn.Module):
    """Dropout with one mask (batch, 1, width) for all time steps of (batch, time, width)."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or self.rate == 0.0:
            return x
        kept = torch.bernoulli(x.new_full((x.shape[0], 1, x.shape[2]), 1.0 - self.rate))
        return x * kept / (1.0 - self.rate)


class Language(nn.Module):
    """Embedding, LSTM layers with structured dropout between them, tied output weights."""

    def __init__(self, words, width, layers, dropout, word_dropout):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers))
        self.dropout = SameMask(dropout)
        self.word_dropout = word_dropout
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def forward(self, codes):
        table = self.embedding.weight
        if self.training and self.word_dropout > 0.0:
            # A dropped word is dropped wherever it occurs.
            kept = torch.bernoulli(table.new_full((table.shape[0], 1), 1.0 - self.word_dropout))
            table = table * kept / (1.0 - self.word_dropout)
        hidden = self.dropout(functional.embedding(codes, table))
        for layer in self.layers:
            hidden = self.dropout(layer(hidden)[0])
        return functional.linear(hidden, self.embedding.weight, self.bias)


def main():
    parser = common.parser(__doc__, EPILOG, epochs=4, batch=32, batch_of="windows", rate=5e-3)
    parser.add_argument("--words", type=int, default=100, help="of the vocabulary")
    parser.add_argument("--tokens", type=int, default=60_000, help="of the text")
    parser.add_argument("--length", type=int, default=24, help="of a window, in words")
    parser.add_argument("--width", type=int, default=96, help="default: %(default)s")
    parser.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--dropout", type=float, default=0.2, help="between layers")
    parser.add_argument("--word-dropout", type=float, default=0.05, help="of whole words")
    parser.add_argument(
        "--per-node",
        type=int,
        default=None,
        metavar="WINDOWS",
        help="windows of a step and node; the learning rate follows by the square root",
    )
    options = common.parsed(parser)

    codes = sentences(options.tokens, options.words, options.seed)
    count = (len(codes) - 1) // options.length
    x = codes[: count * options.length].view(count, -1)
    y = codes[1 : count * options.length + 1].view(count, -1)
    torch.manual_seed(options.seed)
    model = Language(
        options.words, options.width, options.layers, options.dropout, options.word_dropout
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate)
    batch = options.batch
    if options.per_node is not None:
        batch = lacuna.PerNode(options.per_node, "sqrt")

    with lacuna.elastic(  # lacuna
        model,
        optimizer,
        batch=batch,
        seed=options.seed,
        clip_norm=1.0,
        checkpoint_dir=options.checkpoints,
    ) as run:
        for words, following in run.steps((x, y), epochs=options.epochs):  # lacuna
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
            loss.backward()
            run.step(loss)  # lacuna, in place of optimizer.step()
            common.tell(run, options.every)
    if run.rank == 0:
        model.eval()
        with torch.no_grad():
            loss = functional.cross_entropy(model(x[:200]).flatten(0, 1), y[:200].flatten())
        print(
            f"{run.samples} windows, perplexity {math.exp(loss):.1f} of {options.words} words",
            flush=True,
        )


if __name__ == "__main__":
    main()
