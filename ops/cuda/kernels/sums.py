"""Sums of columns, in steps: S sums of interleaved rows, D sums of these, and the sum of those. So
neighbouring threads read neighbouring numbers."""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

SUMS: dict[str, str] = {
    "strip_sums": f"""(const Stored* x, int ps, T* sums, int count, {div("C")}, int M, int S) {{
    EACH(k, count) {{
        int s = OVER(k, C), c = k - s * C;
        T sum = 0;
        for (int m = s; m < M; m += S) sum += x[(long long)m * ps + c];
        sums[k] = sum;
    }}
}}""",
    # (halves, S, C) -> (halves, D, C), and behind them x's first row, if x is given
    "gather_sums": f"""(const T* sums, const Stored* x, T* few, int count, {div("C", "D")}, int S) {{
    EACH(k, count) {{
        int a = OVER(k, C), c = k - a * C;
        int half = OVER(a, D), d = a - half * D;
        T sum = 0;
        for (int s = d; s < S; s += D) sum += sums[(half * S + s) * C + c];
        few[k] = sum;
        if (x && a == 0) few[count + c] = x[c];
    }}
}}""",
    "total_sums": """(const T* sums, T* out, int C, int S) {
    EACH(c, C) {
        T sum = 0;
        for (int s = 0; s < S; ++s) sum += sums[s * C + c];
        out[c] = sum;
    }
}""",
}
