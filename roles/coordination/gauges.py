"""The gauges of a coordinator's page of metrics: loss, learning rate, progress, age of the last
checkpoint.

The scores of tests are in `testing`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from nets import SolverSpec
from roles.coordination.schedule import Timetable
from roles.learning.job import Job
from runtime import Actor


class RunGauges:
    """The gauges of one coordinator's run. A gauge appears when its value is known."""

    def __init__(self, actor: Actor, table: Timetable, job: Job) -> None:
        self._actor = actor
        self._table = table
        gauge = actor.gauge
        self._loss = gauge("loss", "Loss of the last iteration (`train`).", split="train")
        self._rate = gauge("learning_rate", "Learning rate of the next iteration.")
        text = "The momentum with which the solver updates the model in the next iteration."
        self._momentum = gauge("momentum_ratio", text)
        self._eta = gauge(
            "eta_seconds",
            (
                "Seconds until the last iteration, by the mean time of the iterations so far,"
                " with tests and pauses."
            ),
        )
        self._done = actor.counter(
            "iterations", ("Training iterations: the coordinator counts the completed ones.")
        )
        self._images = actor.counter("images", "Images trained on.")
        text = "Checkpoints that were `written`, and checkpoints that `failed`."
        self._saves = {
            result: actor.counter("checkpoints", text, result=result)
            for result in ("written", "failed")
        }
        gauge("iterations_planned", "The number of the last iteration of the run.").set(table.last)
        gauge(
            "iterations_resumed",
            ("Iterations before the first of this run, by the runs that it resumes."),
        ).set(table.first)
        facts = {
            "net": Path(job.net or job.solver).name,
            "kernels": job.kernels,
            "precision": job.precision,
        }
        gauge(
            "training_info",
            ("Always 1; the labels name the net that is trained, and the kernels."),
            **facts,
            device=job.device,
        ).set(1)
        self._clock = asyncio.get_running_loop().time  # the thread of the page has no event loop
        self._began = self._saved = self._clock()

    def __repr__(self) -> str:
        return f"<gauges of {self._actor!r}, the last checkpoint {self._age():.0f} s old>"

    def begin(self) -> None:
        """Start the clocks: training begins."""
        self._began = self._saved = self._clock()
        text = "Seconds since the last checkpoint; before the first one, since training began."
        self._actor.gauge("checkpoint_age_seconds", text).set_function(self._age)

    def trained(self, loss: float | None, done: int, images: int, solver: SolverSpec) -> None:
        """Report that iteration `done`, with so many images, has ended. `solver` has the rates of
        the next."""
        if loss is not None:
            self._loss.set(loss)
        self._done.inc()
        self._images.inc(images)
        self._rate.set(solver.rate(done))
        self._momentum.set(solver.momentum)
        count = done - self._table.first
        if count > 0:
            self._eta.set((self._table.last - done) * (self._clock() - self._began) / count)

    def diverged(self, loss: float) -> None:
        """Report a loss that is not finite."""
        self._loss.set(loss)

    def saved(self, result: str) -> None:
        """Report a checkpoint that was "written" or has "failed"."""
        if result == "written":
            self._saved = self._clock()
        self._saves[result].inc()

    def _age(self) -> float:
        """Seconds since the last checkpoint. May be called from any thread."""
        return self._clock() - self._saved
