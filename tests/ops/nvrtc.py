"""NVIDIA's compiler of kernels from its wheel, and its disassembler, without a GPU or a driver."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

# the flags that CuPy passes
FLAGS = ("-std=c++17", "-ftz=true", "--device-as-default-execution-space")


def _files(pattern: str) -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(folder).glob(pattern))


LIBRARY = next(
    (path for path in _files("*/lib/libnvrtc.so.*") if "builtins" not in path.name), None
)
DISASSEMBLER = next(_files("*/bin/nvdisasm"), None)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY))


def architectures() -> set[int]:
    """The architectures that this compiler knows, as 90 for sm_90."""
    count = ctypes.c_int()
    _library().nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    _library().nvrtcGetSupportedArchs(found)
    return set(found)


@functools.cache
def compiled(source: str, architecture: int, *options: str) -> tuple[bytes, str]:
    """Compile a source for one architecture. Returns the machine code and the compiler's messages.
    Raises AssertionError if the compiler refuses the source."""
    nvrtc = _library()
    program = ctypes.c_void_p()
    assert (
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
        == 0
    )
    given = [text.encode() for text in (f"--gpu-architecture=sm_{architecture}", *FLAGS, *options)]
    status = nvrtc.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
    log = _text(program, "ProgramLog").rstrip(b"\0").decode()
    assert status == 0, log
    return _text(program, "CUBIN"), log


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(_library(), f"nvrtcGet{what}")(program, text)
    return text.raw


def instructions(cubin: bytes, folder: Path) -> dict[str, list[str]]:
    """The instructions of each kernel, without the padding behind its end. Its labels are between
    them, as "name:"."""
    file = folder / "kernels.cubin"
    file.write_bytes(cubin)
    done = subprocess.run(
        [str(DISASSEMBLER), "-c", str(file)], capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {}
    kernel: list[str] = []
    for line in done.stdout.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            kernel = found.setdefault(section[1], [])
        elif label := re.match(r"(\.L\w+:)", line):
            kernel.append(label[1])
        elif (
            code := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z].*?)\s*;", line)
        ) and code[1] != "NOP":
            kernel.append(code[1])
    return found


def in_loop(codes: list[str]) -> int:
    """The number of instructions in one iteration of a kernel's first loop."""
    for end, code in enumerate(codes):
        target = re.match(r"BRA\S* `\((\.L\w+)\)", code)
        if target and (label := f"{target[1]}:") in codes[:end]:
            return sum(not one.endswith(":") for one in codes[codes.index(label) : end + 1])
    raise AssertionError("no loop")
