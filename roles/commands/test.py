"""`test`: the scores of a model on the test data."""

from __future__ import annotations

import json as json_text
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nets import Net, NetError
from nets.files.weights import load_weights
from nets.predict import Scored, Tally, scored
from nets.predict.deployment import Deployment
from nets.predict.given import deployment_of
from nets.predict.ranking import called, rows_of
from ops import Array
from roles.commands.common import job_of_file, say, told, weights_meant
from roles.learning.job import Job
from roles.messages import TEST
from runtime.cli.arguments import Settings, Switch
from runtime.compute import threads
from runtime.errors import ConfigError

WIDEST = 20  # classes of a confusion matrix that is printed as a table; of more the worst pairs
WORST = 20  # pairs of classes


@dataclass
class Found:
    """The result of one test net. `scores` are means over its images, by name. `missing` layers
    have no weights and kept their first values.

    `tally` has top-k and confusion if they were asked for, `names` the names of the classes. `net`
    is a clause that names the test net if there are several.
    """

    net: str
    images: int
    missing: tuple[str, ...]
    scores: dict[str, float] = field(default_factory=dict)
    tally: Tally | None = None
    names: Sequence[str] = ()


def test(
    weights: Path,
    file: Path = Path("cluster.toml"),
    *,
    top: int | None = None,
    confusion: Switch = False,
    json: Switch = False,
    settings: Settings = (),
) -> int:
    """Score a model on the test data.

    A net that has neither losses nor accuracies, such as one for deployment, is scored by the
    data's labels.

    Parameters
    ----------
    weights
        A checkpoint of Convoy, a .caffemodel or Caffe's HDF5 weights; or a run, by its directory or
        name: its best model, else its newest checkpoint.
    file
        The cluster's description: its net and test data are used.
    top
        Also print the share of images whose label is among so many best classes.
    confusion
        Also print which classes are confused: a table of up to 20 classes, or the worst pairs if
        there are more.
    json
        Write one JSON object for each test net.
    """
    if top is not None and top < 1:
        raise ConfigError([f"--top: found {top}, expected an integer >= 1"])
    threads.release()  # `up` may test when its run is over, and then still holds threads
    with told():
        weights = weights_meant(weights, file)
        job = job_of_file(file, settings)
        if TEST not in job.data:
            raise ConfigError([f"{file}: train.data.test: missing: there is nothing to test on"])
        for phase in job.test_phases:
            found = _tested(job, phase, weights, top, confusion)
            if json:
                say(json_text.dumps(_as_json(found, confusion)))
                continue
            for layer in found.missing:
                say(
                    f"{weights.name} has no weights for layer '{layer}': its first values "
                    f"are used{found.net}"
                )
            for name, value in found.scores.items():
                say(f"{name} {value:.4f} on {found.images} images{found.net}")
            for line in _as_text(found, confusion):
                say(line)
    return 0


