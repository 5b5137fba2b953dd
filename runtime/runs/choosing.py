"""Before a run: what its program leaves open (`runtime.plan.open_choice`) is found out by short
runs of their own.

Each has its folder below the run directory, tells no events of its own, and is ended at once when
enough is known.
"""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress

from runtime.cluster.launcher import Early
from runtime.cluster.watcher import Watcher
from runtime.config.sections import ClusterConfig
from runtime.errors import ConvoyError
from runtime.plan.open_choice import Choice, Chosen, Trial
from runtime.plan.topology import SUPERVISOR
from runtime.report.rundir import RunDirectory
from runtime.runs.checking import Checked, placed
from runtime.runs.run import Run

FOLDER = "trials"  # below the run directory


class Choosing:
    """The trials of one run, with processes that are born in `early`. To signals it is a run that
    has not begun: whatever ends it leaves nothing. `over`: somebody has ended it. `checked`: with
    what is still open."""

    has_begun = False

    def __init__(
        self,
        checked: Checked,
        choice: Choice,
        directory: RunDirectory,
        watcher: Watcher,
        early: Early | None,
    ) -> None:
        self.checked = checked
        self._choice = choice
        self._directory = directory
        self._watcher = watcher
        self._early = early
        self._run: Run | None = None  # the trial under way
        self.over = False

    def __repr__(self) -> str:
        return (
            f"<choosing by {len(self._choice.trials)} trials, {'over' if self.over else self._run}>"
        )

    async def settled(self) -> Checked:
        """What was checked, with nothing left open. ConvoyError if no trial came to a good end:
        that of the first."""
        for event in self._choice.told:
            self._watcher.event(SUPERVISOR, *event)
        errors = [await self._tried(trial) for trial in self._choice.trials if not self.over]
        failed = [error for error in errors if error is not None]
        if failed and failed == errors and not self.over:
            raise failed[0]
        chosen = self._choice.chosen()
        if not self.over:
            self._watcher.event(SUPERVISOR, *chosen.why)
        return settled(self.checked, chosen)

    async def _tried(self, trial: Trial) -> ConvoyError | None:
        """Run a trial until enough is known of it; the error that ended it before."""
        config = self._config_of(trial)
        self._run = run = Run(
            placed(trial.topology, config), config, options=trial.options, early=self._early
        )
        await run.start()
        enough = False
        with suppress(ConvoyError):  # it is the run's error
            async for event in run.events():
                if not enough and trial.heard(event.name, event.fields, event.time):
                    enough = True
                    await run.end_now()
        error = await run.ended()
        if not self.over:
            self._watcher.event(
                SUPERVISOR, *trial.ended("" if error is None else str(error).splitlines()[0])
            )
        return error

    def _config_of(self, trial: Trial) -> ClusterConfig:
        """That of the run, in a folder of its own; nobody else listens where the run's metrics are
        to be served."""
        config = self.checked.loaded.config
        name = re.sub(r"[^\w.-]", "-", trial.name)
        run = {
            "directory": str(self._directory.path / FOLDER),
            "name": name,
            "record_service_times": False,
            "tensorboard": False,
        }
        changed = {
            "run": config.run.model_copy(update=run),
            "metrics": config.metrics.model_copy(update={"port": 0}),
        }
        return config.model_copy(update=changed)

    # -- what signals do to a run

    async def wind_down(self, reason: str = "") -> None:
        """End the trial under way, and all of it."""
        await self.end_now()

    async def end_now(self) -> None:
        """The same."""
        self.over = True
        if self._run is not None:
            await self._run.end_now()

    async def save(self) -> None:
        """There is nothing to save."""


def settled(checked: Checked, chosen: Chosen) -> Checked:
    """What was checked, as it was chosen."""
    loaded = dataclasses.replace(checked.loaded, options=chosen.options)
    placement = placed(chosen.topology, loaded.config)
    return dataclasses.replace(checked, loaded=loaded, placement=placement, choice=None)
