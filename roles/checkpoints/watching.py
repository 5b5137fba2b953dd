"""The lead's options for tests and checkpoints, from cluster.toml, the net that is tested, and the
data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nets import Net, NetError, counted
from nets.data import Source
from nets.data.sources.class_folders import repeated
from nets.errors import did_you_mean
from nets.graph.classes import numbers_of
from nets.predict import Seen
from nets.predict.deployment import read_classes
from nets.predict.given import deployment_of
from roles.checkpoints.best import NO_PLATEAU, Plateau, Watch, Watched
from roles.learning.epochs import epoch_rows
from roles.learning.job import Job
from roles.messages import TRAIN

if TYPE_CHECKING:  # pydantic is slow to import, and role processes need none
    from roles.options import Checkpoint, Train

Problem = tuple[str, tuple[str, ...]]  # a mistake, and the key it belongs to
BEST = ("checkpoint", "best")
STOP = ("train", "stop")
PLATEAU = ("train", "schedule", "by")
PLATEAU_KEYS = ("patience", "min_delta", "factor", "least")
CLASSES = ("train", "data", "classes")
MOST_NAMES = 8  # of classes in a message


def told_to_lead(
    train: Train,
    said: Checkpoint,
    base: Path,
    job: Job,
    sources: Mapping[str, Source],
    nets: Mapping[str, Net],
) -> tuple[dict[str, Any], list[Problem]]:
    """The lead's options for tests and checkpoints, and the mistakes in cluster.toml, which lies in
    the folder `base`. `sources` and `nets` are those of the run."""
    tested = next((nets[phase] for phase in job.test_phases), None)
    watched = _watched(train, said)
    problems = list(_mistakes(watched, train, tested, job.solver_spec.test_interval))
    names: tuple[str, ...] = sources[TRAIN].class_names
    if train.data.classes is not None:
        try:
            names = names_of(train, base, sources[TRAIN])
        except NetError as error:
            problems += [(text, CLASSES) for text in error.problems]
        if not isinstance(train.data.classes, str):
            problems += [(text, CLASSES) for text in repeated(names)]
        problems += [(text, CLASSES) for text in _other_count(names, nets[TRAIN])]
        problems += [(text, CLASSES) for text in _other_order(names, sources[TRAIN].class_names)]
    phase = next(iter(job.test_phases), TRAIN)
    source = sources[phase]
    net = nets[phase]
    order = "gray" if source.shape[0] == 1 else train.data.order or source.order
    inputs = {name: shape[1:] for name, shape in net.input_shapes.items()}
    seen = Seen(source.shape, order, names, inputs, source.orientation)
    return {
        "watched": _settled(watched, tested) if tested is not None else watched,
        "seen": seen,
        "epoch_images": epoch_rows(job, sources[TRAIN]),
        "accuracies": tuple(name for name, rises in _scores(nets[TRAIN]).items() if rises),
    }, problems


def names_of(train: Train, base: Path, source: Source) -> tuple[str, ...]:
    """The names of the classes: those that [train.data] gives, else those of the source. Raises
    NetError if the file of names cannot be read."""
    named = train.data.classes
    if named is None:
        return source.class_names
    return read_classes(base / named) if isinstance(named, str) else tuple(named)


def other_classes(resume: str, names: Sequence[str]) -> str:
    """A warning if the checkpoint to resume has other classes than the data have now; "" if it has
    none, or the same."""
    said = deployment_of([Path(resume)]) if resume else None
    if said is None or not said.classes or not names or said.classes == tuple(names):
        return ""
    before, now = (", ".join(each[:MOST_NAMES]) for each in (said.classes, names))
    return (
        f"its model was trained on {counted(len(said.classes), 'class')} ({before}), and the data "
        f"have {len(names)} ({now}): the same label may now mean another class"
    )


def _other_count(names: Sequence[str], net: Net) -> Iterator[str]:
    """The mistake in the number of class names, if there is one."""
    counts = [numbers.count for numbers in numbers_of(net) if numbers.blob in net.inputs[1:]]
    if counts and len(names) not in counts:
        classes = counted(counts[-1], "class")
        yield f"found {counted(len(names), 'name')}, but the net has {classes}"


def _other_order(names: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    """The mistake of names that are those of the data in another order."""
    if tuple(names) != tuple(folders) and sorted(names) == sorted(folders):
        yield (
            f"found {', '.join(names)}, but the labels of the data are in the order "
            f"{', '.join(folders)}: use that order, or leave the names out"
        )


def _watched(train: Train, said: Checkpoint) -> Watched:
    """The rules of cluster.toml for tests. It is not known yet for which scores a larger one is
    better."""
    best = Watch(said.best or "")
    stop = train.stop
    plateau = _plateau(train)
    if stop is None:
        return Watched(best, plateau=plateau)
    return Watched(best, Watch(stop.by), stop.patience, stop.min_delta, plateau)


def _plateau(train: Train) -> Plateau:
    """The rule that lowers the rate, from [train.schedule]."""
    said = train.schedule
    if said is None or said.type != "plateau":
        return NO_PLATEAU
    rule = {key: said.given[key] for key in PLATEAU_KEYS if key in said.given}
    return Plateau(Watch(said.by or "loss"), **rule)


def _settled(watched: Watched, tested: Net) -> Watched:
    """The same rules, with the direction of each score: is a larger one better? The score that is
    shown is that of `best`, else an accuracy, else another score."""
    scores = _scores(tested)
    rising = [name for name, rises in scores.items() if rises]
    shown = watched.best.score or next(iter([*rising, *scores]), "")

    def settled(watch: Watch) -> Watch:
        return Watch(watch.score, watch.score in rising)

    plateau = watched.plateau
    return dataclasses.replace(
        watched,
        best=settled(watched.best),
        stop=settled(watched.stop),
        shown=settled(Watch(shown)),
        plateau=dataclasses.replace(plateau, watch=settled(plateau.watch)),
    )


def _mistakes(
    watched: Watched, train: Train, tested: Net | None, interval: int
) -> Iterator[Problem]:
    """Mistakes in the choice of scores: no test is made, or a test does not report that score.
    `interval`: iterations between two tests."""
    emulated = any(device.startswith("emulated") for device in train.devices.values())
    rules = ((watched.best, BEST), (watched.stop, STOP), (watched.plateau.watch, PLATEAU))
    for watch, key in rules:
        if not watch.score:
            continue
        if tested is None:
            yield f"found '{watch.score}', but nothing is tested: train.data.test is missing", key
        elif emulated:
            yield (
                (
                    f"found '{watch.score}', but emulated devices compute nothing that a test "
                    "could score"
                ),
                key,
            )
        elif watch.score not in (known := _scores(tested)):
            near = did_you_mean(watch.score, known)
            yield (
                (
                    f"found '{watch.score}', but tests report no such score{near}; they report "
                    f"{', '.join(known)}"
                ),
                key,
            )
        elif key in (STOP, PLATEAU) and not interval:
            yield "the solver tests at the end only: give it a test_interval", key


def _scores(net: Net) -> dict[str, bool]:
    """The scores that a test of this net reports, as `Net.scalars` does. True if a larger one is
    better."""
    found: dict[str, bool] = {}
    losses = False
    for layer in (node.layer for stage in net.stages for node in stage.nodes):
        for place, (top, weight) in enumerate(
            zip(layer.proto.top, layer.loss_weights, strict=True)
        ):
            if (place == 0 and layer.scores) or weight:
                found[top] = layer.proto.type == "Accuracy"
                losses = losses or layer.differentiable
    return found | ({"loss": False} if losses else {})
