"""Softmax over the classes of (N, C, inner) scores, and its loss. `n`, `c`, `i` behind a name are
strides in elements.

Softmax takes two launches. In the first, S strips of classes of each row give a maximum and a sum.
In the second, every thread joins those of its row. A label that is not a class stops nothing: the
`verdict` names it.
"""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

LOSSES: dict[str, str] = {
    "softmax_strips": f"""(const T* x, long long xn, long long xc, long long xi, T* strips, int count,
    {div("S", "inner")}, int C) {{
    EACH(k, count) {{
        int row = OVER(k, S), s = k - row * S;
        int n = OVER(row, inner), i = row - n * inner;
        const T* scores = x + n * xn + i * xi;
        T top = -T(__int_as_float(0x7f800000)), sum = 0;
        for (int c = s; c < C; c += S) {{
            T value = scores[c * xc];
            top = value > top || value != value ? value : top;
        }}
        if (top != -T(__int_as_float(0x7f800000)))
            for (int c = s; c < C; c += S) sum += exp(scores[c * xc] - top);
        strips[2 * k] = top;
        strips[2 * k + 1] = sum;
    }}
}}""",
    "softmax": f"""(const T* x, long long xn, long long xc, long long xi, const T* strips, T* y, long long yn,
    long long yc, long long yi, int count, {div("C", "inner")}, int S) {{
    EACH(k, count) {{
        int row = OVER(k, C), c = k - row * C;
        int n = OVER(row, inner), i = row - n * inner;
        T top = -T(__int_as_float(0x7f800000)), sum = 0;
        for (int s = 0; s < S; ++s) {{
            T value = strips[2 * (row * S + s)];
            top = value > top || value != value ? value : top;
        }}
        for (int s = 0; s < S; ++s) {{
            T part = strips[2 * (row * S + s) + 1];
            if (part != 0) sum += part * exp(strips[2 * (row * S + s)] - top);
        }}
        y[n * yn + c * yc + i * yi] = exp(x[n * xn + c * xc + i * xi] - top) / sum;
    }}
}}""",
    # for each strip of rows: the losses' sum, the number of labels that count, a label that is not
    # a class (-1 for a NaN), or NaN
    "label_losses": f"""(const T* prob, long long pn, long long pc, long long pi, const T* labels, long long ln,
    long long li, double* strips, int S, int rows, {div("inner")}, int C, int ignores, T ignored, T least) {{
    EACH(s, S) {{
        double sum = 0, counted = 0, wrong = __int_as_float(0x7fc00000);
        for (int row = s; row < rows; row += S) {{
            int n = OVER(row, inner), i = row - n * inner;
            T label = labels[n * ln + i * li];
            if (ignores && label == ignored) continue;
            counted += 1;
            if (!(label >= 0 && label < C) || label != floor(label)) {{
                wrong = label == label ? (double)label : -1;
                continue;
            }}
            T own = prob[n * pn + (int)label * pc + i * pi];
            sum -= log((double)(own < least ? least : own));
        }}
        strips[3 * s] = sum;
        strips[3 * s + 1] = counted;
        strips[3 * s + 2] = wrong;
    }}
}}""",
    # the loss, a label that is not a class or NaN, and the divisor of the sum: `share`, or if that
    # is 0 the number of labels that count
    "label_verdict": """(const double* strips, T* verdict, int S, double share) {
    EACH(k, 1) {
        double sum = 0, counted = 0, wrong = __int_as_float(0x7fc00000);
        for (int s = 0; s < S; ++s) {
            sum += strips[3 * s];
            counted += strips[3 * s + 1];
            if (strips[3 * s + 2] == strips[3 * s + 2]) wrong = strips[3 * s + 2];
        }
        double divisor = share > 0 ? share : counted > 1 ? counted : 1;
        verdict[0] = sum / divisor;
        verdict[1] = wrong;
        verdict[2] = divisor;
    }
}""",
    "label_gradient": f"""(const T* prob, long long pn, long long pc, long long pi, const T* labels, long long ln,
    long long li, const T* verdict, T* dx, long long xn, long long xc, long long xi, int count, {div("C", "inner")},
    int ignores, T ignored, T weight) {{
    EACH(k, count) {{
        int row = OVER(k, C), c = k - row * C;
        int n = OVER(row, inner), i = row - n * inner;
        T label = labels[n * ln + i * li], own = label == T(c) ? T(1) : T(0), scale = weight / verdict[2];
        T value = (prob[n * pn + c * pc + i * pi] - own) * scale;
        dx[n * xn + c * xc + i * xi] = ignores && label == ignored ? T(0) : value;
    }}
}}""",
}
