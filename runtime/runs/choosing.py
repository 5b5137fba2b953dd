"""Trials before a run: short runs that find out the settings that its program leaves open
(`runtime.plan.open_choice`).

Each trial has its own folder below the run directory, reports no events in the run's journal, and
is ended as soon as enough is known.
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
    """The trials of one run, with processes that are started in `early`.

    For signals it is a run that has not begun: ending it at any time leaves nothing behind. `over`:
    it was ended by the user. `checked`: the configuration with its open settings.
    """

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
        """Return the checked configuration with nothing left open. Raises the ConvoyError of the
        first trial if no trial came to a good end."""
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
        """Run a trial until enough is known of it. Return the error that ended it before."""
        config = self._config_of(trial)
        self._run = run = Run(
            placed(trial.topology, config), config, options=trial.options, early=self._early
        )
        await run.start()
        enough = False
        with suppress(ConvoyError):  # the run keeps its error
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
        """Return the run's configuration for a trial, with a folder of its own. Its metrics get
        another port, so that nothing listens at the port of the run's metrics, and Prometheus does
        not find them."""
        config = self.checked.loaded.config
        name = re.sub(r"[^\w.-]", "-", trial.name)
        run = {
            "directory": str(self._directory.path / FOLDER),
            "name": name,
            "record_service_times": False,
            "tensorboard": False,
            "trackers": (),
            "histograms": 0,
        }
        changed = {
            "run": config.run.model_copy(update=run),
            "metrics": config.metrics.model_copy(update={"port": 0, "targets": ""}),
        }
        return config.model_copy(update=changed)

    # -- the interface for signals

    async def wind_down(self, reason: str = "") -> None:
        """End the trial under way, and all others."""
        await self.end_now()

    async def end_now(self) -> None:
        """End the trial under way, and all others."""
        self.over = True
        if self._run is not None:
            await self._run.end_now()

    async def save(self) -> None:
        """Do nothing: there is nothing to save."""


def settled(checked: Checked, chosen: Chosen) -> Checked:
    """Return the checked configuration with the chosen settings."""
    loaded = dataclasses.replace(checked.loaded, options=chosen.options)
    placement = placed(chosen.topology, loaded.config)
    return dataclasses.replace(checked, loaded=loaded, placement=placement, choice=None)
