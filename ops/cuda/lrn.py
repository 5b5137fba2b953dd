"""Kernels of local response normalisation: one box of channels and pixels serves both regions."""

from __future__ import annotations

SIZES = "int N, int C, int H, int W, int rc, int rs, T share, T shift, T beta"

ELEMENT = """int w = k % W, h = k / W % H, c = k / W / H % C, n = k / W / H / C;
        int c0 = most(c - rc, 0), c1 = least(c + rc + 1, C), h0 = most(h - rs, 0), h1 = least(h + rs + 1, H);
        int w0 = most(w - rs, 0), w1 = least(w + rs + 1, W);
        T sum = 0;"""

POWER = "beta == T(0.75) ? sqrt({s} * sqrt({s})) : pow({s}, beta)"

LRN: dict[str, str] = {
    "lrn_forward": f"""(const T* x, long long xn, long long xc, T* y, long long yn, long long yc,
    T* scale, long long an, long long ac, {SIZES}) {{
    EACH(k, N * C * H * W) {{
        {ELEMENT}
        for (int i = c0; i < c1; ++i)
            for (int j = h0; j < h1; ++j)
                for (int l = w0; l < w1; ++l) {{
                    T value = x[n * xn + i * xc + j * W + l];
                    sum += value * value;
                }}
        T s = shift + share * sum;
        scale[n * an + c * ac + h * W + w] = s;
        y[n * yn + c * yc + h * W + w] = x[n * xn + c * xc + h * W + w] / ({POWER.format(s="s")});
    }}
}}""",
    "lrn_backward": f"""(const T* dy, long long dn, long long dc, const T* x, long long xn, long long xc,
    const T* y, long long yn, long long yc, const T* scale, long long an, long long ac,
    T* dx, long long on, long long oc, {SIZES}) {{
    EACH(k, N * C * H * W) {{
        {ELEMENT}
        for (int i = c0; i < c1; ++i)
            for (int j = h0; j < h1; ++j)
                for (int l = w0; l < w1; ++l) {{
                    int at = j * W + l;
                    sum += dy[n * dn + i * dc + at] * y[n * yn + i * yc + at] / scale[n * an + i * ac + at];
                }}
        int at = h * W + w;
        T s = scale[n * an + c * ac + at];
        T direct = dy[n * dn + c * dc + at] / ({POWER.format(s="s")});
        dx[n * on + c * oc + at] = direct - 2 * beta * share * x[n * xn + c * xc + at] * sum;
    }}
}}""",
}
