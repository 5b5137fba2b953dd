"""Kernels of pooling, forward and backward. Backward gathers: one thread per pixel visits the windows that hold it."""

from __future__ import annotations

SIZES = "int N, int C, int H, int W, int P, int Q, int kh, int kw, int sh, int sw, int ph, int pw"

# the window of output (p, q), cut to the image
WINDOW = """int q = k % Q, p = k / Q % P, c = k / Q / P % C, n = k / Q / P / C;
        int h0 = most(p * sh - ph, 0), h1 = least(p * sh - ph + kh, H);
        int w0 = most(q * sw - pw, 0), w1 = least(q * sw - pw + kw, W);
        const T* plane = x + n * xn + c * xc;"""

# the windows of pixel (h, w)
PIXEL = """int w = k % W, h = k / W % H, c = k / W / H % C, n = k / W / H / C;
        int p0 = h + ph < kh ? 0 : (h + ph - kh) / sh + 1, p1 = least((h + ph) / sh + 1, P);
        int q0 = w + pw < kw ? 0 : (w + pw - kw) / sw + 1, q1 = least((w + pw) / sw + 1, Q);
        const T* plane = dy + n * yn + c * yc;
        T sum = 0;"""

READS = "const T* x, long long xn, long long xc"
WRITES = "T* y, long long yn, long long yc"
PLACES = "int* place, long long an, long long ac"

POOLING: dict[str, str] = {
    # a NaN wins and then stays, as NumPy's maximum has it; place may be null
    "max_forward": f"""({READS}, {WRITES}, {PLACES}, {SIZES}) {{
    EACH(k, N * C * P * Q) {{
        {WINDOW}
        int best = h0 < h1 && w0 < w1 ? h0 * W + w0 : -1;
        T top = best < 0 ? -T(__int_as_float(0x7f800000)) : plane[best];
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) {{
                T value = plane[h * W + w];
                if (value > top || (value != value && top == top)) {{ top = value; best = h * W + w; }}
            }}
        y[n * yn + c * yc + p * Q + q] = top;
        if (place) place[n * an + c * ac + p * Q + q] = most(best, 0);
    }}
}}""",
    "average_forward": f"""({READS}, {WRITES}, {SIZES}) {{
    EACH(k, N * C * P * Q) {{
        {WINDOW}
        T sum = 0;
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) sum += plane[h * W + w];
        int top = p * sh - ph, left = q * sw - pw;
        int area = (least(top + kh, H + ph) - top) * (least(left + kw, W + pw) - left);
        y[n * yn + c * yc + p * Q + q] = sum / area;
    }}
}}""",
    "stochastic_test": f"""({READS}, {WRITES}, {SIZES}) {{
    EACH(k, N * C * P * Q) {{
        {WINDOW}
        T sum = 0, squares = 0;
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) {{
                T value = plane[h * W + w];
                sum += value;
                squares += value * value;
            }}
        y[n * yn + c * yc + p * Q + q] = sum > 0 ? squares / sum : T(0);
    }}
}}""",
    "stochastic_train": f"""({READS}, const T* uniforms, long long un, long long uc, {WRITES}, {PLACES}, {SIZES}) {{
    EACH(k, N * C * P * Q) {{
        {WINDOW}
        T goal = 0, running = 0;
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) goal += plane[h * W + w];
        goal *= uniforms[n * un + c * uc + p * Q + q];
        int chosen = -1;
        for (int h = h0; h < h1 && chosen < 0; ++h)
            for (int w = w0; w < w1 && chosen < 0; ++w) {{
                running += plane[h * W + w];
                if (running >= goal) chosen = h * W + w;
            }}
        y[n * yn + c * yc + p * Q + q] = chosen < 0 ? T(0) : plane[chosen];
        place[n * an + c * ac + p * Q + q] = chosen < 0 ? p * sh * W + q * sw : chosen;
    }}
}}""",
    "places_backward": f"""(const T* dy, long long yn, long long yc, const int* place, long long an, long long ac,
    T* dx, long long xn, long long xc, {SIZES}) {{
    EACH(k, N * C * H * W) {{
        {PIXEL}
        const int* places = place + n * an + c * ac;
        for (int p = p0; p < p1; ++p)
            for (int q = q0; q < q1; ++q)
                if (places[p * Q + q] == h * W + w) sum += plane[p * Q + q];
        dx[n * xn + c * xc + h * W + w] = sum;
    }}
}}""",
    "average_backward": f"""(const T* dy, long long yn, long long yc, T* dx, long long xn, long long xc, {SIZES}) {{
    EACH(k, N * C * H * W) {{
        {PIXEL}
        for (int p = p0; p < p1; ++p)
            for (int q = q0; q < q1; ++q) {{
                int top = p * sh - ph, left = q * sw - pw;
                int area = (least(top + kh, H + ph) - top) * (least(left + kw, W + pw) - left);
                sum += plane[p * Q + q] / area;
            }}
        dx[n * xn + c * xc + h * W + w] = sum;
    }}
}}""",
}
