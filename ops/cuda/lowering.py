"""Kernels of lowering and lifting: channel-major images (C, N, H, W) to windows (C, kh, kw, N, P, Q) and back."""

from __future__ import annotations

GEOMETRY = "int kh, int kw, int sh, int sw, int ph, int pw, int dh, int dw"

LOWERING: dict[str, str] = {
    "lower": f"""(const T* x, long long xc, long long xn, T* windows,
    int C, int N, int H, int W, int P, int Q, {GEOMETRY}) {{
    EACH(k, C * kh * kw * N * P * Q) {{
        int q = k % Q, p = k / Q % P, n = k / Q / P % N, j = k / Q / P / N % kw, i = k / Q / P / N / kw % kh;
        int c = k / Q / P / N / kw / kh;
        int h = p * sh - ph + i * dh, w = q * sw - pw + j * dw;
        bool inside = h >= 0 && h < H && w >= 0 && w < W;
        windows[k] = inside ? x[c * xc + n * xn + h * W + w] : T(0);
    }}
}}""",
    # one thread per pixel gathers from every window that read it
    "lift": f"""(const T* windows, T* dx, long long xc, long long xn,
    int C, int N, int H, int W, int P, int Q, {GEOMETRY}) {{
    EACH(k, C * N * H * W) {{
        int w = k % W, h = k / W % H, n = k / W / H % N, c = k / W / H / N;
        T sum = 0;
        for (int i = 0; i < kh; ++i) {{
            int row = h + ph - i * dh, p = row / sh;
            if (row < 0 || row % sh || p >= P) continue;
            for (int j = 0; j < kw; ++j) {{
                int column = w + pw - j * dw, q = column / sw;
                if (column < 0 || column % sw || q >= Q) continue;
                sum += windows[((((size_t)(c * kh + i) * kw + j) * N + n) * P + p) * Q + q];
            }}
        }}
        dx[c * xc + n * xn + h * W + w] = sum;
    }}
}}""",
}
