"""The demands of nets with recurrent layers on the preset, the batch and the solver."""

from __future__ import annotations

from collections.abc import Iterator

from nets import Net
from nets.data import Source
from roles.learning.job import Job
from roles.messages import TRAIN
from roles.planning.plan_inputs import PlanInputs
from roles.planning.refusals import Problem
from roles.planning.strategies import PRESETS

PRESET = ("strategy", "preset")


def recurrent_mistakes(inputs: PlanInputs, job: Job, net: Net) -> Iterator[Problem]:
    """Find settings with which `net`, a net with recurrent layers, cannot be trained."""
    if net.streams is None:
        yield from _of_steps(inputs, job)
        return
    shards = inputs.preset.shards(inputs.train.strategy)
    if shards:
        others = [name for name, preset in PRESETS.items() if preset.equals_single]
        text = (
            "found a net with recurrent layers, whose FC phase is a layer for every step of time: "
            "it cannot be divided among shards; choose another preset, such as "
        )
        yield text + ", ".join(f"'{name}'" for name in others if name != "one-weird-trick"), PRESET
    if net.phase != TRAIN:
        return
    if inputs.preset.scatters:
        others = [name for name, preset in PRESETS.items() if preset.equals_single]
        text = (
            "found a net with recurrent layers, whose states go on from batch to batch, but this "
            "preset gives consecutive batches to different workers; choose another preset, such as "
        )
        yield text + ", ".join(f"'{name}'" for name in others), PRESET
    streams = net.streams.number
    if (count := job.solver_spec.iter_size) > 1:
        text = (
            f"found iter_size {count}, but a net with recurrent layers learns from one pass at a "
            "time: leave iter_size out, and have more streams in the net and the data instead"
        )
        yield text, ("solver",)
    elif job.batch != streams or job.largest > streams:
        found = "'auto'" if job.largest > streams else str(job.batch)
        text = (
            f"found {found}, but the batch of a net with recurrent layers is its {streams} "
            "streams: leave this key out, and change the streams of the net and the data instead"
        )
        yield text, ("batch",)


def batches_of_sequence(net: Net, source: Source) -> int:
    """The number of consecutive batches in which a sequence of the training data goes on. It is 1
    for nets without streams."""
    return 1 if net.streams is None else max(1, source.unit // net.streams.steps)


def _of_steps(inputs: PlanInputs, job: Job) -> Iterator[Problem]:
    """Find settings for which rows would have to be cut, in a net whose rows are steps of time."""
    text = "found a net with recurrent layers, whose rows are steps of time: "
    more = "; declare all inputs by Input layers of shape (T, N, ...), T steps of N streams"
    if not inputs.preset.alone:
        alone = [f"'{name}'" for name, preset in PRESETS.items() if preset.alone]
        yield f"{text}only preset {' and '.join(alone)} trains it{more} to use others", PRESET
    elif job.micro_batches:
        yield f"{text}they cannot be cut into micro-batches{more}", ("strategy", "reproducible")
