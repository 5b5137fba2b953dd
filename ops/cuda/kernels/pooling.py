"""Kernels of pooling, forward and backward. Backward gathers: one thread per pixel visits the
windows that hold it."""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

FORWARD = (
    f"int count, {div('C', 'Q', 'P')}, int H, int W, int kh, int kw, int sh, int sw, int ph, int pw"
)
BACKWARD = (
    f"int count, {div('C', 'W', 'H', 'sh', 'sw')}, int P, int Q, int kh, int kw, int ph, int pw"
)

# the window of output (p, q), cut to the image; E is a number or four
WINDOWS = """int at = OVER(k, C), c = k - at * C;
        int b = OVER(at, Q), q = at - b * Q;
        int n = OVER(b, P), p = b - n * P;
        int h0 = most(p * sh - ph, 0), h1 = least(p * sh - ph + kh, H);
        int w0 = most(q * sw - pw, 0), w1 = least(q * sw - pw + kw, W);
        auto plane = x + (long long)n * H * W * ps + c;"""

# the windows of pixel (h, w)
PIXELS = """int at = OVER(k, C), c = k - at * C;
        int b = OVER(at, W), w = at - b * W;
        int n = OVER(b, H), h = b - n * H;
        int p0 = h + ph < kh ? 0 : OVER(h + ph - kh, sh) + 1, p1 = least(OVER(h + ph, sh) + 1, P);
        int q0 = w + pw < kw ? 0 : OVER(w + pw - kw, sw) + 1, q1 = least(OVER(w + pw, sw) + 1, Q);
        auto plane = dy + (long long)n * P * Q * ds + c;
        {E} sum = {E}();"""

WINDOW = WINDOWS.replace("{E}", "T")
PIXEL = PIXELS.replace("{E}", "T")
READS = "const Stored* x, int ps"
WRITES = "Stored* y, int ys"
PLACES = "int* place, int as"

# a NaN wins and then stays, as NumPy's maximum has it; place may be null
MAX = f"""(const <S>* x, int ps, <S>* y, int ys, <P>* place, int as, int rectify, {FORWARD}) {{
    EACH(k, count) {{
        {WINDOWS.replace("{E}", "<E>")}
        int first = h0 < h1 && w0 < w1 ? h0 * W + w0 : -1;
        <E> top = first < 0 ? <E>() : <E>(plane[(long long)first * ps]);
        <P> best;
        for (int i = 0; i < <N>; ++i) {{
            if (first < 0) part(top, i) = -T(__int_as_float(0x7f800000));
            part(best, i) = first;
        }}
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) {{
                <E> values = plane[(long long)(h * W + w) * ps];
                for (int i = 0; i < <N>; ++i) {{
                    T value = part(values, i), high = part(top, i);
                    if (value > high || (value != value && high == high)) {{
                        part(top, i) = value;
                        part(best, i) = h * W + w;
                    }}
                }}
            }}
        for (int i = 0; i < <N>; ++i) {{
            T high = part(top, i);
            bool cut = rectify && !(high > 0);
            if (cut && high == high) part(top, i) = T(0);
            part(best, i) = cut ? -1 : most(part(best, i), 0);
        }}
        y[(long long)at * ys + c] = top;
        if (place) place[(long long)at * as + c] = best;
    }}
}}"""

TO_PLACES = f"""(const <S>* dy, int ds, const <P>* place, int as, <S>* dx, int xs, {BACKWARD}) {{
    EACH(k, count) {{
        {PIXELS.replace("{E}", "<E>")}
        const <P>* places = place + (long long)n * P * Q * as + c;
        for (int p = p0; p < p1; ++p)
            for (int q = q0; q < q1; ++q) {{
                <P> found = places[(long long)(p * Q + q) * as];
                bool any = false;
                for (int i = 0; i < <N>; ++i) any |= part(found, i) == h * W + w;
                if (!any) continue;
                <E> given = plane[(long long)(p * Q + q) * ds];
                for (int i = 0; i < <N>; ++i)
                    if (part(found, i) == h * W + w) part(sum, i) += part(given, i);
            }}
        dx[(long long)at * xs + c] = sum;
    }}
}}"""


def _wide(text: str, many: int) -> str:
    """The kernel for one channel per thread or four. With four, C and the steps count fours."""
    element, stored, place = (
        ("T", "Stored", "int") if many == 1 else ("Four", "FourStored", "FourPlaces")
    )
    text = text.replace("<E>", element).replace("<S>", stored)
    return text.replace("<P>", place).replace("<N>", str(many))


POOLING: dict[str, str] = {
    "max_forward": _wide(MAX, 1),
    "max_forward4": _wide(MAX, 4),
    "average_forward": f"""({READS}, {WRITES}, {FORWARD}) {{
    EACH(k, count) {{
        {WINDOW}
        T sum = 0;
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) sum += plane[(long long)(h * W + w) * ps];
        int top = p * sh - ph, left = q * sw - pw;
        int area = (least(top + kh, H + ph) - top) * (least(left + kw, W + pw) - left);
        y[(long long)at * ys + c] = sum / area;
    }}
}}""",
    "stochastic_test": f"""({READS}, {WRITES}, {FORWARD}) {{
    EACH(k, count) {{
        {WINDOW}
        T sum = 0, squares = 0;
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) {{
                T value = plane[(long long)(h * W + w) * ps];
                sum += value;
                squares += value * value;
            }}
        y[(long long)at * ys + c] = sum > 0 ? squares / sum : T(0);
    }}
}}""",
    "stochastic_train": f"""({READS}, const T* uniforms, int us, {WRITES}, {PLACES}, {FORWARD}) {{
    EACH(k, count) {{
        {WINDOW}
        T goal = 0, running = 0;
        for (int h = h0; h < h1; ++h)
            for (int w = w0; w < w1; ++w) goal += plane[(long long)(h * W + w) * ps];
        goal *= uniforms[(long long)at * us + c];
        int chosen = -1;
        for (int h = h0; h < h1 && chosen < 0; ++h)
            for (int w = w0; w < w1 && chosen < 0; ++w) {{
                running += plane[(long long)(h * W + w) * ps];
                if (running >= goal) chosen = h * W + w;
            }}
        y[(long long)at * ys + c] = chosen < 0 ? T(0) : T(plane[(long long)chosen * ps]);
        place[(long long)at * as + c] = chosen < 0 ? p * sh * W + q * sw : chosen;
    }}
}}""",
    "places_backward": _wide(TO_PLACES, 1),
    "places_backward4": _wide(TO_PLACES, 4),
    "average_backward": f"""(const Stored* dy, int ds, Stored* dx, int xs, {BACKWARD}) {{
    EACH(k, count) {{
        {PIXEL}
        for (int p = p0; p < p1; ++p)
            for (int q = q0; q < q1; ++q) {{
                int top = p * sh - ph, left = q * sw - pw;
                int area = (least(top + kh, H + ph) - top) * (least(left + kw, W + pw) - left);
                sum += plane[(long long)(p * Q + q) * ds] / area;
            }}
        dx[(long long)at * xs + c] = sum;
    }}
}}""",
}
