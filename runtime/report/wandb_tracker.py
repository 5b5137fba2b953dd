"""A run as Weights & Biases shows it: its name, its configuration, its curves, and the use of this
machine. The only file that imports wandb.

Nothing leaves the machine unless the environment asks for it: without WANDB_MODE the files are
written offline into the run directory, and `wandb sync` uploads them. wandb's other variables, such
as WANDB_PROJECT and WANDB_ENTITY, count as always.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import wandb

from runtime.records.run_identity import configured

PROJECT = "convoy"
ITERATION = "iteration"  # the axis of all curves


class WandbTracker:
    """The run with this directory, in the folder `wandb` there. Raises wandb.Error."""

    def __init__(self, directory: Path) -> None:
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=os.environ.get("WANDB_NAME") or directory.name,
            dir=directory,
            config=configured(directory),
            mode=None if os.environ.get("WANDB_MODE") else "offline",
            # `up` has its own terminal, and a run directory has the code's versions
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, disable_code=True, save_code=False
            ),
        )
        self._run.define_metric("*", step_metric=ITERATION)

    def __repr__(self) -> str:
        return f"<wandb run {self._run.id}>"

    def log(self, numbers: Mapping[str, float], iteration: int) -> None:
        """Add a point to each curve."""
        self._run.log({ITERATION: iteration, **numbers})

    def close(self, *, failed: bool) -> None:
        """End wandb's run, as failed or finished."""
        self._run.finish(exit_code=int(failed))
