"""Batch normalisation with the operations that follow it, over M pixels of C channels: two launches
each way.

Forward sums x and x^2 less the channel's first number (`shift`), so that a large mean costs no
digits (Chan, Golub and LeVeque 1983). Backward starts again from x. `gamma`, `beta`, `addend`,
`mean` may be null. S strips of rows give S sums, which the last threads add up (`sums`).
"""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

GATED = """T away = mean ? (x[(long long)m * ps + c] - mean[c]) * inverse : T(x[(long long)m * ps + c]);
            T g = dy[(long long)m * ds + c];
            if (rectify) g *= gamma[c] * away + beta[c] > 0 ? T(1) : T(0);"""

NORM: dict[str, str] = {
    "norm_moments": f"""(const Stored* x, int ps, T* sums, int* tickets, T* mean, T* variance, int count, {div("C")}, int M,
    int S, int G) {{
    EACH(k, count) {{
        int s = OVER(k, C), c = k - s * C;
        T shift = x[c], sum = 0, squares = 0;
        for (int m = s; m < M; m += S) {{
            T value = x[(long long)m * ps + c] - shift;
            sum += value;
            squares += value * value;
        }}
        sums[k] = sum;
        sums[count + k] = squares;
        if (totals(sums, tickets, 2, S, G, C, s, c)) {{
            T offset = sums[c] / M, spread = sums[count + c] / M - offset * offset;
            mean[c] = shift + offset;
            variance[c] = spread < 0 ? T(0) : spread;
        }}
    }}
}}""",
    "norm_forward": f"""(const Stored* x, int ps, const T* mean, const T* variance, const T* gamma, const T* beta,
    const Stored* addend, int as, Stored* y, int ys, int count, {div("C")}, int M, int S, T eps, int rectify) {{
    EACH(k, count) {{
        int s = OVER(k, C), c = k - s * C;
        T centre = mean[c], factor = 1 / sqrt(variance[c] + eps), offset = 0;
        if (gamma) {{ factor *= gamma[c]; offset = beta[c]; }}
        for (int m = s; m < M; m += S) {{
            T value = (x[(long long)m * ps + c] - centre) * factor + offset;
            if (addend) value += addend[(long long)m * as + c];
            y[(long long)m * ys + c] = rectify && value < 0 ? T(0) : value;
        }}
    }}
}}""",
    "norm_products": f"""(const Stored* dy, int ds, const Stored* x, int ps, const T* mean, const T* variance, const T* gamma,
    const T* beta, T* sums, int* tickets, T* dgamma, T* dbeta, int count, {div("C")}, int M, int S, int G, T eps,
    int rectify) {{
    EACH(k, count) {{
        int s = OVER(k, C), c = k - s * C;
        T inverse = 1 / sqrt(variance[c] + eps), sum = 0, products = 0;
        for (int m = s; m < M; m += S) {{
            {GATED}
            sum += g;
            products += g * away;
        }}
        sums[k] = sum;
        sums[count + k] = products;
        if (totals(sums, tickets, 2, S, G, C, s, c) && dgamma) {{
            dgamma[c] = sums[count + c];
            dbeta[c] = sums[c];
        }}
    }}
}}""",
    # `sums` has the total of the gradients, and from `half` on that of their products; null if the statistics are given
    "norm_backward": f"""(const Stored* dy, int ds, const Stored* x, int ps, const T* mean, const T* variance, const T* gamma,
    const T* beta, const T* sums, int half, Stored* dx, int xs, int count, {div("C")}, int M, int S, T eps, int rectify) {{
    EACH(k, count) {{
        int s = OVER(k, C), c = k - s * C;
        T sum = sums ? sums[c] / M : T(0), products = sums ? sums[half + c] / M : T(0);
        T inverse = 1 / sqrt(variance[c] + eps), factor = gamma ? gamma[c] * inverse : inverse;
        for (int m = s; m < M; m += S) {{
            {GATED}
            dx[(long long)m * xs + c] = (g - sum - away * products) * factor;
        }}
    }}
}}""",
    # the amounts that a pass adds to the running statistics: mean, unbiased variance, weight
    "norm_added": """(const T* mean, const T* variance, T* sums, T* squares, T* weight, int C, T share, T unbiased) {
    EACH(c, C) {
        sums[c] = mean[c] * share;
        squares[c] = variance[c] * unbiased;
        if (c == 0) weight[0] = share;
    }
}""",
    "norm_running": """(const T* sums, const T* squares, const T* weight, T* mean, T* variance, int C) {
    EACH(c, C) {
        T part = weight[0] != 0 ? 1 / weight[0] : T(0);
        mean[c] = sums[c] * part;
        variance[c] = squares[c] * part;
    }
}""",
}
