"""The choice of an algorithm for each pass of a convolution, by shape: the one place that decides.

Lowering computes everything. cuDNN's plan is taken if its results agree within `TOLERANCES` and it
is faster. Both are tried when the pass runs for the first time. The reason against a plan is logged
once, with its figure.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ops.cuda.conv.algorithm import Convolution, ConvShape, Direction
from ops.cuda.conv.cudnn import CudnnMissing, Library, Planned, Steps
from ops.cuda.conv.lowered import Lowered
from ops.cuda.conv.trial import Trial
from ops.cuda.device import OnDevice
from ops.cuda.image_layout import ALIGNED, address, step_of
from ops.errors import Array, first_line

FORWARD, DATA, WEIGHTS = Direction
# The greatest error that is accepted, as a part of the greatest value. Unless the precision is
# "full", cuBLAS rounds factors too.
TOLERANCES = {"full": 1e-4, "fast": 5e-3, "tf32": 5e-3, "bf16": 2e-2}
LEAST_WORKSPACE = 64 << 20  # bytes that a plan may take even where lowering takes less
# most numbers of images for which a shape is planned: shares of a batch may change often, and plans
# take time
MOST_SIZES = 8
_log = logging.getLogger("ops.cudnn")


class Found(NamedTuple):
    """The results of a trial: the error, and the seconds of both algorithms, or None if they were
    not measured."""

    error: float
    cudnn: float | None = None
    lowering: float | None = None


def against(found: Found, precision: str, other: str = "lowering") -> str | None:
    """The reason against cuDNN's plan, in words; None if there is none. `other` names what it was
    compared with."""
    most = TOLERANCES[precision]
    if not found.error <= most:  # also true if the error is NaN
        return (
            f"differs from {other} by {found.error:.1e} of the greatest value, expected "
            f"at most {most:.0e}"
        )
    if found.cudnn is not None and found.lowering is not None and found.cudnn >= found.lowering:
        return f"takes {found.cudnn * 1e3:.3f} ms, lowering {found.lowering * 1e3:.3f} ms"
    return None


class Chooser:
    """Makes the algorithms of a backend, each once, and picks the one that a pass gets."""

    def __init__(self, ops: OnDevice) -> None:
        self._ops = ops
        self._lowered: dict[ConvShape, Convolution] = {}
        self._chosen: dict[tuple[ConvShape, Direction, Steps], Convolution] = {}
        # whether cuDNN was faster, keyed by the shape with one image
        self._faster: dict[tuple[ConvShape, Direction, Steps], bool] = {}
        # the number of plans, keyed by the shape with one image
        self._sizes: dict[tuple[ConvShape, Direction, Steps], int] = {}

    @cached_property
    def library(self) -> Library | None:
        """cuDNN if it is wanted and installed, else None. It is made in the thread that
        computes."""
        if self._ops.cudnn == "off":
            return None
        try:
            deterministic = self._ops.cudnn == "deterministic"
            library = Library(self._ops.precision, self._ops.stream, deterministic=deterministic)
        except CudnnMissing as missing:
            _log.warning(
                ('%s; convolutions are lowered (train.cudnn = "off" asks for that)'), missing
            )
            return None
        _log.info("cuDNN %s", library.version)
        return library

    def __call__(self, shape: ConvShape, direction: Direction, x: Array, y: Array) -> Convolution:
        """Return the algorithm of that pass over x and y, or their gradients, which have a
        `step_of`."""
        if self.library is None or shape.dtype != np.float32 or (address(x) | address(y)) % ALIGNED:
            return self.lowered(shape)
        steps = step_of(x), step_of(y)
        assert steps[0] is not None and steps[1] is not None
        key = (shape, direction, (steps[0], steps[1]))
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._choose(self.library, *key)
        return found

    def taken(self, shape: ConvShape, direction: Direction) -> str:
        """The algorithm that the passes of a shape have had so far: "cuDNN" or "lowering"."""
        passes = (found for key, found in self._chosen.items() if key[:2] == (shape, direction))
        return "cuDNN" if any(isinstance(found, Planned) for found in passes) else "lowering"

    def lowered(self, shape: ConvShape) -> Convolution:
        """Return lowering, which every pass can have."""
        found = self._lowered.get(shape)
        if found is None:
            found = self._lowered[shape] = Lowered(shape, self._ops)
        return found

    def _choose(
        self, library: Library, shape: ConvShape, direction: Direction, steps: Steps
    ) -> Convolution:
        lowered = self.lowered(shape)
        pass_ = f"cuDNN, {direction} of {shape}"
        each = (dataclasses.replace(shape, in_shape=(1, *shape.in_shape[1:])), direction, steps)
        if not self._faster.get(each, True):
            return lowered
        sizes = self._sizes[each] = self._sizes.get(each, 0) + 1
        if sizes > MOST_SIZES:
            if sizes == MOST_SIZES + 1:
                _log.info(
                    ("%s: planned for %d numbers of images before; all others are lowered"),
                    pass_,
                    MOST_SIZES,
                )
            return lowered
        try:
            plan = Planned(
                library,
                shape,
                direction,
                steps,
                self._ops,
                max(LEAST_WORKSPACE, lowered.scratch_bytes),
            )
            timed = self._ops.cudnn == "fastest" and each not in self._faster
            found = self._tried(plan, lowered, Trial(shape, direction, steps, self._ops), timed)
        except Exception as error:  # noqa: BLE001  # the frontend raises many kinds; lowering raises its own when it runs
            _log.warning("%s: no plan that runs (%s); lowered", pass_, first_line(error))
            return lowered
        finally:
            self._ops.trim()
        why = against(found, self._ops.precision)
        if found.cudnn is not None and found.lowering is not None:
            self._faster[each] = found.cudnn < found.lowering
        if why is None:
            _log.info("%s: taken, %s", pass_, _told(found))
            return plan
        _log.log(
            logging.INFO if found.cudnn is not None else logging.WARNING,
            "%s: %s; lowered",
            pass_,
            why,
        )
        return lowered

    def _tried(self, plan: Planned, lowered: Convolution, trial: Trial, timed: bool) -> Found:
        run = partial(trial.run, plan)
        error = trial.error(run, partial(trial.run, lowered))
        if against(Found(error), self._ops.precision):
            return Found(error)
        repeated = Found(trial.error(trial.repeated(plan), run))
        if why := against(repeated, self._ops.precision, "its first run"):
            _log.warning(
                "cuDNN: a plan that is started without checks %s; `execute` starts it", why
            )
            plan.direct = False
        if not timed:
            return Found(error)
        return Found(error, *trial.seconds(plan, lowered))


def _told(found: Found) -> str:
    times = "not timed"
    if found.cudnn is not None and found.lowering is not None:
        times = f"{found.cudnn * 1e3:.3f} ms, lowering {found.lowering * 1e3:.3f} ms"
    return f"{times}; error {found.error:.1e}"
