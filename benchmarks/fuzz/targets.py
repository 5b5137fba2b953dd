"""Readers that `benchmarks.fuzz` feeds: each takes bytes that may come from outside.

Each function imports its reader when it is called, so that a fuzzer can count that code's branches.
Images that C libraries decode are left out: their headers may claim up to `nets.data.decoding.decode.MAX_PIXELS`.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpers.report import ROOT

LARGEST_SEED = 8 << 10  # bytes of text: inputs made from larger files take long
MODELS = ROOT.parent / "shared" / "data" / "caffe" / "models"  # Caffe's own nets, if they are there
_SIZE = struct.Struct("<H")


@dataclass(frozen=True)
class Target:
    """A function that takes bytes, the errors that it declares, and correct inputs."""

    take: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    seeds: list[bytes]


def joined(frames: Iterable[bytes]) -> bytes:
    """Join several frames into one input, each after its length."""
    return b"".join(_SIZE.pack(len(frame)) + frame for frame in frames)


def cut(data: bytes) -> Iterator[bytes]:
    """The frames of an input. The last one may be shorter than its length says."""
    while len(data) >= _SIZE.size:
        end = _SIZE.size + _SIZE.unpack_from(data)[0]
        yield data[_SIZE.size : end]
        data = data[end:]


# -- bytes from links: only MessageError is allowed, which is counted and reported


def _messages(lend: Any = None, arrays: tuple[Any, ...] = ()) -> list[list[bytes]]:
    """The frames of one message of each declared kind."""
    import roles.messages  # noqa: F401
    from runtime.messages import wire
    from runtime.messages.arrays import nowhere
    from runtime.messages.message import REGISTRY, Envelope, Json

    arrays = arrays or (np.arange(6, dtype=np.float32).reshape(2, 3).T, np.zeros(2, np.uint8))
    plain: dict[Any, Any] = {
        int: 3, float: 0.5, str: "a", bool: True, Json: {"a": [1, {"b": None}]},
        tuple[int, ...]: (1, 2), tuple[float, ...]: (0.5, 2.0), tuple[str, ...]: ("a", "b"),
    }  # fmt: skip
    found = []
    for number, kind in enumerate(list(REGISTRY.values())):
        values = {field.name: plain[field.annotation] for field in kind.plain_fields}
        values |= {name: arrays if several else arrays[0] for name, several in kind.array_fields}
        envelope = Envelope(kind(**values), number, "a", 1, "b", "c", 2, 3)
        found.append([bytes(frame) for frame in wire.encode(envelope, lend or nowhere)])
    return found


def _sent_on(envelope: Any) -> None:
    """Check that an accepted message can be printed and sent on."""
    from runtime.errors import MessageError
    from runtime.messages import wire

    repr(envelope)
    try:
        wire.encode(envelope)
    except MessageError as error:
        raise AssertionError("the message was accepted, but cannot be sent on") from error


def header(folder: Path) -> Target:
    """Headers of messages"""
    from runtime.errors import MessageError
    from runtime.messages import wire

    seeds = [frames[0] for frames in _messages() if len(frames) == 1]
    return Target(lambda data: _sent_on(wire.decode([data])), (MessageError,), seeds)


def arrays(folder: Path) -> Target:
    """Messages with arrays, in frames and in shared memory"""
    from runtime.errors import MessageError
    from runtime.memory.arena import Arena, Borrow, Window
    from runtime.messages import wire

    arena = Arena("fuzz", 1 << 20)
    window = Window(arena.address, lambda offset: None)
    lent = arena.empty((2, 3))
    lent[:] = 1
    seeds = [*_messages(), *_messages(arena.place, (lent, lent.T, lent[:, 1:]))]
    with_arrays = [joined(frames) for frames in seeds if len(frames) > 1 or b"float" in frames[0]]
    return Target(
        lambda data: _sent_on(wire.decode(list(cut(data)), Borrow(window))),
        (MessageError,),
        with_arrays,
    )


def dialed(folder: Path) -> Target:
    """Messages, parts of them and credits of whoever dials"""
    from runtime.transport.dialed import Answering
    from runtime.transport.frame_parts import PLACE, FrameParts, parted
    from runtime.transport.interface import Limits
    from runtime.transport.keys import Keys

    limits = Limits()
    keys = Keys("secret", peers={"a": bytes(32)})

    def take(data: bytes) -> None:
        road = Answering(
            "up", lambda envelope, size, release: release(), lambda peer, error: None, limits,
            address="", keys=keys, on_link_lost=lambda peer: None,
        )  # fmt: skip
        parts: dict[bytes, FrameParts] = {}
        for said in cut(data):
            identity, *frames = list(cut(said)) or [b""]
            whole = parts.setdefault(identity, FrameParts(limits.message_bytes)).take(frames)
            keys.admitted(identity, frames)
            if whole is not None:
                road._arrived(identity, whole)

    told = [[b"message", *frames] for frames in _messages()] + [[b"grant", bytes(8)], [b"leaves"]]
    told += [frames for whole in told if len(whole) > 2 for frames in parted(whole, 8, 8)]
    told.append([b"", PLACE.pack(2, 8 << 20, 0), bytes(8)])  # a large frame begins
    one_each = [joined([joined([b"u/a", *map(bytes, frames)])]) for frames in told]
    return Target(take, (), [*one_each, b"".join(one_each[:: len(one_each) // 20])])


def stream(folder: Path) -> Target:
    """What a stranger says on a socket of this host, and as an answer on one"""
    from runtime.errors import MessageError
    from runtime.memory.arena import Arena
    from runtime.messages import wire
    from runtime.transport.dialed import _NOWHERE
    from runtime.transport.links import PeerLink, Sources
    from runtime.transport.unix_listener import UnixListener

    arena = Arena("fuzz", 1 << 20)
    link = PeerLink(1 << 20, lambda on_answer: _NOWHERE)
    link.on_returned = lambda offsets: [arena.returned(1, offset) for offset in offsets]

    def heard(identity: bytes, frames: list[Any]) -> None:
        link._granted(frames)
        sources = Sources(lambda lane: 256, lambda lane, identity, frames: False)
        sources["bulk", identity].release(wire.size_of(frames))
        with suppress(MessageError):
            wire.decode(frames)

    async def listen() -> UnixListener:
        return UnixListener(str(folder / "fuzz.sock"), 1 << 30, heard, lambda who, why: None)

    async def told(data: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(folder / "fuzz.sock"))
            stranger.setblocking(False)
            stranger.send(data)  # all of it: the system buffers 200 KB
        listener._accept()
        while (listener._strangers or listener._peers) and not errors:  # noqa: ASYNC110  # a few turns
            await asyncio.sleep(0)
        if errors:
            raise errors.pop()

    errors: list[Exception] = []  # of callbacks, which a loop only reports
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    listener = loop.run_until_complete(listen())
    who, *said = [
        struct.pack(f"<I{len(frames)}Q", len(frames), *map(len, frames)) + b"".join(frames)
        for frames in [[b"a/1.2"], [struct.pack("!3Q", 512, 0, 4096)], *_messages()]
    ]
    seeds = [who, who + b"".join(said[::5]), *(who + one for one in said)]
    return Target(lambda data: loop.run_until_complete(told(data)), (), seeds)


def http(folder: Path) -> Target:
    """Requests for metrics and for Prometheus' list of targets"""
    from runtime.actors.metrics import Metrics, Pages, discovery

    metrics = Metrics()
    metrics.counter("messages", "Messages.", role="conv").inc()
    pages = Pages(
        metrics, "127.0.0.1", 0, sd=lambda: discovery([("127.0.0.1:1", {"role": "conv"})])
    )
    loop = asyncio.new_event_loop()

    async def answer(data: bytes) -> None:
        pages._server._answer(data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", "127.0.0.1:1")

    asked = [
        b"GET /metrics",
        b"HEAD /sd",
        (b"GET /metrics?name[]=convoy_messages_total"),
        b"OPTIONS *",
    ]
    lines = (
        b" HTTP/1.1\r\nHost: a:1\r\nAccept: application/openmetrics-text; version=1.0.0; q=0.5\r\n"
    )
    seeds = [first + lines + b"Accept-Encoding: gzip\r\n\r\n" for first in asked]
    return Target(lambda data: loop.run_until_complete(answer(data)), (ValueError,), seeds)


# -- files


def _of_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def take(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return take


def _contents(paths: Iterable[Path]) -> list[bytes]:
    """The contents of files that are not too large."""
    return [data for path in sorted(paths) if len(data := path.read_bytes()) <= LARGEST_SEED]


def cluster(folder: Path) -> Target:
    """cluster.toml, with the built-in program's part"""
    from roles.options import Options
    from runtime.config.file import load, program_options
    from runtime.errors import ConfigError

    take = _of_file(folder / "cluster.toml", lambda path: program_options(load(path), Options))
    return Target(
        take,
        (ConfigError,),
        _contents([ROOT / "cluster.toml", *(ROOT / "examples").glob("*.toml")]),
    )


def net(folder: Path) -> Target:
    """Nets as prototxt"""
    from nets import load_net
    from nets.definition.spec import ZOO
    from nets.errors import PrototxtError

    def read(path: Path) -> None:
        for phase in ("TRAIN", "TEST"):
            load_net(path).for_phase(phase)

    ours = [path for path in ZOO.glob("*.prototxt") if not path.stem.endswith("_solver")]
    theirs = [path for path in MODELS.rglob("*.prototxt") if "solver" not in path.stem]
    return Target(
        _of_file(folder / "net.prototxt", read), (PrototxtError,), _contents(ours + theirs)
    )


def solver(folder: Path) -> Target:
    """Solvers as prototxt"""
    from nets import load_solver
    from nets.definition.spec import ZOO
    from nets.errors import PrototxtError

    found = [*ZOO.glob("*_solver.prototxt"), *MODELS.rglob("*solver.prototxt")]
    return Target(
        _of_file(folder / "solver.prototxt", load_solver), (PrototxtError,), _contents(found)
    )


def _weights(path: Path) -> Target:
    """The target for weights in the format of the suffix."""
    from nets.errors import NetError
    from nets.files.weights import read_weights, write_weights

    blobs = (np.arange(12, dtype=np.float32).reshape(2, 1, 2, 3), np.zeros(2, np.float64))
    write_weights(path, {"conv": blobs, "ip": blobs[1:]})
    return Target(_of_file(path, read_weights), (NetError,), [path.read_bytes()])


def caffemodel(folder: Path) -> Target:
    """Caffe's weights"""
    return _weights(folder / "of.caffemodel")


def checkpoint(folder: Path) -> Target:
    """Checkpoints"""
    return _weights(folder / "of.safetensors")


def torch_weights(folder: Path) -> Target:
    """Weights with the names of torch's modules"""
    from safetensors.numpy import save

    from nets import load_net
    from nets.errors import NetError
    from nets.files.weights import read_weights

    layers = load_net("resnet18").for_phase("TEST").layers
    arrays = {"conv1.weight": np.zeros((2, 1, 2, 2), "f4"), "bn1.running_mean": np.zeros(2, "f2")}
    arrays |= {"bn1.running_var": np.ones(2, "f4"), "n": np.ones(1, "i8")}
    read = _of_file(folder / "torch.safetensors", lambda path: read_weights(path, layers))
    return Target(read, (NetError,), [save(arrays)])


def graph(folder: Path) -> Target:
    """Graphs of ONNX"""
    from nets import load_net
    from nets.errors import NetError
    from nets.schema import onnx_net_pb2 as onnx

    sizes = [{"dim_param": "N"}, {"dim_value": 1}, {"dim_value": 4}, {"dim_value": 4}]
    image = {"tensor_type": {"elem_type": 1, "shape": {"dim": sizes}}}
    weight = np.arange(9, dtype=np.float32)
    made = {
        "node": [
            {"op_type": "Conv", "input": ["x", "w"], "output": ["a"]},
            {"op_type": "Relu", "input": ["a"], "output": ["b"]},
            {"op_type": "Flatten", "input": ["b"], "output": ["y"]},
        ],
        "initializer": [
            {"name": "w", "dims": [1, 1, 3, 3], "data_type": 1, "raw_data": weight.tobytes()}
        ],
        "input": [{"name": "x", "type": image}],
        "output": [{"name": "y"}],
    }
    model = onnx.ModelProto(graph=made, opset_import=[{"version": 17}])
    return Target(_of_file(folder / "net.onnx", load_net), (NetError,), [model.SerializeToString()])


def idx(folder: Path) -> Target:
    """IDX files, plain and gzipped"""
    from nets.data.sources.idx import read_idx
    from nets.errors import DataError

    images = b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + bytes(24)
    take = _of_file(folder / "images.idx", lambda path: read_idx(path, axes=(3, 4)))
    return Target(take, (DataError,), [images, gzip.compress(images), gzip.compress(images, 0)])


def datum(folder: Path) -> Target:
    """One record of Caffe's databases"""
    from nets.data.lmdb import datum as records
    from nets.errors import DataError

    def take(data: bytes) -> None:
        record = records.parse(data, "record 1")
        for color in ("stored", "color", "gray") if not record.encoded else ():
            records.to_image(record, "record 1", color)

    images = [
        np.zeros((channels, 2, 3), kind) for channels in (1, 3) for kind in (np.uint8, np.float32)
    ]
    return Target(
        take, (DataError,), [records.from_image(image, 5).SerializeToString() for image in images]
    )


def netpbm(folder: Path) -> Target:
    """PBM, PGM and PPM"""
    from nets.data.pictures import netpbm as pictures
    from nets.errors import DataError

    heads = [b"P1 3 2\n", *(b"P%d 3 2 %d\n" % (kind, most) for kind in (2, 3) for most in (9, 999))]
    heads += [
        b"P4 3 2\n",
        *(b"P%d 3 2 %d\n" % (kind, most) for kind in (5, 6) for most in (9, 999)),
    ]
    seeds = [head + (b"1 " * 18 if head[1:2] <= b"3" else bytes(36)) for head in heads]

    def take(data: bytes) -> None:
        if data[:1] == b"P" and data[1:2] in (b"1", b"2", b"3", b"4", b"5", b"6"):
            pictures.read(data, "a")

    return Target(take, (DataError,), seeds)


def exif(folder: Path) -> Target:
    """The orientation in EXIF, and the segments of a JPEG before it"""
    from nets.data.pictures import orientation

    block = b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"
    jpeg = b"\xff\xd8\xff\xe1\0" + bytes([2 + len(block)]) + block + b"\xff\xda"

    def take(data: bytes) -> None:
        orientation.of_exif(data)
        orientation.of_jpeg(data)

    return Target(take, (), [block, jpeg])


def mdb(folder: Path) -> Target:
    """LMDB files"""
    from nets.data.lmdb.mdb import open_mdb
    from nets.data.lmdb.writers import write_lmdb
    from nets.errors import DataError

    def read(path: Path) -> None:
        database = open_mdb(path)
        for index in range(len(database)):
            database.record(index)

    # a leaf, leaves under a branch, large values
    for name, count, size in (("a", 3, 9), ("b", 200, 30), ("c", 2, 5000)):
        write_lmdb(folder / name, ((b"%05d" % key, bytes(size)) for key in range(count)))
    seeds = [(folder / name / "data.mdb").read_bytes() for name in "abc"]
    return Target(_of_file(folder / "data.mdb", read), (DataError,), seeds)


def choices(folder: Path) -> Target:
    """The kept choices of cuDNN's engines"""
    from ops.cuda.conv.kept_choices import parsed

    plan = b'{"engine": 3, "knobs": {"TILE": 1}, "folded": [2, 2], "whole": false}'
    seeds = [b'{"made for": {"a": [1]}, "choice": %s}' % choice for choice in (plan, b'"lowering"')]
    return Target(lambda data: parsed(data, {"a": [1]}), (ValueError,), seeds)


TARGETS: dict[str, Callable[[Path], Target]] = {
    made.__name__: made
    for made in (
        header,
        arrays,
        dialed,
        stream,
        http,
        cluster,
        net,
        solver,
        caffemodel,
        checkpoint,
        torch_weights,
        graph,
        idx,
        datum,
        netpbm,
        exif,
        mdb,
        choices,
    )
}
