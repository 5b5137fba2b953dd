"""Kernels of lowering and lifting: images [N][H][W][C] to windows (groups, N, P, Q, kh, kw, C /
groups) and back.

`lower4` and `lift4` move four channels at a time, 16 bytes; their C, R and ps count fours.
"""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

# R elements of a window lie side by side in the image too: the channels of a group, or where pixels
# touch (one group, no dilation, ps = C) a whole row of the window, kw * C; then J is 1.
LOWER = f"""(const {{S}}* x, {{S}}* windows, int count, int ps, int H, int W, {div("R", "J", "kh", "Q", "P", "N")},
    int sh, int sw, int ph, int pw, int dh, int dw) {{{{
    EACH(k, count) {{{{
        int a = OVER(k, R), t = k - a * R;
        int b = OVER(a, J), j = a - b * J;
        int d = OVER(b, kh), i = b - d * kh;
        int e = OVER(d, Q), q = d - e * Q;
        int f = OVER(e, P), p = e - f * P;
        int g = OVER(f, N), n = f - g * N;
        int h = p * sh - ph + i * dh, at = (q * sw - pw + j * dw) * ps + g * R + t;
        bool inside = h >= 0 && h < H && at >= 0 && at < W * ps;
        if (inside) windows[k] = x[(long long)(n * H + h) * (W * ps) + at];
        else windows[k] = {{E}}();
    }}}}
}}}}"""

# one thread per pixel and channel gathers from every window that read it; M windows a group
LIFT = f"""(const {{S}}* windows, {{S}}* dx, int count, int ps, {div("C", "W", "H", "R")}, int M, int kh, int kw,
    int P, int Q, {div("sh", "sw")}, int ph, int pw, int dh, int dw) {{{{
    EACH(k, count) {{{{
        int a = OVER(k, C), c = k - a * C;
        int b = OVER(a, W), w = a - b * W;
        int n = OVER(b, H), h = b - n * H;
        int g = OVER(c, R), r = c - g * R;
        {{E}} sum = {{E}}();
        for (int i = 0; i < kh; ++i) {{{{
            int row = h + ph - i * dh;
            if (row < 0) break;
            int p = OVER(row, sh);
            if (p * sh != row || p >= P) continue;
            for (int j = 0; j < kw; ++j) {{{{
                int column = w + pw - j * dw;
                if (column < 0) break;
                int q = OVER(column, sw);
                if (q * sw != column || q >= Q) continue;
                add(sum, windows[(((long long)(g * M + (n * P + p) * Q + q) * kh + i) * kw + j) * R + r]);
            }}}}
        }}}}
        dx[(long long)a * ps + c] = sum;
    }}}}
}}}}"""

LOWERING: dict[str, str] = {
    "lower": LOWER.format(E="T", S="Stored"),
    "lower4": LOWER.format(E="Four", S="FourStored"),
    "lift": LIFT.format(E="T", S="Stored"),
    "lift4": LIFT.format(E="Four", S="FourStored"),
    # [A][B][C] -> [A][C][B]: weights from Caffe's order to that of the windows, images to rows in
    # Caffe's order, and their gradients back
    "turn": f"""(const Stored* x, Stored* y, int count, {div("B", "C")}) {{
    EACH(k, count) {{
        int d = OVER(k, B), b = k - d * B;
        int a = OVER(d, C), c = d - a * C;
        y[k] = x[(long long)(a * B + b) * C + c];
    }}
}}""",
}
