"""Kernels that treat numbers one by one, over rows of C numbers: bias, rectifier, dropout."""

from __future__ import annotations

from ops.cuda.kernels.source_text import div

PLACE = """int m = OVER(k, C), c = k - m * C;"""

PLUS = f"""(const {{S}}* a, int as, const {{S}}* b, int bs, {{S}}* y, int ys, int count, {div("C")}) {{{{
    EACH(k, count) {{{{
        int m = OVER(k, C), c = k - m * C;
        {{E}} sum = a[(long long)m * as + c];
        add(sum, b[(long long)m * bs + c]);
        y[(long long)m * ys + c] = sum;
    }}}}
}}}}"""

POINTWISE: dict[str, str] = {
    "copy": f"""(const Stored* x, int ps, Stored* y, int ys, int count, {div("C")}) {{
    EACH(k, count) {{
        {PLACE}
        y[(long long)m * ys + c] = x[(long long)m * ps + c];
    }}
}}""",
    # y += b, or max(y + b, 0), where b may be null; NaN stays NaN
    "shift": f"""(Stored* y, int ys, const T* b, int count, {div("C")}, int rectify) {{
    EACH(k, count) {{
        {PLACE}
        T value = y[(long long)m * ys + c] + (b ? b[c] : T(0));
        y[(long long)m * ys + c] = rectify && value < 0 ? T(0) : value;
    }}
}}""",
    "rectify": f"""(const Stored* x, int ps, Stored* y, int ys, int count, {div("C")}, T slope) {{
    EACH(k, count) {{
        {PLACE}
        T value = x[(long long)m * ps + c];
        y[(long long)m * ys + c] = value < 0 ? (slope == 0 ? T(0) : slope * value) : value;
    }}
}}""",
    # a product as in the reference, so that a gradient that is NaN stays NaN
    "rectify_back": f"""(const Stored* dy, int ds, const Stored* y, int ys, Stored* dx, int xs, int count, {div("C")}, T slope) {{
    EACH(k, count) {{
        {PLACE}
        dx[(long long)m * xs + c] = dy[(long long)m * ds + c] * (y[(long long)m * ys + c] > 0 ? T(1) : slope);
    }}
}}""",
    "plus": PLUS.format(E="T", S="Stored"),
    "plus4": PLUS.format(E="Four", S="FourStored"),  # C and the steps count fours
    # see ops.reference.philox; `least_kept` and the key's halves are bits of an unsigned. The first
    # row and the key are in `given` instead, if it is not null
    "dropout": f"""(const Stored* x, int ps, Stored* y, int ys, int count, {div("C", "pixels")}, int first, int key_low,
    int key_high, const int* given, int least_kept, T gain) {{
    if (given) {{ first = given[0]; key_low = given[1]; key_high = given[2]; }}
    EACH(k, count) {{
        {PLACE}
        int n = OVER(m, pixels), unit = (m - n * pixels) * C + c;
        unsigned k0 = (unsigned)key_low, k1 = (unsigned)key_high;
        unsigned x0 = (unsigned)unit >> 2, x1 = (unsigned)(first + n), x2 = 0, x3 = 0;
        for (int round = 0; round < 10; ++round) {{
            unsigned long long a = (unsigned long long)x0 * 0xD2511F53u, b = (unsigned long long)x2 * 0xCD9E8D57u;
            x0 = (unsigned)(b >> 32) ^ x1 ^ k0;
            x1 = (unsigned)b;
            x2 = (unsigned)(a >> 32) ^ x3 ^ k1;
            x3 = (unsigned)a;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }}
        unsigned drawn = unit & 2 ? (unit & 1 ? x3 : x2) : (unit & 1 ? x1 : x0);
        T value = x[(long long)m * ps + c];
        y[(long long)m * ys + c] = value * (drawn >= (unsigned)least_kept ? gain : T(0));
    }}
}}""",
}
