"""The test before the first iteration, which some nets cannot have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from nets import Net
from roles.coordination.schedule import Timetable
from roles.learning.job import Job
from roles.planning.diagnostics import Diagnostics


def without_first_test(
    timetable: Timetable, job: Job, nets: Mapping[str, Net], diagnostics: Diagnostics
) -> Timetable:
    """Leave out the test before the first iteration if a net has a layer with running statistics,
    which begin with the training: its losses would be NaN. First weights have statistics."""
    if not timetable.test_first or job.resume or job.weights:
        return timetable
    for phase in job.test_phases:
        for layer, params in nets[phase].params.items():
            if any(param.keep is not None for param in params):
                text = (
                    f"nothing is tested before the first iteration, since layer '{layer}' has no "
                    "statistics yet"
                )
                diagnostics.fact(text, "train", "solver")
                return dataclasses.replace(timetable, test_first=False)
    return timetable
