"""Kernels of activations that multiply x by a gate, over rows of C numbers (`ops.reference.gates`).

`kind` is a number of KINDS. A thread computes the gate and its slope in registers, so each pass
reads and writes every number once.
"""

from __future__ import annotations

from ops.cuda.kernels.pointwise import PLACE
from ops.cuda.kernels.source_text import div

KINDS = ("swish", "gelu", "gelu tanh", "hard swish", "hard sigmoid")

# tanh(u / 2) is used for the sigmoid, as in the reference: exp would overflow
GATE = """
        T gate;
        if (kind == 1) {
            gate = T(0.5) * erfc(T(-0.7071067811865476) * value);
        } else if (kind == 0 || kind == 2) {
            T inner = kind == 2 ? T(1.5957691216057308) * value * (1 + T(0.044715) * value * value) : beta * value;
            gate = T(0.5) + T(0.5) * tanh(T(0.5) * inner);
        } else {
            gate = value <= -3 ? T(0) : value >= 3 ? T(1) : (value + 3) / 6;
        }
"""
SLOPE = """
        T slope = 0;
        if (kind == 1) {
            slope = T(0.3989422804014327) * exp(T(-0.5) * value * value);
        } else if (kind == 0 || kind == 2) {
            T rise = kind == 2 ? T(1.5957691216057308) * (1 + T(0.134145) * value * value) : beta;
            if (gate > 0 && gate < 1) slope = gate * (1 - gate) * rise;
        } else if (value > -3 && value < 3) {
            slope = T(1) / 6;
        }
"""

GATES: dict[str, str] = {
    "gate": f"""(const Stored* x, int ps, Stored* y, int ys, int count, {div("C")}, int kind, T beta) {{
    EACH(k, count) {{
        {PLACE}
        T value = x[(long long)m * ps + c];
        {GATE}
        y[(long long)m * ys + c] = kind == 4 ? gate : value * gate;
    }}
}}""",
    # a product with dy, so that a gradient that is NaN stays NaN
    "gate_back": f"""(const Stored* dy, int ds, const Stored* x, int ps, Stored* dx, int xs, int count, {div("C")}, int kind,
    T beta) {{
    EACH(k, count) {{
        {PLACE}
        T value = x[(long long)m * ps + c];
        {GATE}
        {SLOPE}
        T factor = kind == 4 ? slope : slope == 0 ? gate : gate + value * slope;
        dx[(long long)m * xs + c] = dy[(long long)m * ds + c] * factor;
    }}
}}""",
}
