"""Kernels of depthwise convolution. Weights are (K, kh, kw); output channel o reads channel o / M.

Forward and the gradient of images gather: one thread for each number. The gradient of weights takes
a thread for each weight and each strip of output pixels; the last threads join the strips.
"""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

KERNEL = "int kh, int kw"
STRIDES = "int sh, int sw, int ph, int pw, int dh, int dw"

DEPTHWISE: dict[str, str] = {
    "depthwise_forward": f"""(const Stored* x, int ps, const T* weight, const T* bias, Stored* y, int ys, int rectify, int count,
    {div("K", "Q", "P", "M")}, int H, int W, {KERNEL}, {STRIDES}) {{
    EACH(k, count) {{
        int at = OVER(k, K), o = k - at * K;
        int b = OVER(at, Q), q = at - b * Q;
        int n = OVER(b, P), p = b - n * P;
        auto plane = x + (long long)n * H * W * ps + OVER(o, M);
        const T* factors = weight + (long long)o * kh * kw;
        T sum = bias ? bias[o] : T(0);
        for (int i = 0; i < kh; ++i) {{
            int h = p * sh - ph + i * dh;
            if (h < 0 || h >= H) continue;
            for (int j = 0; j < kw; ++j) {{
                int w = q * sw - pw + j * dw;
                if (w >= 0 && w < W) sum += plane[(long long)(h * W + w) * ps] * factors[i * kw + j];
            }}
        }}
        y[(long long)at * ys + o] = rectify && sum < 0 ? T(0) : sum;
    }}
}}""",
    "depthwise_data": f"""(const Stored* dy, int ds, const T* weight, Stored* dx, int xs, int count, {div("C", "W", "H", "sh", "sw")},
    int M, int P, int Q, {KERNEL}, int ph, int pw, int dh, int dw) {{
    EACH(k, count) {{
        int at = OVER(k, C), c = k - at * C;
        int b = OVER(at, W), w = at - b * W;
        int n = OVER(b, H), h = b - n * H;
        auto plane = dy + (long long)n * P * Q * ds;
        T sum = 0;
        for (int i = 0; i < kh; ++i) {{
            int high = h + ph - i * dh, p = high < 0 ? P : OVER(high, sh);
            if (p >= P || p * sh != high) continue;
            for (int j = 0; j < kw; ++j) {{
                int wide = w + pw - j * dw, q = wide < 0 ? Q : OVER(wide, sw);
                if (q >= Q || q * sw != wide) continue;
                auto pixel = plane + (long long)(p * Q + q) * ds;
                for (int o = c * M; o < (c + 1) * M; ++o)
                    sum += pixel[o] * weight[((long long)o * kh + i) * kw + j];
            }}
        }}
        dx[(long long)at * xs + c] = sum;
    }}
}}""",
    "depthwise_weights": f"""(const Stored* x, int ps, const Stored* dy, int ds, T* sums, int* tickets, T* out,
    int count, {div("L", "A", "kw", "Q", "P", "M")}, int pixels, int S, int G, int H, int W, {STRIDES}) {{
    EACH(k, count) {{
        int s = OVER(k, L), at = k - s * L;
        int o = OVER(at, A), tap = at - o * A;
        int i = OVER(tap, kw), j = tap - i * kw, c = OVER(o, M);
        T sum = 0;
        for (int r = s; r < pixels; r += S) {{
            int b = OVER(r, Q), q = r - b * Q;
            int n = OVER(b, P), p = b - n * P;
            int h = p * sh - ph + i * dh, w = q * sw - pw + j * dw;
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            sum += dy[(long long)r * ds + o] * x[((long long)(n * H + h) * W + w) * ps + c];
        }}
        sums[k] = sum;
        if (totals(sums, tickets, 1, S, G, L, s, at)) out[at] = sums[at];
    }}
}}""",
}
