"""The timetable of a job's run: when tests and snapshots are due, from its solver, and which nets
are tested."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from nets.data import Source
from roles.coordination.schedule import NetTest, Timetable
from roles.learning.job import Job
from roles.learning.resume import Place


def timetable_of(job: Job, place: Place) -> Timetable:
    """The timetable of a job without its tests. `place`: the iterations and images at which the run
    begins."""
    solver = job.solver_spec
    return Timetable(
        first=place[0],
        last=solver.max_iter,
        batch=job.batch,
        test_interval=solver.test_interval,
        test_first=bool(solver.test_interval and solver.proto.test_initialization),
        snapshot_interval=solver.snapshot,
        snapshot_last=solver.proto.snapshot_after_train,
        images=place[1],
    )


def with_tests(timetable: Timetable, job: Job, sources: Mapping[str, Source]) -> Timetable:
    """The same timetable with the test nets, and the number of images of each test."""
    several = len(job.test_phases) > 1
    names = {phase: job.test_name(phase) if several else "" for phase in job.test_phases}
    tests = tuple(
        NetTest(job.test_rows(phase, sources[phase]), job.rows(phase), phase, name)
        for phase, name in names.items()
    )
    return dataclasses.replace(timetable, tests=tests)
