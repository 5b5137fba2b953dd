"""The solvers that a preset cannot have: clipping and optimizers that need what it divides, and
averages over time of models that learn separately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nets import SolverSpec
from roles.options import Strategy, Train
from roles.planning.strategies import PRESETS
from roles.presets.request import Preset

Remark = tuple[str, tuple[str, ...]]  # a line, and the keys below [train] that it is about

PRESET = ("strategy", "preset")


def unfit(train: Train, preset: Preset, solver: SolverSpec) -> Iterator[Remark]:
    """The reasons why the preset cannot have this solver."""
    name = train.strategy.preset
    if solver.clips and not preset.joint:
        joint = [name for name, preset in PRESETS.items() if preset.joint]
        text = (
            "clip_gradients needs the norm of all gradients, and no actor of this preset knows it"
        )
        yield f"{text}: presets {named(joint)} have it", PRESET
    if solver.clips and preset.shards(train.strategy):
        yield from _clipped_shards(train)
    if solver.needs_whole and preset.shards(train.strategy) > 1:
        plain = Strategy()
        whole = [name for name, preset in PRESETS.items() if not preset.shards(plain)]
        text = f"the optimizer '{solver.type}' needs whole parameters, and preset '{name}' divides"
        yield f"{text} those of the FC phase: presets {named(whole)} keep them whole", PRESET
    if train.ema is not None and preset.averages:
        text = f"preset '{name}' averages models that learn separately, and each would have its own"
        yield f"{text} average over time: leave out [train.ema], or choose another preset", ("ema",)


def _clipped_shards(train: Train) -> Iterator[Remark]:
    """The settings with which FC shards cannot clip."""
    clips = "but gradients are clipped by the norm of"
    if train.strategy.reproducible:
        text = f"found true, {clips} parts of the FC phase, whose sum is rounded differently"
        yield f"{text} than in one process", ("strategy", "reproducible")
    if train.strategy.variable_batch:
        text = f"found true, {clips} a whole batch, and each FC batch has its own update"
        yield text, ("strategy", "variable_batch")


def named(presets: Sequence[str]) -> str:
    """The names of presets in a sentence."""
    *first, last = (f"'{preset}'" for preset in presets)
    return f"{', '.join(first)} and {last}" if first else last
