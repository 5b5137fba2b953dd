"""What a format of gradients on their way says of itself. Each is a file here, and a line in
`__init__`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from ops import Array, Backend, Shape

Number = int | float
# that cluster.toml may name, in the order in which they are listed
FORMATS: dict[str, type[Format]] = {}


@dataclass(frozen=True)
class Option:
    """A key of [train.gradients] that belongs to a format: what it is by default, and what it may
    be."""

    default: Number
    least: Number
    most: Number
    expected: str  # in words
    about: str  # for the docs
    multiple_of: int | None = None


class Format(ABC):
    """Encodes and decodes blobs for one actor, in its compute thread. The docstring says what is
    lost, for the docs."""

    name: ClassVar[str]
    arrays: ClassVar[int] = 1  # of an encoded blob
    keeps: ClassVar[bool] = False  # what it misses, to add it to the next gradient
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({})
    bytes_said: ClassVar[str]  # for n numbers, for the docs
    needs_numbers: ClassVar[str] = ""  # why a device that computes none cannot have it

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
        """The arrays that travel. `error`, empty if the format keeps none, is added, and left as
        what is missed now."""

    @abstractmethod
    def decode(self, parts: Sequence[Array], shape: Shape) -> Array:
        """The blob, of this shape. OpsError if these are not what `encode` gave for one."""

    @abstractmethod
    def size(self, numbers: int) -> int | None:
        """Bytes that travel for so many numbers; None: it depends on the numbers."""
