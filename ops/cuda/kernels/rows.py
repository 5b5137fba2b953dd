"""Kernels over the rows of a table."""

from __future__ import annotations

ROWS: dict[str, str] = {
    # values' rows are taken in `order`; those of table row r stand at starts[r] to starts[r + 1]
    "sum_rows": """(const T* values, const long long* order, const long long* starts, T* table, int R, int O) {
    EACH(k, R * O) {
        int o = k % O, r = k / O;
        T sum = 0;
        for (long long at = starts[r]; at < starts[r + 1]; ++at) sum += values[order[at] * O + o];
        table[k] = sum;
    }
}""",
}
