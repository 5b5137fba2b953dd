"""`init`: a first cluster.toml, for the digits that ship with the package, a folder of images, or a
Caffe solver."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nets import counted, is_file, is_folder, load_solver
from nets.data.sources.class_folders import class_folders
from roles.commands import starters
from roles.commands.common import say, told, told_beside
from runtime.config.toml_source import CLUSTER_FILE
from runtime.config.toml_write import string
from runtime.errors import ConfigError
from runtime.reasons import reason
from runtime.terminal_text import is_plain, one_line, printable
from runtime.typed_name import typed_name

TESTED = 5  # one of so many images of a class is kept for tests
BATCH = 50  # images, fewer where there are fewer


def init(
    directory: Path = Path(),
    *,
    images: Path | None = None,
    net: str | None = None,
    weights: str | None = None,
    solver: Path | None = None,
    seed: int = 1,
) -> int:
    """Write a first cluster.toml with comments.

    By default it trains LeNet on the digits that ship with the package. Existing files are never
    overwritten.

    Parameters
    ----------
    directory
        The folder to write into. It is created if it does not exist.
    images
        Train on your own image files: a folder with one folder per class. Also writes the lists of
        images for training and for tests, the names of the classes, a net and a solver.
    net
        With --images and --weights: the net of the weights, a name of the zoo or a prototxt for
        training. Its last layer gets the number of your classes.
    weights
        With --images and --net: fine-tune these weights, as `train.weights` takes them: a
        .safetensors, .caffemodel or .h5 file, or a run.
    solver
        Train with the net and the settings of a Caffe solver.prototxt.
    seed
        With --images: draws the images for tests, a fifth of each class.
    """
    if images is not None and solver is not None:
        raise ConfigError(["init: found --images and --solver, expected one of them"])
    if (net is None) != (weights is None) or (net is not None and images is None):
        options = {"--images": images, "--net": net, "--weights": weights}
        found = " and ".join(option for option, value in options.items() if value is not None)
        text = "expected --images, --net and --weights together: a trained net for your images"
        raise ConfigError([f"init: found {found}, {text}"])
    if seed < 0:
        raise ConfigError([f"init: --seed: found {seed}, expected an integer >= 0"])
    with told():
        if images is not None:
            files = of_images(images, directory, net, weights, seed)
        elif solver is not None:
            files = of_solver(solver, directory)
        else:
            files = {
                CLUSTER_FILE: _cluster(
                    ("LeNet on the handwritten digits that ship with the package."),
                    starters.DIGITS,
                    directory,
                )
            }
    write(directory, files)
    for name in files:
        say(f"wrote {directory / name}")
    _look(directory / CLUSTER_FILE)
    return 0


def of_images(
    folder: Path,
    directory: Path,
    net: str | None = None,
    weights: str | None = None,
    seed: int = 1,
) -> dict[str, str]:
    """File name -> text, for a folder with one folder of images per class: for a small net, or for
    a trained `net` with `weights`. `seed` draws the images for tests. Raises DataError, NetError or
    ConfigError."""
    if not is_folder(folder):
        raise ConfigError(
            [(f"{folder}: no such folder; expected one with a folder of images per class")]
        )
    found = class_folders(folder)
    for line in found.told:
        told_beside("images", line)
    classes = found.names
    if len(classes) < 2:
        text = f"found images of one class ({classes[0]}), expected two classes at least"
        raise ConfigError([f"{folder}: {text}: one folder of images per class"])
    lists: dict[bool, list[str]] = {True: [], False: []}  # kept for tests?
    drawn = _drawn(found.labels, seed)
    for at, (path, label) in enumerate(zip(found.paths, found.labels, strict=True)):
        lists[at in drawn].append(f"{_listed(str(path.relative_to(folder)))} {label}\n")
    if not lists[True]:
        most = max(Counter(found.labels).values())
        text = (
            f"found {counted(most, 'image')} of a class at most, expected {TESTED} at least: a "
            "fifth is for tests"
        )
        raise ConfigError([f"{folder}: {text}"])
    batch, tested = (min(BATCH, len(lists[kept])) for kept in (False, True))
    root = string(_from(directory, folder))
    name = "A small net"
    train = starters.IMAGES.format(root=root)
    text = starters.net(len(classes), batch, tested)
    schedule = starters.solver(len(lists[False]), batch)
    if net is not None and weights is not None:
        from roles.commands.finetuned import finetuned

        name = "A trained net"
        text, train = finetuned(net, weights, len(classes), (batch, tested), directory, root)
        schedule = starters.finetuned_solver(len(lists[False]), batch)
    what = (
        f"{name} on images of {len(classes)} classes: {len(lists[False])} to train on, "
        f"{len(lists[True])} to test, drawn by the seed {seed}."
    )
    return {
        CLUSTER_FILE: _cluster(what, train, directory, preset="single", workers=1),
        "net.prototxt": text,
        "solver.prototxt": schedule,
        "train.txt": "".join(lists[False]),
        "val.txt": "".join(lists[True]),
        "classes.txt": "".join(f"{_listed(name)}\n" for name in classes),
    }


def _drawn(labels: Sequence[int], seed: int) -> set[int]:
    """The places of the images for tests: one of TESTED of each class. Images in the order of their
    names, such as the frames of a film, are unlike later ones."""
    places: dict[int, list[int]] = {}
    for at, label in enumerate(labels):
        places.setdefault(label, []).append(at)
    draws = np.random.default_rng(seed)
    return {int(at) for of in places.values() for at in draws.permutation(of)[: len(of) // TESTED]}


def of_solver(path: Path, directory: Path) -> dict[str, str]:
    """File name -> text, for a Caffe solver. Raises PrototxtError if the solver or its net cannot
    be read."""
    if not is_file(path):
        raise ConfigError([f"{path}: no such file; expected Caffe's solver.prototxt"])
    spec = load_solver(path)
    tests = starters.CAFFE_TEST if spec.proto.test_iter else ""
    train = starters.CAFFE.format(solver=string(_from(directory, path)), test=tests)
    return {
        CLUSTER_FILE: _cluster(
            f"The training of {one_line(path.name)}.",
            train,
            directory,
            preset="single",
            workers=1,
        )
    }


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Write all of the files, or none. Raises ConfigError with the files that exist already, or
    with the file that cannot be written."""
    if wrong := [
        name for name, text in files.items() if any("\ud800" <= sign <= "\udfff" for sign in text)
    ]:
        text = (
            "would name a file or folder with bytes that are not UTF-8, which a text file "
            "cannot have; rename it"
        )
        raise ConfigError([f"{directory / name}: {text}" for name in wrong])
    if there := [name for name in files if os.path.lexists(directory / name)]:
        raise ConfigError(
            [
                (f"{directory / name}: exists already: name another folder, or move it")
                for name in there
            ]
        )
    made: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (directory / name).open("x", encoding="utf-8") as opened:
                made.append(directory / name)
                opened.write(text)
    except OSError as error:
        for path in made:
            path.unlink()
        raise ConfigError(
            [(f"{error.filename or directory}: cannot be written: {reason(error)}")]
        ) from None


