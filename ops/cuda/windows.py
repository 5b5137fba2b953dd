"""Pooling and local response normalisation of a device: one launch each."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ops.cuda.device import OnDevice
from ops.cuda.image_layout import arithmetic, in_fours, step_of
from ops.cuda.launch import NOTHING, divisor
from ops.cuda.repeats import repeated
from ops.errors import Array, Shape, check_alike, check_ndim, check_out
from ops.geometry import PoolGeometry
from ops.reference import lrn, pool, stochastic
from ops.reference.mixed_images import checked


class Windows(OnDevice):
    """Overrides pooling and LRN."""

    @repeated
    def pool_forward(
        self,
        x: Array,
        geometry: PoolGeometry,
        out: Array | None = None,
        argmax: Array | Literal[False] | None = None,
        *,
        uniforms: Array | None = None,
        rectify: bool = False,
    ) -> tuple[Array, Array | None]:
        shape = pool.check_forward(checked(x), geometry, checked(out), argmax)
        y = self.images_like(shape, out, x.dtype)
        into = self.into(y)
        x = self.read(x)
        real = arithmetic(x)
        images = (x, step_of(x))
        written = (into, step_of(into))
        (_, c, high, wide), (p, q) = x.shape, shape[2:]
        ends = (
            y.size,
            divisor(c),
            divisor(q),
            divisor(p),
            high,
            wide,
            *geometry.kernel,
            *geometry.stride,
            *geometry.pad,
        )
        sampled = geometry.mode == "STOCHASTIC" and uniforms is not None
        if geometry.mode != "MAX" and not sampled:
            kernel = "average_forward" if geometry.mode == "AVE" else "stochastic_test"
            self.launch(kernel, y.size, real, *images, *written, *ends)
            self.delivered(into, y)
            return pool.rectified(self.xp, y, None) if rectify else (y, None)
        wanted = sampled or argmax is not False
        place = (
            self.images_like(shape, None if argmax is False else argmax, np.int32)
            if wanted
            else None
        )
        places = None if place is None else self.into(place)
        given: tuple[Any, ...] = (NOTHING, 0) if places is None else (places, step_of(places))
        if sampled:
            assert uniforms is not None
            stochastic.check_uniforms(checked(x), uniforms, shape)
            chances = self.read(uniforms)
            self.launch(
                "stochastic_train",
                y.size,
                real,
                *images,
                chances,
                step_of(chances),
                *written,
                *given,
                *ends,
            )
        else:
            wide = 4 if in_fours(c, x, into, *(() if places is None else (places,))) else 1
            kernel, count, steps = _widened("max_forward", wide, y.size, *images, *written, *given)
            self.launch(
                kernel, count, real, *steps, int(rectify), count, divisor(c // wide), *ends[2:]
            )
        self.delivered(into, y)
        if place is not None and places is not None:
            self.delivered(places, place)
        return pool.rectified(self.xp, y, place) if rectify and sampled else (y, place)

    @repeated
    def pool_backward(
        self, dy: Array, geometry: PoolGeometry, in_shape: Shape,
        argmax: Array | None = None, out: Array | None = None,
    ) -> Array:  # fmt: skip
        pool.check_backward(checked(dy), geometry, in_shape, argmax, checked(out))
        real = arithmetic(dy)
        dx = self.images_like(in_shape, out, dy.dtype)
        into = self.into(dx)
        dy = self.read(dy)
        _, c, high, wide = in_shape
        sizes = [divisor(size) for size in (c, wide, high, *geometry.stride)]
        ends = (*sizes[1:], *dy.shape[2:], *geometry.kernel, *geometry.pad)
        if geometry.mode != "AVE" and argmax is not None:
            found = self.read(argmax)
            wide = 4 if in_fours(c, dy, found, into) else 1
            kernel, count, steps = _widened(
                "places_backward",
                wide,
                dx.size,
                dy,
                step_of(dy),
                found,
                step_of(found),
                into,
                step_of(into),
            )
            self.launch(kernel, count, real, *steps, count, divisor(c // wide), *ends)
        else:
            self.launch(
                "average_backward",
                dx.size,
                real,
                dy,
                step_of(dy),
                into,
                step_of(into),
                dx.size,
                sizes[0],
                *ends,
            )
        return self.delivered(into, dx)

    @repeated
    def lrn_forward(
        self, x: Array, *, size: int = 5, alpha: float = 1.0, beta: float = 0.75, k: float = 1.0,
        region: str = "ACROSS_CHANNELS", out: Array | None = None, scale: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """If out is x, x is copied first."""
        op = "lrn_forward"
        check_alike(op, checked(out), x=checked(x))
        check_ndim(op, "x", x, "NCHW")
        real = arithmetic(x)
        check_out(op, "scale", scale, x.shape, real)
        ends = _lrn_numbers(op, x, size, alpha, beta, k, region)
        y = self.images_like(x.shape, out, x.dtype)
        s = self.images_like(x.shape, scale, real)
        source = self.apart(x, y)
        into = self.into(y)
        into_s = self.into(s)
        arrays = [part for a in (source, into, into_s) for part in (a, step_of(a))]
        self.launch(op, x.size, arithmetic(x), *arrays, *ends)
        return self.delivered(into, y), self.delivered(into_s, s)

    @repeated
    def lrn_backward(
        self,
        dy: Array,
        x: Array,
        y: Array,
        scale: Array,
        *,
        size: int = 5,
        alpha: float = 1.0,
        beta: float = 0.75,
        region: str = "ACROSS_CHANNELS",
        out: Array | None = None,
    ) -> Array:
        """An input that is out is copied first."""
        op = "lrn_backward"
        check_alike(op, checked(out), dy=checked(dy), x=checked(x), y=checked(y), scale=scale)
        check_ndim(op, "x", x, "NCHW")
        ends = _lrn_numbers(op, x, size, alpha, beta, 1.0, region)
        dx = self.images_like(x.shape, out, x.dtype)
        into = self.into(dx)
        arrays = [
            part
            for a in (*(self.apart(b, dx) for b in (dy, x, y, scale)), into)
            for part in (a, step_of(a))
        ]
        self.launch(op, x.size, arithmetic(x), *arrays, *ends)
        return self.delivered(into, dx)


def _widened(kernel: str, wide: int, size: int, *arrays: Any) -> tuple[str, int, list[Any]]:
    """The kernel for one channel per thread or four, its threads, and the arrays with steps in that
    unit."""
    steps = [part // wide if type(part) is int else part for part in arrays]
    return kernel if wide == 1 else f"{kernel}{wide}", size // wide, steps


def _lrn_numbers(
    op: str, x: Array, size: int, alpha: float, beta: float, k: float, region: str
) -> tuple[Any, ...]:
    """Sizes, the radius in channels and in pixels, and the formula's numbers."""
    share, shift = lrn.share_and_shift(op, size, alpha, k, region)
    radii = (size // 2, 0) if region == "ACROSS_CHANNELS" else (0, size // 2)
    _, c, high, wide = x.shape
    numbers = (arithmetic(x).type(number) for number in (share, shift, float(beta)))
    return (x.size, divisor(c), divisor(wide), divisor(high), *radii, *numbers)
