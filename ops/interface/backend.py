"""The contract of an array backend: its arrays, and every operation that training needs.

Arrays are logically NCHW whatever their strides, and no operation assumes contiguity. Operations
are pure: they keep nothing between calls, and a backward pass gets all that it needs as arguments.
A destination (`out`) is written and returned; None allocates a new array. Inputs are all float32 or
all float64; a backend with `stores_bfloat16` also takes bfloat16 images. A wrong shape or dtype
raises OpsError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ops.errors import Array, OpsError, Shape
from ops.interface import (
    CompressionOps,
    ElementwiseOps,
    LossOps,
    PixelOps,
    SequenceOps,
    SpatialOps,
    StatisticsOps,
    UpdateOps,
)
from ops.recording import Recording, Sender
from ops.reference.lowering import Lowering


class Backend(
    SpatialOps,
    ElementwiseOps,
    StatisticsOps,
    LossOps,
    PixelOps,
    SequenceOps,
    UpdateOps,
    CompressionOps,
):
    """Operations over one array module `xp` with NumPy's interface.

    A convolution lowers `b_p` images together, or the whole batch if `b_p` is None.
    """

    name: str
    xp: Any
    channels_last = False  # whether `empty` keeps images as [H][W][N][C]
    on_host = True  # whether arrays are NumPy's
    joins = False  # whether norm_scale_* take fewer passes than the operations one by one
    # activations that norm_scale_* of a backend that `joins` compute without more passes
    joined_activations: Collection[str] = ("relu", "clip", "gelu", "hard_swish", "swish")
    sums_as_it_rectifies = False  # whether rectified_sums takes one pass
    # whether operations of images take bfloat16 arrays, in any mixture with float32 ones, so that
    # nets keep activations and their gradients so; parameters and sums are float32 everywhere
    stores_bfloat16 = False
    # of such a backend: operations beyond those that every such backend has in bfloat16
    more_bfloat16: Collection[str] = ()
    compiles = False  # whether an operation may have to be compiled when it first runs
    records = False  # whether whole steps of a device can be recorded
    replays_layers = False  # whether nets replay recordings of their layers
    rooms_ahead = 0  # of a device: images of so many batches lie there while they are `staged`
    tries = False  # whether it tries algorithms out when the first operation of a shape runs
    # The source of memory of `empty` on the host (bytes -> aligned uint8 array), for memory that
    # other processes can read in place.
    memory: Callable[[int], Array] | None = None
    # the address and the bytes of the range that `memory` takes blocks from, from its beginning on
    memory_range: tuple[int, int] | None = None
    # The source of memory of `to_share` on a device (bytes -> uint8 array there and its offset, or
    # None if there is no room), for memory that other processes on the device open.
    device_memory: Callable[[int], tuple[Array, int] | None] | None = None

    def __init__(self, b_p: int | None = None) -> None:
        if b_p is not None and (type(b_p) is not int or b_p < 1):
            raise OpsError(
                f"{self.name} backend: b_p is {b_p!r}, expected an integer of at least 1, or None"
            )
        self.lowering = Lowering(b_p)

    @property
    def b_p(self) -> int | None:
        """The number of images that are lowered together; None for the whole batch."""
        return self.lowering.b_p

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} b_p={self.b_p}>"

    def asarray(self, host: Any, dtype: Any = None) -> Array:
        """Return host data as the backend's array, without a copy if it is one already."""
        array: Array = self.xp.asarray(host, dtype)
        return array

    def synchronize(self) -> None:
        """Wait until all operations that were started so far are done."""

    def staged(self, host: Array) -> Array:
        """Copy host data to memory from which a device copies by itself, for `fed`. Returns `host`
        itself if nothing is gained by a copy. Any thread may call this."""
        return host

    def fed(self, host: Any, dtype: Any) -> Array:
        """Return a net's input as the backend's array of that dtype. Does not wait for the copy of
        data that was `staged`."""
        return self.asarray(host, dtype)

    def refill(self, into: Array, host: Any) -> None:
        """Overwrite an array with host data, in the order of the backend's work. Does not wait for
        the copy of data that was `staged`."""
        into[...] = self.asarray(host, into.dtype)

    def sender(self, into: Array) -> Sender:
        """Return what sends numbers to this array, of a backend that `records`."""
        raise OpsError(f"sender: backend '{self.name}' computes in the host's memory")

    def record(self, pieces: Iterable[tuple[str, Callable[[], object]]]) -> Recording:
        """Do the work of all pieces, each with its name, and record it."""
        raise OpsError(f"record: backend '{self.name}' records nothing")

    def place_of(self, array: Array | None) -> tuple[Any, ...] | None:
        """Where an array lies: its address, shape, strides and dtype, in a form that can be
        compared. Of a backend that `replays_layers`."""
        raise OpsError(f"place_of: backend '{self.name}' records nothing")

    def graph(self, recording: Recording) -> Recording:
        """Return a recording with one call, which starts the whole work of `recording`. Raises
        OpsError, with the reason, if the device's driver makes no graph of this work."""
        raise OpsError(f"graph: backend '{self.name}' records nothing")

    def dropout_by(self, x: Array, ratio: float, numbers: Array, out: Array | None = None) -> Array:
        """`dropout` with `numbers` (3,), int32, of the backend (`philox.numbers`): the first row,
        and the low and the high half of the key. A recording reads them anew in each replay."""
        first, low, high = (int(number) & 0xFFFFFFFF for number in self.to_host(numbers))
        return self.dropout(x, ratio, low | high << 32, first, out)

    @property
    def repeatable(self) -> bool:
        """Whether an operation gives the same bits whenever it is repeated."""
        return True

    def to_host(self, x: Array) -> Array:
        """Return x as a NumPy array, without a copy if it is one already."""
        return np.asarray(x)

    def to_share(self, x: Array) -> Array:
        """Return x for other actors; it is never written to again. On the host that is x itself. On
        a device it may be a `DeviceArray`, which is copied to the host only if a reader needs it
        there."""
        return self.to_host(x)

    def peer_memory(self) -> Any:
        """Return the memory of this device that other processes can open (`cuda.PeerMemory`). None
        for a backend without one. Call it in the thread that computes."""
        return None

    def sums(self, arrays: Sequence[Array]) -> list[float]:
        """Return the sum of each array as a Python number. All sums together wait for a device only
        once."""
        return [float(x.sum() if x.ndim else x) for x in map(self.to_host, arrays)]

    def sums_reader(self, arrays: Sequence[Array]) -> Callable[[], Callable[[], list[float]]]:
        """Return a function that begins to read these sums whenever it is called. It returns a
        function that waits for the sums and returns them. They are those of the numbers at the
        call, even if later operations overwrite the arrays."""

        def begin() -> Callable[[], list[float]]:
            found = self.sums(arrays)
            return lambda: found

        return begin

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Return a new array with undefined contents."""
        if self.memory is not None and self.on_host:
            return self.carve(
                self.memory(math.prod(shape) * np.dtype(dtype).itemsize), 0, shape, dtype
            )
        array: Array = self.xp.empty(shape, dtype)
        return array

    def carve(self, block: Array, offset: int, shape: Shape, dtype: Any = np.float32) -> Array:
        """Return an array in the memory of `block` (uint8), from byte `offset` on, laid out as
        `empty` does."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        array: Array = block[offset : offset + size].view(dtype).reshape(shape)
        return array

    def images(self, x: Array, out: Array | None = None) -> Array:
        """Return x (N, C, H, W) as `empty` lays images out, or copy it to `out`. Returns x itself
        if it lies so already."""
        if out is None:
            return x
        out[...] = x
        return out

    def zeros(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Return a new array of zeros."""
        array: Array = self.xp.zeros(shape, dtype)
        return array
