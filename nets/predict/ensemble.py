"""Several trained nets whose scores are averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nets.errors import NetError
from nets.files.parts import Named
from nets.layers.base import Shape
from nets.predict import image_files
from nets.predict.classifier import Classifier, Prepare
from nets.predict.deployment import Deployment, Given
from nets.predict.predictor import NOTHING_GIVEN, Predictor, fastest_backend
from ops import Backend


@dataclass(frozen=True)
class Output:
    """The facts that the members of an ensemble must have in common: the `width` is the number of
    scores, the `ending` the type of the last layer if it is a Softmax or a Sigmoid. `name` is the
    member's, for errors."""

    name: str
    width: int
    ending: str
    classes: tuple[str, ...] = ()


def common_classes(members: Sequence[Output]) -> tuple[str, ...]:
    """Return the names of the classes of an ensemble, empty if no member has them. Raises NetError
    if the members differ in their classes or in the kind of their scores."""
    first = members[0]
    named = next((member for member in members if member.classes), first)
    for member in members[1:]:
        if member.width != first.width:
            text = (
                f"found {member.width} scores in {member.name}, but {first.width} in {first.name}"
            )
            raise NetError(f"{text}: nets of an ensemble have the same classes")
        if member.ending != first.ending:
            found, expected = (one.ending or "no softmax" for one in (member, first))
            raise NetError(
                f"found {found} at the end of {member.name}, but {expected} at the end of "
                f"{first.name}: their scores cannot be averaged"
            )
        if member.classes and member.classes != named.classes:
            raise NetError(
                f"found class {_first_difference(member.classes, named.classes)} in {member.name} "
                f"and {named.name}: nets of an ensemble have the same classes in the same order"
            )
    return named.classes


def _first_difference(one: Sequence[str], other: Sequence[str]) -> str:
    pairs = zip(one, other, strict=False)
    at = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    names = [repr(each[at]) if at < len(each) else "nothing" for each in (one, other)]
    return f"{at}: {names[0]} and {names[1]}"


class Ensemble(Classifier):
    """Averages the scores of several trained nets: probabilities if they end in a softmax, else the
    scores as they are. Only one thread may use it at a time.

    Each of the `members` has its own transform, size and order of images. They compute one after
    the other, batch by batch, in one memory for activations. `names` are those of the members, for
    errors. Raises NetError if the members differ in their classes or in the kind of their scores.
    """

    def __init__(self, members: Sequence[Predictor], names: Sequence[str] = ()) -> None:
        if not members:
            raise NetError("ensemble: found no member, expected one at least")
        self.members = tuple(members)
        names = names or [f"member {at}" for at in range(1, len(members) + 1)]
        outputs = [
            Output(name, member.width, member.deployment.ending, member.classes)
            for name, member in zip(names, members, strict=True)
        ]
        self._classes = common_classes(outputs)
        self.batch = min(member.batch for member in members)

    def __repr__(self) -> str:
        nets = ", ".join(member.deployment.net.name for member in self.members)
        return f"<Ensemble of {nets}; {len(self.classes)} named classes>"

    @classmethod
    def load(
        cls,
        named: Iterable[Named] | Mapping[str, Named],
        given: Given = NOTHING_GIVEN,
        *,
        batch: int = 64,
        backend: Backend | None = None,
    ) -> Self:
        """Load each member as `Predictor.load` does, with the `given` facts. A mapping also gives
        the names of the members, for errors."""
        backend = backend or fastest_backend()
        if isinstance(named, (str, Path)):
            named = [named]  # one member
        wanted = (
            list(named.items())
            if isinstance(named, Mapping)
            else [(_name(one), one) for one in named]
        )
        members = [Predictor.load(one, given, batch=batch, backend=backend) for _, one in wanted]
        for member in members[1:]:
            member.net.share_memory(members[0].net)
        return cls(members, [name for name, _ in wanted])

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, empty if no member knows them."""
        return self._classes

    def scores(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return the averaged scores of images, (N, K) float32.

        `images` (N, C, H, W) are as the first member's data source gives them. They are resized for
        members with another size, and their planes are reordered for members with another order.
        """
        first = self.members[0].deployment
        if images.ndim != 4 or images.shape[1:] != first.shape:
            expected = ", ".join(map(str, first.shape))
            raise NetError(f"images: found shape {images.shape}, expected (N, {expected})")
        total: NDArray[Any] | None = None
        for member in self.members:
            of_member = member.scores(as_seen(images, first, member.deployment))
            member.net.release()  # it keeps no images while the next one computes
            total = of_member if total is None else total + of_member
        assert total is not None
        return np.asarray(total / len(self.members), np.float32)

    def scored(self, items: Sequence[Any], prepared: Prepare) -> list[NDArray[Any] | str]:
        """Return the averaged scores of each of at most `batch` items, or the reason why a member
        has none. An item is prepared once for all members that see it in one size, order and
        orientation."""
        kept: dict[tuple[int, Shape, str, str], NDArray[Any] | str] = {}

        def once(deployment: Deployment, item: Any) -> NDArray[Any] | str:
            key = id(item), deployment.shape, deployment.order, deployment.orientation
            if key not in kept:
                kept[key] = prepared(deployment, item)
            return kept[key]

        found = []
        for member in self.members:
            found.append(member.scored(items, once))
            member.net.release()
        return [_averaged(of_members) for of_members in zip(*found, strict=True)]


def _averaged(found: Sequence[NDArray[Any] | str]) -> NDArray[Any] | str:
    rows: list[NDArray[Any]] = []
    for one in found:
        if isinstance(one, str):
            return one
        rows.append(one)
    return np.asarray(np.mean(rows, axis=0, dtype=np.float32))


def as_seen(images: NDArray[Any], have: Deployment, want: Deployment) -> NDArray[Any]:
    """Return images of one deployment in the size and the order of planes of another."""
    if {have.order, want.order} == {"bgr", "rgb"}:
        images = images[:, ::-1]
    if images.shape[1:] == want.shape:
        return images
    return np.stack([image_files.fitted(image, want.shape) for image in images])


def _name(named: Named) -> str:
    return str(named) if not isinstance(named, (list, tuple)) else ",".join(map(str, named))
