"""Batch normalisation of a device, alone or with scale, bias, addend and rectifier, in two launches
each way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ops.activation import RELU, Activation
from ops.cuda.device import OnDevice, strips_of
from ops.cuda.image_layout import arithmetic, step_of, width
from ops.cuda.launch import NOTHING, divisor
from ops.cuda.repeats import repeated
from ops.errors import Array
from ops.reference import fused, normalise
from ops.reference.mixed_images import checked

ROWS_APART = 16  # least rows that a thread of the last kernel takes


class Normalisation(OnDevice):
    """Overrides batch norm and the operations joined with it. The reference handles arrays that are
    neither rows (N, C) nor images (N, C, H, W)."""

    @repeated
    def batch_norm_forward(
        self,
        x: Array,
        *,
        eps: float = 1e-5,
        statistics: tuple[Array, Array] | None = None,
        out: Array | None = None,
        mean: Array | None = None,
        variance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        normalise.check_batch_norm(checked(x), statistics, checked(out), mean, variance)
        if x.ndim not in (2, 4):
            return super().batch_norm_forward(
                x, eps=eps, statistics=statistics, out=out, mean=mean, variance=variance
            )  # fmt: skip
        return self._forward(x, None, None, eps, statistics, False, None, out, mean, variance)

    @repeated
    def batch_norm_backward(
        self,
        dy: Array,
        y: Array,
        variance: Array,
        *,
        eps: float = 1e-5,
        fixed: bool = False,
        out: Array | None = None,
    ) -> Array:
        normalise.check_batch_norm_backward(checked(dy), checked(y), variance, checked(out))
        if dy.ndim not in (2, 4):
            return super().batch_norm_backward(dy, y, variance, eps=eps, fixed=fixed, out=out)
        return self._backward(dy, y, None, None, None, variance, eps, fixed, False, out, None, None)

    @repeated
    def norm_scale_forward(
        self,
        x: Array,
        gamma: Array,
        beta: Array,
        *,
        eps: float = 1e-5,
        statistics: tuple[Array, Array] | None = None,
        activation: Activation | None = None,
        addend: Array | None = None,
        out: Array | None = None,
        mean: Array | None = None,
        variance: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        fused.check(
            "norm_scale_forward",
            checked(out),
            gamma,
            beta,
            x=checked(x),
            **({} if addend is None else {"addend": checked(addend)}),
        )
        normalise.check_batch_norm(checked(x), statistics, checked(out), mean, variance)
        if x.ndim not in (2, 4) or activation not in (None, RELU):
            return super().norm_scale_forward(
                x,
                gamma,
                beta,
                eps=eps,
                statistics=statistics,
                activation=activation,
                addend=addend,
                out=out,
                mean=mean,
                variance=variance,
            )
        rectify = activation == RELU
        return self._forward(x, gamma, beta, eps, statistics, rectify, addend, out, mean, variance)

    @repeated
    def norm_scale_backward(
        self,
        dy: Array,
        x: Array,
        gamma: Array,
        beta: Array,
        mean: Array,
        variance: Array,
        *,
        eps: float = 1e-5,
        fixed: bool = False,
        activation: Activation | None = None,
        sums: tuple[Array, Array] | None = None,
        out: Array | None = None,
        out_gamma: Array | None = None,
        out_beta: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        fused.check("norm_scale_backward", checked(out), gamma, beta, dy=checked(dy), x=checked(x))
        if dy.ndim not in (2, 4) or activation not in (None, RELU):
            return super().norm_scale_backward(
                dy, x, gamma, beta, mean, variance, eps=eps, fixed=fixed, activation=activation,
                out=out, out_gamma=out_gamma, out_beta=out_beta,
            )  # fmt: skip
        dgamma, dbeta = (
            self.xp.empty(gamma.shape, gamma.dtype) if a is None else a
            for a in (out_gamma, out_beta)
        )
        into_g, into_b = (
            a if a.flags.c_contiguous else self.xp.empty(a.shape, a.dtype) for a in (dgamma, dbeta)
        )
        dx = self._backward(
            dy, x, gamma, beta, mean, variance, eps, fixed, activation == RELU, out, into_g, into_b
        )
        return dx, self.delivered(into_g, dgamma), self.delivered(into_b, dbeta)

    @repeated
    def norm_added(
        self, mean: Array, variance: Array, share: float, unbiased: float, out: Sequence[Array]
    ) -> None:
        if not all(a.flags.c_contiguous for a in (mean, variance, *out)):
            super().norm_added(mean, variance, share, unbiased, out)
            return
        t = mean.dtype.type
        self.launch(
            "norm_added",
            mean.size,
            mean.dtype,
            mean,
            variance,
            *out,
            mean.size,
            t(share),
            t(unbiased),
        )

    @repeated
    def norm_running(self, blobs: Sequence[Array], mean: Array, variance: Array) -> None:
        """Does not wait for the device."""
        given = [self.contiguous(blob) for blob in blobs]
        self.launch("norm_running", mean.size, mean.dtype, *given, mean, variance, mean.size)

    def _forward(
        self,
        x: Array,
        gamma: Array | None,
        beta: Array | None,
        eps: float,
        statistics: tuple[Array, Array] | None,
        rectify: bool,
        addend: Array | None,
        out: Array | None,
        mean: Array | None,
        variance: Array | None,
    ) -> tuple[Array, Array, Array]:
        source = self._rows(x)
        c = width(x)
        real = arithmetic(x)
        m = math.prod(x.shape) // c
        y = self._like(x, out)
        into = self._over(y)
        if statistics is None:
            mean, variance = (
                self.xp.empty((c,), real) if a is None else a for a in (mean, variance)
            )
            found = [
                a if a.flags.c_contiguous else self.xp.empty((c,), real) for a in (mean, variance)
            ]
            strips = strips_of(m, c)
            sums, tickets, group = self.summing(2, strips, c, real)
            self.launch(
                "norm_moments",
                strips * c,
                real,
                source,
                step_of(source),
                sums,
                tickets,
                *found,
                strips * c,
                divisor(c),
                m,
                strips,
                group,
            )
        else:
            mean, variance = statistics
            found = [self.contiguous(a) for a in statistics]
        more = (NOTHING, 0) if addend is None else (added := self._rows(addend), step_of(added))
        strips = max(1, m // ROWS_APART)
        self.launch(
            "norm_forward",
            strips * c,
            real,
            source,
            step_of(source),
            *found,
            self.given(gamma),
            self.given(beta),
            *more,
            into,
            step_of(into),
            strips * c,
            divisor(c),
            m,
            strips,
            real.type(eps),
            int(rectify),
        )
        assert mean is not None and variance is not None
        if statistics is None:
            self.delivered(found[0], mean)
            self.delivered(found[1], variance)
        return self.delivered(into, y), mean, variance

    def _backward(
        self,
        dy: Array,
        x: Array,
        gamma: Array | None,
        beta: Array | None,
        mean: Array | None,
        variance: Array,
        eps: float,
        fixed: bool,
        rectify: bool,
        out: Array | None,
        dgamma: Array | None,
        dbeta: Array | None,
    ) -> Array:
        c = width(x)
        real = arithmetic(x)
        dx = self._like(dy, out)
        m = math.prod(x.shape) // c
        strips = strips_of(m, c)
        into = self._over(dx)
        given = self._rows(dy)
        source = self._rows(x)
        total: tuple[Any, int] = (NOTHING, 0)
        arrays = (
            given,
            step_of(given),
            source,
            step_of(source),
            self.given(mean),
            self.given(variance),
            self.given(gamma),
            self.given(beta),
        )
        last = (real.type(eps), int(rectify))
        if not fixed or dgamma is not None:
            sums, tickets, group = self.summing(2, strips, c, real)
            self.launch(
                "norm_products",
                strips * c,
                real,
                *arrays,
                sums,
                tickets,
                *(NOTHING if a is None else a for a in (dgamma, dbeta)),
                strips * c,
                divisor(c),
                m,
                strips,
                group,
                *last,
            )
            if not fixed:
                total = sums, strips * c
        strips = max(1, m // ROWS_APART)
        self.launch(
            "norm_backward",
            strips * c,
            real,
            *arrays,
            *total,
            into,
            step_of(into),
            strips * c,
            divisor(c),
            m,
            strips,
            *last,
        )
        return self.delivered(into, dx)

    def _rows(self, x: Array) -> Array:
        return self.read(x) if x.ndim == 4 or step_of(x) is not None else self.contiguous(x)

    def _like(self, x: Array, out: Array | None) -> Array:
        if x.ndim == 4:
            return self.images_like(x.shape, out, x.dtype)
        found: Array = self.xp.empty(x.shape, x.dtype) if out is None else out
        return found

    def _over(self, out: Array) -> Array:
        if out.ndim == 4 or step_of(out) is not None:
            return self.into(out)
        found: Array = self.xp.empty(out.shape, out.dtype)
        return found
