"""The build of the folder in which CuPy runs without a GPU. A process uses the stand-in if its
PYTHONPATH begins with this folder.

CuPy's wheel is installed there and changed in three places. `cupy_backends/__init__.py` imports
`fake_cuda` first. `cupy/cuda/thrust` becomes a few lines of NumPy. `cupy_backends/cuda/api/runtime`
is compiled again from CuPy's source, since the module in the wheel has a CUDA runtime linked in.
The folder is kept in the user's cache. Its name is a hash of everything that it is built from.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from runtime.machine.owned import (
    Hold,
    check_way,
    is_marked,
    lock,
    make_folder,
    open_file,
    remove_folder,
    sweep,
)

HERE = Path(__file__).resolve().parent
CUPY = "14.2.*"
CUDA = ("nvidia-cuda-runtime==13.0.*", "nvidia-cuda-crt==13.0.*")  # CUDA's headers
# the tools that unpack and translate CuPy's source
TOOLS = ("cython==3.2.*", "setuptools>=77", "wheel")
DEFINED = (
    "CUPY_CUDA_VERSION=13000,CUPY_HIP_VERSION=0,CUPY_USE_CUDA_PYTHON=False,CUPY_CUFFT_STATIC=False"
)
# Sums may be reordered; -ffast-math as a whole would make the process flush denormals.
FAST = ("-O3", "-march=native", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")
COMPILER = os.environ.get("CXX") or "g++"
INCLUDE = sysconfig.get_path("include")


class Unavailable(Exception):
    """The stand-in cannot be built here. The text names the missing tool or the failed step in one
    line."""


def folder() -> Path:
    """The folder for the stand-in of these sources, this Python and this compiler."""
    files = [
        Path(__file__),
        *sorted(path for part in ("installed", "source") for path in (HERE / part).iterdir()),
    ]
    parts = [
        platform.python_version(),
        np.__version__,
        COMPILER,
        _said(COMPILER, "--version"),
        platform.machine(),
    ]
    digest = hashlib.sha256(
        "\0".join(parts).encode() + b"".join(path.read_bytes() for path in files if path.is_file())
    )
    return _top() / digest.hexdigest()[:16]


def _top() -> Path:
    with suppress(RuntimeError):  # there is no HOME, and the system has no user of this number
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convoy-fake-cuda"
    return Path(tempfile.gettempdir()) / f"convoy-fake-cuda-{os.geteuid()}"


@cache
def built() -> Path | None:
    """Return the folder for PYTHONPATH, or None if it is not built."""
    made = folder()
    return made if _is_complete(made) else None


def _is_complete(made: Path) -> bool:
    """Whether the folder is complete and safe. Its code is loaded, so no other user may be able to
    replace it."""
    try:
        check_way(made.parent)
    except OSError:
        return False
    return is_marked(made) and (made / "complete").exists()


@cache
def site() -> Path:
    """Return the folder for PYTHONPATH, after building it if necessary. Raises Unavailable if it
    cannot be built."""
    made = folder()
    try:
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_way(made.parent)
        with os.fdopen(open_file(made.with_suffix(".lock"), os.O_RDWR | os.O_CREAT), "r+b") as one:
            # if several processes need the folder, one of them builds it
            lock(one.fileno(), wait=True)
            if not _is_complete(made):
                _check()
                _make(made)
    except OSError as error:
        raise Unavailable(f"{error.filename or made}: {error.strerror}") from None
    return made


def _make(made: Path) -> None:
    sweep(made.parent, "[0-9a-f]" * 16, _forgotten)
    make_folder(made)
    remove_folder(made)  # the remains of a build that was ended
    make_folder(made)
    # the build of another tree sweeps folders that are neither complete nor held
    hold = Hold.take(made)
    try:
        with tempfile.TemporaryDirectory(prefix="fake-cuda-") as work:
            _build(made, Path(work))
        (made / "complete").touch()  # the time of this file also marks the last use of the folder
    finally:
        if hold is not None:
            hold.release()


def _forgotten(made: Path) -> bool:
    """Whether the folder has not been used for a week. Each such folder takes 200 MB."""
    used = made / "complete"
    return not used.exists() or time.time() - used.stat().st_mtime > 7 * 24 * 3600


def _check() -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Unavailable(
            f"it is for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    for tool in (COMPILER, "nm"):
        if shutil.which(tool) is None:
            raise Unavailable(f"no {tool} here")
    if not Path(INCLUDE, "Python.h").is_file():
        raise Unavailable(
            f"no Python.h in {INCLUDE}: Python's headers (python3-dev) are not installed"
        )


def _build(made: Path, work: Path) -> None:
    tools = work / "tools"
    _pip(
        "install", "--target", made, "--no-deps", f"cupy-cuda13x=={CUPY}", "cuda-pathfinder", *CUDA
    )
    _pip("install", "--target", tools, *TOOLS)
    runtime = _runtime_module(made, work, tools)
    _libraries(made, work, runtime)
    installed = made / "fake_cuda"
    (sanitized,) = re.findall(
        r'^SANITIZED = \(?\s*"(.*)"', (installed / "__init__.py").read_text(), re.MULTILINE
    )
    for fibers in ([], ["-DFIBERS"]):  # the headers that every kernel includes
        _headers_ahead(made, "cupy_kernel.h", "plain", ["-O1", *fibers])
        _headers_ahead(made, "kernel.h", "plain", ["-O1", *fibers])
        _headers_ahead(made, "kernel.h", "sanitized", [*sanitized.split(), *fibers])
    api = made / "cupy_backends" / "cuda" / "api"
    for old in (*api.glob("runtime.*.so"), *(made / "cupy" / "cuda").glob("thrust.*so")):
        old.unlink()
    link = ["-L", installed, "-lfake_cuda", "-Wl,-rpath,$ORIGIN/../../../fake_cuda"]
    _run(
        COMPILER,
        "-shared",
        runtime,
        "-o",
        api / f"runtime.{sysconfig.get_config_var('SOABI')}.so",
        *link,
    )
    (installed / "thrust.py").rename(made / "cupy" / "cuda" / "thrust.py")
    with (made / "cupy_backends" / "__init__.py").open("a") as file:
        file.write(
            "import fake_cuda  # stands in for CUDA, before anything asks for the real one\n"
        )


def _runtime_module(made: Path, work: Path, tools: Path) -> Path:
    """Compile CuPy's runtime module to an object file that takes CUDA's runtime from a separate
    library."""
    (found,) = made.glob("cupy_cuda13x-*.dist-info")
    version = found.name.removesuffix(".dist-info").split("-")[1]
    # pip needs the package's name and version only; this needs no search for CUDA and builds
    # nothing
    environment = {"PYTHONPATH": str(tools), "CUPY_INSTALL_USE_STUB": "1"}
    options = ("--no-binary", "cupy", "--no-deps", "--no-build-isolation", "-d", work)
    _pip("download", *options, f"cupy=={version}", environment=environment)
    (packed,) = work.glob("cupy-*.tar.gz")
    _run("tar", "xzf", packed, "-C", work, "--strip-components=1")
    source = work / "cupy_backends" / "cuda" / "api" / "runtime.pyx"
    cython = [
        sys.executable,
        "-m",
        "cython",
        "-3",
        "--cplus",
        "-X",
        "always_allow_keywords=True",
        "-E",
        DEFINED,
    ]
    _run(*cython, source, cwd=work, environment=environment)
    includes = [INCLUDE, made / "nvidia" / "cu13" / "include", HERE / "installed", np.get_include()]
    options_of_cpp = [
        "-O1",
        "-std=c++17",
        "-fPIC",
        "-w",
        '-DCYTHON_EXTERN_C=extern "C"',
        "-D_FORCE_INLINES=1",
    ]
    _run(
        COMPILER,
        *options_of_cpp,
        *_include(*includes),
        "-c",
        source.with_suffix(".cpp"),
        "-o",
        work / "cupy_runtime.o",
        cwd=work,
    )
    return work / "cupy_runtime.o"


def _libraries(made: Path, work: Path, runtime: Path) -> None:
    """Build our library, with a stub for each other function that CuPy takes from CUDA's libraries.
    Then build one library for each of CUDA's names that leads to ours."""
    installed = made / "fake_cuda"
    shutil.copytree(HERE / "installed", installed)
    objects = []
    for source in sorted((HERE / "source").glob("*.cpp")):
        objects.append(work / f"{source.stem}.o")
        how = FAST if source.stem == "cublas" else ("-O1",)
        cuda = _include(made / "nvidia" / "cu13" / "include")
        _run(COMPILER, *how, "-std=c++17", "-fPIC", "-Wall", *cuda, "-c", source, "-o", objects[-1])
    objects.remove(cudnn := work / "cudnn.o")
    libs = made / "cupy_backends" / "cuda" / "libs"
    needed = _names("-u", runtime) | _names(
        "-uD", *libs.glob("cublas.*.so"), *libs.glob("nvrtc.*.so")
    )
    lines = ["#include <cstdio>"]
    for name in sorted(needed - _names("--defined-only", *objects)):
        code = 15 if name.startswith("cublas") else 801  # the error code for "not supported"
        text = f'fprintf(stderr, "fake_cuda: {name} is not there\\n"); return {code};'
        lines.append(f'extern "C" int {name}() {{ {text} }}')
    (work / "stubs.cpp").write_text("\n".join(lines))
    _run(
        COMPILER,
        "-shared",
        "-fPIC",
        *objects,
        work / "stubs.cpp",
        "-o",
        installed / "libfake_cuda.so",
        "-ldl",
    )
    names = re.findall(r'"(lib\w+\.so\.\d+)"', (HERE / "installed" / "__init__.py").read_text())
    for name in names:
        leads = [
            f"-Wl,-soname,{name}",
            "-Wl,--no-as-needed",
            "-L",
            installed,
            "-lfake_cuda",
            "-Wl,-rpath,$ORIGIN",
        ]
        _run(COMPILER, "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", installed / name, *leads)
    # only processes that use cuDNN have this folder on their library path
    apart = made / "fake_cudnn"
    apart.mkdir()
    link = [
        "-L",
        installed,
        "-lfake_cuda",
        "-Wl,-rpath,$ORIGIN/../fake_cuda",
        "-Wl,-soname,libcudnn.so.9",
    ]
    _run(COMPILER, "-shared", cudnn, "-o", apart / "libcudnn.so.9", *link)


