"""The sum of gradients that arrive in parts, added in a fixed order: the result does not depend on
the order of arrival."""

from __future__ import annotations

from collections.abc import Hashable

from ops import Backend, where
from roles.learning.buffers import new_parameter
from roles.messages import Blobs


class GradientSum:
    """Collects the parts of each key, and returns their sum when the last has arrived.

    Parts are added in pairs, and the sums again in pairs, ((a + b) + (c + d)) + ... Each pair is
    added as soon as it is complete, on a device if an array of it lies there. A part without a
    neighbour goes to the next level. So the bits are the same if a reducer has added up 2, 4 or 8
    neighbours before.
    """

    def __init__(self, ops: Backend) -> None:
        self._ops = ops
        self._open: dict[Hashable, _Tree] = {}

    def __repr__(self) -> str:
        return f"<gradient sum, {len(self._open)} keys open>"

    def add(self, key: Hashable, part: int, parts: int, blobs: Blobs) -> Blobs | None:
        """Take a part. Return the whole sum if it was the last missing one, else None. Raises
        ValueError for a part that does not exist or is repeated."""
        tree = self._open.get(key) or _Tree(self._ops)
        if not 0 <= part < parts or part in tree.came:
            raise ValueError(f"part {part} of {parts}: no such part, or it came twice for {key}")
        self._open[key] = tree
        total = tree.add(part, parts, blobs)
        if total is not None:
            del self._open[key]
        return total


class _Tree:
    """The sums of one key that wait for their neighbour, by level and by place in the level."""

    def __init__(self, ops: Backend) -> None:
        self._ops = ops
        # (level, place) -> the sum, and whether it may be written over
        self._waiting: dict[tuple[int, int], tuple[Blobs, bool]] = {}
        self.came: set[int] = set()

    def add(self, place: int, width: int, blobs: Blobs) -> Blobs | None:
        self.came.add(place)
        level = 0
        ours = False
        while width > 1:
            neighbour = place ^ 1
            if neighbour < width:
                found = self._waiting.pop((level, neighbour), None)
                if found is None:
                    self._waiting[level, place] = blobs, ours
                    return None
                blobs = self._plus(found, (blobs, ours))
                ours = True
            level = level + 1
            place = place // 2
            width = (width + 1) // 2
        return blobs

    def _plus(self, one: tuple[Blobs, bool], other: tuple[Blobs, bool]) -> Blobs:
        """Add two neighbours. Contributions must not be written to, so the first sums allocate;
        later sums are added in place."""
        (a, writable), (b, writable_too) = one, other
        ops = where((*a, *b), self._ops)
        a, b = (tuple(map(ops.asarray, blobs)) for blobs in (a, b))
        into = (
            a
            if writable
            else b
            if writable_too
            else [new_parameter(ops, x.shape, x.dtype) for x in a]
        )
        return tuple(ops.add(x, y, out=out) for x, y, out in zip(a, b, into, strict=True))
