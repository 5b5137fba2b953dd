"""The CUDA sources compiled by NVIDIA's own compiler (the extra `gpu-compile-check`), without a GPU
or a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.cuda import kernels, signatures
from ops.cuda.kernels import KERNELS
from tests.ops import nvrtc

ARCHITECTURES = (80, 90, 100)  # Ampere, Hopper, Blackwell

needs_nvrtc = pytest.mark.skipif(
    nvrtc.LIBRARY is None, reason=("needs the wheel nvidia-cuda-nvrtc, which is not here")
)
needs_both = pytest.mark.skipif(
    nvrtc.LIBRARY is None or nvrtc.DISASSEMBLER is None,
    reason="needs the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvdisasm, which are not here",
)


@needs_nvrtc
@pytest.mark.few("[90-float32]")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles_without_a_warning(architecture: int, dtype: str) -> None:
    if architecture not in nvrtc.architectures():
        pytest.skip(f"this compiler does not know sm_{architecture}")
    cubin, log = nvrtc.compiled(kernels.source(dtype), architecture)
    assert log == ""
    assert all(f".text.{name}".encode() in cubin for name in kernels.KERNELS)


@needs_nvrtc
@pytest.mark.few("[90]")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_for_bfloat16_arrays_compiles_without_a_warning(architecture: int) -> None:
    """All its arrays are bfloat16, or only the first."""
    if architecture not in nvrtc.architectures():
        pytest.skip(f"this compiler does not know sm_{architecture}")
    for kernel in KERNELS:
        count = len(signatures.stored(kernel))
        for narrow in ([True] * count, [True] + [False] * (count - 1)) if count else ():
            cubin, log = nvrtc.compiled(kernels.narrow_source(kernel, narrow), architecture)
            assert log == ""
            assert f".text.{kernel}".encode() in cubin


@needs_both
def test_no_kernel_spills_registers_to_memory(tmp_path: Path) -> None:
    cubin, _ = nvrtc.compiled(kernels.source("float32"), 90)
    found = nvrtc.instructions(cubin, tmp_path)
    assert set(kernels.KERNELS) <= set(found)
    spilled = {
        name
        for name, codes in found.items()
        if any(code.startswith(("STL", "LDL")) for code in codes)
    }
    assert spilled == set()


@needs_both
@pytest.mark.parametrize("kernel", ["lower", "lower4"])
def test_lowering_takes_at_most_sixty_instructions_per_move_of_a_thread(
    kernel: str, tmp_path: Path
) -> None:
    """A thread moves one number, or four. With divisions by sizes that are known at run time it
    took about 155 instructions."""
    cubin, _ = nvrtc.compiled(kernels.source("float32"), 90)
    assert nvrtc.in_loop(nvrtc.instructions(cubin, tmp_path)[kernel]) <= 60
