"""The model of the cluster of a live run: it asks every actor how long its work has taken, and fits
the model to that (`hardware`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from roles.learning.scoreboard import ITERATION
from roles.tuning.choices import Setting, Trial
from roles.tuning.hardware import Hardware, Known, Stretch, Work
from runtime import Actor, GetWork, WorkTaken

LATELY = 20  # iterations since the last search without which the model is not fitted again


class ClusterModel:
    """The model of the cluster that a tuner asks. `lead` is the coordinator."""

    def __init__(self, actor: Actor, hardware: Hardware, lead: str, *, cold: bool) -> None:
        self._actor = actor
        self._hardware = hardware
        self._lead = lead
        # the first pieces of work are still to come, which are slower than later ones
        self.cold = cold
        self._known = Known({})
        self._before = Work()

    def __repr__(self) -> str:
        return f"<{self._hardware!r}>"

    @property
    def seconds(self) -> Mapping[int, float]:
        """Predicted seconds of an iteration by groups; empty before the first fit."""
        return self._known.seconds

    async def begin(self) -> None:
        """Begin a stretch: the model can be fitted to the training from here on."""
        self._before = await self.work()

    def forget(self) -> None:
        """Forget the predictions: the run has other workers."""
        self._known = Known({})

    async def fit(self, workers: int, setting: Setting) -> str:
        """Fit the model to the training since `begin`, if it was at least LATELY iterations.
        Returns how it differs from the prediction; "" if it does not."""
        work = (await self.work()).since(self._before)
        count, seconds, _ = work.sums.get(self._lead, {}).get(ITERATION, (0, 0.0, 0.0))
        if count < LATELY or not seconds:
            return ""
        stretch = Stretch(workers, setting.groups, setting.batch, int(count), seconds / count, work)
        return (await self._after(self._hardware.trained(stretch))).why

    async def compared(self, workers: int, setting: Setting, trial: Trial) -> Known:
        """Compare a probe since `begin` with its prediction. The model is fitted to the first
        probe, and to a probe that contradicts it."""
        work = (await self.work()).since(self._before)
        iterations = len(trial.losses)
        stretch = Stretch(
            workers, setting.groups, setting.batch, iterations, trial.iteration_seconds, work, True
        )
        return await self._after(self._hardware.compared(stretch))

    async def _after(self, pieces: Iterator[Known]) -> Known:
        """Do these pieces of work. Returns what is known after the last one."""
        while (known := await self._actor.compute("fit", next, pieces, None)) is not None:
            self._known = known
        return self._known

    async def work(self) -> Work:
        """The work of all actors so far."""
        home = self._hardware.home
        answers = await asyncio.gather(
            *(self._actor.ask(name, GetWork(), WorkTaken) for name in home)
        )
        found = dict(zip(home, answers, strict=True))
        processor = {home[name]: answer.processor for name, answer in found.items()}
        return Work({name: answer.work for name, answer in found.items()}, sum(processor.values()))
