"""The choice of an algorithm for each pass of a convolution, by shape: the one place that decides.

Lowering computes everything. cuDNN's ways (`candidates`) are tried when the pass runs for the first
time. Those whose results agree with lowering within `TOLERANCES` are timed, and the fastest of them
and lowering is taken. One line is logged for each pass, with all reasons and times.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ops.cache import cache_folder
from ops.cuda.conv.algorithm import PLAIN, Convolution, ConvShape, Direction, Epilogue
from ops.cuda.conv.candidates import Key, Pass, Recipe, Way
from ops.cuda.conv.cudnn import CudnnMissing, Library
from ops.cuda.conv.kept_choices import LOWERING, KeptChoices
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


def against(error: float, precision: str, other: str = "lowering") -> str | None:
    """Return the reason to reject a result, None if it is right. `error`: its greatest difference
    from the result of `other`, as a part of the greatest value."""
    most = TOLERANCES[precision]
    if error <= most:  # false if the error is NaN
        return None
    return f"differs from {other} by {error:.1e} of the greatest value, expected at most {most:.0e}"


class Tried(NamedTuple):
    """A way whose results are right, and its error as a part of the greatest value."""

    recipe: Recipe
    algorithm: Convolution
    error: float


class Outcome(NamedTuple):
    """What a trial has chosen; no recipe stands for lowering. `seconds` of one run by name, empty
    if nothing was timed; `reasons` against the ways that were rejected."""

    recipe: Recipe | None
    algorithm: Convolution
    error: float
    seconds: dict[str, float]
    reasons: list[str]

    def __str__(self) -> str:
        times = {name: f"{1e3 * seconds:.3f} ms" for name, seconds in self.seconds.items()}
        taken = None if self.recipe is None else str(self.recipe)
        others = [f"{name} {told}" for name, told in times.items() if name != taken]
        if taken is None:
            return "; ".join([*self.reasons, *others, "lowered"])
        first = f"taken, {taken}, {times.get(taken, 'not timed')}"
        return "; ".join([first, *self.reasons, *others, f"error {self.error:.1e}"])


class Chooser:
    """Makes the algorithms of a backend, each once, and picks the one that a pass gets."""

    def __init__(self, ops: OnDevice) -> None:
        self._ops = ops
        self._lowered: dict[ConvShape, Convolution] = {}
        self._chosen: dict[Key, Convolution] = {}
        # what was fastest, None for lowering, keyed by the shape with one image
        self._fastest: dict[Key, Recipe | None] = {}
        # the number of plans, keyed by the shape with one image
        self._sizes: dict[Key, int] = {}

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

    @cached_property
    def kept(self) -> KeptChoices:
        """The choices of earlier starts. None are kept if nothing is timed, or without a card."""
        library = self.library
        card = self._ops.card
        folder = None
        with suppress(RuntimeError):  # no home folder
            folder = cache_folder("cudnn")
        if library is None or card is None or self._ops.cudnn != "fastest":
            return KeptChoices(None, {})
        return KeptChoices(folder, {**card, **library.versions, "precision": self._ops.precision})

    def __call__(
        self,
        shape: ConvShape,
        direction: Direction,
        x: Array,
        y: Array,
        epilogue: Epilogue = PLAIN,
    ) -> Convolution:
        """Return the algorithm of that pass over x and y, or their gradients, which have a
        `step_of`. A forward pass has this epilogue."""
        if self.library is None or shape.dtype != np.float32 or (address(x) | address(y)) % ALIGNED:
            return self.lowered(shape)
        steps = step_of(x), step_of(y)
        assert steps[0] is not None and steps[1] is not None
        key = (shape, direction, (steps[0], steps[1]), epilogue)
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._choose(self.library, key)
        return found

    def taken(self, shape: ConvShape, direction: Direction) -> str:
        """The algorithm that the passes of a shape have had so far: "cuDNN" or "lowering"."""
        passes = (found for key, found in self._chosen.items() if key[:2] == (shape, direction))
        return "lowering" if all(isinstance(found, Lowered) for found in passes) else "cuDNN"

    def lowered(self, shape: ConvShape) -> Convolution:
        """Return lowering, which every pass can have."""
        found = self._lowered.get(shape)
        if found is None:
            found = self._lowered[shape] = Lowered(shape, self._ops)
        return found

    def _choose(self, library: Library, key: Key) -> Convolution:
        shape, direction, _, epilogue = key
        lowered = self.lowered(shape)
        name = f"cuDNN, {direction} of {shape}{f' with {epilogue}' if any(epilogue) else ''}"
        each = (dataclasses.replace(shape, in_shape=(1, *shape.in_shape[1:])), *key[1:])
        known = each in self._fastest
        kept = None if known else self.kept.read(key)
        recipe = self._fastest.get(each) if kept is None else kept.recipe
        if recipe is None and (known or kept is not None):
            self._fastest[each] = None
            if not known:
                _log.info("%s: lowered, as chosen at an earlier start", name)
            return lowered
        if self._too_many(each, name):
            return lowered
        most_bytes = max(LEAST_WORKSPACE, lowered.scratch_bytes)
        pass_ = Pass(library, *key, self._ops, most_bytes)
        try:
            trial = Trial(*key, self._ops)
            found = None if recipe is None else self._only(recipe, pass_, trial)
            if found is not None and found.recipe is not None:
                self._fastest[each] = recipe
            elif not known:
                if found is not None:
                    _log.warning("%s: %s; tried again", name, "; ".join(found.reasons))
                timed = self._ops.cudnn == "fastest"
                found = self._tried(pass_.candidates(), lowered, trial, timed)
        except Exception as error:  # noqa: BLE001  # the frontend raises many kinds; lowering raises its own when it runs
            _log.warning("%s: no plan that runs (%s); lowered", name, first_line(error))
            return lowered
        finally:
            self._ops.trim()
        assert found is not None
        if found.seconds:
            self._fastest[each] = found.recipe
            self.kept.write(key, found.recipe)
        level = logging.INFO if found.recipe or found.seconds else logging.WARNING
        _log.log(level, "%s: %s", name, found)
        return found.algorithm

    def _too_many(self, each: Key, name: str) -> bool:
        """Count one more number of images. Whether it is lowered, since so many were planned."""
        sizes = self._sizes[each] = self._sizes.get(each, 0) + 1
        if sizes == MOST_SIZES + 1:
            _log.info(
                ("%s: planned for %d numbers of images before; all others are lowered"),
                name,
                MOST_SIZES,
            )
        return sizes > MOST_SIZES

    def _only(self, recipe: Recipe, pass_: Pass, trial: Trial) -> Outcome:
        """Take this way if it is right: it was the fastest before."""
        lowered = self.lowered(pass_.shape)
        try:
            algorithm = pass_.made(recipe)
        except Exception as error:  # noqa: BLE001  # the frontend raises many kinds
            return Outcome(None, lowered, math.nan, {}, [f"no {recipe} ({first_line(error)})"])
        return self._tried([(recipe, algorithm)], lowered, trial, False)

    def _tried(
        self,
        ways: Iterable[tuple[Recipe, Way]],
        lowered: Convolution,
        trial: Trial,
        timed: bool,
    ) -> Outcome:
        """Take the fastest way that is right; the first of them if nothing is timed."""
        right: list[Tried] = []
        reasons: list[str] = []
        for recipe, algorithm in ways:
            error, why = self._compared(algorithm, lowered, trial, recipe.whole)
            if why is not None:
                reasons.append(f"{recipe} {why}")
                continue
            right.append(Tried(recipe, algorithm, error))
            if not timed:
                break
        seconds: dict[str, float] = {}
        if timed and right:
            times = trial.seconds(*(one.algorithm for one in right), lowered)
            names = [*(str(one.recipe) for one in right), LOWERING]
            seconds = dict(zip(names, times, strict=True))
            *each, last = times
            least = min(each)
            best = right[each.index(least)] if least < last else None
        else:
            best = right[0] if right else None
        if best is None:
            return Outcome(None, lowered, math.nan, seconds, reasons)
        return Outcome(best.recipe, best.algorithm, best.error, seconds, reasons)

    def _compared(
        self, tried: Way, lowered: Convolution, trial: Trial, whole: bool
    ) -> tuple[float, str | None]:
        """The error of an algorithm, and the reason against it."""
        run = partial(trial.run, tried)
        try:
            error = trial.error(run, partial(trial.run, lowered))
            if why := against(error, self._ops.precision):
                return error, why
            if whole and not trial.keeps_nan(run):
                return error, "takes NaN for 0"
            repeated = trial.error(trial.repeated(tried), run)
        except Exception as failure:  # noqa: BLE001  # the frontend raises many kinds
            return math.nan, f"does not run ({first_line(failure)})"
        if why := against(repeated, self._ops.precision, "its first run"):
            _log.warning(
                "cuDNN: a plan that is started without checks %s; `execute` starts it", why
            )
            tried.start_with_checks()
        return error, None
