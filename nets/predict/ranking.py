"""Rankings of class scores: the best classes of an image, and over many images the top-k accuracy
and the confusion matrix. Also the probabilities of raw scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Class(NamedTuple):
    """One class of a prediction: its number, its name (the number if it has none), its score."""

    number: int
    name: str
    score: float


@dataclass(frozen=True)
class Prediction:
    """The result for one image: its `classes`, best first, or the reason why it could not be read
    (`error`)."""

    name: str
    classes: tuple[Class, ...] = ()
    error: str = ""


def best(scores_K: NDArray[Any], top: int, names: Sequence[str]) -> tuple[Class, ...]:
    """Return the `top` best classes. Of equal scores, the smaller number comes first."""
    order = np.argsort(-scores_K, kind="stable")[:top]
    return tuple(Class(int(k), called(int(k), names), float(scores_K[k])) for k in order)


def called(number: int, names: Sequence[str]) -> str:
    """Return the name of a class, or its number."""
    return names[number] if number < len(names) else str(number)


class Tally:
    """Counts over the images of a test: how often the label is among the `top` best, and
    `confusion` (K, K). A row of `confusion` is a label, a column the class that the net chose."""

    def __init__(self, classes: int, top: int = 1) -> None:
        self.top = min(top, classes)
        self.images = 0
        self.hits = 0
        self.confusion = np.zeros((classes, classes), np.int64)

    def __repr__(self) -> str:
        return f"<tally of {self.images} images in {len(self.confusion)} classes>"

    def add(
        self, scores_NK: NDArray[Any], labels_N: NDArray[Any], ignored: int | None = None
    ) -> None:
        """Add images. A label counts as a hit if fewer than `top` classes have a higher score, as
        in Caffe's Accuracy. A label that is `ignored` or is not a class is not counted."""
        labels = labels_N.astype(np.int64)
        known = counted(labels, len(self.confusion), ignored)
        scores = scores_NK[known]
        labels = labels[known]
        own = scores[np.arange(len(labels)), labels]
        self.hits += int(np.count_nonzero((scores > own[:, None]).sum(axis=1) < self.top))
        self.images += len(labels)
        np.add.at(self.confusion, (labels, scores.argmax(axis=1)), 1)

    @property
    def accuracy(self) -> float:
        """The fraction of images whose best class is their label (top-1)."""
        return float(np.trace(self.confusion)) / self.images if self.images else 0.0

    @property
    def top_accuracy(self) -> float:
        """The fraction of images whose label is among the `top` best."""
        return self.hits / self.images if self.images else 0.0

    @property
    def recall(self) -> NDArray[np.float64]:
        """The fraction of each class's images that were recognised, (K,). NaN for a class without
        images."""
        total = self.confusion.sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.diag(self.confusion) / np.where(total, total, np.nan))

    def worst(self, count: int) -> list[tuple[int, int, int]]:
        """Return the pairs that are confused most often: (label, chosen class, images)."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:count]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [(int(a), int(b), int(wrong[a, b])) for a, b in pairs if wrong[a, b]]


def rows_of(
    scores: NDArray[Any], labels: NDArray[Any], axis: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Reshape scores with the classes on `axis`, and labels of the other axes, to (N, K) and
    (N,)."""
    moved = np.moveaxis(scores, axis, -1)
    return moved.reshape(-1, moved.shape[-1]), labels.reshape(-1)


def counted(labels: NDArray[np.int64], classes: int, ignored: int | None) -> NDArray[np.bool_]:
    """Return which labels are a class that is not `ignored`."""
    known: NDArray[np.bool_] = (labels >= 0) & (labels < classes)
    return known if ignored is None else known & (labels != ignored)


def probabilities(scores_NK: NDArray[Any], ending: str) -> NDArray[np.float64]:
    """Return scores as the layer type `ending` ("Softmax", "Sigmoid") turns them into
    probabilities; "" keeps them."""
    scores = np.asarray(scores_NK, np.float64)
    if ending == "Softmax":
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    return np.asarray(1 / (1 + np.exp(-scores))) if ending == "Sigmoid" else scores