def _cluster(
    what: str, train: str, directory: Path, *, preset: str = "omnivore", workers: int = 2
) -> str:
    return starters.cluster(
        what, train, one_line(shlex.quote(str(directory / CLUSTER_FILE))), preset, workers
    )


def _from(directory: Path, path: Path) -> str:
    """The path as seen from `directory`: relative if both have a folder in common below the root,
    else absolute."""
    here = directory.resolve()
    there = path.resolve()
    common = Path(os.path.commonpath([here, there]))
    return os.path.relpath(there, here) if common != Path(common.anchor) else str(there)


def _listed(name: str) -> str:
    """Return a name that can be a line of a list, or the start of one. Raises ConfigError if it
    would be read as another name."""
    if name != name.strip() or not is_plain(name):
        text = (
            "found a control character, a space at an end or bytes that are not UTF-8 in this name"
        )
        raise ConfigError(
            [(f"{one_line(name)}: {text}, which a list of names cannot contain; rename it")]
        )
    return name


def _look(file: Path) -> None:
    """Report the mistakes and warnings that `check` would report, at once. The files stay."""
    from runtime.runs.checking import check

    try:
        remarks: Sequence[str] = check(file, (), starts=False).warnings
    except ConfigError as error:
        remarks = [f"to correct before `up`: {problem}" for problem in error.problems]
    else:
        say(f"train it: {typed_name()} up {file}")
    for remark in remarks:
        sys.stderr.write(f"warning: {printable(remark)}\n")
