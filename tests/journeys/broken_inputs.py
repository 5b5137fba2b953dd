"""Broken inputs by kind and number, made from a seed: what `check` is given in `tests.journeys.test_broken_inputs`.

A case is a folder with a cluster.toml. Most break one thing of a run that works.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from nets.data.writers import records_of, write_lmdb
from nets.files import checkpoint
from nets.files.mean import write_mean
from nets.files.weights import write_weights
from tests.nets.mutate import mutated

SEED = 20261123
SHAPE = (3, 12, 10)
ROWS = 12

NET = """
name: "small"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { batch_size: 4 } TRANSFORM }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 4 kernel_size: 3 stride: 1 pad: 1 weight_filler { type: "xavier" std: 0.1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "norm" type: "LRN" bottom: "pool" top: "norm" lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 } }
layer { name: "ip" type: "InnerProduct" bottom: "norm" top: "ip" inner_product_param { num_output: 5
  weight_filler { type: "gaussian" std: 0.01 } bias_filler { type: "constant" value: 0 } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" loss_weight: 1 }
"""
SOLVER = """
base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: "inv" gamma: 0.0001 power: 0.75
max_iter: 2 display: 1 snapshot: 0 test_iter: 1 test_interval: 2 type: "SGD" iter_size: 1 random_seed: 3
"""
TOML = """
[train]
net = "net.prototxt"
solver = "solver.prototxt"
kernels = "numpy"
{train}
[train.data]
train = {{ {data} }}
{test}
[train.strategy]
preset = "{preset}"
{strategy}
"""
SYNTHETIC = f'format = "synthetic", shape = {list(SHAPE)}, classes = 5, size = {ROWS}'
LENGTHS = (0, 1, -1, 3, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
NUMBERS = ("0", "-1", "1e38", "-1e38", "nan", "inf", "2147483647", "4294967295", "99999999999999999999", "0.5", "7")
WORDS = ("''", "'x\\u0000y'", "'\\u001b[31mred'", f"'{'n' * 10_000}'", "true", "-1", "0", "1e400", "nan", "inf", "[]",
         "{}", "[[]]", "9223372036854775807", "1979-05-27", "'../../../etc/passwd'", "'/dev/zero'", "'.'", "0.5",
         "['a']", "[1, 2]", "2147483648", "'*'", "'->'", "3")  # fmt: skip
KEYS = (
    "program", "run.name", "run.directory", "run.record_service_times", "machine.0.name", "machine.0.address",
    "machine.0.cores", "machine.0.threads", "machine.0.pin", "machine.0.port", "machine.0.namespace", "launcher.kind",
    "placement.processes", "process.0.name", "process.0.actors", "links.transport", "links.shared_memory",
    "links.credit_bytes", "links.max_message_bytes", "liveness.heartbeat_seconds", "liveness.missed",
    "liveness.progress_seconds", "metrics.port", "metrics.address", "simulation.latency",
    "simulation.bytes_per_second", "simulation.interfaces", "simulation.service_times", "simulation.seed",
    "simulation.links", "train.net", "train.solver", "train.seed", "train.devices", "train.kernels",
    "train.precision", "train.b_p", "train.weights", "train.resume", "train.max_iter", "train.base_lr",
    "train.momentum", "train.batch", "train.data.train", "train.data.test", "train.data.shuffle",
    "train.data.train.format", "train.data.train.shape", "train.data.train.size", "train.data.train.classes",
    "train.data.train.seed", "train.strategy.preset", "train.strategy.workers", "train.strategy.groups",
    "train.strategy.fan_in", "train.strategy.servers", "train.strategy.tau", "train.strategy.scheme",
    "train.strategy.variable_batch", "train.strategy.pipeline", "train.strategy.live", "train.strategy.reproducible",
    "train.strategy.exchange", "train.strategy.options", "train.strategy.shares", "train.gradients.format",
    "train.gradients.links", "train.gradients.block", "train.gradients.tau",
)  # fmt: skip
PRESETS = ("single", "sync", "omnivore", "replicas", "sparknet", "mxnet-async", "one-weird-trick", "singa", "adam")
Random = np.random.Generator


def write(directory: Path, kind: str, number: int) -> list[str]:
    """Make the case in an empty folder; return further arguments of the command."""
    random = np.random.default_rng([SEED, list(KINDS).index(kind), number])
    (directory / "net.prototxt").write_text(NET.replace("TRANSFORM", ""))
    (directory / "solver.prototxt").write_text(SOLVER)
    toml(directory)
    return KINDS[kind](directory, random) or []


def toml(
    directory: Path, data: str = SYNTHETIC, *, train: str = "", preset: str = "single", strategy: str = "", test: str = ""
) -> None:
    text = TOML.format(data=data, train=train, preset=preset, strategy=strategy, test=test and f"test = {{ {test} }}")
    (directory / "cluster.toml").write_text(text)


def chosen(random: Random, of: tuple[str, ...]) -> str:
    return of[int(random.integers(len(of)))]


def broken(path: Path, random: Random) -> None:
    """Mutate a file's bytes."""
    path.write_bytes(mutated(path.read_bytes(), random))


def images(random: Random) -> np.ndarray:
    return random.integers(0, 256, (ROWS, *SHAPE), dtype=np.uint8)


def keys(directory: Path, random: Random) -> list[str]:
    """A wild value for a key or two."""
    toml(directory, preset=chosen(random, PRESETS))
    return [word for _ in range(random.integers(1, 3)) for word in ("--set", f"{chosen(random, KEYS)}={chosen(random, WORDS)}")]


def _scrambled(path: Path, random: Random) -> None:
    """Words and signs left out, doubled, swapped, or taken from elsewhere; now and then any bytes."""
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


def idx(directory: Path, random: Random) -> None:
    """IDX files, zipped or not; the header, the data or the stream is broken."""
    made = {
        "i": struct.pack(">4I", 0x804 - 1, ROWS, 12, 10) + random.bytes(ROWS * 120),
        "l": struct.pack(">2I", 0x801, ROWS) + bytes(int(n) for n in random.integers(0, 5, ROWS)),
    }
    name = chosen(random, ("i", "l"))
    zipped, late = random.random(2) < 0.5
    if not late:
        made[name] = mutated(made[name], random)
    if zipped:
        made = {file: gzip.compress(data) for file, data in made.items()}
    if late:
        made[name] = mutated(made[name], random)
    for file, data in made.items():
        (directory / file).write_bytes(data)
    toml(directory, 'format = "idx", images = "i", labels = "l"')


def cifar(directory: Path, random: Random) -> None:
    records = b"".join(bytes([int(n)]) + random.bytes(3072) for n in random.integers(0, 10, ROWS))
    (directory / "batch").write_bytes(gzip.compress(records) if random.random() < 0.5 else records)
    broken(directory / "batch", random)
    toml(directory, 'format = "cifar10", files = ["batch"]')


def lmdb(directory: Path, random: Random) -> None:
    write_lmdb(directory / "db", records_of(zip(images(random), range(5), strict=False)))
    broken(directory / "db" / "data.mdb", random)
    toml(directory, 'format = "lmdb", source = "db"')


def photographs(directory: Path, random: Random) -> None:
    """A folder per class, with names that hold what a terminal obeys."""
    for number, image in enumerate(images(random)):
        folder = directory / "photos" / ("cat", "do\x1b[2Jg", "a\nb")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{number}.{chosen(random, ('jpg', 'png'))}")
    files = sorted((directory / "photos").rglob("*.*"))
    broken(files[int(random.integers(len(files)))] if random.random() < 0.5 else files[0], random)
    toml(directory, 'format = "images", source = "photos"')


def hdf5(directory: Path, random: Random) -> None:
    with h5py.File(directory / "d.h5", "w") as file:
        file.create_dataset("data", data=random.random((ROWS, *SHAPE), np.float32), chunks=True, compression="gzip")
        file.create_dataset("label", data=random.integers(0, 5, ROWS).astype(np.float32))
    broken(directory / "d.h5", random)
    toml(directory, 'format = "hdf5", source = "d.h5"')


def mean(directory: Path, random: Random) -> None:
    write_mean(directory / "m.binaryproto", random.random(SHAPE, np.float32))
    broken(directory / "m.binaryproto", random)
    text = NET.replace("TRANSFORM", 'transform_param { mean_file: "m.binaryproto" scale: 0.1 mirror: true }')
    (directory / "net.prototxt").write_text(text)


def _weights(random: Random) -> dict[str, tuple[np.ndarray, ...]]:
    conv = (random.random((4, 3, 3, 3), np.float32), random.random(4, np.float32))
    return {"conv": conv, "ip": (random.random((5, 120), np.float32), random.random(5, np.float32))}


def weights(directory: Path, random: Random) -> None:
    """Weights that are broken, or another net's."""
    name = chosen(random, ("w.caffemodel", "w.caffemodel.h5", "w.safetensors"))
    found = _weights(random)
    if other := random.random() < 0.3:
        found["ip"] = (found["ip"][0][:, :7], found["ip"][1])
    write_weights(directory / name, found)
    if not other:
        broken(directory / name, random)
    toml(directory, train=f'weights = "{name}"')


def resumed(directory: Path, random: Random) -> None:
    """A checkpoint that is broken, another net's, another solver's, or of another iteration."""
    arrays = {f"{layer}.{at}": blob for layer, blobs in _weights(random).items() for at, blob in enumerate(blobs)}
    arrays |= {f"{name}.history": blob for name, blob in arrays.items()}
    iteration = chosen(random, ("1", "0", "2", "7", "-1", "x", "99999999999999999999"))
    match int(random.integers(4)):
        case 0:
            arrays["ip.0"] = arrays["ip.0"][:, :7]
        case 1:
            del arrays["conv.1.history"]
        case 2:
            arrays["conv.0"] = np.full_like(arrays["conv.0"], np.nan)
    checkpoint.save(directory / "c.safetensors", arrays, {"iteration": iteration, "net": "small"})
    if random.random() < 0.4:
        broken(directory / "c.safetensors", random)
    toml(directory, train='resume = "c.safetensors"')


def text(directory: Path, random: Random) -> None:
    (directory / "t").write_bytes(mutated(b"The quick brown fox. " * 200, random))
    options = {"streams": random.choice(LENGTHS), "length": random.choice(LENGTHS)}
    part = chosen(random, ("['0', '0.9']", "['nan', '1']", "['1', '0']", "['a']", "['0', '1', '2']"))
    numbers = ", ".join(f"{key} = {value}" for key, value in options.items())
    alphabet = chosen(random, ("", ', alphabet = "T"', ', alphabet = "TTT"'))
    toml(directory, f'format = "text", source = "t", {numbers}, part = {part}{alphabet}', train='solver = "char_lstm"')
    path = directory / "cluster.toml"
    path.write_text(path.read_text().replace('"net.prototxt"', '"char_lstm"').replace('solver = "solver.prototxt"\n', ""))


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
    "profile": lambda d, name: toml(d, train=f"devices = {{ '*' = {name.replace(name[0], name[0] + 'emulated:', 1)} }}"),
}


def _named(directory: Path, old: str, new: str) -> None:
    path = directory / "cluster.toml"
    path.write_text(path.read_text().replace(old, new))


def names(directory: Path, random: Random) -> None:
    """What is no regular file, or no name, in place of a file."""
    os.mkfifo(directory / "pipe")
    os.mkfifo(directory / "pipe.h5")
    os.mkfifo(directory / "pipe.caffemodel")
    os.mkfifo(directory / "pipe.safetensors")
    (directory / "folder").mkdir()
    os.mkfifo(directory / "folder" / "data.mdb")
    (directory / "loop").symlink_to("loop")
    wanted = ("'pipe'", "'pipe.h5'", "'pipe.caffemodel'", "'pipe.safetensors'", "'folder'", "'.'", "'loop'",
              "'/dev/zero'", "'/dev/full'", "'/proc/kmsg'", "'/proc/self/mem'", '"a\\u0000b"', f"'{'n' * 10_000}'",
              f"'{'d/' * 3_000}'", '"\\u001b]0;x\\u0007"', '"a\\nb"', "'pipe/x'", "''", '"\\u202e"')  # fmt: skip
    PLACES[chosen(random, tuple(PLACES))](directory, chosen(random, wanted))


def bombs(directory: Path, random: Random) -> None:
    """Little that becomes much."""
    huge = int(random.choice([20_000, 60_000, 2**31 - 1]))
    match int(random.integers(6)):
        case 0:
            head = struct.pack(">4I", 0x803, huge, 1000, 1000)
            (directory / "i").write_bytes(gzip.compress(head + bytes(1 << 24)) + gzip.compress(bytes(1 << 24)) * 100)
            (directory / "l").write_bytes(struct.pack(">2I", 0x801, huge))
            toml(directory, 'format = "idx", images = "i", labels = "l"')
        case 1:
            (directory / "batch").write_bytes(gzip.compress(bytes(1 << 24)) * 60)
            toml(directory, 'format = "cifar10", files = ["batch"]')
        case 2:
            header = struct.pack(">2I5B", huge, huge, 8, 2, 0, 0, 0)
            _photo(directory, "png", b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", bytes(99)))
        case 3:
            made = io.BytesIO()
            Image.new("RGB", (8, 8)).save(made, "jpeg")
            size = min(huge, 65_500)
            _photo(directory, "jpg", made.getvalue().replace(struct.pack(">2H", 8, 8), struct.pack(">2H", size, size)))
        case 4:
            with h5py.File(directory / "d.h5", "w") as file:
                file.create_dataset("data", (huge, 3, 64, 64), np.float32, chunks=(1, 3, 64, 64), compression="gzip")
                file.create_dataset("label", (huge,), np.float32, chunks=(1024,), compression="gzip")
            toml(directory, 'format = "hdf5", source = "d.h5"')
        case 5:
            key = chosen(random, ("size", "classes", "shape"))
            value = {"shape": f"[3, {huge}, {huge}]"}.get(key, str(huge * 1000))
            toml(directory, re.sub(rf"{key} = (\[.*?\]|\d+)", f"{key} = {value}", SYNTHETIC))


def _photo(directory: Path, suffix: str, data: bytes) -> None:
    (directory / "list").write_text(f"photo.{suffix} 0\n")
    (directory / f"photo.{suffix}").write_bytes(data)
    toml(directory, 'format = "images", source = "list"')


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def nets_beyond_reason(directory: Path, random: Random) -> None:
    """Nested, long, wide or repeated beyond reason."""
    path, many = directory / "net.prototxt", int(random.integers(1_000, 100_000))
    match int(random.integers(6)):
        case 0:
            path.write_text("layer { " * many)
        case 1:
            path.write_text("unknown { x { " * many + "} } " * many)
        case 2:
            path.write_text(NET.replace("TRANSFORM", "") + 'layer { name: "r" type: "ReLU" bottom: "ip" top: "ip" }\n' * many)
        case 3:
            path.write_text(NET.replace("TRANSFORM", "").replace("num_output: 5", "num_output: " + "9" * many))
        case 4:
            path.write_text(NET.replace("TRANSFORM", "").replace('top: "conv"', 'top: "conv" ' * many, 1))
        case 5:
            path.write_text(NET.replace("TRANSFORM", "").replace('"small"', '"' + "\\033" * many + '"'))


def labels(directory: Path, random: Random) -> None:
    """Labels that the net has no output for."""
    numbers = [0] * (ROWS - 1) + [int(random.integers(5, 255))]
    match int(random.integers(4)):
        case 0:
            (directory / "i").write_bytes(struct.pack(">4I", 0x803, ROWS, 12, 10) + bytes(ROWS * 120))
            (directory / "l").write_bytes(struct.pack(">2I", 0x801, ROWS) + bytes(numbers))
            toml(directory, 'format = "idx", images = "i", labels = "l"')
        case 1:
            write_lmdb(directory / "db", records_of(zip(images(random), numbers, strict=True)))
            toml(directory, 'format = "lmdb", source = "db"')
        case 2:
            with h5py.File(directory / "d.h5", "w") as file:
                file["data"], file["label"] = random.random((ROWS, *SHAPE), np.float32), -np.array(numbers, np.float32)
            toml(directory, 'format = "hdf5", source = "d.h5"')
        case 3:
            toml(directory, SYNTHETIC.replace("classes = 5", f"classes = {ROWS}"), test=SYNTHETIC)


def profile(directory: Path, random: Random) -> None:
    table = {"*": 0.01, "single/forward": {"mean": 0.1, "cv": 0.5, "law": "gamma", "rows": 4}}
    (directory / "p.json").write_text(json.dumps(table))
    _scrambled(directory / "p.json", random)
    if random.random() < 0.2:
        (directory / "p.json").write_text("[" * 100_000)
    toml(directory, train='devices = { "*" = "emulated:p.json" }')


KINDS: dict[str, Callable[[Path, Random], list[str] | None]] = {
    one.__name__: one
    for one in (keys, text_of_toml, text_of_net, text_of_solver, number_in_net, number_in_solver, idx, cifar, lmdb,
                photographs, hdf5, mean, weights, resumed, text, names, bombs, nets_beyond_reason, labels, profile)
}  # fmt: skip
