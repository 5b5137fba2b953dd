"""Broken data files, weights and checkpoints for `broken_inputs`, and the files with which all its
cases begin.
"""

from __future__ import annotations

import gzip
import io
import re
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from nets.data.lmdb.writers import records_of, write_lmdb
from nets.files import checkpoint
from nets.files.histories import SOLVER as SOLVER_KEY
from nets.files.mean import write_mean
from nets.files.weights import write_weights
from tests.nets.mutate import mutated

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
Random = np.random.Generator


def toml(
    directory: Path,
    data: str = SYNTHETIC,
    *,
    train: str = "",
    preset: str = "single",
    strategy: str = "",
    test: str = "",
) -> None:
    text = TOML.format(
        data=data,
        train=train,
        preset=preset,
        strategy=strategy,
        test=test and f"test = {{ {test} }}",
    )
    (directory / "cluster.toml").write_text(text)


def chosen(random: Random, of: tuple[str, ...]) -> str:
    return of[int(random.integers(len(of)))]


def broken(path: Path, random: Random) -> None:
    """Mutate a file's bytes."""
    path.write_bytes(mutated(path.read_bytes(), random))


def images(random: Random) -> np.ndarray:
    return random.integers(0, 256, (ROWS, *SHAPE), dtype=np.uint8)


def idx(directory: Path, random: Random) -> None:
    """IDX files, zipped or not, with a broken header, data or stream."""
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
    """A folder per class; the folders' names contain control characters for terminals."""
    for number, image in enumerate(images(random)):
        folder = directory / "photos" / ("cat", "do\x1b[2Jg", "a\nb")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(
            folder / f"{number}.{chosen(random, ('jpg', 'png'))}"
        )
    files = sorted((directory / "photos").rglob("*.*"))
    broken(files[int(random.integers(len(files)))] if random.random() < 0.5 else files[0], random)
    toml(directory, 'format = "images", source = "photos"')


def hdf5(directory: Path, random: Random) -> None:
    with h5py.File(directory / "d.h5", "w") as file:
        file.create_dataset(
            "data", data=random.random((ROWS, *SHAPE), np.float32), chunks=True, compression="gzip"
        )
        file.create_dataset("label", data=random.integers(0, 5, ROWS).astype(np.float32))
    broken(directory / "d.h5", random)
    toml(directory, 'format = "hdf5", source = "d.h5"')


def mean(directory: Path, random: Random) -> None:
    write_mean(directory / "m.binaryproto", random.random(SHAPE, np.float32))
    broken(directory / "m.binaryproto", random)
    text = NET.replace(
        "TRANSFORM", ('transform_param { mean_file: "m.binaryproto" scale: 0.1 mirror: true }')
    )
    (directory / "net.prototxt").write_text(text)


def _weights(random: Random) -> dict[str, tuple[np.ndarray, ...]]:
    conv = (random.random((4, 3, 3, 3), np.float32), random.random(4, np.float32))
    return {"conv": conv, "ip": (random.random((5, 120), np.float32), random.random(5, np.float32))}


def weights(directory: Path, random: Random) -> None:
    """Broken weights, or weights of another net."""
    name = chosen(random, ("w.caffemodel", "w.caffemodel.h5", "w.safetensors"))
    found = _weights(random)
    if other := random.random() < 0.3:
        found["ip"] = (found["ip"][0][:, :7], found["ip"][1])
    write_weights(directory / name, found)
    if not other:
        broken(directory / name, random)
    toml(directory, train=f'weights = "{name}"')


def resumed(directory: Path, random: Random) -> None:
    """A checkpoint that is broken, or of another net, solver or iteration."""
    arrays = {
        f"{layer}.{at}": blob
        for layer, blobs in _weights(random).items()
        for at, blob in enumerate(blobs)
    }
    arrays |= {f"{name}.history": blob for name, blob in arrays.items()}
    iteration = chosen(random, ("1", "0", "2", "7", "-1", "x", "99999999999999999999"))
    match int(random.integers(4)):
        case 0:
            arrays["ip.0"] = arrays["ip.0"][:, :7]
        case 1:
            del arrays["conv.1.history"]
        case 2:
            arrays["conv.0"] = np.full_like(arrays["conv.0"], np.nan)
    facts = {"iteration": iteration, "net": "small"}
    if solver := chosen(random, ("", "SGD", "SGD", "Adam", "\x1b[31mSGD")):
        facts[SOLVER_KEY] = solver
    checkpoint.save(directory / "c.safetensors", arrays, facts)
    if random.random() < 0.4:
        broken(directory / "c.safetensors", random)
    toml(directory, train='resume = "c.safetensors"')


