"""The check of all data of a job, for `check --all-samples`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from nets import NetError, unknown_numbers
from nets.data import Source
from nets.data.all_samples import AllSamples, read_all
from roles.checkpoints.watching import names_of
from roles.learning.job import Job
from roles.options import Options
from roles.planning.diagnostics import Diagnostics
from roles.planning.planner import job_of
from runtime.config.sections import ClusterConfig


def samples(config: ClusterConfig, options: Options, tell: Callable[[str], None]) -> Sequence[str]:
    """Read the data of all phases once. Calls `tell` with lines about them. Returns the mistakes,
    one line each."""
    job = job_of(config, options)
    diagnostics = Diagnostics(config.raw, options.train)
    base = config.raw.base
    for phase in job.phases:
        keys = ("train", "data", phase.lower())
        with diagnostics.reading(*keys):
            source = job.source(phase)
            found = read_all(source)
            names = names_of(options.train, base, source)
            name, *classes = found.told(names, source.num_classes)
            for line in (f"{'.'.join(keys)}: {name}", *classes):
                tell(line)
            for text in (*found.mistakes, *_unknown_labels(job, phase, source, found)):
                diagnostics.problem(text, *keys)
    return diagnostics.problems


def _unknown_labels(job: Job, phase: str, source: Source, found: AllSamples) -> list[str]:
    """The labels that the net does not know. A net that cannot be built is left to the plan."""
    try:
        net = dataclasses.replace(job, kernels="numpy").build(
            phase, "all", job.shapes(phase, source)
        )
    except NetError:
        return []
    distinct = {
        net.inputs[at]: np.array(sorted(counter))
        for at, counter in found.labels.items()
        if at < len(net.inputs) and counter
    }
    return unknown_numbers(net, distinct, source.label_place)
