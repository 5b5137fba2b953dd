"""The contract of an array backend as a table: for every operation its inputs, a call, and plain
float64 loops.

A forward pass is compared with the loops, a backward pass with finite differences of the forward
pass. tests/contracts/test_backends.py runs the table for every backend, dtype and memory layout.
"""

from __future__ import annotations

from tests.ops.cases import classes, distances, elementwise, sequences, spatial, statistics, updates
from tests.ops.cases.case import Case

CASES: list[Case] = [
    case
    for family in (spatial, elementwise, statistics, classes, distances, sequences, updates)
    for case in family.CASES
]
