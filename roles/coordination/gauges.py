"""What a coordinator's page of metrics shows of the training."""

from __future__ import annotations

from collections.abc import Sequence

from roles.learning.scoreboard import Scores
from runtime import Actor


class Gauges:
    """Of the run of one coordinator, with tests of these `phases`."""

    def __init__(self, actor: Actor, phases: Sequence[str]) -> None:
        gauge = actor.gauge
        self._loss = gauge("loss", "Training loss of the last iteration.", split="train")
        self._tested = {
            phase: {
                "loss": gauge("loss", "Loss of the last test.", split=phase.lower()),
                "accuracy": gauge("accuracy_ratio", "Accuracy of the last test.", split=phase.lower()),
            }
            for phase in phases
        }
        self._rate = gauge("learning_rate", "Learning rate of the next iteration.")
        self._done = actor.counter("iterations", "Training iterations completed.")
        self._images = actor.counter("images", "Images trained on.")

    def __repr__(self) -> str:
        return f"<gauges of the training and {len(self._tested)} tests>"

    def trained(self, loss: float | None, images: int, rate: float) -> None:
        """An iteration has ended; `rate` is that of the next."""
        if loss is not None:
            self._loss.set(loss)
        self._done.inc()
        self._images.inc(images)
        self._rate.set(rate)

    def tested(self, phase: str, scores: Scores) -> None:
        """A test has ended."""
        for name, gauge in self._tested[phase].items():
            if name in scores:
                gauge.set(scores[name])