def _headers_ahead(made: Path, header: str, name: str, options: list[str]) -> None:
    """Compile the headers that every kernel includes. One of our kernels takes 0.08 s with them and
    0.29 s without."""
    headers = made / "cupy" / "_core" / "include"
    installed = made / "fake_cuda"
    own = [headers / "cupy" / "_cccl" / name for name in ("cub", "thrust", "libcudacxx")]
    target = installed / f"{header}.gch"
    target.mkdir(exist_ok=True)
    includes = _include(installed, *own, headers, made / "nvidia" / "cu13" / "include")
    common = ["-std=c++17", "-shared", "-fPIC", "-w", *options]
    file = target / f"{name}{'-fibers' if '-DFIBERS' in options else ''}.gch"
    _run(COMPILER, *common, *includes, "-x", "c++-header", installed / header, "-o", file)


def _include(*folders: object) -> list[str]:
    return [f"-I{folder}" for folder in folders]


def _names(*arguments: object) -> set[str]:
    """The names of functions of CUDA's libraries in object files."""
    listed = subprocess.run(
        ["nm", *map(str, arguments)], capture_output=True, text=True, check=False
    ).stdout
    return set(re.findall(r" ((?:cu[A-Z]|cuda[A-Z]|cublas[A-Z]|nvrtc[A-Z])\w*)", listed))


def _pip(command: str, *arguments: object, environment: dict[str, str] | None = None) -> None:
    _run(
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        command,
        "-q",
        *arguments,
        environment=environment,
    )


def _run(
    *command: object, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    words = [*map(str, command)]
    try:
        subprocess.run(
            words,
            cwd=cwd,
            env=os.environ | (environment or {}),
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise Unavailable(f"no {words[0]} here") from None
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        why = next(
            (line for line in reversed(lines) if "rror" in line),
            lines[-1] if lines else "without a word",
        )
        raise Unavailable(f"{' '.join(words)} ended with {error.returncode}: {why}") from None


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
