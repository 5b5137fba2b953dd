"""The files of weights that the user means: several files of one net, or the checkpoint to use of a
run directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nets import NetError, is_folder
from nets.files import checkpoint
from nets.files.parts import Named, parts_of
from nets.reasons import reason
from roles.checkpoints.best import FILE

# a copy that the user made has another name
NUMBERED = re.compile(r"checkpoint-(\d{1,18})\.safetensors")


@dataclass(frozen=True)
class Meant:
    """The files of the weights of one net. `told` has a line for each one that was chosen in a run
    directory."""

    files: tuple[Path, ...]
    told: tuple[str, ...] = ()


def files_meant(
    named: Named, located: Callable[[str], Path | None], absent: Callable[[str], Path]
) -> Meant:
    """The files that together hold the weights of one net, as the user names them: for `predict`,
    `test`, `convert`, `train.weights` and the solver's `weights` alike.

    `named`: a file, a run directory, several of them with commas, as Caffe takes them, or a list.
    `located` returns the path of a name, None if there is nothing of this name. `absent` then
    returns the path to report, or raises NetError. Raises NetError with every part that is missing
    or damaged.
    """
    files: list[Path] = []
    told: list[str] = []
    problems: list[str] = []
    for name in parts_of(named, lambda whole: located(whole) is not None):
        try:
            file, line = meant(located(name) or absent(name))
        except NetError as error:
            problems += error.problems
            continue
        files.append(file)
        told += [line] if line else []
    if problems:
        raise NetError(problems)
    return Meant(tuple(files), tuple(told))


def newest_first(run: Path) -> list[Path]:
    """The numbered checkpoints in a run directory, the newest first."""
    numbers = {path: said[1] for path in run.iterdir() if (said := NUMBERED.fullmatch(path.name))}
    return sorted(numbers, key=lambda path: int(numbers[path]), reverse=True)


def has_model(folder: Path) -> bool:
    """Whether a folder has a model to use. False for a folder that cannot be read."""
    try:
        return (folder / FILE).exists() or bool(newest_first(folder))
    except OSError:
        return False


def meant(run: Path) -> tuple[Path, str]:
    """The checkpoint to use of a run directory, and a line that names it. It is the best model, or
    else the newest checkpoint.

    A path that is not a folder is the file itself, without a line. Raises NetError if a folder has
    no checkpoint, or if the chosen one is damaged.
    """
    if not is_folder(run):
        return run, ""
    try:
        best = run / FILE
        file = best if best.exists() else next(iter(newest_first(run)), None)
    except OSError as error:
        raise NetError(f"{run}: cannot be read: {reason(error)}") from None
    if file is None:
        text = f"found no {FILE} and no checkpoint-*.safetensors in this folder"
        raise NetError(
            f"{run}: {text}, expected a file of weights, or the directory of a "
            "run that has saved one"
        )
    kind = "the best model by its tests" if file == best else "its newest checkpoint"
    return file, (
        f"{run.name}: using {kind}: {file.name}, iteration "
        f"{checkpoint.metadata(file).get('iteration')}"
    )
