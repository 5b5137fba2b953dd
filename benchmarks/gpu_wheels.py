"""`python -m benchmarks.gpu_wheels`: the packages that the GPU benchmark needs, as wheels that
travel with the tree.

A machine with a GPU that reaches no registry has CuPy, NumPy and perhaps PyTorch, and none of the
rest. Run this where there is a registry: it fills `benchmarks/wheels` for that machine's Python.
`python -m benchmarks.gpu` there unpacks them. cuDNN's frontend comes without what it asks for;
cuDNN itself is PyTorch's, there. numba stays away: its compiler alone is larger than all others,
and without it the CPU computes with NumPy.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from benchmarks.helpers.report import ROOT

FOLDER = ROOT / "benchmarks" / "wheels"
THERE = ("numpy", "numba")  # there already, or too large
TESTS = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis")
# what these ask for is too large
FRONTEND = ("nvidia-cudnn-frontend", "cuda-bindings", "cuda-pathfinder")
MOST = 64 << 20  # bytes of all
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)


def main(arguments: list[str] | None = None) -> int:
    """Download the wheels, tell their sizes. 1: they are too large, or pip finds none."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_wheels", description=__doc__)
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
    """What the package and its tests need, as pyproject.toml says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        *project["dependencies"],
        *(one for one in project["optional-dependencies"]["dev"] if _name(one) in TESTS),
    ]
    return [one for one in named if _name(one) not in THERE]


def frontend() -> list[str]:
    """What builds cuDNN's graphs, in the versions that the extra `cudnn` asks for."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]["cudnn"]
    asked = {_name(one): one for one in extra}
    return [asked.get(name, name) for name in FRONTEND]


def unpack(into: Path, wheels: Path = FOLDER) -> str:
    """Put the wheels on the path of this process and of all that it starts; a line that tells of
    it, or ""."""
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
    """Is the wheel of this name for this Python?"""
    *_, python, abi, _ = name.removesuffix(".whl").split("-")
    mine = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return mine in python.split(".") or "py3" in python.split(".") or abi == "abi3"


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0]


if __name__ == "__main__":
    sys.exit(main())
