"""Epochs, the passes over a job's training data, and the iterations that they take."""

from __future__ import annotations

import math

from nets.data import Source
from nets.graph.inputs import rows_given
from roles.learning.job import Job
from roles.messages import TRAIN

ROUNDING = 1e-9  # of a product of two decimal numbers


def epoch_rows(job: Job, source: Source) -> int:
    """The rows of an epoch. Raises NetError if the data have less than one batch of a net with
    streams."""
    return rows_given(job.spec(TRAIN), source)


def iterations_of(job: Job, source: Source, epochs: float) -> int:
    """The first number of iterations in which each row comes at least so many times. An epoch may
    end inside a batch. Raises NetError as `epoch_rows` does."""
    return max(1, math.ceil(epochs * epoch_rows(job, source) / job.rows(TRAIN) - ROUNDING))
