#!/usr/bin/env python3
"""A character-level transformer learns to continue a text, generated or given by --text.

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
  python3 char_transformer.py                                     alone, on a generated text
  python3 char_transformer.py --text book.txt --epochs 1          on a text of your own
  torchrun --standalone --nproc_per_node 2 char_transformer.py    two processes
"""


def generated(sentences, seed):
    """Sentences of a small grammar: enough to learn words, agreement and punctuation."""
    dice = random.Random(seed)
    who = [("the node", "waits"), ("the nodes", "wait"), ("a job", "starts"), ("jobs", "start")]
    where = ["in a hole", "before noon", "after the storm", "on the cluster", "at night"]
    joined = ["and", "but", "while", "until"]
    text = []
    for _ in range(sentences):
        (a, verb_a), (b, verb_b) = dice.choice(who), dice.choice(who)
        tail = f" {dice.choice(joined)} {b} {verb_b}" if dice.random() < 0.5 else ""
        text.append(f"{a} {verb_a} {dice.choice(where)}{tail}.")
    return "\n".join(text)


class Windows:
    """Windows of a text: characters and, shifted by one, those to predict."""

    def __init__(self, text, length):
        self.letters = sorted(set(text))
        place = {letter: i for i, letter in enumerate(self.letters)}
        self._codes = torch.tensor([place[letter] for letter in text])
        self._length = length
        if len(text) <= length:
            raise SystemExit(f"the text has only {len(text)} characters, a window has {length}")

    def __len__(self):
        return (len(self._codes) - 1) // self._length

    def __getitem__(self, i):
        part = self._codes[i * self._length : (i + 1) * self._length + 1]
        return part[:-1], part[1:]


class Transformer(nn.Module):
    """Causal self-attention over characters."""

    def __init__(self, letters, width, heads, layers, length, dropout):
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Parameter(torch.randn(length, width) / math.sqrt(width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, letters)
        mask = torch.full((length, length), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, codes):
        length = codes.shape[1]
        hidden = self.letters(codes) + self.places[:length]
        return self.out(self.layers(hidden, self.mask[:length, :length]))


def continued(model, letters, start, count):
    """The text that the model predicts after ``start``."""
    model.eval()
    codes = torch.tensor([[letters.index(letter) for letter in start]])
    with torch.no_grad():
        for _ in range(count):
            window = codes[:, -model.places.shape[0] :]
            codes = torch.cat([codes, model(window)[:, -1:].argmax(-1)], dim=1)
    return "".join(letters[i] for i in codes[0].tolist())


def main():
    parser = common.parser(__doc__, EPILOG, epochs=6, batch=16, batch_of="windows", rate=3e-3)
    parser.add_argument("--text", default=None, metavar="FILE", help="default: a generated text")
    parser.add_argument("--sentences", type=int, default=2000, help="of the generated text")
    parser.add_argument("--length", type=int, default=64, help="of a window, in characters")
    parser.add_argument("--width", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--layers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--dropout", type=float, default=0.1, help="default: %(default)s")
    options = common.parsed(parser)

    if options.text is None:
        text = generated(options.sentences, options.seed)
    else:
        with open(options.text, encoding="utf-8", errors="replace") as file:
            text = file.read()
    data = Windows(text, options.length)
    torch.manual_seed(options.seed)
    model = Transformer(
        len(data.letters), options.width, 4, options.layers, options.length, options.dropout
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    total = options.epochs * math.ceil(len(data) / options.batch)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

    with lacuna.elastic(  # lacuna
        model,
        optimizer,
        scheduler=scheduler,
        batch=options.batch,
        seed=options.seed,
        clip_norm=1.0,
        checkpoint_dir=options.checkpoints,
    ) as run:
        for x, y in run.steps(data, epochs=options.epochs):  # lacuna
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            run.step(loss)  # lacuna, in place of optimizer.step() and scheduler.step()
            common.tell(run, options.every)
    if run.rank == 0:
        print(f"{run.samples} windows; it goes on like this:", flush=True)
        print(continued(model, data.letters, text[: options.length // 4], 80), flush=True)


if __name__ == "__main__":
    main()
