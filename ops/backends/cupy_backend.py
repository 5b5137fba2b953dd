"""The CuPy backend: one NVIDIA GPU behind the same interface. Not yet run on a GPU.

The only file that imports cupy. The families run on CuPy as they are; overridden here is what many small array
operations would do slowly, or CuPy lacks: lowering and lifting, pooling, LRN and the sums of table rows are kernels of
ops.cuda, compiled at first use. Their images need contiguous planes and are copied where they have none.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ops import cuda
from ops.backends import cuda_driver
from ops.errors import Array, OpsError, Shape, check_alike, check_float, check_ndim, check_out, check_shape
from ops.geometry import ConvGeometry, PoolGeometry
from ops.interface.backend import Backend
from ops.reference import lowering, lrn, pool, stochastic

THREADS = 256
BLOCKS = 1 << 16  # a grid of at most this many; each thread then takes several elements
_NO_ARGUMENTS: tuple[Any, ...] = ()
NOWHERE = (np.uint64(0), np.int64(0), np.int64(0))  # a null pointer and its strides
MOST_ELEMENTS = 2**31 - THREADS * BLOCKS - 1  # indices are int and may overshoot by one grid


def _cupy(device: int) -> Any:
    try:
        import cupy
    except ImportError as missing:
        raise OpsError(
            f"backend 'cupy': cupy cannot be imported ({missing}); install the extra 'gpu' or cupy-cuda13x[ctk]"
        ) from missing
    cuda_driver.start(device)
    cupy.cuda.Device(device).use()
    return cupy


class CupyBackend(Backend):
    """Backend "cupy". Option `b_p` as for "numpy"; `device` is the GPU's number.

    CUDA's choice of a device belongs to the thread: make the backend in the thread that will compute with it.
    """

    name = "cupy"
    on_host = False
    compiles = True

    def __init__(self, b_p: int | None = None, device: int = 0, xp: Any = None) -> None:
        """`xp` stands in for the module cupy, for tests."""
        super().__init__(b_p)
        self.xp = _cupy(device) if xp is None else xp
        self.lowering = lowering.Lowering(b_p, self._lower, self._lift)
        self._modules = {
            t: self.xp.RawModule(code=cuda.source(t), options=("-std=c++17",)) for t in ("float32", "float64")
        }

    def to_host(self, x: Array) -> Array:
        """A NumPy array with a copy of x."""
        host: Array = self.xp.asnumpy(x)
        return host

    def synchronize(self) -> None:
        """Wait for this thread's stream."""
        self.xp.cuda.get_current_stream().synchronize()

    def _run(self, kernel: str, count: int, dtype: Any, *arguments: Any) -> None:
        """Starts one thread per element of the result; whole numbers go as int, arrays' strides as long long."""
        if count > MOST_ELEMENTS:
            raise OpsError(f"{kernel}: {count} elements, expected at most {MOST_ELEMENTS} on this backend")
        if count == 0:
            return
        passed = [np.int32(a) if type(a) is int else a for a in arguments]
        blocks = min(-(-count // THREADS), BLOCKS)
        self._modules[str(dtype)].get_function(kernel)((blocks,), (THREADS,), tuple(passed))

    # lowering

    def _lower(self, xp: Any, x_CNHW: Array, geometry: ConvGeometry) -> Array:
        if lowering.is_identity(geometry):
            return lowering.lower(xp, x_CNHW, geometry)
        x_CNHW, (channels, images, height, width) = _planes(xp, x_CNHW), x_CNHW.shape
        _, _, high, wide = geometry.output_shape((images, channels, height, width), geometry.groups)
        windows: Array = xp.empty((channels, *geometry.kernel, images, high, wide), x_CNHW.dtype)
        sizes = (*x_CNHW.shape, high, wide, *_conv_numbers(geometry))
        self._run("lower", windows.size, x_CNHW.dtype, *_strided(x_CNHW), windows, *sizes)
        return windows

    def _lift(self, xp: Any, windows: Array, geometry: ConvGeometry, dx_CNHW: Array) -> Array:
        if lowering.is_identity(geometry):
            return lowering.lift(xp, windows, geometry, dx_CNHW)
        into = _destination(xp, dx_CNHW)
        sizes = (*dx_CNHW.shape, *windows.shape[-2:], *_conv_numbers(geometry))
        self._run("lift", dx_CNHW.size, dx_CNHW.dtype, windows, *_strided(into), *sizes)
        return _delivered(into, dx_CNHW)

    # pooling

    def pool_forward(
        self, x: Array, geometry: PoolGeometry, out: Array | None = None,
        argmax: Array | Literal[False] | None = None, *, uniforms: Array | None = None, rectify: bool = False,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """As Backend's."""
        y, places = self._pooled(x, geometry, out, argmax, uniforms)
        return pool.rectified(self.xp, y, places) if rectify else (y, places)

    def _pooled(
        self, x: Array, geometry: PoolGeometry, out: Array | None, argmax: Array | Literal[False] | None,
        uniforms: Array | None,
    ) -> tuple[Array, Array | None]:  # fmt: skip
        xp, shape = self.xp, pool.check_forward(x, geometry, out, argmax)
        y = xp.empty(shape, x.dtype) if out is None else out
        into, images = _destination(xp, y), _strided(_planes(xp, x))
        ends = (*x.shape, *shape[2:], *geometry.kernel, *geometry.stride, *geometry.pad)
        kernel = {"MAX": "max_forward", "AVE": "average_forward", "STOCHASTIC": "stochastic_test"}[geometry.mode]
        if geometry.mode == "STOCHASTIC" and uniforms is not None:
            stochastic.check_uniforms(x, uniforms, shape)
            kernel, images = "stochastic_train", (*images, *_strided(_planes(xp, uniforms)))
        elif geometry.mode != "MAX":
            self._run(kernel, y.size, x.dtype, *images, *_strided(into), *ends)
            return _delivered(into, y), None
        elif argmax is False:
            self._run(kernel, y.size, x.dtype, *images, *_strided(into), *NOWHERE, *ends)
            return _delivered(into, y), None
        place = xp.empty(shape, np.int32) if argmax is None or argmax is False else argmax
        places = _destination(xp, place)
        self._run(kernel, y.size, x.dtype, *images, *_strided(into), *_strided(places), *ends)
        return _delivered(into, y), _delivered(places, place)

    def pool_backward(
        self, dy: Array, geometry: PoolGeometry, in_shape: Shape,
        argmax: Array | None = None, out: Array | None = None,
    ) -> Array:  # fmt: skip
        """As Backend's."""
        pool.check_backward(dy, geometry, in_shape, argmax, out)
        xp, given = self.xp, _planes(self.xp, dy)
        dx = xp.empty(in_shape, dy.dtype) if out is None else out
        into = _destination(xp, dx)
        ends = (*in_shape, *dy.shape[2:], *geometry.kernel, *geometry.stride, *geometry.pad)
        kernel, places = "average_backward", _NO_ARGUMENTS
        if geometry.mode != "AVE" and argmax is not None:
            kernel, places = "places_backward", _strided(_planes(xp, argmax))
        self._run(kernel, dx.size, dy.dtype, *_strided(given), *places, *_strided(into), *ends)
        return _delivered(into, dx)

    # local response normalisation

    def lrn_forward(
        self, x: Array, *, size: int = 5, alpha: float = 1.0, beta: float = 0.75, k: float = 1.0,
        region: str = "ACROSS_CHANNELS", out: Array | None = None, scale: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """As Backend's; where out is x, x is copied first."""
        op, xp = "lrn_forward", self.xp
        check_alike(op, out, x=x)
        check_ndim(op, "x", x, "NCHW")
        check_out(op, "scale", scale, x.shape, x.dtype)
        ends = _lrn_numbers(op, x, size, alpha, beta, k, region)
        y, s = (xp.empty(x.shape, x.dtype) if a is None else a for a in (out, scale))
        source, into, into_s = _planes(xp, _apart(xp, x, y)), _destination(xp, y), _destination(xp, s)
        self._run(op, x.size, x.dtype, *_strided(source), *_strided(into), *_strided(into_s), *ends)
        return _delivered(into, y), _delivered(into_s, s)

    def lrn_backward(
        self, dy: Array, x: Array, y: Array, scale: Array, *, size: int = 5, alpha: float = 1.0, beta: float = 0.75,
        region: str = "ACROSS_CHANNELS", out: Array | None = None,
    ) -> Array:  # fmt: skip
        """As Backend's; an input that is out is copied first."""
        op, xp = "lrn_backward", self.xp
        check_alike(op, out, dy=dy, x=x, y=y, scale=scale)
        check_ndim(op, "x", x, "NCHW")
        ends = _lrn_numbers(op, x, size, alpha, beta, 1.0, region)
        dx = xp.empty(x.shape, x.dtype) if out is None else out
        into = _destination(xp, dx)
        sources = [_planes(xp, _apart(xp, a, dx)) for a in (dy, x, y, scale)]
        given = [part for a in sources for part in _strided(a)]
        self._run(op, x.size, x.dtype, *given, *_strided(into), *ends)
        return _delivered(into, dx)

    # table rows

    def sum_rows(self, rows: Array, values: Array, out: Array) -> None:
        """As Backend's."""
        check_float("sum_rows", values=values, out=out)
        check_shape("sum_rows", "rows", rows, values.shape[:1])
        xp = self.xp
        order = xp.argsort(rows, kind="stable")
        starts = xp.searchsorted(rows[order], xp.arange(out.shape[0] + 1), side="left").astype(np.int64)
        into = out if out.flags.c_contiguous else xp.empty(out.shape, out.dtype)
        sources = (xp.ascontiguousarray(values), order.astype(np.int64), starts)
        self._run("sum_rows", out.size, out.dtype, *sources, into, *out.shape)
        _delivered(into, out)


def _conv_numbers(geometry: ConvGeometry) -> tuple[int, ...]:
    return (*geometry.kernel, *geometry.stride, *geometry.pad, *geometry.dilation)


def _lrn_numbers(op: str, x: Array, size: int, alpha: float, beta: float, k: float, region: str) -> tuple[Any, ...]:
    """Sizes, the radius in channels and in pixels, and the formula's numbers in x's dtype."""
    share, shift = lrn.share_and_shift(op, size, alpha, k, region)
    radii = (size // 2, 0) if region == "ACROSS_CHANNELS" else (0, size // 2)
    return (*x.shape, *radii, *(x.dtype.type(number) for number in (share, shift, float(beta))))


def _has_planes(x: Array) -> bool:
    """Whether every plane of the last two axes is contiguous."""
    return bool(x.strides[3] == x.itemsize and x.strides[2] == x.itemsize * x.shape[3])


def _planes(xp: Any, x: Array) -> Array:
    return x if _has_planes(x) else xp.ascontiguousarray(x)


def _destination(xp: Any, out: Array) -> Array:
    """`out`, or a new array where its planes are not contiguous: then _delivered copies."""
    return out if _has_planes(out) else xp.empty(out.shape, out.dtype)


def _delivered(written: Array, out: Array) -> Array:
    if written is not out:
        out[...] = written
    return out


def _apart(xp: Any, x: Array, out: Array) -> Array:
    """x, copied where writing out would change what is still to be read."""
    return x.copy() if xp.may_share_memory(x, out) else x


def _strided(x: Array) -> tuple[Any, ...]:
    """The array and its first two strides in elements."""
    return (x, np.int64(x.strides[0] // x.itemsize), np.int64(x.strides[1] // x.itemsize))
