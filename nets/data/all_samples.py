"""All samples of a source, read once: which of them are damaged, not finite or read otherwise than
a user may expect, and how many each class has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.counting import counted
from nets.data.pictures.notices import NOTICES
from nets.data.sources.passed_over import first, shown
from nets.data.sources.source import Source
from nets.errors import DataError

MOST_NUMBERS = 1 << 22  # numbers of the first array that are read at a time
MOST_EMPTY = 10  # consecutive classes without a sample that have a line each


@dataclass
class AllSamples:
    """The facts about all samples of a source.

    `damaged`: one line for each sample that cannot be read. `nan`, `infinite`: the names of samples
    with such numbers. `labels`: for each array of single numbers, its index, and how often each
    number occurs. `noticed`: the pictures of each kind of notice.
    """

    count: int
    damaged: list[str] = field(default_factory=list)
    nan: list[str] = field(default_factory=list)
    infinite: list[str] = field(default_factory=list)
    labels: dict[int, Counter[float]] = field(default_factory=dict)
    noticed: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def mistakes(self) -> list[str]:
        """One line for each damaged sample, and one for all samples with each kind of number that
        is not finite."""
        kinds = (("NaN", self.nan), ("infinity", self.infinite))
        texts = [
            f"found {kind} in {counted(len(names), 'sample')}: {first(names)}"
            for kind, names in kinds
            if names
        ]
        return [*self.damaged, *texts]

    def told(self, class_names: tuple[str, ...], num_classes: int | None) -> Iterator[str]:
        """Yield lines with the number of samples, the notices, and how many each class has."""
        bad = f", {len(self.damaged)} damaged" if self.damaged else ""
        yield f"{counted(self.count, 'sample')}{bad}"
        for kind, pictures in self.noticed.items():
            yield f"  {kind}: {len(pictures)} ({first(list(pictures))})"
        for counter in self.labels.values():
            if any(label != int(label) for label in counter):
                yield f"  labels from {min(counter):g} to {max(counter):g}"
                continue
            next_label = 0
            for label in sorted({*range(len(class_names)), *map(int, counter)}):
                yield from _without_samples(next_label, label)
                next_label = label + 1
                named = 0 <= label < len(class_names) and class_names[label] != str(label)
                name = f" {shown(class_names[label])}" if named else ""
                yield f"  class {label}{name}: {counted(counter[label], 'sample')}"
            yield from _without_samples(next_label, num_classes or 0)


def _without_samples(first_label: int, end: int) -> Iterator[str]:
    """Yield a line for each of the classes from `first_label` to before `end`, none of which has a
    name or a sample. Many have one line together: a list may have a label of a thousand million."""
    if end - first_label > MOST_EMPTY:
        yield f"  classes {first_label} to {end - 1}: 0 samples"
        return
    for label in range(first_label, end):
        yield f"  class {label}: 0 samples"


def read_all(source: Source) -> AllSamples:
    """Read all samples of a source once, some at a time."""
    found = AllSamples(len(source))
    with NOTICES.counted() as found.noticed:
        _read_rows(found, source)
    return found


def _read_rows(found: AllSamples, source: Source) -> None:
    rows = max(1, MOST_NUMBERS // max(1, math.prod(source.shape)))
    for start in range(0, len(source), rows):
        indices = np.arange(start, min(start + rows, len(source)))
        try:
            _note(found, source, indices, source.read(indices))
        except DataError:
            for index in indices:
                _read_one(found, source, int(index))


def _read_one(found: AllSamples, source: Source, index: int) -> None:
    one = np.array([index])
    try:
        arrays = source.read(one)
    except DataError as error:
        found.damaged += error.problems
    else:
        _note(found, source, one, arrays)


def _note(
    found: AllSamples,
    source: Source,
    indices: NDArray[np.int64],
    arrays: tuple[NDArray[Any], ...],
) -> None:
    for at, array in enumerate(arrays):
        floats = array.dtype.kind == "f"
        if floats:
            axes = tuple(range(1, array.ndim))
            for names, wrong in ((found.nan, np.isnan(array)), (found.infinite, np.isinf(array))):
                rows = indices[wrong.any(axis=axes)]
                names += [source.sample_name(int(index)) for index in rows]
        if array.ndim == 1:
            numbers = array[np.isfinite(array)] if floats else array
            found.labels.setdefault(at, Counter()).update(numbers.tolist())
