"""Sums gradients of several sources in a fixed order, so that the result does not depend on who came first."""

from __future__ import annotations

from collections.abc import Hashable

from ops import Array, Backend
from roles.buffers import new_parameter

Blobs = tuple[Array, ...]


class GradientSum:
    """Collects one contribution per source and key; gives the sum when the last has come.

    Contributions are added in the order of `sources` ((a + b) + c), each as soon as its turn has come.
    """

    def __init__(self, sources: tuple[str, ...], ops: Backend) -> None:
        self.sources = sources
        self._ops = ops
        self._waiting: dict[Hashable, dict[str, Blobs]] = {}
        self._sums: dict[Hashable, tuple[int, Blobs]] = {}  # key -> (sources added, their sum)

    def __repr__(self) -> str:
        return f"<sum over {len(self.sources)} sources, {len(self._waiting)} keys open>"

    def add(self, key: Hashable, source: str, blobs: Blobs) -> Blobs | None:
        """Note a contribution; the whole sum if it was the last missing one. ValueError for a stranger or a repeat."""
        added, total = self._sums.get(key, (0, ()))
        if source not in self.sources or source in self._waiting.get(key, ()) or source in self.sources[:added]:
            raise ValueError(f"{source} is no source of {self.sources}, or came twice for {key}")
        early = self._waiting.setdefault(key, {})
        early[source] = blobs
        while added < len(self.sources) and self.sources[added] in early:
            total = self._plus(added, total, early.pop(self.sources[added]))
            added += 1
        if added < len(self.sources):
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
