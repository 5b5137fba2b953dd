"""Several sources joined to one, as Caffe's nets read them: every data layer reads its own source,
and all advance together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.decoding.encoded import Decoder
from nets.data.sources.source import Source
from nets.errors import DataError


class JoinedSource(Source):
    """A source whose sample n joins sample n of every part.

    `parts` maps each data layer to its source and the number of the source's arrays that are tops
    of the layer. Raises DataError for sources of different lengths, and for a source that gives too
    few arrays.
    """

    def __init__(self, parts: Mapping[str, tuple[Source, int]]) -> None:
        self._parts = list(parts.values())
        first = self._parts[0][0]
        problems = []
        for name, (source, count) in parts.items():
            if (len(source), source.unit) != (len(first), first.unit):
                found = (
                    f"layer '{name}': found {_counted(source)}, but layer "
                    f"'{next(iter(parts))}' has {_counted(first)}"
                )
                problems.append(f"{found}, expected the same for all data layers")
            if count > len(source.shapes):
                found = (
                    f"layer '{name}': found {counted(len(source.shapes), 'array')} per sample "
                    f"({source.name})"
                )
                problems.append(f"{found}, expected {count}, one for each top")
        if problems:
            raise DataError(problems)
        classes = next(
            (source.num_classes for source, _ in self._parts if source.num_classes is not None),
            None,
        )
        name = " + ".join(source.name for source, _ in self._parts)
        super().__init__(name, first.shape, num_classes=classes, unit=first.unit)
        self.order = first.order
        self.orientation = first.orientation
        self.divisible = all(source.divisible for source, _ in self._parts)
        self.class_names = first.class_names
        self.label_list = first.label_list if self._labelled else None
        self.told = tuple(dict.fromkeys(line for source, _ in self._parts for line in source.told))
        self.shapes = tuple(
            shape for source, count in self._parts for shape in source.shapes[:count]
        )
        self.firsts = (0, *itertools.accumulate(count for _, count in self._parts[:-1]))

    def __len__(self) -> int:
        return len(self._parts[0][0])

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        """Return the arrays of all layers' tops, in the order of the layers."""
        return tuple(
            array for source, count in self._parts for array in source.read(indices)[:count]
        )

    def decode_with(self, decoder: Decoder) -> bool:
        decodes = [source.decode_with(decoder) for source, _ in self._parts]
        return any(decodes)

    def sample_name(self, index: int) -> str:
        """Return the names of the sample in every source."""
        return " + ".join(source.sample_name(index) for source, _ in self._parts)

    def sample_file(self, index: int) -> str:
        files = [source.sample_file(index) for source, _ in self._parts]
        return " + ".join(files) if all(files) else ""

    def label_place(self, label: float) -> str:
        """Return the place of a label of the first source."""
        return self._parts[0][0].label_place(label) if self._labelled else self.name

    @property
    def _labelled(self) -> bool:
        """Whether the first source gives the labels, which are the second array of a sample."""
        return self._parts[0][1] > 1

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield the stored bytes of every source."""
        for source, _ in self._parts:
            yield from source.stored(indices)


def _counted(source: Source) -> str:
    return counted(len(source), "sample") + (
        f" in sequences of {source.unit}" if source.unit > 1 else ""
    )
