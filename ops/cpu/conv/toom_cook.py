"""The matrices of Winograd's minimal convolutions and how few operations they take.

F(m, r) gives m outputs of a correlation with r weights from m + r - 1 inputs d:

    y = AT [(G w) * (BT d)]

and nests in two dimensions: Y = AT [(G W GT) * (BT D B)] A. The matrices follow from m + r - 2
points and infinity (Toom and Cook); Lavin and Gray, Fast algorithms for convolutional neural
networks (2015).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ops.errors import Array

# Finite points, exact in binary and with the least error. With infinity they are six, seven, eight.
# 0, +-3/4, +-3/2 keep their powers near 1: a quarter of the error of 0, +-1, +-2.
SIX_POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)
SEVEN_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.375)
EIGHT_POINTS = (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0)


@dataclass(frozen=True)
class Mode:
    """F(m x m, r x r) by its finite points."""

    name: str
    m: int
    r: int
    points: tuple[float, ...]

    @property
    def a(self) -> int:
        """Rows of a patch: m + r - 1."""
        return self.m + self.r - 1

    def matrices(self) -> tuple[Array, Array, Array]:
        """BT (a, a), G (a, r), AT (m, a) in float64."""
        a = self.a
        points = self.points
        BT = np.zeros((a, a))
        G = np.zeros((a, self.r))
        AT = np.zeros((self.m, a))
        for row, point in enumerate(points):
            others = [other for other in points if other != point]
            BT[row, : a - 1] = np.poly(others)[::-1]
            G[row] = [
                point**power / np.prod([point - other for other in others])
                for power in range(self.r)
            ]
            AT[:, row] = [point**power for power in range(self.m)]
        BT[-1] = np.poly(points)[::-1]
        G[-1, -1] = AT[-1, -1] = 1
        return BT, G, AT


MODES = {
    mode.name: mode
    for mode in (
        Mode("F(2x2,3x3)", 2, 3, (0.0, 1.0, -1.0)),
        Mode("F(4x4,3x3)", 4, 3, SIX_POINTS),
        Mode("F(5x5,3x3)", 5, 3, SEVEN_POINTS),
        Mode("F(6x6,3x3)", 6, 3, EIGHT_POINTS),
        Mode("F(2x2,5x5)", 2, 5, SIX_POINTS),
        Mode("F(4x4,5x5)", 4, 5, EIGHT_POINTS),
    )
}


def mirrored(P: Array) -> list[tuple[int, int]]:
    """Pairs of rows of P with at least three numbers that differ only in signs, so that they share
    their work."""
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for one in range(len(P)):
        for other in range(one + 1, len(P)):
            alike = np.array_equal(abs(P[one]), abs(P[other])) and np.count_nonzero(P[one]) > 2
            if alike and not {one, other} & taken:
                found.append((one, other))
                taken |= {one, other}
    return found