def _tested(job: Job, phase: str, weights: Path, top: int | None, confusion: bool) -> Found:
    """Run a test net over its images."""
    source = job.source(phase)
    counts = top is not None or confusion
    net = job.build(phase, "all", job.shapes(phase, source), memory="kept" if counts else "reused")
    batches = job.batches(phase, source, net, more=1)
    matched = load_weights(weights, net.params, job.shared)
    blobs = {**net.initial_blobs(), **{layer: tuple(of) for layer, of in matched.blobs.items()}}
    total = job.test_rows(phase, source)
    of = f", test net {job.test_name(phase)}" if len(job.test_phases) > 1 else ""
    found = Found(of, total, matched.missing, names=_names(weights, source.class_names))
    judged = scored(net.spec)
    sums: dict[str, float] = defaultdict(float)
    for number in range(-(-total // job.rows(phase))):
        rows = min(job.rows(phase), total - number * job.rows(phase))
        net.begin(number, (0, rows))
        fed = batches.read(number, 0, rows)
        for name, array in zip(net.inputs, fed, strict=False):  # the net may take no labels
            net.feed_rows(name, array)
        more = [net.laid_out(array) for array in fed[len(net.inputs) :]]
        for stage in net.stages:
            if stage.layer is not None:
                net.load(
                    stage.layer,
                    tuple(net.ops.asarray(blob, net.dtype) for blob in blobs[stage.layer]),
                )
            net.forward(stage)
        for name, value in (net.scalars() or _outputs(net, *more)).items():
            sums[name] += rows * value
        if counts:
            found.tally = _counted(found.tally, net, judged, more, top or 1)
    found.scores = {name: value / total for name, value in sums.items()}
    return found


def _counted(tally: Tally | None, net: Net, judged: Scored, more: Sequence[Any], top: int) -> Tally:
    """The tally with one more batch. Raises NetError if the net gives no scores of classes, or if
    labels are missing."""
    scores = net.ops.to_host(net.blob(judged.scores))
    labels = (
        net.ops.to_host(net.blob(judged.labels)) if judged.labels else more[0] if more else None
    )
    axis = judged.axis if scores.ndim > 1 else 0
    if labels is None or scores.ndim < 2 or scores.size != labels.size * scores.shape[axis]:
        shapes = (
            f"scores '{judged.scores}' of shape {scores.shape}, "
            f"{'no labels' if labels is None else labels.shape}"
        )
        raise NetError(
            f"--top, --confusion: found {shapes}, expected scores of classes and a label for each"
        )
    rows = rows_of(scores, np.asarray(labels), axis)
    tally = tally or Tally(rows[0].shape[1], top)
    tally.add(*rows)
    return tally


def _names(weights: Path, of_data: Sequence[str]) -> Sequence[str]:
    """The names of the classes: from the checkpoint, else from the data."""
    try:
        said: Deployment | None = deployment_of(weights)
    except NetError:
        said = None
    return said.classes if said is not None and said.classes else of_data


def _outputs(net: Net, labels: Array | None = None) -> dict[str, float]:
    """Scores of a net that computes none. If the data have `labels`: the share of images whose
    label has the largest number in the only output. Else: the mean of each output."""
    outputs = {name: net.ops.to_host(net.blob(name)) for name in net.outputs}
    name, first = next(iter(outputs.items()))
    classes = (
        first.ndim > 1 and first.size == first.shape[0] * first.shape[1] and first.shape[1] > 1
    )
    if labels is not None and labels.ndim == 1 and len(outputs) == 1 and classes:
        best = first.reshape(len(first), -1).argmax(1)
        return {
            (f"accuracy by the data's labels (largest number of '{name}')"): float(
                np.mean(best == labels)
            )
        }
    return {f"mean of output '{name}'": float(array.mean()) for name, array in outputs.items()}


def _as_text(found: Found, confusion: bool) -> list[str]:
    """Lines with top-k and the confusion matrix. A row is a label, a column a class that was found
    for it."""
    tally = found.tally
    if tally is None:
        return []
    lines = [
        (f"top-{tally.top} accuracy {tally.top_accuracy:.4f} on {tally.images} labels{found.net}")
    ]
    if not confusion:
        return lines
    count = len(tally.confusion)
    names = [called(number, found.names) for number in range(count)]
    recall = ["-" if np.isnan(share) else f"{share:.4f}" for share in tally.recall]
    if count <= WIDEST:
        rows = [["label", *names, "found"]]
        rows += [
            [name, *map(str, row), share]
            for name, row, share in zip(names, tally.confusion, recall, strict=True)
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(count + 2)]
        return lines + [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
    pairs = tally.worst(WORST)
    lines.append(f"{count} classes; the {len(pairs)} pairs that are confused most often:")
    totals = tally.confusion.sum(axis=1)
    return lines + [
        (f"{images:>6} of {totals[a]:<6} {names[a]} taken for {names[b]}") for a, b, images in pairs
    ]


def _as_json(found: Found, confusion: bool) -> dict[str, Any]:
    said: dict[str, Any] = {
        "images": found.images,
        "scores": found.scores,
        "missing": list(found.missing),
    }
    if found.net:
        said["net"] = found.net.removeprefix(", test net ")
    if (tally := found.tally) is not None:
        said["top"] = {"k": tally.top, "accuracy": tally.top_accuracy, "labels": tally.images}
        if confusion:
            said["confusion"] = tally.confusion.tolist()
            said["classes"] = [
                called(number, found.names) for number in range(len(tally.confusion))
            ]
    return said
