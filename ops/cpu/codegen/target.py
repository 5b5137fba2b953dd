"""The processor that kernels are compiled for: its name, its features, the width of its vectors,
its caches."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from llvmlite import binding as llvm

from ops.cpu.codegen.width import allowed_bits

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# each of these features implies AVX
NEED_AVX = ("avx", "fma", "f16c", "vaes", "vpclmulqdq", "xop", "sha512", "sm3", "sm4")


@dataclass(frozen=True)
class Target:
    """A processor as LLVM names it. `bits`: the width of a vector; `registers`: the number of
    vector registers."""

    cpu: str
    features: str
    bits: int
    registers: int

    @property
    def lanes(self) -> int:
        """float32 numbers in a vector."""
        return self.bits // 32


@functools.cache
def host() -> Target:
    """This machine's processor, narrowed to CONVOY_VECTOR_BITS if that is set. Raises OpsError for
    a bad value."""
    features = dict(llvm.get_host_cpu_features())
    widest = _widest(features)
    bits = min(widest, allowed_bits())
    if bits < 512:
        features = {
            name: has and not name.startswith(("avx512", "avx10", "evex512"))
            for name, has in features.items()
        }
    if bits < 256:
        features = {name: has and not name.startswith(NEED_AVX) for name, has in features.items()}
    # AVX-512 and NEON have 32 vector registers, AVX and SSE have 16
    registers = 32 if bits == 512 or features.get("neon") else 16
    listed = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features.items()))
    return Target(
        llvm.get_host_cpu_name() if bits == widest else "generic", listed, bits, registers
    )


def is_narrowed() -> bool:
    """Whether CONVOY_VECTOR_BITS narrows the vectors of this machine's processor."""
    return host().bits < _widest(llvm.get_host_cpu_features())


@functools.cache
def first_level() -> int:
    """Bytes of a core's first-level cache of data, 48 KiB at most; 32 KiB if the system does not
    report it."""
    return min(_cache(0, 32 << 10), 48 << 10)


@functools.cache
def second_level() -> int:
    """Bytes of a core's second-level cache, 2 MiB at most; 1 MiB if the system does not report
    it."""
    return min(_cache(2, 1 << 20), 2 << 20)


def _cache(index: int, otherwise: int) -> int:
    with suppress(OSError, ValueError):
        return int((CACHES / f"index{index}" / "size").read_text("utf-8").removesuffix("K\n")) << 10
    return otherwise


def _widest(features: Mapping[str, bool]) -> int:
    if features.get("avx512f"):
        return 512
    return 256 if features.get("avx2") and features.get("fma") else 128
