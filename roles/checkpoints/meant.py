"""Which checkpoint of a run is meant where a person names the run and no file."""

from __future__ import annotations

import re
from pathlib import Path

from nets import NetError, is_folder
from nets.files import checkpoint
from nets.reasons import reason
from roles.checkpoints.best import FILE

# a copy of a person's has another name
NUMBERED = re.compile(r"checkpoint-(\d{1,18})\.safetensors")


def newest_first(run: Path) -> list[Path]:
    """The numbered checkpoints in a run directory."""
    numbers = {path: said[1] for path in run.iterdir() if (said := NUMBERED.fullmatch(path.name))}
    return sorted(numbers, key=lambda path: int(numbers[path]), reverse=True)


def meant(run: Path) -> tuple[Path, str]:
    """The checkpoint with which a run directory is used: its best model, else its newest; and a
    line that says which it is. A path that is no folder is the file itself, without a line.
    NetError if a folder has none, or if that one is damaged."""
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
        f"of {run.name} {kind} is taken: {file.name}, iteration "
        f"{checkpoint.metadata(file).get('iteration')}"
    )
