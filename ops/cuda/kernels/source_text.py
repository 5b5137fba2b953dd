"""The text that all kernels share: the lines in front of them, and integer division by
multiplication."""

from __future__ import annotations

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


def div(*names: str) -> str:
    """Parameters for sizes that kernels divide by: OVER(k, name) is k / name, for k from 0 to 2^31
    - 1.

    A division takes about 20 instructions, this 4 (Granlund and Montgomery 1994). `launch.Divisor`
    makes the numbers.
    """
    return ", ".join(f"int {name}, unsigned {name}_m, int {name}_s" for name in names)
