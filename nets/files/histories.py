"""The solver type of the histories in a checkpoint. SGD's momentum is not a sum of squares,
although both have the same shape."""

from __future__ import annotations

from collections.abc import Mapping

from nets.errors import CheckpointError

SOLVER = "solver"  # the key of the solver's type in the metadata
ZEROED = "zeroed"  # the key of the histories that are zero because their actors had died
# ends the name of a parameter that training goes on from, where `layer.i` is its average over time
TRAINED = ".trained"


def check_solver(file: str, facts: Mapping[str, str], solver: str, mend: str) -> str:
    """Check that a solver of this type can take the histories of a checkpoint with these metadata.

    Returns a warning, or "". Raises CheckpointError if the histories belong to another type; the
    text ends with the remedy `mend`.
    """
    found = facts.get(SOLVER, "")
    if found and found != solver:
        raise CheckpointError(f"{file}: its solver is {found}, but this solver is {solver}: {mend}")
    told = f"{file} does not name its solver: its histories are used as histories of {solver}"
    return "" if found else told
