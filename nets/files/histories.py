"""Whose histories a checkpoint holds: the momentum of SGD is no sum of squares, though both have
the same shape."""

from __future__ import annotations

from collections.abc import Mapping

from nets.errors import CheckpointError

SOLVER = "solver"  # in the metadata: the solver's type


def check_solver(file: str, facts: Mapping[str, str], solver: str, mend: str) -> str:
    """What to warn of before a solver of this type takes the histories of a checkpoint with these
    metadata; "" if nothing. CheckpointError, which ends with how to `mend` it, if they are those of
    another type."""
    found = facts.get(SOLVER, "")
    if found and found != solver:
        raise CheckpointError(f"{file}: it is of {found}, the solver is {solver}: {mend}")
    told = (
        f"{file} does not say the type of its solver: its histories are taken for those of {solver}"
    )
    return "" if found else told
