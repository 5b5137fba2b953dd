"""The classification of images by one net or by several, batch by batch: images in, their best
classes out."""

from __future__ import annotations

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.predict import image_files
from nets.predict.deployment import Deployment
from nets.predict.ranking import Prediction, best

# makes an item the image (C, H, W) that a net's deployment describes, or the reason why it cannot
Prepare = Callable[[Deployment, Any], NDArray[Any] | str]


def _logged(line: str) -> None:
    logging.getLogger("nets").warning("%s", line)


class Classifier(ABC):
    """Classifies images in batches of at most `batch`."""

    batch: int

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, empty if they are not known."""

    @abstractmethod
    def scores(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return the scores of images (N, C, H, W), (N, K) float32."""

    @abstractmethod
    def scored(self, items: Sequence[Any], prepared: Prepare) -> list[NDArray[Any] | str]:
        """Return the scores of each of at most `batch` items, or the reason why it has none."""

    def classify(self, images: Iterable[NDArray[Any]], top: int = 5) -> Iterator[Prediction]:
        """Yield the best classes of arrays (C, H, W) of any size, which are resized."""
        yield from self._ranked(((str(at), image) for at, image in enumerate(images)), _fitted, top)

    def files(
        self,
        paths: Iterable[str | Path],
        top: int = 5,
        told: Callable[[str], None] = _logged,
    ) -> Iterator[Prediction]:
        """Yield the best classes of image files, and of all images in folders, in their order. A
        file that cannot be read has an `error` instead. `told` gets a line about the files and
        folders that were passed over in each folder."""
        yield from self._ranked(
            ((str(path), path) for path in image_files.named(paths, told)), _read, top
        )

    def _ranked(
        self, items: Iterable[tuple[str, Any]], prepared: Prepare, top: int
    ) -> Iterator[Prediction]:
        for name, found in self._outputs(items, prepared):
            if isinstance(found, str):
                yield Prediction(name, error=found)
            else:
                yield Prediction(name, best(found, top, self.classes))

    def outputs(
        self, paths: Iterable[str | Path], told: Callable[[str], None] = _logged
    ) -> Iterator[tuple[str, NDArray[Any] | str]]:
        """Yield the name of each image that `files` takes, with its scores, (K,) float32, or the
        reason why it has none."""
        items = ((str(path), path) for path in image_files.named(paths, told))
        yield from self._outputs(items, _read)

    def _outputs(
        self, items: Iterable[tuple[str, Any]], prepared: Prepare
    ) -> Iterator[tuple[str, NDArray[Any] | str]]:
        for some in _batched(items, self.batch):
            scores = self.scored([item for _, item in some], prepared)
            yield from zip((name for name, _ in some), scores, strict=True)


def _fitted(deployment: Deployment, image: NDArray[Any]) -> NDArray[Any]:
    return image_files.fitted(np.asarray(image), deployment.shape)


def _read(deployment: Deployment, path: Path) -> NDArray[Any] | str:
    """Return the image in a file, or the reason why it cannot be read."""
    try:
        return image_files.image(path, deployment.shape, deployment.order, deployment.orientation)
    except NetError as error:
        return str(error).removeprefix(f"{path}: ")


def _batched(items: Iterable[Any], size: int) -> Iterator[Sequence[Any]]:
    iterator = iter(items)
    while some := list(itertools.islice(iterator, size)):
        yield some
