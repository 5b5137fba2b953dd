"""The numbers of every strategy as hashes. Run it before and after a change that must not change
any number.

    python -m benchmarks.digests > before.json        and, after the change, python -m benchmarks.digests before.json

LeNet with the digits that ship, 20 iterations on the virtual clock. The cases are each preset
alone, `reproducible` presets, gradients in fewer bits, and a resumed run. Each case has a hash of
the checkpoint's arrays and a hash of the journal, which holds every loss and every virtual second.
It uses only the command line, so it runs on any commit. The bits depend on the processor: compare
two commits on one machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from safetensors.numpy import load_file

from benchmarks.helpers.command_line import parser_of

REPEATABLE = (
    "single",
    "sync",
    "replicas",
    "firecaffe",
    "host-accumulate",
    "parameter-server",
    "mxnet-sync",
    "singa",
    "omnivore",
    "local-fc-shards",
    "one-weird-trick",
)
OTHERS = ("async", "mxnet-async", "distbelief", "adam", "sparknet", "dl4j")
GROUPED = ("omnivore", "singa", "adam", "local-fc-shards")
VARIANTS = {
    "one-weird-trick b": ("one-weird-trick", ["strategy.scheme=b"]),
    "one-weird-trick c": ("one-weird-trick", ["strategy.scheme=c"]),
    "one-weird-trick b variable": (
        "one-weird-trick",
        ["strategy.scheme=b", "strategy.variable_batch=true"],
    ),
    "local-fc-shards c": ("local-fc-shards", ["strategy.scheme=c", "strategy.servers=4"]),
    "omnivore float16": ("omnivore", ["gradients.format=float16"]),
    "omnivore bfloat16": ("omnivore", ["gradients.format=bfloat16"]),
    "sync one-bit": ("sync", ["gradients.format=one-bit"]),
    "singa threshold": ("singa", ["gradients.format=threshold"]),
    "distbelief 3 servers": ("distbelief", ["strategy.servers=3"]),
    "omnivore pipeline": ("omnivore", ["strategy.pipeline=2", "strategy.groups=2"]),
    "sync double": ("sync", ["precision=double"]),
    "sync b_p": ("sync", ["b_p=8"]),
    "replicas numpy": ("replicas", ["kernels=numpy"]),
    "omnivore live": ("omnivore", ["strategy.live=true"]),
}


def cases() -> Iterator[tuple[str, str, list[str]]]:
    """Name, preset and keys below [train] of each case."""
    for preset in (*REPEATABLE, *OTHERS):
        yield preset, preset, ["strategy.groups=2"] if preset in GROUPED else []
    for preset in REPEATABLE:
        yield f"{preset} reproducible", preset, ["strategy.reproducible=true"]
    yield from ((name, preset, keys) for name, (preset, keys) in VARIANTS.items())


def run(folder: Path, preset: str, keys: list[str]) -> dict[str, str]:
    """The hashes of one run; the error if it failed."""
    train = [
        f"strategy.preset={preset}",
        f"strategy.workers={1 if preset == 'single' else 4}",
        "max_iter=20",
        *keys,
    ]
    sets = [f"train.{key}" for key in train]
    sets += [
        "simulation.clock=virtual",
        "simulation.latency=0.001",
        f"run.directory={folder}",
        "machine.0.threads=1",
    ]
    command = [sys.executable, "-m", "runtime", "up", "cluster.toml"]
    for key in sets:
        command += ["--set", key]
    env = os.environ | {"CONVOY_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if found.returncode:
        return {"failed": f"{found.returncode}: {found.stderr.strip()[-300:]}"}
    (directory,) = folder.iterdir()
    checkpoint = max(directory.rglob("*.safetensors"))
    numbers = hashlib.sha256()
    for name, array in sorted(load_file(checkpoint).items()):
        numbers.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    journal = without_places((directory / "events.jsonl").read_text(), folder)
    return {
        "checkpoint": str(checkpoint),
        "arrays": numbers.hexdigest()[:16],
        "journal": _brief(journal),
    }


def without_places(journal: str, folder: Path) -> str:
    """Replace the name of every run directory in a journal by RUN: the directory of this run, below
    `folder`, and that of the run which it resumes, in a folder next to it."""
    (directory,) = folder.iterdir()
    beside = re.compile(rf"{re.escape(str(folder.parent))}/\d+/[^/\"]+")
    return beside.sub("RUN", journal).replace(directory.name, "RUN")


def _brief(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> int:
    """Run all cases. With a file, compare with it. Returns 1 if a case differs."""
    parser = parser_of("digests", __doc__)
    parser.add_argument(
        "before", type=Path, nargs="?", help="the output of this command before the change"
    )
    given = parser.parse_args()
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as top:
        for number, (name, preset, keys) in enumerate(
            [*cases(), ("resumed", "sync", ["resume=sync"])]
        ):
            folder = Path(top, str(number))
            folder.mkdir()
            known = (
                [f"resume={found['sync']['checkpoint']}", "max_iter=30"]
                if name == "resumed"
                else keys
            )
            found[name] = run(folder, preset, known)
            print(name, found[name], file=sys.stderr, flush=True)
    for one in found.values():
        one.pop("checkpoint", None)
    if given.before is None:
        print(json.dumps(found, indent=1))
        return 0
    before = json.loads(given.before.read_text())
    differ = [name for name in before if found.get(name) != before[name]]
    print(
        f"{len(before) - len(differ)} of {len(before)} the same; differ: "
        f"{', '.join(differ) or 'none'}"
    )
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
