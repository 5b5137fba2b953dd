"""The match of modules in a file to a net whose layers have other names: by their order, if the
whole sequences of both have the same kinds of arrays and the same numbers of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Names = Sequence[tuple[str, int]]  # torch's name of an array, and its first size; 0: not known


def by_order(arrays: Arrays, names: Names) -> dict[str, str]:
    """Return the name in the net of each array in the file, {} if the sequences differ. `names`:
    those that the net lacks, and `arrays` those that no layer has, both in their order. The last
    module, which has the scores of classes, may have another number of outputs."""
    mine, theirs = _modules([name for name, _ in names]), _modules(list(arrays))
    sizes = dict(names)
    if len(mine) != len(theirs) or len(mine) < 2:
        return {}
    found: dict[str, str] = {}
    last = list(mine)[-1]
    for (ours, ends), (other, given) in zip(mine.items(), theirs.items(), strict=True):
        if sorted(ends) != sorted(given):
            return {}
        for end in ends:
            expected = sizes[_join(ours, end)]
            array = arrays[_join(other, end)]
            if ours != last and expected and array.shape[:1] != (expected,):
                return {}
            found[_join(other, end)] = _join(ours, end)
    return found


def _modules(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the arrays of each module, by their last names."""
    found: dict[str, list[str]] = {}
    for name in names:
        module, _, end = name.rpartition(".")
        found.setdefault(module, []).append(end)
    return found


def _join(module: str, end: str) -> str:
    return f"{module}.{end}" if module else end
