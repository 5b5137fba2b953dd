"""Sums of columns in one launch.

S threads of a column leave S partial sums of interleaved rows, so neighbouring threads read
neighbouring numbers. Of G threads the one that comes last adds up their sums; of these groups the
one that comes last adds up the groups'. Tickets count the arrivals (CUDA's sample
threadFenceReduction). Every sum has its order, whichever thread comes last, so a repeated run gives
the same bits.
"""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

TOTALS = """
// Whether this is the last of `members` threads that come here: it can then read what all of them have written.
// Tickets are 0 before the launch and after it.
__device__ inline bool comes_last(int* ticket, int members) {
    __threadfence();
    if (atomicAdd(ticket, 1) < members - 1) return false;
    *ticket = 0;
    __threadfence();
    return true;
}
// the sum of `members` numbers that lie `apart`, in place of the first
__device__ inline void add_up(T* sums, long long apart, int members) {
    T sum = sums[0];
    for (int i = 1; i < members; ++i) sum += sums[i * apart];
    sums[0] = sum;
}
// Partial sums (halves, S, C) -> totals in place of the partial sums 0. Every thread comes here with its s and c when it
// has written its sums; true for the one thread of a column that finds the totals there.
__device__ inline bool totals(T* sums, int* tickets, int halves, int S, int G, int C, int s, int c) {
    int group = s / G, groups = (S + G - 1) / G, members = least(G, S - group * G);
    long long half = (long long)S * C, first = (long long)group * G * C + c;
    if (!comes_last(tickets + group * C + c, members)) return false;
    for (int h = 0; h < halves; ++h) add_up(sums + h * half + first, C, members);
    if (groups == 1) return true;
    if (!comes_last(tickets + groups * C + c, groups)) return false;
    for (int h = 0; h < halves; ++h) add_up(sums + h * half + c, (long long)G * C, groups);
    return true;
}
"""

SUMS: dict[str, str] = {
    "column_sums": f"""(const Stored* x, int ps, T* sums, int* tickets, T* out, int count, {div("C")}, int M, int S, int G) {{
    EACH(k, count) {{
        int s = OVER(k, C), c = k - s * C;
        T sum = 0;
        for (int m = s; m < M; m += S) sum += x[(long long)m * ps + c];
        sums[k] = sum;
        if (totals(sums, tickets, 1, S, G, C, s, c)) out[c] = sums[c];
    }}
}}""",
}
