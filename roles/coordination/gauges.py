"""What a coordinator's page of metrics says of its run: loss, rate, how far it is, how old its
checkpoint is.

What tests say is in `testing`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from roles.coordination.schedule import Timetable
from roles.learning.job import Job
from runtime import Actor


class RunGauges:
    """Of the run of one coordinator. A gauge is there from when it is known."""

    def __init__(self, actor: Actor, table: Timetable, job: Job) -> None:
        self._actor = actor
        self._table = table
        gauge = actor.gauge
        self._loss = gauge("loss", "Loss of the last iteration (`train`).", split="train")
        self._rate = gauge("learning_rate", "Learning rate of the next iteration.")
        self._eta = gauge(
            "eta_seconds",
            (
                "Seconds until the last iteration, by the mean of those so far,"
                " with tests and pauses."
            ),
        )
        self._done = actor.counter(
            "iterations", ("Training iterations: of the coordinator those that were completed.")
        )
        self._images = actor.counter("images", "Images trained on.")
        text = "Checkpoints `written`, and those that `failed` to be."
        self._saves = {
            result: actor.counter("checkpoints", text, result=result)
            for result in ("written", "failed")
        }
        gauge("iterations_planned", "The number of the last iteration of the run.").set(table.last)
        gauge(
            "iterations_resumed",
            ("Iterations before the first of this run: those of the runs that it goes on from."),
        ).set(table.first)
        facts = {
            "net": Path(job.net or job.solver).name,
            "kernels": job.kernels,
            "precision": job.precision,
        }
        gauge(
            "training_info",
            ("1; what is trained, and with which kernels."),
            **facts,
            device=job.device,
        ).set(1)
        self._clock = asyncio.get_running_loop().time  # the thread of the page has no loop to ask
        self._began = self._saved = self._clock()

    def __repr__(self) -> str:
        return f"<gauges of {self._actor!r}, the last checkpoint {self._age():.0f} s old>"

    def begin(self) -> None:
        """Training starts."""
        self._began = self._saved = self._clock()
        text = "Seconds since a checkpoint was written; before the first, since training began."
        self._actor.gauge("checkpoint_age_seconds", text).set_function(self._age)

    def trained(self, loss: float | None, done: int, images: int, rate: float) -> None:
        """Iteration `done` of so many images has ended."""
        if loss is not None:
            self._loss.set(loss)
        self._done.inc()
        self._images.inc(images)
        self._rate.set(rate)
        count = done - self._table.first
        if count > 0:
            self._eta.set((self._table.last - done) * (self._clock() - self._began) / count)

    def diverged(self, loss: float) -> None:
        """The loss is no number."""
        self._loss.set(loss)

    def saved(self, result: str) -> None:
        """A checkpoint was "written", or "failed" to be."""
        if result == "written":
            self._saved = self._clock()
        self._saves[result].inc()

    def _age(self) -> float:
        """From any thread."""
        return self._clock() - self._saved
