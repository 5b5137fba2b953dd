"""The CuPy backend: one NVIDIA GPU behind the same interface.

The only file that imports cupy: the device, its arrays, and cuBLAS. The operations with kernels are
in `ops.cuda`. All others run on CuPy as `ops.reference` writes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ops.backends import cuda_driver
from ops.cuda.conv.operations import Convolutions
from ops.cuda.copies.device_array import DeviceArray
from ops.cuda.copies.host_copies import HostCopies
from ops.cuda.copies.page_locks import PageLocks
from ops.cuda.copies.peer_memory import PeerMemory
from ops.cuda.copies.transfers import Pinned, Sender, Transfers, upload_of
from ops.cuda.copies.uploads import ROOMS, Uploads
from ops.cuda.cublas import Cublas
from ops.cuda.depthwise import Depthwise
from ops.cuda.device import Product
from ops.cuda.full_memory import report_full_memory
from ops.cuda.graphs import Graphs
from ops.cuda.image_layout import TO_LOGICAL, like, new_images, step_of
from ops.cuda.launch import Launcher
from ops.cuda.losses import Losses
from ops.cuda.normalise import Normalisation
from ops.cuda.pixels import Pixels
from ops.cuda.pointwise import Pointwise
from ops.cuda.products import Dense, PlainProduct
from ops.cuda.repeats import Repeats
from ops.cuda.scratch import Scratch
from ops.cuda.updates import Updates
from ops.cuda.windows import Windows
from ops.errors import Array, OpsError, Shape, check_choice, first_line
from ops.holding import holds_lock
from ops.interface.backend import Backend
from ops.interface.pixels import ImageForm
from ops.recording import Recording

PRECISIONS = ("full", "fast", "tf32", "bf16")
CUDNN = ("off", "fastest", "deterministic")
LARGE = 1 << 14  # bytes from which on an array's copy to the host is worth page-locked memory
_MADE: dict[int, CupyBackend] = {}  # device -> the backend of this process that was made last


def _cupy(device: int) -> Any:
    holds_lock("CuPy and its libraries are loaded")
    try:
        import cupy
    except ImportError as missing:
        raise OpsError(
            f"backend 'cupy': cupy cannot be imported ({missing}); install the extra 'gpu' "
            "or cupy-cuda13x[ctk]"
        ) from missing
    cuda_driver.start(device)
    cupy.cuda.Device(device).use()
    report_full_memory(cupy)
    return cupy


def _cublas() -> tuple[Callable[[], int], Any]:
    from cupy.cuda.device import get_cublas_handle
    from cupy_backends.cuda.libs import cublas  # in this form it loads the library

    return get_cublas_handle, cublas


@functools.cache
def _page_locks(cupy: Any, address: int, size: int) -> PageLocks:
    """The page locks of a range of this process, which all its backends share."""

    def lock(address: int, size: int) -> str:
        try:
            cupy.cuda.runtime.hostRegister(address, size, 0)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return first_line(error)
        return ""

    return PageLocks(address, size, lock)


@functools.cache
def _peer_memory(cupy: Any, device: int) -> PeerMemory:
    """The shared memory of a device, one for all backends of this process."""
    return PeerMemory(cupy, device)


def where(arrays: Iterable[Any], host: Backend) -> Backend:
    """Return the backend for work on these arrays: that of the device where one of them lies, which
    only the thread that computes may use, or else `host`. Its `asarray` brings the others there."""
    for x in arrays:
        if not isinstance(x, np.ndarray):
            return _MADE[int(x.device)]
    return host


def to_host(x: Any) -> Array:
    """Return an array as NumPy's, wherever it lies. Only the thread that computes may call this
    with a device's array."""
    return x if isinstance(x, np.ndarray) else _MADE[int(x.device)].to_host(x)


