"""The checkpoint to use where the user names a run directory and no file."""

from __future__ import annotations

import re
from pathlib import Path

from nets import NetError, is_folder
from nets.files import checkpoint
from nets.reasons import reason
from roles.checkpoints.best import FILE

# a copy that the user made has another name
NUMBERED = re.compile(r"checkpoint-(\d{1,18})\.safetensors")


def newest_first(run: Path) -> list[Path]:
    """The numbered checkpoints in a run directory, the newest first."""
    numbers = {path: said[1] for path in run.iterdir() if (said := NUMBERED.fullmatch(path.name))}
    return sorted(numbers, key=lambda path: int(numbers[path]), reverse=True)


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
