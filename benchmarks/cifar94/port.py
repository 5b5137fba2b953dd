"""airbench94 in PyTorch on CPUs: `python -m benchmarks.cifar94.port FOLDER`, for `benchmarks.cifar94`.

The net and the training are those of Jordan 2024 (94% on CIFAR-10 in 3.29 seconds): a frozen layer
that whitens patches, three blocks, label smoothing, alternating flips, Nesterov's momentum in a
triangular schedule, Lookahead, and tests of shifted mirror images. The published rate is for the sum of
the losses of a batch; here it is for their mean. The process prints lines of JSON.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # PyTorch's own name for it

from benchmarks.helpers.command_line import parser_of

TRAIN = [f"data_batch_{number}.bin.gz" for number in range(1, 6)]
TESTS = {"1000": "test_batch_1000.bin.gz", "10000": "test_batch_10000.bin.gz"}
MEAN = (0.4914, 0.4822, 0.4465)
DEVIATION = (0.2470, 0.2435, 0.2616)
WIDTHS = (64, 256, 256)
WHITENED = 5000  # images that the whitening layer is computed from
EPSILON = 5e-4
MOMENTUM = 0.85
RATE = 11.5 / (1 + 1 / (1 - MOMENTUM))
DECAY = 0.0153 / 11.5
FASTER_BIASES = 64  # the rate of the norms' biases, as a multiple of the others'
SMOOTHING = 0.2
BIAS_EPOCHS = 3  # in which the whitening layer's bias learns
SHIFT = 2  # pixels
KEPT = 0.95**5  # of Lookahead's slow weights, in the last update
EVERY = 5  # updates between two steps of the slow weights


class Conv(nn.Conv2d):
    """A convolution that keeps the size and begins as the identity on its first outputs."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding="same", bias=False)
        nn.init.dirac_(self.weight.data[:inputs])


class Norm(nn.BatchNorm2d):
    """A BatchNorm whose scale stays 1 and whose running statistics keep 0.6."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-12, momentum=0.4)
        self.weight.requires_grad = False


def net_of() -> nn.Sequential:
    """The net, with a whitening layer that is not whitening yet."""
    first = nn.Conv2d(3, 24, 2)
    first.weight.requires_grad = False
    nn.init.zeros_(first.bias)
    layers: list[nn.Module] = [first, nn.GELU()]
    inputs = 24
    for width in WIDTHS:
        layers += [Conv(inputs, width), nn.MaxPool2d(2), Norm(width), nn.GELU()]
        layers += [Conv(width, width), Norm(width), nn.GELU()]
        inputs = width
    layers += [nn.MaxPool2d(3), nn.Flatten(), nn.Linear(inputs, 10, bias=False), Ninth()]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


class Ninth(nn.Module):
    """x / 9."""

    def forward(self, x: Tensor) -> Tensor:
        """x / 9."""
        return x / 9


def whiten(layer: nn.Conv2d, images: Tensor) -> None:
    """Set the filters from the second moments of all patches of 2 x 2 pixels."""
    patches = F.unfold(images, 2).transpose(1, 2).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / torch.sqrt(values + EPSILON)).T.flip(0).reshape(12, 3, 2, 2)
    layer.weight.data[:] = torch.cat((filters, -filters))


def read(folder: Path, names: list[str]) -> tuple[Tensor, Tensor]:
    """Normalised images (N, 3, 32, 32) float32, and labels (N,)."""
    raw = b"".join(gzip.decompress((folder / name).read_bytes()) for name in names)
    records = torch.from_numpy(np.frombuffer(raw, np.uint8).reshape(-1, 3073).copy())
    images = records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    mean, deviation = (torch.tensor(of).reshape(3, 1, 1) for of in (MEAN, DEVIATION))
    return (images - mean) / deviation, records[:, 0].long()


class Training:
    """Batches of training images: shuffled, shifted, and mirrored in every second epoch. The last
    images of an epoch, which fill no batch, are left out."""

    def __init__(self, images: Tensor, labels: Tensor, batch: int) -> None:
        half = (torch.rand(len(images)) < 0.5).reshape(-1, 1, 1, 1)
        images = torch.where(half, images.flip(-1), images)
        self._padded = F.pad(images, (SHIFT,) * 4, "reflect")
        self._labels = labels
        self._batch = batch

    def __len__(self) -> int:
        return len(self._labels) // self._batch

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of an epoch."""
        order = torch.randperm(len(self._labels))
        for at in range(len(self)):
            chosen = order[at * self._batch : (at + 1) * self._batch]
            images = self._shifted(self._padded[chosen])
            images = images.flip(-1) if number % 2 else images
            yield images.contiguous(memory_format=torch.channels_last), self._labels[chosen]

    def _shifted(self, padded: Tensor) -> Tensor:
        shifts = torch.randint(0, 2 * SHIFT + 1, (len(padded), 2))
        found = torch.empty(len(padded), 3, 32, 32)
        for y in range(2 * SHIFT + 1):
            for x in range(2 * SHIFT + 1):
                mine = (shifts[:, 0] == y) & (shifts[:, 1] == x)
                found[mine] = padded[mine, :, y : y + 32, x : x + 32]
        return found


class Lookahead:
    """Slow weights, to which the net returns."""

    def __init__(self, net: nn.Module) -> None:
        self._slow = {name: value.clone() for name, value in _floats(net)}

    def step(self, net: nn.Module, keep: float) -> None:
        """Move the slow weights to the net's, and the net to the slow weights."""
        for name, value in _floats(net):
            value.copy_(self._slow[name].lerp_(value, 1 - keep))


