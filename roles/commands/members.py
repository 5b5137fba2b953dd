"""The members of an ensemble among the words of `predict` and `test`: which words name weights, and
which are images or the cluster.toml."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nets import NetError, is_file, is_folder
from nets.data.sources.class_folders import SUFFIXES, images_below
from nets.data.sources.passed_over import PassedOver
from nets.files.parts import parts_of
from roles.checkpoints.best import FILE
from roles.checkpoints.meant import has_model
from roles.commands.common import WEIGHTS, told_beside, weights_at, weights_meant
from runtime.cli.arguments import runs_here
from runtime.errors import ConfigError
from runtime.records.runs import run_directory

CLUSTER = Path("cluster.toml")


@dataclass(frozen=True)
class Member:
    """A net of an ensemble: the word that the user typed, and the files of its weights."""

    word: str
    files: tuple[Path, ...]


def members_of(words: Sequence[str], file: Path) -> list[Member]:
    """The members that these words name, which are reported on stderr if there are several. Raises
    NetError or ConfigError if files are missing, or if two words name the same weights."""
    found = [Member(word, weights_meant(word, file)) for word in words]
    seen: dict[tuple[str, ...], str] = {}
    for member in found:
        key = tuple(map(os.path.realpath, member.files))
        if key in seen:
            raise NetError(
                f"{member.word}: found the same weights as {seen[key]}, expected each net of an "
                "ensemble once"
            )
        seen[key] = member.word
    if len(found) > 1:
        told_beside("ensemble", f"the average of {len(found)} nets: {' '.join(words)}")
    return found


def weights_and_images(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The further weights among the words of `predict`, and the images, which come after them.
    Raises NetError for weights after images."""
    marks = [names_weights(word, CLUSTER, image=True) for word in words]
    count = marks.index(False) if False in marks else len(marks)
    if True in marks[count:]:
        late = words[count + marks[count:].index(True)]
        raise NetError(
            f"{late}: found weights after the image {words[count]}, expected all weights first, "
            "then the images"
        )
    return list(words[:count]), list(words[count:])


def weights_and_file(words: Sequence[str], file: Path | None) -> tuple[list[str], Path]:
    """The further weights among the words of `test`, and the cluster's description: `file`, or the
    word that names one. Raises NetError if there are several."""
    files = [word for word in words if Path(word).suffix == ".toml"]
    named = file or Path(files[0] if files else CLUSTER)
    more = [word for word in words if word not in files]
    files += [] if files else [word for word in more if not names_weights(word, named, image=False)]
    given = [*([str(file)] if file else []), *files]
    if len(given) > 1:
        raise NetError(
            f"found {', '.join(given)}, expected one description of the cluster and otherwise "
            f"weights ({', '.join(WEIGHTS)}), or the directories or names of runs"
        )
    return [word for word in more if word not in files], Path(given[0]) if given else CLUSTER


def names_weights(word: str, file: Path, *, image: bool) -> bool:
    """True if a word names weights: by its ending, as a folder with a model, or as the name of a
    run of this cluster.toml. Otherwise it names an `image` or a folder of images, or else the
    cluster.toml. Raises NetError if it could be either."""
    parts = parts_of(word, lambda whole: weights_at(whole, file) is not None)
    # each part is judged, so that an ambiguous one is refused
    return True in [_names_weights(part, file, image) for part in parts]


def _names_weights(word: str, file: Path, image: bool) -> bool:
    path = Path(word)
    if is_folder(path):
        model = not image or has_model(path)
        if model and image and _has_images(path):
            raise NetError(
                f"{word}: found a folder with models and with images: name the model in it, such "
                f"as {path / FILE}, or the images, such as {path}/*.png"
            )
        if not model and (run := _run_called(word, file)) is not None:
            raise _ambiguous(word, f"{path}/ for the folder of images", run)
        return model
    if path.suffix in WEIGHTS:
        return True
    if is_file(path):
        if (run := _run_called(word, file)) is not None:
            raise _ambiguous(word, f"./{word} for the file", run)
        return False
    if path.suffix.lower() in SUFFIXES:
        return False
    # a word that is nothing becomes an error, as an image or as weights
    return weights_at(word, file) is not None or not image


def _ambiguous(word: str, path: str, run: Path) -> NetError:
    return NetError(
        f"{word}: found a path and a run of this name: write {path}, or {run} for the run"
    )


def _run_called(word: str, file: Path) -> Path | None:
    """The run with the name of a path that exists. A word with a slash is only a path."""
    if "/" in word:
        return None
    try:
        found = run_directory(Path(word), runs_here(file))
    except ConfigError:  # the cluster.toml cannot be read, and the path needs none
        return None
    return None if found is None or found == Path(word) else found


def _has_images(folder: Path) -> bool:
    return next(images_below(folder, PassedOver(folder)), None) is not None
