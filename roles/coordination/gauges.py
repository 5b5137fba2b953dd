"""What a coordinator's page of metrics shows of the training."""

from __future__ import annotations

from runtime import Actor


class Gauges:
    """Of the run of one coordinator; those of tests are in `testing`."""

    def __init__(self, actor: Actor) -> None:
        gauge = actor.gauge
        self._loss = gauge("loss", "Training loss of the last iteration.", split="train")
        self._rate = gauge("learning_rate", "Learning rate of the next iteration.")
        self._done = actor.counter("iterations", "Training iterations completed.")
        self._images = actor.counter("images", "Images trained on.")

    def __repr__(self) -> str:
        return "<gauges of the training>"

    def trained(self, loss: float | None, images: int, rate: float) -> None:
        """An iteration has ended; `rate` is that of the next."""
        if loss is not None:
            self._loss.set(loss)
        self._done.inc()
        self._images.inc(images)
        self._rate.set(rate)
