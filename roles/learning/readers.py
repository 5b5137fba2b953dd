"""The reader of a phase's batches, which are transformed where they are read, or on the device that
trains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nets.data import Batches, DeviceBatches, Prefetcher, StreamBatches, on_device
from ops import Backend, ImageForm
from roles.learning.backends import reader_threads


def reader_of(
    batches: Batches | StreamBatches,
    ops: Backend,
    starved: Callable[[], None] | None,
    *,
    on_gpu: bool,
) -> Prefetcher:
    """A reader of these batches, ahead, into memory from which the backend's device takes them. It
    calls `starved` if the rows are late again and again."""
    ahead = partial(
        Prefetcher, place=ops.staged, threads=reader_threads(on_gpu=on_gpu), starved=starved
    )
    if not (ops.transforms_images and type(batches) is Batches and on_device(batches)):
        return ahead(batches)
    read = DeviceBatches(batches)
    form = form_of(read)

    def finish(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        images, *others, places = arrays
        return ops.transform_pixels(images, places, form), *others

    return ahead(read, finish=finish)


def form_of(batches: DeviceBatches) -> ImageForm:
    """The part of the transform that all images share."""
    transform = batches.transform
    channels, *size = batches.shapes[0]
    high, wide = size
    mean, deviation = (
        tuple(given * (channels if len(given) == 1 else 1))
        for given in (transform.mean or (0.0,), transform.deviation or (1.0,))
    )
    return ImageForm(
        (high, wide), transform.turned, mean, transform.scale, deviation, transform.mean_image
    )
