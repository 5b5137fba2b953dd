"""A warning for weights that were trained on images with another mean or deviation than this run
has. Only files that describe their use can tell, as Convoy's checkpoints do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nets import Net
from nets.data import Transform
from nets.predict.given import deployment_of
from roles.learning.job import Job
from roles.messages import TRAIN

Numbers = tuple[tuple[float, ...], tuple[float, ...]]  # means and deviations, one for each channel


def other_numbers(job: Job, net: Net) -> Iterator[str]:
    """The warning, or nothing. Raises CheckpointError for a damaged description."""
    said = deployment_of([Path(file) for file in job.weights])
    if said is None or len(said.shape) != 3:
        return
    channels = said.shape[0]
    theirs = _numbers(said.transform, channels)
    ours = _numbers(job.transform.on(Transform.of_net(net.spec, TRAIN)), channels)
    if theirs is None or ours is None:
        return
    turned = tuple(numbers[::-1] for numbers in theirs)  # planes in the opposite order
    if ours not in (theirs, turned):
        yield (
            f"the net of these weights was trained on images with mean {_shown(theirs[0])} and "
            f"deviation {_shown(theirs[1])}, and this run has mean {_shown(ours[0])} and deviation "
            f"{_shown(ours[1])}: set train.data.mean and train.data.deviation"
        )


def _numbers(transform: Transform, channels: int) -> Numbers | None:
    """The mean and the deviation of each channel, on the scale of the source's numbers. None if
    the mean is an image, or is for another number of channels."""
    means, deviations = transform.mean or (0.0,), transform.deviation or (1.0,)
    if transform.mean_image is not None or {len(means), len(deviations)} - {1, channels}:
        return None
    return (
        tuple(_rounded(mean) for mean in _each(means, channels)),
        tuple(_rounded(each / transform.scale) for each in _each(deviations, channels)),
    )


def _each(numbers: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return numbers if len(numbers) == channels else numbers * channels


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")  # prototxt and TOML round differently


def _shown(numbers: tuple[float, ...]) -> str:
    found = numbers[:1] if len(set(numbers)) == 1 else numbers
    return ", ".join(f"{number:g}" for number in found)
