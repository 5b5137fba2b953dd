"""The training cluster as a laboratory: probes that the coordinator makes while the run is held."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from roles.messages import Probe, Probed
from roles.tuning.choices import WARM, Choices, Setting, Trial
from roles.tuning.cluster_model import ClusterModel
from roles.tuning.judgement import THRESHOLD, judged, mean
from runtime import Actor


class RunEnds(Exception):
    """The run is winding down, so it is no longer held for probes."""


class HeldCluster:
    """The training cluster as a laboratory, while the run is held with the setting `now`. `model`
    predicts its seconds, if it is known."""

    def __init__(
        self,
        tuner: Actor,
        coordinator: str,
        now: Setting,
        workers: int,
        model: ClusterModel | None,
        choices: Choices,
    ) -> None:
        self._tuner = tuner
        self._coordinator = coordinator
        self._choices = choices
        self._now = now
        self._workers = workers
        self._model = model

    @property
    def seconds(self) -> Mapping[int, float]:
        """Predicted seconds of an iteration by groups; empty without a model."""
        return self._model.seconds if self._model is not None else {}

    async def probe(
        self,
        setting: Setting,
        iterations: int,
        seconds: float,
        *,
        kept: bool = False,
        falls: float = THRESHOLD,
    ) -> Trial:
        """Probe through the coordinator. Raises Refused or RunEnds if the run winds down."""
        tuner = self._tuner
        began = tuner.now()
        values = changed(self._now, setting, self._choices)
        wish = Probe(iterations=iterations, seconds=seconds, kept=kept, falls=falls, **values)
        if self._model is not None:
            if self._model.cold:  # what these iterations take tells nothing of later ones
                first = WARM * setting.groups
                await tuner.ask(self._coordinator, Probe(iterations=first, **values), Probed)
                self._model.cold = False
            await self._model.begin()
        found = await tuner.ask(self._coordinator, wish, Probed)
        if (
            not found.diverged
            and len(found.losses) < iterations
            and (not seconds or found.seconds < seconds)
        ):
            raise RunEnds  # neither limit of the probe was reached, so the end of the run cut it
        trial = Trial(found.losses, found.seconds, found.diverged, pace=found.pace, kept=found.kept)
        expected = 0.0
        # the work of a probe that diverged goes on for longer than its losses
        alike = not trial.diverged and setting.batch == self._now.batch
        if self._model is not None and trial.pace and alike:
            known = await self._model.compared(self._workers, setting, trial)
            expected = known.expected
            trial = dataclasses.replace(trial, why=known.why)
        trial = dataclasses.replace(trial, cost=tuner.now() - began)
        loss = "diverged" if trial.diverged else mean(judged(trial))
        fields = {
            **shown(setting, self._choices),
            "iterations": len(trial.losses),
            "seconds": trial.seconds,
            "loss": loss,
            "iteration_seconds": trial.pace,
            **({"predicted_seconds": expected} if expected else {}),
        }
        tuner.emit("probe", **fields, **({"kept": True} if trial.kept else {}))
        return trial


def changed(now: Setting, then: Setting, choices: Choices) -> dict[str, Any]:
    """The fields of Probe and Release for a change of settings. Only values that differ are set, so
    the others stay equal to the last bit. A momentum that follows the number of groups is not set,
    since it would then follow no more."""
    was = dataclasses.asdict(now)
    follows = choices.compensation is not None
    return {
        name: value
        for name, value in dataclasses.asdict(then).items()
        if value != was[name] and not (follows and name == "momentum")
    }


def shown(setting: Setting, choices: Choices) -> dict[str, Any]:
    """The fields of an event for a setting. `batch` is included only where the batch is chosen."""
    found = dataclasses.asdict(setting)
    return found if choices.batches else {name: found[name] for name in found if name != "batch"}
