"""The kernel that transforms images of bytes: crop, mirror, mean and scale, erased boxes."""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

PIXELS: dict[str, str] = {
    # x (N, C, H, W) in this order; `places` as in ops.interface.pixels; `form` has the mean of each
    # plane, then the scale, then the deviation of each; `means` (C, H, W) or null
    "transform_pixels": f"""(const unsigned char* x, int C, int H, int W, const int* places, const T* form,
    const T* means, int turned, T* y, int count, {div("area", "wide")}) {{
    EACH(k, count) {{
        int n = OVER(k, area), at = k - n * area, i = OVER(at, wide), j = at - i * wide;
        const int* p = places + n * 7;
        bool erased = i >= p[3] && i < p[3] + p[5] && j >= p[4] && j < p[4] + p[6];
        int row = p[0] + i, column = p[1] + (p[2] ? wide - 1 - j : j);
        bool inside = row >= 0 && row < H && column >= 0 && column < W;
        for (int c = 0; c < C; ++c) {{
            long long plane = (long long)n * C + (turned ? C - 1 - c : c);
            T value = inside ? (T)x[(plane * H + row) * W + column] : (T)0;
            if (inside && means) value -= means[(c * H + row) * W + column];
            value = (value - form[c]) * form[C] / form[C + 1 + c];
            y[(long long)k * C + c] = erased ? (T)0 : value;
        }}
    }}
}}""",
}
