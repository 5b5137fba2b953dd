"""The times of a job: those that cluster.toml gives in epochs, the schedule of the rate, and their
mistakes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

from nets import counted
from nets.data import Source
from roles.learning.epochs import epoch_rows, iterations_of
from roles.learning.job import Job
from roles.number_types import MOST_ITERATIONS
from roles.options import Checkpoint, Train, is_auto
from roles.planning.diagnostics import Diagnostics
from roles.planning.solver_sections import late, of_average, schedule_of
from roles.planning.solver_sections import mistakes as section_mistakes

Remark = tuple[str, tuple[str, ...]]  # a line, and the keys that it is about


def timed(
    job: Job, train: Train, checkpoint: Checkpoint, source: Source, diagnostics: Diagnostics
) -> Job:
    """The job with its times in iterations, also those that are given in epochs, and with the
    schedule of [train.schedule]. Notes times that the run does not reach, and an average that the
    run is too short for."""
    job = _in_iterations(job, source, train, checkpoint, diagnostics)
    last = job.solver_spec.max_iter
    for text, keys in of_average(train, last):
        diagnostics.warn(text, "train", *keys)
    if train.ema is not None and train.ema.every > last:
        text = f"found {train.ema.every}, so the average would never change: expected at most the"
        diagnostics.problem(f"{text} {last} iterations of the run", "train", "ema", "every")
    found = schedule_of(train.schedule, last, partial(iterations_of, job, source))
    if found is None or train.schedule is None:
        return job
    for text, keys in late(found, train.schedule, last):
        diagnostics.problem(text, "train", *keys)
    extras = dataclasses.replace(job.extras, schedule=found)
    return dataclasses.replace(job, extras=extras)


def _in_iterations(
    job: Job, source: Source, train: Train, checkpoint: Checkpoint, diagnostics: Diagnostics
) -> Job:
    """The job with the iterations of `train.epochs`, `train.test_epochs` and `checkpoint.epochs`.
    Notes the number of each."""
    given = {
        "max_iter": (train.epochs, ("train", "epochs")),
        "test_interval": (train.test_epochs, ("train", "test_epochs")),
        "snapshot": (checkpoint.epochs, ("checkpoint", "epochs")),
    }
    values = dict(job.solver_values)
    for field, (epochs, keys) in given.items():
        if epochs is None:
            continue
        count = iterations_of(job, source, epochs)
        values[field] = min(count, MOST_ITERATIONS)
        unit = f"epoch{'s'[: epochs != 1]}"
        lead = f"{epochs:g} {unit} of {counted(epoch_rows(job, source), 'image')}: "
        lead += counted(count, "iteration")
        if count > MOST_ITERATIONS:
            diagnostics.problem(f"{lead}, expected at most {MOST_ITERATIONS}", *keys)
        else:
            diagnostics.fact(f"{lead}, in place of the solver's {field}", *keys)
    return dataclasses.replace(job, solver_values=values)


def mistakes(train: Train) -> Iterator[Remark]:
    """The mistakes of the solver's sections of [train], and epochs that contradict other keys."""
    yield from section_mistakes(train)
    if train.epochs is not None and train.max_iter is not None:
        yield f"found {train.epochs:g} together with 'max_iter', expected one of them", ("epochs",)


def of_open_batch(train: Train, checkpoint: Checkpoint) -> Iterator[Remark]:
    """The mistake of a batch that is "auto" where a key counts epochs."""
    keys = [f"train.{key}" for key in ("epochs", "test_epochs") if getattr(train, key) is not None]
    if train.schedule is not None:
        given = train.schedule.given
        keys += [f"train.schedule.{key}" for key in given if key.endswith("_epochs")]
    keys += ["checkpoint.epochs"] * (checkpoint.epochs is not None)
    for key in keys[:1] if is_auto(train.batch) else ():
        text = (
            f"found 'auto', but {key} counts epochs, whose iterations would change: expected "
            "a number of images, or iterations in place of epochs"
        )
        yield text, ("batch",)
