"""A trained net, ready for images: a plain object with ordinary calls."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.files.number_checks import usable
from nets.files.parts import Named, names, parts_of
from nets.files.shared import Weights
from nets.files.weights import match, read_each
from nets.graph.graph import Net
from nets.graph.streams import streams_of
from nets.predict.classifier import Classifier, Prepare
from nets.predict.deployment import Deployment, Given
from nets.predict.given import completed, deployment_of
from ops import Backend, KernelsMissing, get_backend

NOTHING_GIVEN = Given()


class Predictor(Classifier):
    """Computes the scores of images, in batches of at most `batch`, or one at a time if the net is
    written for one image. Only one thread may use it at a time.

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
        if streams_of(deployment.net.for_phase("TEST")) is not None:
            text = (
                "the net reads sequences, and an image is none: `test` scores the net on its data"
            )
            raise NetError(f"{deployment.net.path.name}: {text}")
        net, self.batch = _net_for(deployment, backend or fastest_backend(), batch)
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
        named: Named,
        given: Given = NOTHING_GIVEN,
        *,
        batch: int = 64,
        backend: Backend | None = None,
    ) -> Self:
        """Load a checkpoint that has its deployment, or any weights (.safetensors, .caffemodel,
        .h5) together with `given` facts, which replace those of the file. Several files of one net
        are `named` as a sequence, or as one text with commas. Raises NetError if facts are missing
        or do not fit."""
        deployment, weights = for_use(named, given)
        return cls(deployment, weights, batch=batch, backend=backend)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, empty if they are not known."""
        return self.deployment.classes

    @property
    def net(self) -> Net:
        """The net that computes. Its blobs other than inputs and outputs are not kept."""
        return self._net

    def scores(self, images: NDArray[Any], *, mirrored: bool = False) -> NDArray[np.float32]:
        """Return the scores of images, (N, K) float32. They are probabilities if the net ends in a
        softmax.

        `images` (N, C, H, W) are as the net's data source gives them: bytes 0 to 255, in the
        deployment's size and order of planes. The transform is done here. `mirrored`: the net gets
        the mirror images of the transformed images.
        """
        expected = self.deployment.shape
        if images.ndim != 4 or images.shape[1:] != expected:
            raise NetError(
                f"images: found shape {images.shape}, expected (N, {', '.join(map(str, expected))})"
            )
        parts = [
            self._scores(images[at : at + self.batch], mirrored)
            for at in range(0, len(images), self.batch)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.width), np.float32)

    def scored(self, items: Sequence[Any], prepared: Prepare) -> list[NDArray[Any] | str]:
        """Return the scores of each of at most `batch` items, or the reason why it has none.
        `prepared` makes an item an image."""
        images = [prepared(self.deployment, item) for item in items]
        whole = [image for image in images if not isinstance(image, str)]
        rows = iter(self.scores(np.stack(whole)) if whole else ())
        return [image if isinstance(image, str) else next(rows) for image in images]

    def _scores(self, images: NDArray[Any], mirrored: bool) -> NDArray[np.float32]:
        net = self._net
        rows = len(images)
        net.begin(0, (0, rows))
        given = self.deployment.transform(
            images, np.arange(rows, dtype=np.int64), seed=0, train=False
        )
        net.feed(self._input, np.ascontiguousarray(given[..., ::-1]) if mirrored else given)
        for stage in net.stages:
            if stage.layer is not None:
                net.load(stage.layer, self._blobs[stage.layer])
            net.forward(stage)
        return np.array(net.ops.to_host(net.blob(self.deployment.output)), np.float32).reshape(
            rows, -1
        )

    @property
    def width(self) -> int:
        """The number of scores of an image."""
        return int(np.prod(self._net.shape(self.deployment.output)[1:]))


def _net_for(deployment: Deployment, backend: Backend, batch: int) -> tuple[Net, int]:
    """Return the net and the number of images that it takes at a time: `batch`, or 1 with a warning
    if a layer of the net, such as a Reshape, is written for one image."""

    def built(rows: int) -> Net:
        net = Net(deployment.net, "TEST", ops=backend, batch=rows, memory="reused")
        found = net.shape(deployment.output)[0]
        if found != rows and batch > 1:
            raise NetError(f"{deployment.net.path.name}: found {found} rows of scores for {rows}")
        return net

    try:
        return built(batch), batch
    except NetError as error:
        fault = error
    try:
        one = built(1)
    except NetError:
        raise fault from None
    text = "%s: computes one image at a time, since the net is written for one: %s"
    logging.getLogger("nets").warning(text, deployment.net.name, fault)
    return one, 1


def for_use(named: Named, given: Given = NOTHING_GIVEN) -> tuple[Deployment, Weights]:
    """Return the deployment of a net's weights, completed by the `given` facts, and its blobs in
    the shapes of its net. Layers that the files do not have are missing. Raises NetError as
    `Predictor.load` does."""
    files = tuple(map(Path, parts_of(named)))
    said = None if given.net is not None else deployment_of(files)
    net = given.net if given.net is not None else said.net if said is not None else None
    found = read_each(files, net.for_phase("TEST").layers if net is not None else ())
    for line in found.told:
        logging.getLogger("nets").warning("%s", line)
    deployment = completed(said, given, found.weights, names(files))
    whole = Net(deployment.net, "TEST", ops=get_backend("numpy"), batch=1)
    blobs = match(found.weights, whole.params, names(files)).blobs
    usable(names(files), blobs, whole.params)
    return deployment, blobs


def fastest_backend() -> Backend:
    """Return the compiled kernels if they are installed, otherwise NumPy with a warning."""
    try:
        return get_backend("cpu", precision="fast")
    except KernelsMissing as missing:
        logging.getLogger("nets").warning(
            ("%s; computing with plain NumPy, several times slower"), missing
        )
        return get_backend("numpy")
