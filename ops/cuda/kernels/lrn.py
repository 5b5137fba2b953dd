"""Kernels of local response normalisation: one box of channels and pixels serves both regions."""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

SIZES = f"int count, {div('C', 'W', 'H')}, int rc, int rs, T share, T shift, T beta"

ELEMENT = """int at = OVER(k, C), c = k - at * C;
        int b = OVER(at, W), w = at - b * W;
        int n = OVER(b, H), h = b - n * H;
        int c0 = most(c - rc, 0), c1 = least(c + rc + 1, C), h0 = most(h - rs, 0), h1 = least(h + rs + 1, H);
        int w0 = most(w - rs, 0), w1 = least(w + rs + 1, W);
        T sum = 0;"""

POWER = "beta == T(0.75) ? sqrt({s} * sqrt({s})) : pow({s}, beta)"

LRN: dict[str, str] = {
    "lrn_forward": f"""(const Stored* x, int ps, Stored* y, int ys, T* scale, int ss, {SIZES}) {{
    EACH(k, count) {{
        {ELEMENT}
        for (int i = c0; i < c1; ++i)
            for (int j = h0; j < h1; ++j)
                for (int l = w0; l < w1; ++l) {{
                    T value = x[(long long)((n * H + j) * W + l) * ps + i];
                    sum += value * value;
                }}
        T s = shift + share * sum;
        scale[(long long)at * ss + c] = s;
        y[(long long)at * ys + c] = x[(long long)at * ps + c] / ({POWER.format(s="s")});
    }}
}}""",
    "lrn_backward": f"""(const Stored* dy, int ds, const Stored* x, int ps, const Stored* y, int ys, const T* scale, int ss,
    Stored* dx, int xs, {SIZES}) {{
    EACH(k, count) {{
        {ELEMENT}
        for (int i = c0; i < c1; ++i)
            for (int j = h0; j < h1; ++j)
                for (int l = w0; l < w1; ++l) {{
                    long long m = (n * H + j) * W + l;
                    sum += dy[m * ds + i] * y[m * ys + i] / scale[m * ss + i];
                }}
        T s = scale[(long long)at * ss + c];
        T direct = dy[(long long)at * ds + c] / ({POWER.format(s="s")});
        dx[(long long)at * xs + c] = direct - 2 * beta * share * x[(long long)at * ps + c] * sum;
    }}
}}""",
}
