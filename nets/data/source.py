"""Opens a data source from its configuration.

What lives here: the `Source` contract, the table of formats, the checks of their options. What never: a
file format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data import digits, idx, synthetic
from nets.errors import DataError, did_you_mean

Images = NDArray[Any]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Source:
    """Labelled images in memory: `images` (N, C, H, W) uint8 or float32, `labels` (N,) int64."""

    name: str
    images: Images
    labels: Labels
    num_classes: int | None = None

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"<Source {self.name} {len(self)} images {self.shape} classes={self.num_classes}>"

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of every image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return copies: images (n, C, H, W), labels (n,), in the order of `indices` (0 <= index < len)."""
        return self.images[indices], self.labels[indices]


@dataclass(frozen=True)
class Format:
    """How a format is opened and which options it takes, each with its type; `needed` have no default."""

    open: Callable[..., tuple[Images, Labels, int | None]]
    options: Mapping[str, type]
    needed: tuple[str, ...] = ()


FORMATS = {
    "digits": Format(digits.read, {"split": str}),
    "idx": Format(idx.read, {"images": str, "labels": str}, ("images", "labels")),
    "synthetic": Format(synthetic.make, {"shape": list, "classes": int, "size": int, "seed": int, "sample": int}),
}

_WORDS = {str: "a string", int: "an integer", list: "a list of integers"}


def open_source(config: Mapping[str, Any], base_dir: Path) -> Source:
    """Open the source `config` describes: `format` and that format's options; paths are relative to
    `base_dir`.

    DataError lists every mistake of the configuration, or says what is wrong with the file.
    """
    kind = config.get("format")
    if kind not in FORMATS:
        near = did_you_mean(str(kind), FORMATS)
        raise DataError(f"format: found {kind!r}, expected one of {', '.join(FORMATS)}{near}")
    chosen = FORMATS[kind]
    given = {key: value for key, value in config.items() if key != "format"}
    problems = [f"{kind}: {text}" for text in _mistakes(given, chosen)]
    if problems:
        raise DataError(problems)
    images, labels, classes = chosen.open(base_dir=base_dir, **given)
    return Source(str(kind), images, labels, classes)


def _mistakes(given: Mapping[str, Any], chosen: Format) -> list[str]:
    found = [f"{key}: missing, expected {_WORDS[chosen.options[key]]}" for key in chosen.needed if key not in given]
    for key, value in given.items():
        if key not in chosen.options:
            found.append(f"{key}: unknown key{did_you_mean(key, chosen.options)}")
        elif not _is(value, chosen.options[key]):
            found.append(f"{key}: found {value!r}, expected {_WORDS[chosen.options[key]]}")
    return found


def _is(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, (list, tuple)) and all(type(item) is int for item in value)
    return type(value) is kind
