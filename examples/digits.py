"""Handwritten digits: an MLP trained with tileon_ops.Linear, converted to every block-scaled format, and compared.

    python examples/digits.py [--device cuda] [--seeds 5]

Trains the same MLP twice from the same initial values on the same batches, of torch's layers and of this package's, on
a GPU where there is one, else on the CPU. Then converts the second one to each format and prints, side by side, how
many of the held-out digits each recognizes and how many bytes its weights take. The digits are scikit-learn's
(`pip install scikit-learn`), 8 x 8 pixels each: 64 inputs, which the blocks of every format divide.
"""

from __future__ import annotations

import argparse
import copy
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the package in place; not needed once installed

import tileon_ops

FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")
HIDDEN, CLASSES, LARGEST_PIXEL = 256, 10, 16.0
EPOCHS, BATCH, LEARNING_RATE = 20, 100, 4e-3
NOISE, SMOOTHING = 0.25, 0.1  # they teach margins, which quantized activations need


class Digits(NamedTuple):
    """Half of the digits to train with, half to test: (n, 64) pixels in [0, 1] and (n,) classes of each."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


class Result(NamedTuple):
    """Of one model: the share of test digits that it recognizes, in percent, and the bytes of its state_dict."""

    accuracy: float
    size: int


def digits(seed: int, device: torch.device) -> Digits:
    pixels, classes = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / LARGEST_PIXEL, torch.tensor(classes)
    train, test = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).chunk(2)
    return Digits(*(tensor.to(device) for tensor in (x[train], y[train], x[test], y[test])))


def torch_mlp(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
    )


def tileon_mlp(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        tileon_ops.Linear(inputs, HIDDEN, activation="relu"),
        tileon_ops.Linear(HIDDEN, HIDDEN, activation="relu"),
        tileon_ops.Linear(HIDDEN, CLASSES),
    )


def train(model: nn.Module, data: Digits, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)  # on the CPU, so that every device sees the same batches
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.05)
    count = len(data.train_x)
    steps = EPOCHS * -(-count // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1)
    for _ in range(EPOCHS):
        for batch in torch.randperm(count, generator=generator).split(BATCH):
            x = data.train_x[batch]
            x = x + NOISE * torch.randn(x.shape, generator=generator).to(x.device)
            loss = nn.functional.cross_entropy(model(x), data.train_y[batch], label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


@torch.inference_mode()
def measure(model: nn.Module, data: Digits) -> Result:
    correct = model(data.test_x).argmax(1) == data.test_y
    return Result(100 * float(correct.float().mean()), sum(tensor.nbytes for tensor in model.state_dict().values()))


def run(seed: int, device: torch.device) -> dict[str, Result]:
    """The results by name: "torch.nn.Linear", "tileon_ops.Linear" and each format."""
    data = digits(seed, device)
    results = {}
    for name, make in (("torch.nn.Linear", torch_mlp), ("tileon_ops.Linear", tileon_mlp)):
        torch.manual_seed(seed)
        model = make(data.train_x.shape[1]).to(device)
        train(model, data, seed)
        results[name] = measure(model, data)
    for format in FORMATS:
        results[format] = measure(tileon_ops.convert(copy.deepcopy(model), format), data)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="An MLP on scikit-learn's digits, in every block-scaled format.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=1, help="how many times, each with another split and start")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_num_threads(1)  # products so small take longer on several
    print(
        f"torch {torch.__version__} on {device}; accuracy on held-out digits, and bytes of weights, scales and biases"
    )
    for seed in range(arguments.seeds):
        results = run(seed, device)
        base = results["torch.nn.Linear"]
        print(f"\nseed {seed}\n{'model':<20}{'accuracy':>10}{'to torch':>10}{'bytes':>10}{'to torch':>10}")
        for name, (accuracy, size) in results.items():
            print(f"{name:<20}{accuracy:9.2f}%{accuracy - base.accuracy:+10.2f}{size:10}{size / base.size:9.0%}")


if __name__ == "__main__":
    main()
