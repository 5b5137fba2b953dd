"""The widest vectors that kernels may use, as `CONVOY_VECTOR_BITS` has it: 512, 256 or 128 bits.

The variable narrows the vectors of a processor, for tests and for comparisons. It never widens
them.
"""

from __future__ import annotations

import os

from ops.errors import OpsError

WIDTHS = (512, 256, 128)
VARIABLE = "CONVOY_VECTOR_BITS"


def allowed_bits() -> int:
    """The width that the variable allows. Raises OpsError for a bad value."""
    given = os.environ.get(VARIABLE, str(WIDTHS[0]))
    if given not in map(str, WIDTHS):
        raise OpsError(
            f"environment variable {VARIABLE}: found {given!r}, expected "
            f"{', '.join(map(str, WIDTHS[:-1]))} or {WIDTHS[-1]}; without it vectors are as wide "
            "as the processor's"
        )
    return int(given)
