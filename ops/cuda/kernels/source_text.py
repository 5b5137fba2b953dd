"""The text that all kernels share: the lines in front of them, integer division by multiplication,
and arrays that are stored in bfloat16."""

from __future__ import annotations

import re
from collections.abc import Sequence

PRELUDE = """
typedef {type} T;
struct alignas(16) Four {{ T v[4]; }};
#define EACH(i, count) \\
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += gridDim.x * blockDim.x)
#define OVER(k, d) over(k, d##_m, d##_s)
__device__ inline int over(int k, unsigned m, int s) {{ return (int)(((unsigned long long)(unsigned)k * m) >> s); }}
__device__ inline int least(int a, int b) {{ return a < b ? a : b; }}
__device__ inline int most(int a, int b) {{ return a > b ? a : b; }}
struct alignas(16) FourPlaces {{ int v[4]; }};
__device__ inline T& part(T& x, int) {{ return x; }}
__device__ inline T& part(Four& x, int i) {{ return x.v[i]; }}
__device__ inline int& part(int& x, int) {{ return x; }}
__device__ inline int& part(FourPlaces& x, int i) {{ return x.v[i]; }}
__device__ inline void add(T& sum, T x) {{ sum += x; }}
__device__ inline void add(Four& sum, Four x) {{ for (int i = 0; i < 4; ++i) sum.v[i] += x.v[i]; }}
"""

# A number that is read becomes a float, exactly. A float that is written is rounded to the nearest,
# ties to even; NaN stays NaN.
BFLOAT16 = """
struct Bfloat16 {
    unsigned short bits;
    Bfloat16() = default;
    __device__ inline Bfloat16(float x) {
        unsigned wide = __float_as_uint(x);
        bits = (unsigned short)(x != x ? 0x7FC0u : (wide + 0x7FFFu + (wide >> 16 & 1u)) >> 16);
    }
    __device__ inline operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
struct alignas(8) FourBfloat16 {
    Bfloat16 v[4];
    FourBfloat16() = default;
    __device__ inline FourBfloat16(Four x) { for (int i = 0; i < 4; ++i) v[i] = x.v[i]; }
    __device__ inline operator Four() const {
        Four x;
        for (int i = 0; i < 4; ++i) x.v[i] = v[i];
        return x;
    }
};
"""
STORED = re.compile(r"\b(Four|)Stored\*")


def stored_as(kernel: str, narrow: Sequence[bool]) -> str:
    """The text of a kernel for arrays that are stored in bfloat16 or in T. `narrow` has one bool
    for each parameter `Stored*` or `FourStored*`, in their order."""
    kinds = iter(narrow)
    return STORED.sub(
        lambda found: f"{found[1]}Bfloat16*" if next(kinds) else f"{found[1] or 'T'}*", kernel
    )


def div(*names: str) -> str:
    """Parameters for sizes that kernels divide by: OVER(k, name) is k / name, for k from 0 to 2^31
    - 1.

    A division takes about 20 instructions, this 4 (Granlund and Montgomery 1994). `launch.Divisor`
    makes the numbers.
    """
    return ", ".join(f"int {name}, unsigned {name}_m, int {name}_s" for name in names)
