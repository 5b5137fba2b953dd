"""One kernel that updates many parameters at once, by any of the solvers' rules (see
ops.reference.update).

`table` has a line of LINE numbers for each parameter: the addresses of w, g, the new w and two
histories, and where the parameter ends, counted over all. `factors` has three numbers for each
parameter: the factor of the rate, that of the decay, and the part that a running statistic keeps,
or -1. The numbers a to c and delta are the rule's own; they and the rate are
in `given` instead, if it is not null.
"""

from __future__ import annotations

LINE = 6
RULES = (
    "SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW", "SGDW", "NesterovW",
)  # fmt: skip
DECOUPLED = RULES.index("AdamW")  # the first rule whose weight decay is no part of the gradient

UPDATES: dict[str, str] = {
    "update": f"""(const long long* table, const T* factors, int tensors, int count, int rule, int l1, T decay,
    T rate, T a, T b, T c, T delta, const T* given) {{
    if (given) {{ rate = given[0]; a = given[1]; b = given[2]; c = given[3]; delta = given[4]; }}
    EACH(k, count) {{
        int low = 0, high = tensors - 1;
        while (low < high) {{
            int middle = (low + high) / 2;
            if (k < table[middle * {LINE} + 5]) high = middle; else low = middle + 1;
        }}
        const long long* line = table + low * {LINE};
        int at = k - (low ? (int)line[-1] : 0);
        const T* factor = factors + low * 3;
        T w = ((const T*)line[0])[at], g = ((const T*)line[1])[at], step, *result = (T*)line[2] + at;
        if (factor[2] >= 0) {{ *result = w * factor[2] + g; continue; }}
        T *h = (T*)line[3] + at, *u = (T*)line[4] + at, own = rate * factor[0];
        T pull = l1 ? (w > 0 ? T(1) : w < 0 ? T(-1) : T(0)) : w;
        if (rule < {DECOUPLED}) g += decay * factor[1] * pull;
        if (rule == 0) {{
            step = *h = a * *h + own * g;
        }} else if (rule == 1) {{
            T kept = a * *h, next = kept + own * g;
            step = (1 + a) * next - kept;
            *h = next;
        }} else if (rule == 2 || rule == 3) {{
            T squares = rule == 2 ? *h + g * g : a * *h + (1 - a) * g * g;
            *h = squares;
            step = own * (g / (sqrt(squares) + delta));
        }} else if (rule == 4) {{
            T squares = a * *h + (1 - a) * g * g;
            step = g * sqrt((*u + delta) / (squares + delta));
            *h = squares;
            *u = a * *u + (1 - a) * step * step;
            step *= own;
        }} else if (rule == 7 || rule == 8) {{
            T next = a * *h + g;
            *h = next;
            step = own * (rule == 7 ? next : g + a * next);
        }} else {{
            T mean = a * *h + (1 - a) * g, squares = b * *u + (1 - b) * g * g;
            *h = mean;
            *u = squares;
            step = own * c * (mean / (sqrt(squares) + delta));
        }}
        if (rule >= {DECOUPLED}) step += own * decay * factor[1] * w;
        *result = w - step;
    }}
}}""",
}
