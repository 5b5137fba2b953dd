"""Sums gradients in parts, in a fixed order, so that the result does not depend on who came first."""

from __future__ import annotations

from collections.abc import Hashable

from ops import Array, Backend
from roles.buffers import new_parameter

Blobs = tuple[Array, ...]


class GradientSum:
    """Collects the parts of each key; gives their sum when the last has come.

    Parts are added in their order ((a + b) + c), each as soon as its turn has come.
    """

    def __init__(self, ops: Backend) -> None:
        self._ops = ops
        self._waiting: dict[Hashable, dict[int, Blobs]] = {}
        self._sums: dict[Hashable, tuple[int, Blobs]] = {}  # key -> (parts added, their sum)

    def __repr__(self) -> str:
        return f"<gradient sum, {len(self._waiting)} keys open>"

    def add(self, key: Hashable, part: int, parts: int, blobs: Blobs) -> Blobs | None:
        """Note a part; the whole sum if it was the last missing one. ValueError: there is no such part, a repeat."""
        added, total = self._sums.get(key, (0, ()))
        if not added <= part < parts or part in self._waiting.get(key, ()):
            raise ValueError(f"part {part} of {parts}: there is none, or it came twice for {key}")
        early = self._waiting.setdefault(key, {})
        early[part] = blobs
        while added in early:
            total = self._plus(added, total, early.pop(added))
            added += 1
        if added < parts:
            self._sums[key] = (added, total)
            return None
        self._sums.pop(key, None)
        del self._waiting[key]
        return total

    def _plus(self, added: int, total: Blobs, blobs: Blobs) -> Blobs:
        """The first contribution is not ours to write to; the first sum allocates, later ones add in place."""
        if added == 0:
            return blobs
        return tuple(self._ops.add(a, b, out=self._place(a, added)) for a, b in zip(total, blobs, strict=True))

    def _place(self, a: Array, added: int) -> Array:
        return a if added > 1 else new_parameter(self._ops, a.shape, a.dtype)
