"""The rows that a process of PyTorch trains on, for `benchmarks.hosts.peer`: noise, or its part of
each batch of CIFAR-10 or MNIST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nets.data.sources import cifar10, idx

READERS: dict[str, Callable[..., Any]] = {"cifar10": cifar10.read, "idx": idx.read}
# the mean and the scale of each format's images, as the prototxt of the trained net has them
MEANS = {"cifar10": (125.3, 123.0, 113.9), "idx": (0.0,)}
SCALES = {"cifar10": 1.0, "idx": 1 / 256}
Rows = Callable[[], tuple[Tensor, Tensor]]


def rows_of(
    options: dict[str, Any], form: torch.memory_format, rank: int = 0, processes: int = 1
) -> Rows:
    """A function that returns the rows of process `rank` in the next batch, which all processes
    share: of the named `data` in a new order every epoch, or always the same noise."""
    rows = options["rows"]
    data = options.get("data")
    if not data:
        noise = torch.randn(rows, *options["shape"]).contiguous(memory_format=form)
        labels = torch.randint(options["classes"], (rows,))
        return lambda: (noise, labels)
    images, labels = _read(data)
    order = torch.Generator().manual_seed(options["seed"])
    whole = rows * processes
    first = rows * rank
    left: list[Tensor] = []

    def following() -> tuple[Tensor, Tensor]:
        if not left:
            batches = torch.randperm(len(images), generator=order).split(whole)
            left.extend(reversed(batches[: len(images) // whole]))
        mine = left.pop()[first : first + rows]
        return images[mine].contiguous(memory_format=form), labels[mine]

    return following


def _read(data: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """All images, less their mean and scaled, and their labels."""
    kind = data["format"]
    files = {key: value for key, value in data.items() if key != "format"}
    read, known, _ = READERS[kind](base_dir=Path(), **files)
    mean = np.array(MEANS[kind], np.float32).reshape(-1, 1, 1)
    images = (read.astype(np.float32) - mean) * np.float32(SCALES[kind])
    return torch.from_numpy(images), torch.from_numpy(known)