class CupyBackend(
    Convolutions, Depthwise, Windows, Normalisation, Pointwise, Pixels, Dense, Losses, Updates
):
    """Backend "cupy".

    Options: `b_p`, the number of images that are lowered together (None: as many as a limit of
    memory allows). `device`, the GPU's number. `precision` of products of float32: "full", "tf32",
    "fast", which is "tf32" for convolutions and "full" for all else, or "bf16", with which nets
    also store images in bfloat16. `cudnn`: "fastest" takes cuDNN's
    convolutions where they are right and faster, "deterministic" takes them wherever they are
    right, "off" never takes them. With `b_p`, which asks for lowering, `cudnn` is "off".

    CUDA's choice of a device belongs to the thread: make the backend in the thread that computes
    with it.
    """

    name = "cupy"
    on_host = False
    compiles = True
    channels_last = joins = True
    records = True
    joined_activations = ("relu",)
    more_bfloat16 = ("dropout", "lrn")
    rooms_ahead = ROOMS

    def __init__(
        self,
        b_p: int | None = None,
        device: int = 0,
        xp: Any = None,
        *,
        precision: str = "full",
        cudnn: str = "off",
    ) -> None:
        """`xp` stands in for the module cupy, for tests."""
        super().__init__(b_p)
        check_choice("precision", precision, PRECISIONS)
        check_choice("cudnn", cudnn, CUDNN)
        self.precision = precision
        self.stores_bfloat16 = precision == "bf16"
        self.cudnn = "off" if b_p is not None else cudnn
        self._xp = _cupy(device) if xp is None else xp
        self._device = device if xp is None else None
        self._transfers: Transfers | None = None
        if xp is None:
            self.repeats = Repeats(self._xp.ndarray, self._xp.cuda.driver.launchKernel, self.stream)
            self._transfers = Transfers(self._xp, device, self.stream)
        if self._device is not None:
            _MADE[self._device] = self
        self.uploads = Uploads(self._xp, device)
        self.launch = Launcher(self._xp, self.repeats)
        self.scratch = Scratch(self._xp, self.repeats)
        self.product = self._products("full" if precision == "fast" else precision)
        self.conv_product = self._products("tf32") if precision == "fast" else self.product

    def _products(self, precision: str) -> Product:
        if self.repeats is None:
            return PlainProduct(self._xp)
        return Cublas(self._xp, _cublas(), precision, self.repeats)

    @property
    def xp(self) -> Any:  # the caller may do something that is not recorded
        """The module of arrays."""
        if self.repeats is not None:
            self.repeats.spoil()
        return self._xp

    def share_memory(self, a: Array, b: Array) -> bool:
        """Whether a number of one array may also be one of the other's. Does not ask the device."""
        return bool(self._xp.may_share_memory(a, b))

    @property
    def tries(self) -> bool:  # type: ignore[override]  # known once cuDNN has been looked for
        """Whether convolutions are tried out: cuDNN is wanted and was found. Read it in the thread
        that computes."""
        return self.chooser.library is not None

    @property
    def stream(self) -> int:
        """CUDA's handle of this thread's stream."""
        return 0 if self._device is None else int(self.xp.cuda.get_current_stream().ptr)

    @functools.cached_property
    def card(self) -> Mapping[str, str] | None:
        if self._device is None:
            return None
        runtime = self._xp.cuda.runtime
        handle, cublas = _cublas()
        return {
            "card": runtime.getDeviceProperties(self._device)["name"].decode(),
            "CUDA of the driver": str(runtime.driverGetVersion()),
            "CuPy": self._xp.__version__,
            "cuBLAS": str(cublas.getVersion(handle())),
        }

    def trim(self) -> None:
        if self._device is not None:
            self.xp.get_default_memory_pool().free_all_blocks()

    def staged(self, host: Array) -> Array:
        """Copy host data to page-locked memory, which CuPy keeps for the next batch. Images are on
        their way to the device from here on."""
        pinned = self._pinned(host.shape, host.dtype) if host.size else None
        if pinned is None:
            return host
        pinned[...] = host
        if pinned.ndim == 4:
            pinned.upload = self.uploads.start(pinned)
        return pinned

    def _pinned(self, shape: Shape, dtype: Any) -> Pinned | None:
        return None if self._transfers is None else self._transfers.pinned(shape, dtype)

    def fed(self, host: Any, dtype: Any) -> Array:
        """Images are brought to the layout of kernels here, once for all layers that read them."""
        if (upload := upload_of(host, dtype)) is not None:
            images = new_images(self.xp, host.shape, dtype)
            with self.uploads.taken(upload) as sent:
                images[...] = sent
            return images
        given = self._sent(host, dtype)
        if given.ndim != 4 or step_of(given) is not None:
            return given
        images = new_images(self.xp, given.shape, given.dtype)
        images[...] = given
        return images

    def refill(self, into: Array, host: Any) -> None:
        if (upload := upload_of(host, into.dtype)) is not None:
            with self.uploads.taken(upload) as sent:
                into[...] = sent
        elif self._transfers is not None and _is_pinned(host, into.dtype):
            self._transfers.refill(into, host)
        else:
            into[...] = self.asarray(host, into.dtype)

    def transform_pixels(self, x: Array, places: Array, form: ImageForm) -> Array:
        numbers = self._sent(places, places.dtype)
        if (upload := upload_of(x, x.dtype)) is None:
            return self.pixels_of(self._sent(x, x.dtype), numbers, form)
        with self.uploads.taken(upload) as sent:
            return self.pixels_of(sent, numbers, form)

    def sender(self, into: Array) -> Sender:
        if self._transfers is None:
            raise OpsError("sender: there is no device that numbers could be sent to")
        return Sender(self._transfers, into)

    def _sent(self, host: Any, dtype: Any) -> Array:
        """A new array with host data, in the order of its axes. Does not wait for data in
        page-locked memory."""
        if self._transfers is not None and _is_pinned(host, dtype):
            return self._transfers.on_device(host)
        return self.asarray(host, dtype)

    def record(self, pieces: Iterable[tuple[str, Callable[[], object]]]) -> Recording:
        if self.repeats is None:
            raise OpsError("record: there is no device whose work could be recorded")
        return self.repeats.record_all(pieces)

    def graph(self, recording: Recording) -> Recording:
        return self._graphs.of(recording)

    @functools.cached_property
    def _graphs(self) -> Graphs:
        return Graphs(self._xp)

    @property
    def repeatable(self) -> bool:
        """False if cuDNN may choose engines whose sums differ from run to run."""
        return self.cudnn != "fastest" or not self.tries

    def to_host(self, x: Array) -> Array:
        """Return a copy of x as a NumPy array. A large one lies in `memory`, or in other
        page-locked memory if there is none. To memory that is not locked an H100 wrote 2.1 GB/s
        (measured once, 2026-11-27): the driver copies piece by piece through a block of its own."""
        large = self._is_here(x) and x.nbytes >= LARGE
        if large and self._copies is not None:
            stream = self.xp.cuda.get_current_stream()
            found = self._copies.start(x, stream)
            stream.synchronize()
            return found
        pinned = self._pinned(x.shape, x.dtype) if large else None
        return self.xp.asnumpy(x, out=pinned) if large else self.xp.asnumpy(x)  # type: ignore[no-any-return]

    def to_share(self, x: Array) -> Array:
        if not self._is_here(x) or self._copies is None:
            return self.to_host(x)
        place = None
        given = self.device_memory(x.nbytes) if self.device_memory is not None and x.size else None
        if given is not None:
            copy = like(given[0], x)
            copy[...] = x
            x = copy
            ready, event = _peer_memory(self._xp, int(self._device or 0)).record()
            place = given[1], event
        else:
            ready = self.xp.cuda.Event(disable_timing=True)
            ready.record()
        return DeviceArray(x, ready, self._copies.copy, place)  # type: ignore[return-value]  # for readers it is one

    def peer_memory(self) -> PeerMemory | None:
        return None if self._device is None else _peer_memory(self._xp, self._device)

    def _is_here(self, x: Array) -> bool:
        """Whether x lies on a real device."""
        return self._device is not None and isinstance(x, self._xp.ndarray)

    @functools.cached_property
    def _copies(self) -> HostCopies | None:
        """Copies to `memory`, which is set before the first. None without it."""
        if self.memory is None or self._device is None:
            return None
        locks = None if self.memory_range is None else _page_locks(self._xp, *self.memory_range)
        return HostCopies(self._xp, self._device, self.memory, locks)

    def synchronize(self) -> None:
        """Wait for this thread's stream."""
        self.xp.cuda.get_current_stream().synchronize()

    def sums(self, arrays: Sequence[Array]) -> list[float]:
        """All sums travel to the host together."""
        return super().sums(arrays) if self._transfers is None else self.sums_reader(arrays)()()

    def sums_reader(self, arrays: Sequence[Array]) -> Callable[[], Callable[[], list[float]]]:
        if not arrays:
            return lambda: list
        if self._transfers is None:
            return super().sums_reader(arrays)
        return self._transfers.sums_reader(arrays)

    def asarray(self, host: Any, dtype: Any = None) -> Array:
        """An array that is on the device already is returned at once."""
        host = host.array if isinstance(host, DeviceArray) else host
        there = (
            self._device is not None
            and type(host) is self._xp.ndarray
            and dtype in (None, host.dtype)
        )
        return host if there else super().asarray(host, dtype)

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Array:
        """Images (N, C, H, W) lie in memory as [N][H][W][C]."""
        return new_images(self.xp, shape, dtype) if len(shape) == 4 else super().empty(shape, dtype)

    def carve(self, block: Array, offset: int, shape: Shape, dtype: Any = np.float32) -> Array:
        """Images are laid out as [N][H][W][C]."""
        if len(shape) != 4:
            return super().carve(block, offset, shape, dtype)
        n, c, h, w = shape
        return super().carve(block, offset, (n, h, w, c), dtype).transpose(TO_LOGICAL)

    def images(self, x: Array, out: Array | None = None) -> Array:
        return self.read(x) if out is None else super().images(x, out)


def _is_pinned(host: Any, dtype: Any) -> bool:
    """Whether this is page-locked memory with all numbers of an array of that dtype, in order."""
    return isinstance(host, Pinned) and host.dtype == dtype and bool(host.flags.c_contiguous)


def planned(b_p: int | None = None, precision: str = "full") -> CupyBackend:
    """Return the backend over NumPy's arrays, for plans: they show the layout and the memory of
    arrays. It starts no kernel."""
    return CupyBackend(b_p, xp=np, precision=precision)
