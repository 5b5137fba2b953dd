"""A trained net, ready for images: a plain object with ordinary calls."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.files.shared import Weights, lent
from nets.files.weights import match, read_weights
from nets.graph.graph import Net
from nets.predict import image_files
from nets.predict.deployment import Deployment, Given
from nets.predict.given import completed, deployment_of
from nets.predict.ranking import Prediction, best
from ops import Backend, KernelsMissing, get_backend

NOTHING_GIVEN = Given()


class Predictor:
    """Computes the scores of images, in batches of at most `batch`. Only one thread may use it at a
    time.

    `weights`: layer -> blobs, in the shapes of the net. `backend`: the backend that computes (None:
    the compiled kernels on one thread, or plain NumPy if there are no kernels). `get_backend("cpu",
    threads=4)` computes on four threads. Raises NetError if the net does not take one image, or if
    a layer has no weights.
    """

    def __init__(
        self,
        deployment: Deployment,
        weights: Weights,
        *,
        batch: int = 64,
        backend: Backend | None = None,
    ) -> None:
        if batch < 1:
            raise NetError(f"batch: found {batch}, expected an integer >= 1")
        self.deployment = deployment
        self.batch = batch
        net = Net(deployment.net, "TEST", ops=backend or _backend(), batch=batch, memory="reused")
        inside = deployment.transform.shape(deployment.shape)
        found = {name: shape[1:] for name, shape in net.input_shapes.items()}
        if list(found.values()) != [inside] or len(inside) != 3:
            expected = ", ".join(f"{name} {shape}" for name, shape in found.items())
            text = f"the net reads {expected}, and an image is {inside} after its transform"
            raise NetError(f"{deployment.net.path.name}: {text}: it cannot classify such images")
        if missing := [layer for layer in net.params if layer not in weights]:
            raise NetError(f"{deployment.net.path.name}: found no weights of {', '.join(missing)}")
        self._net, (self._input,) = net, net.inputs
        self._blobs = {
            layer: tuple(net.ops.asarray(blob, net.dtype) for blob in weights[layer])
            for layer in net.params
        }

    def __repr__(self) -> str:
        return (
            f"<Predictor {self.deployment.net.name} {self.deployment.shape} "
            f"{len(self.classes)} named classes>"
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        given: Given = NOTHING_GIVEN,
        *,
        batch: int = 64,
        backend: Backend | None = None,
    ) -> Self:
        """Load a checkpoint that has its deployment, or any weights (.safetensors, .caffemodel,
        .h5) together with `given` facts, which replace those of the file. Raises NetError if facts
        are missing or do not fit."""
        deployment, weights = for_use(Path(path), given)
        return cls(deployment, weights, batch=batch, backend=backend)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, empty if they are not known."""
        return self.deployment.classes

    @property
    def net(self) -> Net:
        """The net that computes. Its blobs other than inputs and outputs are not kept."""
        return self._net

    def scores(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return the scores of images, (N, K) float32. They are probabilities if the net ends in a
        softmax.

        `images` (N, C, H, W) are as the net's data source gives them: bytes 0 to 255, in the
        deployment's size and order of planes. The transform is done here.
        """
        expected = self.deployment.shape
        if images.ndim != 4 or images.shape[1:] != expected:
            raise NetError(
                f"images: found shape {images.shape}, expected (N, {', '.join(map(str, expected))})"
            )
        parts = [
            self._scores(images[at : at + self.batch]) for at in range(0, len(images), self.batch)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self._width()), np.float32)

    def classify(self, images: Iterable[NDArray[Any]], top: int = 5) -> Iterator[Prediction]:
        """Yield the best classes of arrays (C, H, W) of any size, which are resized."""
        fitted = (
            (str(at), image_files.fitted(np.asarray(image), self.deployment.shape))
            for at, image in enumerate(images)
        )
        yield from self._ranked(fitted, top)

    def files(self, paths: Iterable[str | Path], top: int = 5) -> Iterator[Prediction]:
        """Yield the best classes of image files, and of all images in folders, in their order. A
        file that cannot be read has an `error` instead."""
        yield from self._ranked(
            ((str(path), self._image(path)) for path in image_files.named(paths)), top
        )

    def _image(self, path: Path) -> NDArray[Any] | str:
        """Return an image, or the reason why it cannot be read."""
        try:
            return image_files.image(path, self.deployment.shape, self.deployment.order)
        except NetError as error:
            return str(error).removeprefix(f"{path}: ").removeprefix(f"{path.name}: ")

    def _ranked(
        self, images: Iterable[tuple[str, NDArray[Any] | str]], top: int
    ) -> Iterator[Prediction]:
        names = self.classes
        for some in _batched(images, self.batch):
            whole = [image for _, image in some if not isinstance(image, str)]
            scores = iter(self.scores(np.stack(whole)) if whole else ())
            for name, image in some:
                if isinstance(image, str):
                    yield Prediction(name, error=image)
                else:
                    yield Prediction(name, best(next(scores), top, names))

    def _scores(self, images: NDArray[Any]) -> NDArray[np.float32]:
        net = self._net
        rows = len(images)
        net.begin(0, (0, rows))
        given = self.deployment.transform(
            images, np.arange(rows, dtype=np.int64), seed=0, train=False
        )
        net.feed(self._input, given)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, self._blobs[stage.layer])
            net.forward(stage)
        return np.array(net.ops.to_host(net.blob(self.deployment.output)), np.float32).reshape(
            rows, -1
        )

    def _width(self) -> int:
        return int(np.prod(self._net.shape(self.deployment.output)[1:]))


def for_use(path: Path, given: Given = NOTHING_GIVEN) -> tuple[Deployment, Weights]:
    """Return the deployment of a weights file, completed by the `given` facts, and the file's blobs
    in the shapes of its net. Layers that the file does not have are missing. Raises NetError as
    `Predictor.load` does."""
    said = None if given.net is not None else deployment_of(path)
    weights: Weights = {}
    if said is None:
        net = given.net.for_phase("TEST") if given.net is not None else None
        weights = read_weights(path, lent(net.layers) if net is not None else {})
    deployment = completed(said, given, weights, path.name)
    whole = Net(deployment.net, "TEST", ops=get_backend("numpy"), batch=1)
    weights = weights or read_weights(path, lent(deployment.net.layers))
    return deployment, match(weights, whole.params, path.name).blobs


def _batched(items: Iterable[Any], size: int) -> Iterator[Sequence[Any]]:
    iterator = iter(items)
    while some := list(itertools.islice(iterator, size)):
        yield some


def _backend() -> Backend:
    """Return the compiled kernels if they are installed, otherwise NumPy with a warning."""
    try:
        return get_backend("cpu", precision="fast")
    except KernelsMissing as missing:
        logging.getLogger("nets").warning(
            ("%s; computing with plain NumPy, several times slower"), missing
        )
        return get_backend("numpy")
