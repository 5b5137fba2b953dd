"""Broken inputs for `check`, by kind and number, made from a seed;
`tests.journeys.commands.test_broken_inputs` runs them.

A case is a folder with a cluster.toml. Most cases break one thing of a run that works.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.helpers.broken_files import (
    NET,
    SOLVER,
    Random,
    bombs,
    broken,
    chosen,
    cifar,
    hdf5,
    idx,
    labels,
    lmdb,
    mean,
    photographs,
    resumed,
    text,
    toml,
    weights,
)

SEED = 20261123
NUMBERS = (
    "0",
    "-1",
    "1e38",
    "-1e38",
    "nan",
    "inf",
    "2147483647",
    "4294967295",
    "99999999999999999999",
    "0.5",
    "7",
)
WORDS = (
    "''",
    "'x\\u0000y'",
    "'\\u001b[31mred'",
    f"'{'n' * 10_000}'",
    "true",
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    "[]",
    "{}",
    "[[]]",
    "9223372036854775807",
    "1979-05-27",
    "'../../../etc/passwd'",
    "'/dev/zero'",
    "'.'",
    "0.5",
    "['a']",
    "[1, 2]",
    "2147483648",
    "'*'",
    "'->'",
    "3",
)
KEYS = (
    "program",
    "run.name",
    "run.directory",
    "run.record_service_times",
    "run.tensorboard",
    "run.trackers",
    "machine.0.name",
    "machine.0.address",
    "machine.0.cores",
    "machine.0.threads",
    "machine.0.pin",
    "machine.0.port",
    "machine.0.namespace",
    "launcher.kind",
    "placement.processes",
    "process.0.name",
    "process.0.actors",
    "links.transport",
    "links.encryption",
    "links.shared_memory",
    "links.credit_bytes",
    "links.max_message_bytes",
    "liveness.heartbeat_seconds",
    "liveness.missed",
    "liveness.progress_seconds",
    "metrics.port",
    "metrics.address",
    "simulation.latency",
    "simulation.bytes_per_second",
    "simulation.interfaces",
    "simulation.service_times",
    "simulation.seed",
    "simulation.links",
    "train.net",
    "train.solver",
    "train.seed",
    "train.devices",
    "train.kernels",
    "train.precision",
    "train.b_p",
    "train.weights",
    "train.resume",
    "train.max_iter",
    "train.base_lr",
    "train.momentum",
    "train.batch",
    "train.data.train",
    "train.data.test",
    "train.data.shuffle",
    "train.data.train.format",
    "train.data.train.shape",
    "train.data.train.size",
    "train.data.train.classes",
    "train.data.train.seed",
    "train.strategy.preset",
    "train.strategy.workers",
    "train.strategy.groups",
    "train.strategy.fan_in",
    "train.strategy.servers",
    "train.strategy.tau",
    "train.strategy.scheme",
    "train.strategy.variable_batch",
    "train.strategy.pipeline",
    "train.strategy.live",
    "train.strategy.reproducible",
    "train.strategy.exchange",
    "train.strategy.options",
    "train.strategy.shares",
    "train.gradients.format",
    "train.gradients.links",
    "train.gradients.block",
    "train.gradients.tau",
)
PRESETS = (
    "single",
    "sync",
    "omnivore",
    "replicas",
    "sparknet",
    "mxnet-async",
    "one-weird-trick",
    "singa",
    "adam",
)


def write(directory: Path, kind: str, number: int) -> list[str]:
    """Write the case into an empty folder; return further arguments of the command."""
    random = np.random.default_rng([SEED, list(KINDS).index(kind), number])
    (directory / "net.prototxt").write_text(NET.replace("TRANSFORM", ""))
    (directory / "solver.prototxt").write_text(SOLVER)
    toml(directory)
    return KINDS[kind](directory, random) or []


def keys(directory: Path, random: Random) -> list[str]:
    """Set one or two keys to wild values."""
    toml(directory, preset=chosen(random, PRESETS))
    return [
        word
        for _ in range(random.integers(1, 3))
        for word in ("--set", f"{chosen(random, KEYS)}={chosen(random, WORDS)}")
    ]


def _scrambled(path: Path, random: Random) -> None:
    """Drop, double, swap or replace words and signs; now and then mutate bytes."""
    if random.random() < 0.15:
        broken(path, random)
        return
    words = re.findall(r"\w+|\s+|[^\w\s]", path.read_text())
    for _ in range(random.integers(1, 4)):
        at, other = (int(place) for place in random.integers(len(words), size=2))
        match int(random.integers(4)):
            case 0:
                words[at] = ""
            case 1:
                words[at] *= 2
            case 2:
                words[at], words[other] = words[other], words[at]
            case 3:
                words[at] = words[other]
    path.write_text("".join(words))


def text_of_toml(directory: Path, random: Random) -> None:
    _scrambled(directory / "cluster.toml", random)


def text_of_net(directory: Path, random: Random) -> None:
    _scrambled(directory / "net.prototxt", random)


def text_of_solver(directory: Path, random: Random) -> None:
    _scrambled(directory / "solver.prototxt", random)


def _number(path: Path, random: Random) -> None:
    text = path.read_text()
    places = list(re.finditer(r"(?<=: )-?[0-9][0-9.e-]*", text))
    place = places[int(random.integers(len(places)))]
    path.write_text(f"{text[: place.start()]}{chosen(random, NUMBERS)}{text[place.end() :]}")


def number_in_net(directory: Path, random: Random) -> None:
    _number(directory / "net.prototxt", random)


def number_in_solver(directory: Path, random: Random) -> None:
    _number(directory / "solver.prototxt", random)


PLACES: dict[str, Callable[[Path, str], None]] = {
    "net": lambda d, name: _named(d, '"net.prototxt"', name),
    "solver": lambda d, name: _named(d, '"solver.prototxt"', name),
    "weights": lambda d, name: toml(d, train=f"weights = {name}"),
    "resume": lambda d, name: toml(d, train=f"resume = {name}"),
    "idx": lambda d, name: toml(d, f'format = "idx", images = {name}, labels = {name}'),
    "cifar10": lambda d, name: toml(d, f'format = "cifar10", files = [{name}]'),
    "lmdb": lambda d, name: toml(d, f'format = "lmdb", source = {name}'),
    "images": lambda d, name: toml(d, f'format = "images", source = {name}'),
    "hdf5": lambda d, name: toml(d, f'format = "hdf5", source = {name}'),
    "text": lambda d, name: toml(d, f'format = "text", source = {name}'),
    "profile": lambda d, name: toml(
        d, train=f"devices = {{ '*' = {name.replace(name[0], name[0] + 'emulated:', 1)} }}"
    ),
}


def _named(directory: Path, old: str, new: str) -> None:
    path = directory / "cluster.toml"
    path.write_text(path.read_text().replace(old, new))


def names(directory: Path, random: Random) -> None:
    """Put a pipe, a folder, a link or an invalid name in the place of a file."""
    os.mkfifo(directory / "pipe")
    os.mkfifo(directory / "pipe.h5")
    os.mkfifo(directory / "pipe.caffemodel")
    os.mkfifo(directory / "pipe.safetensors")
    (directory / "folder").mkdir()
    os.mkfifo(directory / "folder" / "data.mdb")
    (directory / "loop").symlink_to("loop")
    wanted = (
        "'pipe'",
        "'pipe.h5'",
        "'pipe.caffemodel'",
        "'pipe.safetensors'",
        "'folder'",
        "'.'",
        "'loop'",
        "'/dev/zero'",
        "'/dev/full'",
        "'/proc/kmsg'",
        "'/proc/self/mem'",
        '"a\\u0000b"',
        f"'{'n' * 10_000}'",
        f"'{'d/' * 3_000}'",
        '"\\u001b]0;x\\u0007"',
        '"a\\nb"',
        "'pipe/x'",
        "''",
        '"\\u202e"',
    )
    PLACES[chosen(random, tuple(PLACES))](directory, chosen(random, wanted))


def nets_beyond_reason(directory: Path, random: Random) -> None:
    """Write a net that is nested, long, wide or repeated beyond reason."""
    path = directory / "net.prototxt"
    many = int(random.integers(1_000, 100_000))
    match int(random.integers(6)):
        case 0:
            path.write_text("layer { " * many)
        case 1:
            path.write_text("unknown { x { " * many + "} } " * many)
        case 2:
            path.write_text(
                NET.replace("TRANSFORM", "")
                + ('layer { name: "r" type: "ReLU" bottom: "ip" top: "ip" }\n') * many
            )
        case 3:
            path.write_text(
                NET.replace("TRANSFORM", "").replace("num_output: 5", "num_output: " + "9" * many)
            )
        case 4:
            path.write_text(
                NET.replace("TRANSFORM", "").replace('top: "conv"', 'top: "conv" ' * many, 1)
            )
        case 5:
            path.write_text(
                NET.replace("TRANSFORM", "").replace('"small"', '"' + "\\033" * many + '"')
            )


def profile(directory: Path, random: Random) -> None:
    table = {"*": 0.01, "single/forward": {"mean": 0.1, "cv": 0.5, "law": "gamma", "rows": 4}}
    (directory / "p.json").write_text(json.dumps(table))
    _scrambled(directory / "p.json", random)
    if random.random() < 0.2:
        (directory / "p.json").write_text("[" * 100_000)
    toml(directory, train='devices = { "*" = "emulated:p.json" }')


KINDS: dict[str, Callable[[Path, Random], list[str] | None]] = {
    one.__name__: one
    for one in (
        keys,
        text_of_toml,
        text_of_net,
        text_of_solver,
        number_in_net,
        number_in_solver,
        idx,
        cifar,
        lmdb,
        photographs,
        hdf5,
        mean,
        weights,
        resumed,
        text,
        names,
        bombs,
        nets_beyond_reason,
        labels,
        profile,
    )
}