def _floats(net: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return ((n, value) for n, value in net.state_dict().items() if value.is_floating_point())


def rate_factor(step: int, steps: int) -> float:
    """The triangular schedule: from 0.2 to 1, then to 0.07."""
    rising = int(steps * 0.23)
    if step < rising:
        return 0.2 + 0.8 * step / rising
    return 1 - 0.93 * (step - rising) / (steps - rising)


@dataclass
class Trainer:
    """A net in training. `half`: computes in bfloat16 where autocast does. `compiled`: by
    torch.compile. `rate`, `decay`: of all parameters but the norms' biases."""

    net: nn.Sequential
    half: bool
    compiled: bool
    rate: float = RATE
    decay: float = DECAY

    def __post_init__(self) -> None:
        self._forward = torch.compile(self.net) if self.compiled else self.net
        norms = [m.bias for m in self.net.modules() if isinstance(m, Norm)]
        others = [p for p in self.net.parameters() if p.requires_grad]
        others = [p for p in others if all(p is not norm for norm in norms)]
        fast = {
            "params": norms,
            "lr": self.rate * FASTER_BIASES,
            "weight_decay": self.decay / FASTER_BIASES,
        }
        slow = {"params": others, "lr": self.rate, "weight_decay": self.decay}
        self._optimizer = torch.optim.SGD([fast, slow], momentum=MOMENTUM, nesterov=True)
        self._rates = [group["lr"] for group in self._optimizer.param_groups]

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16, enabled=self.half)

    def step(self, images: Tensor, labels: Tensor, factor: float) -> Tensor:
        """Update once. Returns the loss."""
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        with self._precision():
            scores = self._forward(images)
        scores = scores.float() if self.half else scores
        loss = F.cross_entropy(scores, labels, label_smoothing=SMOOTHING)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def train(self, training: Training, epochs: float) -> float:
        """Train for so many epochs. Returns the last loss."""
        steps = ceil(len(training) * epochs)
        lookahead = Lookahead(self.net)
        done = 0
        loss = torch.zeros(())
        self.net.train()
        for epoch in range(ceil(epochs)):
            self.net[0].bias.requires_grad = epoch < BIAS_EPOCHS
            for images, labels in training.epoch(epoch):
                loss = self.step(images, labels, rate_factor(done, steps))
                done += 1
                if done % EVERY == 0:
                    lookahead.step(self.net, KEPT * (done / steps) ** 3)
                if done == steps:
                    break
        lookahead.step(self.net, 1.0)
        return float(loss)

    @torch.no_grad()
    def scores(self, images: Tensor) -> Tensor:
        """The scores (N, 10) of each image."""
        self.net.eval()
        pieces = images.contiguous(memory_format=torch.channels_last).split(1000)
        with self._precision():
            return torch.cat([self.net(piece).float() for piece in pieces])

    def accuracies(self, images: Tensor, labels: Tensor) -> dict[str, float]:
        """The share of correct images: `flips` by the mean of the probabilities of both mirror
        images, `published` by the mean of scores of mirrored and shifted images."""
        mirrored = self._mirrored(images)
        padded = F.pad(images, (1,) * 4, "reflect")
        shifted = [self._mirrored(padded[:, :, at : at + 32, at : at + 32]) for at in (0, 2)]
        mean = sum(mirrored) / 4 + sum(sum(pair) for pair in shifted) / 8
        found = {"flips": sum(each.softmax(1) for each in mirrored), "published": mean}
        return {name: _correct(scores, labels) for name, scores in found.items()}

    def _mirrored(self, images: Tensor) -> list[Tensor]:
        return [self.scores(images), self.scores(images.flip(-1))]


def _correct(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(1) == labels).float().mean())


def paced(trainer: Trainer, training: Training, steps: int) -> dict[str, float]:
    """The seconds of the first update, and the mean seconds of the next ones."""
    trainer.net.train()
    taken = []
    for images, labels in training.epoch(0):
        began = time.perf_counter()
        trainer.step(images, labels, 0.01)
        taken.append(time.perf_counter() - began)
        if len(taken) > steps:
            break
    return {"first": taken[0], "next": sum(taken[1:]) / max(1, len(taken) - 1)}


def say(**facts: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Train and score, or measure the pace."""
    parser = parser_of("cifar94.port", __doc__)
    parser.add_argument("folder", type=Path, help="CIFAR-10's binary batches")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=float, default=9.9)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--half", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--compiled", action="store_true", help="use torch.compile")
    parser.add_argument("--pace", type=int, default=0, help="only time so many updates")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    images, labels = read(given.folder, TRAIN[:1] if given.pace else TRAIN)
    net = net_of()
    whiten(net[0], images[:WHITENED])
    trainer = Trainer(net, given.half, given.compiled)
    training = Training(images, labels, given.batch)
    del images
    if given.pace:
        say(**paced(trainer, training, given.pace))
        return
    loss = trainer.train(training, given.epochs)
    tests = {name: read(given.folder, [file]) for name, file in TESTS.items()}
    plain = {name: _correct(trainer.scores(test[0]), test[1]) for name, test in tests.items()}
    say(done=True, loss=loss)
    for name, test in tests.items():
        say(images=name, plain=plain[name], **trainer.accuracies(*test))


if __name__ == "__main__":
    main()
