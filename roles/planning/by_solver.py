"""The settings that the solver gives where cluster.toml does not: nets, seed, first weights, and
the number of test nets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from nets import NetError, SolverSpec
from roles.checkpoints.meant import files_meant
from roles.learning.job import Job
from roles.learning.phases import phase_of_test
from roles.options import Train

Remark = tuple[str, tuple[str, ...]]  # a line, and the keys below [train] that it is about


def as_the_solver_says(job: Job, train: Train) -> tuple[Job, list[Remark], list[Remark]]:
    """Complete the job from its solver, with data for each of its test nets. Return the job,
    mistakes and warnings. Raises NetError for a solver that cannot be read."""
    solver = job.solver_spec
    told = train.model_fields_set
    found: dict[str, Any] = {}
    if "net" not in told and "solver" in told and solver.names_a_net:
        found["net"] = solver.net_source
    if "seed" not in told and solver.random_seed is not None:
        found["seed"] = solver.random_seed
    mistakes: list[Remark] = []
    if solver.weights and not train.weights and not train.resume:
        found["weights"] = _weights(solver, mistakes)
    data, warnings = _data_of_tests(len(solver.test_iters), train, mistakes)
    if "net" in told and solver.tests_other_nets:
        warnings.append(
            ("this net is tested too, instead of the test nets that the solver names", ("net",))
        )
    found["data"] = {**job.data, **data}
    warnings += [(text, ("solver",)) for text in solver.warnings]
    return dataclasses.replace(job, **found), mistakes, warnings


def _weights(solver: SolverSpec, mistakes: list[Remark]) -> tuple[str, ...]:
    """The paths of the solver's files of first weights."""

    def absent(name: str) -> Path:
        raise NetError(solver.missing("weights", name))

    try:
        found = files_meant(solver.weights, solver.located, absent)
    except NetError as error:
        mistakes += [(problem, ("solver",)) for problem in error.problems]
        return ()
    return tuple(str(file.resolve()) for file in found.files)


def _data_of_tests(
    count: int, train: Train, mistakes: list[Remark]
) -> tuple[dict[str, dict[str, Any]], list[Remark]]:
    """The configuration of each test net's data, by phase, and warnings."""
    given = train.data.test
    warnings = list[Remark]()
    if given is None:
        return {}, warnings
    tables = given if isinstance(given, list) else [given] * count
    if len(tables) != count:
        mistakes.append(
            ((f"found {len(tables)} tables, expected {count}, one per test net"), ("data", "test"))
        )
    elif count > 1 and not isinstance(given, list):
        text = (
            f"found one table for {count} test nets, so all of them read it; a list gives "
            "each net a table of its own"
        )
        warnings.append((text, ("data", "test")))
    return {phase_of_test(at): table for at, table in enumerate(tables[:count])}, warnings