def text(directory: Path, random: Random) -> None:
    (directory / "t").write_bytes(mutated(b"The quick brown fox. " * 200, random))
    options = {"streams": random.choice(LENGTHS), "length": random.choice(LENGTHS)}
    part = chosen(
        random, ("['0', '0.9']", "['nan', '1']", "['1', '0']", "['a']", "['0', '1', '2']")
    )
    numbers = ", ".join(f"{key} = {value}" for key, value in options.items())
    alphabet = chosen(random, ("", ', alphabet = "T"', ', alphabet = "TTT"'))
    toml(
        directory,
        (f'format = "text", source = "t", {numbers}, part = {part}{alphabet}'),
        train='solver = "char_lstm"',
    )
    path = directory / "cluster.toml"
    path.write_text(
        path.read_text()
        .replace('"net.prototxt"', '"char_lstm"')
        .replace('solver = "solver.prototxt"\n', "")
    )


def bombs(directory: Path, random: Random) -> None:
    """Small files that expand to a huge size."""
    huge = int(random.choice([20_000, 60_000, 2**31 - 1]))
    match int(random.integers(6)):
        case 0:
            head = struct.pack(">4I", 0x803, huge, 1000, 1000)
            (directory / "i").write_bytes(
                gzip.compress(head + bytes(1 << 24)) + gzip.compress(bytes(1 << 24)) * 100
            )
            (directory / "l").write_bytes(struct.pack(">2I", 0x801, huge))
            toml(directory, 'format = "idx", images = "i", labels = "l"')
        case 1:
            (directory / "batch").write_bytes(gzip.compress(bytes(1 << 24)) * 60)
            toml(directory, 'format = "cifar10", files = ["batch"]')
        case 2:
            header = struct.pack(">2I5B", huge, huge, 8, 2, 0, 0, 0)
            _photo(
                directory,
                "png",
                b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", bytes(99)),
            )
        case 3:
            made = io.BytesIO()
            Image.new("RGB", (8, 8)).save(made, "jpeg")
            size = min(huge, 65_500)
            _photo(
                directory,
                "jpg",
                made.getvalue().replace(struct.pack(">2H", 8, 8), struct.pack(">2H", size, size)),
            )
        case 4:
            with h5py.File(directory / "d.h5", "w") as file:
                file.create_dataset(
                    "data", (huge, 3, 64, 64), np.float32, chunks=(1, 3, 64, 64), compression="gzip"
                )
                file.create_dataset(
                    "label", (huge,), np.float32, chunks=(1024,), compression="gzip"
                )
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


def labels(directory: Path, random: Random) -> None:
    """Labels for which the net has no output."""
    numbers = [0] * (ROWS - 1) + [int(random.integers(5, 255))]
    match int(random.integers(4)):
        case 0:
            (directory / "i").write_bytes(
                struct.pack(">4I", 0x803, ROWS, 12, 10) + bytes(ROWS * 120)
            )
            (directory / "l").write_bytes(struct.pack(">2I", 0x801, ROWS) + bytes(numbers))
            toml(directory, 'format = "idx", images = "i", labels = "l"')
        case 1:
            write_lmdb(directory / "db", records_of(zip(images(random), numbers, strict=True)))
            toml(directory, 'format = "lmdb", source = "db"')
        case 2:
            with h5py.File(directory / "d.h5", "w") as file:
                file["data"], file["label"] = (
                    random.random((ROWS, *SHAPE), np.float32),
                    -np.array(numbers, np.float32),
                )
            toml(directory, 'format = "hdf5", source = "d.h5"')
        case 3:
            toml(directory, SYNTHETIC.replace("classes = 5", f"classes = {ROWS}"), test=SYNTHETIC)
