"""`test`: the scores of a model on the test data."""

from __future__ import annotations

import dataclasses
import json as json_text
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nets import counted
from nets.files.parts import names
from nets.predict import Tally
from nets.predict.ranking import called
from roles.commands.common import job_and_options, say, told
from roles.commands.members import members_of, weights_and_file
from roles.commands.scoring import Asked, Found, found_by_test
from roles.messages import TEST
from runtime.cli.arguments import Settings, Switch
from runtime.compute import threads
from runtime.errors import ConfigError

WIDEST = 20  # classes of a confusion matrix that is printed as a table; of more the worst pairs
WORST = 20  # pairs of classes


def test(
    weights: str,
    *more: str,
    file: Path | None = None,
    top: int | None = None,
    confusion: Switch = False,
    json: Switch = False,
    settings: Settings = (),
) -> int:
    """Score a model on the test data, or several models and their ensemble.

    A net that has neither losses nor accuracies, such as one for deployment, is scored by the
    data's labels. With further weights, each net is scored, and then the averages of their outputs:
    of probabilities if the nets end in a softmax.

    Parameters
    ----------
    weights
        A checkpoint of Convoy, a .caffemodel or Caffe's HDF5 weights; or a run, by its directory or
        name: its best model, else its newest checkpoint. One net in several files: A,B.
    more
        Further weights, and the cluster's description, a name that ends in .toml: its net and test
        data are used. Without such a name: cluster.toml.
    file
        The cluster's description under any name.
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
        further, cluster = weights_and_file(more, file)
        members = members_of([weights, *further], cluster)
        job, options = job_and_options(cluster, settings)
        job = dataclasses.replace(job, freeze=())  # all parameters come from WEIGHTS
        asked = Asked(top, confusion, options.train.data.test_flips)
        if TEST not in job.data:
            raise ConfigError([f"{cluster}: train.data.test: missing: there is nothing to test on"])
        for phase in job.test_phases:
            found = found_by_test(job, phase, members, asked, options.train.data.order)
            if json:
                say(json_text.dumps(_as_json(found, confusion)))
                continue
            for one in found:
                for line in _as_text(one, len(found) > 1, confusion):
                    say(line)
    return 0


def _as_text(found: Found, several: bool, confusion: bool) -> list[str]:
    """The lines of one result. If there are several, each line names the member or the ensemble,
    and only the ensemble has a confusion matrix."""
    member, tally = found.member, found.tally
    of = f"{member.word if member else 'ensemble'}: " if several else ""
    files = names(member.files) if member else ""
    lines = [
        f"{files} has no weights for layer '{layer}': its first values are used{found.net}"
        for layer in found.missing
    ]
    images = f"{counted(found.images, 'image')}{' and their mirror images' if found.flips else ''}"
    for name, value in found.scores.items():
        lines.append(f"{of}{name} {value:.4f} on {images}{found.net}")
    if tally is None:
        return lines
    accuracy = f"top-{tally.top} accuracy {tally.top_accuracy:.4f}"
    lines.append(f"{of}{accuracy} on {counted(tally.images, 'label')}{found.net}")
    if confusion and (not several or member is None):
        lines += _confusion(tally, found.names)
    return lines


def _confusion(tally: Tally, classes: Sequence[str]) -> list[str]:
    """The lines of the confusion matrix. A row is a label, a column a class that was found for
    it."""
    count = len(tally.confusion)
    names = [called(number, classes) for number in range(count)]
    recall = ["-" if np.isnan(share) else f"{share:.4f}" for share in tally.recall]
    if count <= WIDEST:
        rows = [["label", *names, "found"]]
        rows += [
            [name, *map(str, row), share]
            for name, row, share in zip(names, tally.confusion, recall, strict=True)
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(count + 2)]
        return [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
    pairs = tally.worst(WORST)
    totals = tally.confusion.sum(axis=1)
    return [
        f"{count} classes; the {len(pairs)} pairs that are confused most often:",
        *(
            f"{images:>6} of {totals[a]:<6} {names[a]} taken for {names[b]}"
            for a, b, images in pairs
        ),
    ]


def _as_json(results: Sequence[Found], confusion: bool) -> dict[str, Any]:
    """The object of a test net: of its only net, or of the ensemble with its `members`."""
    *members, last = results
    said = _facts(last, confusion)
    if members:
        del said["missing"]  # each member has its own
        said["members"] = [
            {"weights": one.member.word, **_facts(one, confusion=False)}
            for one in members
            if one.member is not None
        ]
    return said


def _facts(found: Found, confusion: bool) -> dict[str, Any]:
    said: dict[str, Any] = {
        "images": found.images,
        "scores": found.scores,
        "missing": list(found.missing),
    }
    if found.flips:
        said["test_flips"] = True
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
