"""Parameter updates of Caffe's solvers and of later optimizers, and the addition of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ops.errors import Array, OpsError
from ops.reference import decoupled_update, update, whole_update


@dataclass(frozen=True)
class Parameter:
    """One parameter of `update_together`: w, its gradient, the solver's histories, and the
    destination of the new w (may be w).

    `rate` and `decay` multiply the update's rate and decay. A running statistic becomes keep * w +
    g.
    """

    w: Array
    g: Array
    histories: tuple[Array, ...]
    out: Array
    rate: float = 1.0
    decay: float = 1.0
    keep: float | None = None

    def arrays(self) -> dict[str, Array]:
        """The gradient, the destination and the histories, by name."""
        return {"g": self.g, "out": self.out} | {
            f"history {n}": h for n, h in enumerate(self.histories)
        }


class UpdateOps:
    """Every update of Caffe adds decay * w (L2) or decay * sign(w) (L1) to g first. Decoupled
    updates take rate * decay * w from w instead. out_w may be w, out_h may be history."""

    xp: Any
    updates_together = False  # whether `update_together` is implemented

    def update_together(
        self,
        rule: str,
        parameters: Sequence[Parameter],
        *,
        rate: float,
        decay: float,
        regularization: str,
        numbers: Mapping[str, float],
        step: int,
        given: Array | None = None,
    ) -> None:
        """Update many parameters in one operation, histories in place. All are C-contiguous.

        `rule`: a solver's type. `numbers`: the rule's numbers other than rate and decay. `step`
        counts from 1. If `given`, the update reads the results of `update_numbers` there; a
        recording reads them anew in each replay.
        """
        raise OpsError("update_together: this backend updates parameters one by one")

    def update_numbers(
        self, rule: str, *, rate: float, numbers: Mapping[str, float], step: int
    ) -> tuple[float, ...]:
        """The numbers of an update that may change from step to step, in the order of the kernel:
        the rate and those that follow from the rule's numbers and the step."""
        raise OpsError("update_numbers: this backend updates parameters one by one")

    def sgd_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        decay: float,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """h' = momentum * h + rate * g, w' = w - h' -> (w', h')."""
        return update.sgd(
            self.xp, w, g, history, rate, momentum, decay, regularization, out_w, out_h
        )

    def nesterov_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """h' as in SGD, w' = w - ((1 + momentum) * h' - momentum * h) -> (w', h')."""
        return update.nesterov(
            self.xp, w, g, history, rate, momentum, decay, regularization, out_w, out_h
        )

    def adagrad_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """h' = h + g^2, w' = w - rate * g / (sqrt(h') + delta) -> (w', h')."""
        return update.adagrad(
            self.xp, w, g, history, rate, delta, decay, regularization, out_w, out_h
        )

    def rmsprop_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        rms_decay: float = 0.99,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """As AdaGrad, with h' = rms_decay * h + (1 - rms_decay) * g^2 -> (w', h')."""
        return update.rmsprop(
            self.xp, w, g, history, rate, rms_decay, delta, decay, regularization, out_w, out_h
        )

    def adadelta_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        updates: Array,
        *,
        rate: float,
        momentum: float,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
        out_u: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Zeiler's AdaDelta with Caffe's rate -> (w', mean of g^2, mean of step^2)."""
        return update.adadelta(
            self.xp,
            w,
            g,
            history,
            updates,
            rate,
            momentum,
            delta,
            decay,
            regularization,
            out_w,
            out_h,
            out_u,
        )

    def adam_update(
        self,
        w: Array,
        g: Array,
        mean: Array,
        square: Array,
        *,
        rate: float,
        step: int,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_m: Array | None = None,
        out_s: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Kingma and Ba's Adam, `step` counted from 1 -> (w', mean of g, mean of g^2)."""
        return update.adam(
            self.xp,
            w,
            g,
            mean,
            square,
            rate,
            momentum,
            momentum2,
            delta,
            step,
            decay,
            regularization,
            out_w,
            out_m,
            out_s,
        )

    def sgdw_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        decay: float = 0.0,
        nesterov: bool = False,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """SGD as in PyTorch, with decoupled decay: h' = momentum * h + g, d = h' (`nesterov`: g +
        momentum * h'), w' = w - rate * (d + decay * w) -> (w', h')."""
        return decoupled_update.sgd(
            self.xp, w, g, history, rate, momentum, decay, nesterov, regularization, out_w, out_h
        )

    def adamw_update(
        self,
        w: Array,
        g: Array,
        mean: Array,
        square: Array,
        *,
        rate: float,
        step: int,
        momentum: float = 0.9,
        momentum2: float = 0.999,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_m: Array | None = None,
        out_s: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Loshchilov and Hutter's AdamW as in PyTorch, `step` counted from 1 -> (w', mean of g,
        mean of g^2)."""
        return decoupled_update.adam(
            self.xp,
            w,
            g,
            mean,
            square,
            rate,
            momentum,
            momentum2,
            delta,
            step,
            decay,
            regularization,
            out_w,
            out_m,
            out_s,
        )

    def lars_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        trust: float = 0.001,
        delta: float = 1e-8,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """You, Gitman and Ginsburg's LARS: h' = momentum * h + local * (g + decay * w), w' = w -
        rate * h' -> (w', h'). `local` is trust * |w| / (|g| + decay * |w| + delta) for weights, and
        1 for parameters with one axis."""
        return whole_update.lars(
            self.xp,
            w,
            g,
            history,
            rate,
            momentum,
            trust,
            delta,
            decay,
            regularization,
            out_w,
            out_h,
        )

    def muon_update(
        self,
        w: Array,
        g: Array,
        history: Array,
        *,
        rate: float,
        momentum: float,
        decay: float = 0.0,
        regularization: str = "L2",
        out_w: Array | None = None,
        out_h: Array | None = None,
    ) -> tuple[Array, Array]:
        """Jordan's Muon: h' = momentum * h + (1 - momentum) * g, w' = w - rate * (0.2 *
        sqrt(largest side) * orthogonal(g + momentum * (h' - g)) + decay * w) -> (w', h'). All axes
        of w but the first are the columns of one matrix."""
        (new,) = whole_update.muon(
            self.xp,
            [(w, g, history)],
            [rate],
            [decay],
            momentum,
            regularization,
            [(out_w, out_h)],
        )
        return new

    def muon_together(
        self, parameters: Sequence[Parameter], *, rate: float, decay: float, momentum: float
    ) -> None:
        """Update parameters of one shape, histories in place. Their matrices are multiplied as one
        batch."""
        whole_update.muon(
            self.xp,
            [(one.w, one.g, one.histories[0]) for one in parameters],
            [rate * one.rate for one in parameters],
            [decay * one.decay for one in parameters],
            momentum,
            "L2",
            [(one.out, one.histories[0]) for one in parameters],
        )

    def moving_average(
        self, average: Array, w: Array, keep: float, out: Array | None = None
    ) -> Array:
        """keep * average + (1 - keep) * w; out may be average."""
        return decoupled_update.moving_average(self.xp, average, w, keep, out)

    def add(self, a: Array, b: Array, out: Array | None = None) -> Array:
        """a + b, for summing gradients; out may be a or b."""
        return update.add(self.xp, a, b, out)

    def add_all(self, arrays: Sequence[Array], out: Array | None = None) -> Array:
        """The sum of many arrays, for gradients. They are added in pairs, ((a + b) + (c + d)) +
        ...; a last odd one waits for the next sums.

        No bit changes if 2, 4, 8, ... neighbours of them were added up elsewhere first. out must
        not be one of the arrays.
        """
        return update.add_all(self.xp, arrays, out)
