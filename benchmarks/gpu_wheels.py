"""`python -m benchmarks.gpu_wheels`: the packages that the GPU benchmark needs, as wheels that are
copied with the tree.

A machine with a GPU that reaches no registry has CuPy, NumPy and perhaps PyTorch, but no other
packages. Run this command where there is a registry: it fills `benchmarks/wheels` for that
machine's Python. `python -m benchmarks.gpu` unpacks them there. cuDNN's frontend comes without its
dependencies; cuDNN itself comes with PyTorch there. numba is left out: its compiler alone is larger
than all other wheels, and without it the CPU computes with NumPy.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT

FOLDER = ROOT / "benchmarks" / "wheels"
THERE = ("numpy", "numba")  # installed there already, or too large
TESTS = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")
# installed without dependencies, which are too large
FRONTEND = ("nvidia-cudnn-frontend", "cuda-bindings", "cuda-pathfinder")
MOST = 64 << 20  # bytes of all wheels
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)


def main(arguments: list[str] | None = None) -> int:
    """Download the wheels and print their sizes. Returns 1 if they are too large, or if pip finds
    none."""
    parser = parser_of("gpu_wheels", __doc__)
    parser.add_argument("--python", default="3.12", help="the version of the machine with the GPU")
    parser.add_argument("--into", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    for old in given.into.glob("*.whl"):
        old.unlink()
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--only-binary=:all:",
        "--implementation",
        "cp",
    ]
    command += [
        "--python-version",
        given.python,
        "-d",
        str(given.into),
        *(f"--platform={one}" for one in PLATFORMS),
    ]
    for words in (wanted(), ["--no-deps", *frontend()]):
        if subprocess.run([*command, *words], check=False).returncode:
            return 1
    for name in THERE:
        for wheel in given.into.glob(f"{name}-*.whl"):
            wheel.unlink()
    found = sorted(given.into.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in found)
    for wheel in found:
        print(f"{wheel.stat().st_size / 2**20:6.1f} MiB  {wheel.name}")
    print(f"{size / 2**20:6.1f} MiB in all, at most {MOST >> 20}: {given.into}")
    return int(size > MOST)


def wanted() -> list[str]:
    """The requirements of the package and its tests, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        *project["dependencies"],
        *(one for one in project["optional-dependencies"]["dev"] if _name(one) in TESTS),
    ]
    return [one for one in named if _name(one) not in THERE]


def frontend() -> list[str]:
    """The packages that build cuDNN's graphs, in the versions of the extra `cudnn`."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]["cudnn"]
    asked = {_name(one): one for one in extra}
    return [asked.get(name, name) for name in FRONTEND]


def unpack(into: Path, wheels: Path = FOLDER) -> str:
    """Put the wheels on the path of this process and of its children. Returns a line that reports
    it, or "" if there are no wheels."""
    found = sorted(wheels.glob("*.whl"))
    fitting = [wheel for wheel in found if _fits(wheel.name)]
    if not fitting:
        return (
            (
                f"wheels: none of {len(found)} is for Python "
                f"{sys.version_info[0]}.{sys.version_info[1]}"
            )
            if found
            else ""
        )
    for wheel in fitting:
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(into)
    sys.path.insert(0, str(into))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(into), os.environ.get("PYTHONPATH", "")])
    )
    return f"wheels: {len(fitting)} of {len(found)} unpacked"


def _fits(name: str) -> bool:
    """Whether the wheel of this name is for this Python."""
    *_, python, abi, _ = name.removesuffix(".whl").split("-")
    mine = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return mine in python.split(".") or "py3" in python.split(".") or abi == "abi3"


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0]


if __name__ == "__main__":
    sys.exit(main())
