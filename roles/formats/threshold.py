"""An index and a sign for each number beyond +-tau."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ops import Array, Shape
from roles.formats.format import Format, Option


class Threshold(Format):
    """only numbers beyond `tau` are sent, as +-`tau` and their place (Strom 2015); the rest is
    kept and added to the next gradient"""

    name = "threshold"
    arrays = 2
    keeps = True
    options: ClassVar = {
        "tau": Option(
            0.01, 1e-30, 1e30, "a number from 1e-30 to 1e30", "the size of each sent number"
        )
    }
    bytes_said = "4 for each number sent"
    needs_numbers = "emulated devices have no numbers to compare with tau"

    def encode(self, blob: Array, error: Array) -> Sequence[Array]:
        return self.ops.threshold_encode(blob, error, self.chosen["tau"])

    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        return self.ops.threshold_decode(parts[0], parts[1], shape)

    def size(self, numbers: int) -> None:
        return
