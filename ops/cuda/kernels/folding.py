"""Kernels that fold blocks of pixels into channels (space to depth), and the weights alike.

An image [N][H][W][C] becomes [N][U][V][D]: block (u, v) has the bh * bw pixels from row u * bh - ph
and column v * bw - pw on, one after the other, and zeros up to D channels. Weights (K, C, kh, kw)
become (K, A, B, D) in the same way. Blocks of one pixel only add channels.
"""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

# a folded number: its channel d, the pixel (i, j) of its block, the channel c of that pixel
INNER = "int tap = OVER(d, C), c = d - tap * C, i = OVER(tap, bw), j = tap - i * bw;"

FOLDING: dict[str, str] = {
    "fold": f"""(const Stored* x, int ps, Stored* y, int count, {div("D", "V", "U", "C", "bw")}, int bh, int H, int W,
    int ph, int pw) {{
    EACH(k, count) {{
        int at = OVER(k, D), d = k - at * D;
        int b = OVER(at, V), v = at - b * V;
        int n = OVER(b, U), u = b - n * U;
        {INNER}
        int h = u * bh + i - ph, w = v * bw + j - pw;
        bool inside = i < bh && h >= 0 && h < H && w >= 0 && w < W;
        y[k] = inside ? T(x[((long long)(n * H + h) * W + w) * ps + c]) : T(0);
    }}
}}""",
    # a pixel that lies in no block has no gradient
    "unfold": f"""(const Stored* y, Stored* x, int ps, int count, {div("C", "W", "H", "bh", "bw")}, int D, int U, int V,
    int ph, int pw) {{
    EACH(k, count) {{
        int at = OVER(k, C), c = k - at * C;
        int b = OVER(at, W), w = at - b * W + pw;
        int n = OVER(b, H), h = b - n * H + ph;
        int u = OVER(h, bh), v = OVER(w, bw);
        int d = ((h - u * bh) * bw + w - v * bw) * C + c;
        x[(long long)at * ps + c] = u < U && v < V ? T(y[((long long)(n * U + u) * V + v) * D + d]) : T(0);
    }}
}}""",
    "fold_weights": f"""(const T* w, Stored* y, int count, {div("D", "B", "A", "C", "bw")}, int bh, int kh, int kw) {{
    EACH(k, count) {{
        int at = OVER(k, D), d = k - at * D;
        int s = OVER(at, B), b = at - s * B;
        int o = OVER(s, A), a = s - o * A;
        {INNER}
        int row = a * bh + i, column = b * bw + j;
        bool inside = i < bh && row < kh && column < kw;
        y[k] = inside ? w[((o * C + c) * kh + row) * kw + column] : T(0);
    }}
}}""",
    "unfold_weights": f"""(const T* y, T* w, int count, {div("kw", "kh", "C", "bh", "bw")}, int D, int A, int B) {{
    EACH(k, count) {{
        int s = OVER(k, kw), column = k - s * kw;
        int r = OVER(s, kh), row = s - r * kh;
        int o = OVER(r, C), c = r - o * C;
        int a = OVER(row, bh), b = OVER(column, bw);
        w[k] = y[((o * A + a) * B + b) * D + ((row - a * bh) * bw + column - b * bw) * C + c];
    }}
}}""",
}
