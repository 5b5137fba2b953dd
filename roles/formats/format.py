"""The base class of the wire formats of gradients. Each format has a file in this folder, and a
line in `__init__`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ops import Array, Backend, Shape

Number = int | float
# the formats that cluster.toml may name, in the order of the docs' table
FORMATS: dict[str, type[Format]] = {}


@dataclass(frozen=True)
class Option:
    """A key of [train.gradients] that belongs to one format: its default, and the values that are
    allowed."""

    default: Number
    least: Number
    most: Number
    expected: str  # in words
    about: str  # for the docs
    multiple_of: int | None = None


class Format(ABC):
    """Encodes and decodes blobs for one actor, in its compute thread.

    The docstring of each subclass is its entry in the column "what is lost" of the docs' table.
    """

    name: ClassVar[str]
    arrays: ClassVar[int] = 1  # arrays of an encoded blob
    keeps: ClassVar[bool] = False  # does it add the error of a gradient to the next one?
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({})
    bytes_said: ClassVar[str]  # bytes for n numbers, as the docs show them
    # why an emulated device, which computes no numbers, cannot use it; "": it can
    needs_numbers: ClassVar[str] = ""

    def __init__(self, ops: Backend, options: Mapping[str, Number]) -> None:
        self.ops = ops
        self.chosen = {
            key: options.get(key, option.default) for key, option in self.options.items()
        }

    def __init_subclass__(cls, *, listed: bool = True) -> None:
        super().__init_subclass__()
        if listed:
            FORMATS[cls.name] = cls

    @abstractmethod
    def encode(self, blob: Array, error: Array) -> Sequence[Array]:
        """The arrays that travel for a blob. `error` is added to the blob first, and then holds the
        new encoding error. It is empty if the format keeps no error. A blob with NaN must decode to
        a blob with NaN, so that a run that diverges ends with an error."""

    @abstractmethod
    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        """The blob, of this shape. Raises OpsError if `encode` cannot have made these arrays for
        such a blob."""

    @abstractmethod
    def size(self, numbers: int) -> int | None:
        """Bytes that travel for so many numbers; None: it depends on the values."""
