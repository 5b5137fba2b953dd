"""A pass of a worker's net in parts: stages forward or backward, then the arrays that leave for
other actors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from nets import Stage
from ops import Array
from roles.learning.micro_batches import WorkerNet
from roles.learning.scoreboard import Scores
from roles.messages import Blobs

T = TypeVar("T")
Piece = tuple[str, Callable[[], object]]  # its name in messages, its work
Leaving = Callable[[], Sequence[Array]]


def _nothing() -> Blobs:
    """No array leaves."""
    return ()


class PlainPass:
    """The passes of a net, one at a time. The layers of every part run in Python. All methods are
    called in the compute thread.

    `begin` follows the net's `begin` and its inputs. The parts of every pass are the same, in the
    same order.
    """

    def __init__(self, net: WorkerNet) -> None:
        self.net = net

    def __repr__(self) -> str:
        return f"<passes of {self.net!r}>"

    def begin(self) -> None:
        """Begin with the first part. The net has its inputs, and all parameters except those that
        `load` gives it."""

    def load(self, layer: str, blobs: Blobs) -> None:
        """Give a layer the parameters that another actor has sent."""
        self.net.load(layer, tuple(self.net.ops.asarray(blob) for blob in blobs))

    def own(self, key: Hashable, make: Callable[[], T]) -> T:
        """The arrays for the results of a part: new ones in every pass."""
        return make()

    def forward(self, stages: Sequence[Stage], leaving: Sequence[str] = ()) -> Blobs:
        """Run stages forward. Return the blobs named in `leaving`, with their rows on axis 0."""
        net = self.net
        pieces = [(_name("forward", stage), partial(net.forward, stage)) for stage in stages]
        return self._do(pieces, lambda: [net.blob_rows(name) for name in leaving])

    def backward(
        self, stages: Sequence[Stage], out: Mapping[str, Blobs], leaving: Leaving = _nothing
    ) -> Blobs:
        """Run stages backward, in this order. The gradients of each layer are written to `out`.
        Return the arrays of `leaving()`, which is called at the end of the part."""
        pieces = [
            (
                _name("backward", stage),
                partial(self.net.backward, stage, out.get(stage.layer or "")),
            )
            for stage in stages
        ]
        return self._do(pieces, leaving)

    def scalars(self) -> Scores:
        """The scores of the pass, as `Net.scalars` returns them."""
        return self.net.scalars()

    def _do(self, pieces: Sequence[Piece], leaving: Leaving) -> Blobs:
        """Do the work of a part. Return the arrays that leave; only their readers keep them."""
        for _, work in pieces:
            work()
        return tuple(leaving())


def _name(way: str, stage: Stage) -> str:
    return f"{way} of {', '.join(stage.layers)}"
