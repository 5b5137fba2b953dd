"""`python -m benchmarks.reading`: images per second that a worker reads ahead, decodes, resizes and
crops, by threads alone and with processes that decode.

The pictures are JPEG files of about ImageNet's mean size, made for the measurement, or the folder
`--images` with one folder per class. All sides live in one process and take turns, batch after
batch. A ratio is the median of the ratios of the turns, so other work on the machine affects all
sides alike.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, machine, medians, ratio, rounds, write
from nets.data import Batches, DecodingProcesses, Prefetcher, SharedMemory, Transform
from nets.data.sources.images import open_images
from runtime.memory import freed
from runtime.memory.arena import Arena

PICTURES = 256
SIDES = (375, 500)  # rows and columns
STORED = 256  # rows and columns after resizing, as Caffe's databases of ImageNet
CROP = 227
LEAST = 1.8  # the bar: images a second of two processes, compared with one thread
THREAD = "1 thread"


def main(arguments: list[str] | None = None) -> int:
    """Measure all sides and write the result. Returns 1 if two processes are not faster than one
    thread by the bar, on a machine with two cores or more."""
    parser = parser_of("reading", __doc__)
    parser.add_argument("--images", type=Path, help="a folder with one folder per class")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--most", type=int, default=machine()["cores"], help="threads, processes")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds for all sides")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    freed.keep()  # as in every process of a run
    record = Record("Reading of JPEG files by threads and by processes")
    with tempfile.TemporaryDirectory() as made:
        folder = given.images or made_pictures(Path(made))
        record.facts = {
            "pictures": str(given.images.name if given.images else f"made up, {SIDES}"),
            "batch": f"{given.batch}, resized to {STORED} x {STORED}, cropped to {CROP} x {CROP}",
        }
        measured(record, folder, given)
    paths = write(given.results, "reading", machine(), {"reading": record})
    print("results:", *paths)
    return int(record.status == "failed")


def measured(record: Record, folder: Path, given: argparse.Namespace) -> None:
    """Measure every side, and judge two processes compared with one thread."""
    numbers = sorted({1, 2, given.most})
    with ExitStack() as stack:
        arena = Arena("reading")
        stack.callback(arena.close)
        sides = {THREAD: stack.enter_context(reader(folder, arena, given.batch, 1, 0))}
        for n in numbers[1:]:
            name = f"{n} threads"
            sides[name] = stack.enter_context(reader(folder, arena, given.batch, n, 0))
        for n in numbers:
            name = "1 process" if n == 1 else f"{n} processes"
            sides[name] = stack.enter_context(reader(folder, arena, given.batch, n, n))
        steps = {
            name: partial(read_next, side, count(), given.batch) for name, side in sides.items()
        }
        taken = rounds(steps, given.seconds, least=3, most=40)
    record.facts["rounds"] = len(taken[THREAD])
    times = medians(taken)
    record.table("Images a second", "side", "images/s", "compared with 1 thread", "1 process")
    for name in sides:
        record.row(
            name,
            given.batch / times[name],
            ratio(taken[THREAD], taken[name]),
            ratio(taken["1 process"], taken[name]),
        )
    record.status = "passed"
    if given.most > 1:
        found = ratio(taken[THREAD], taken["2 processes"])
        record.judge("2 processes, compared with 1 thread", found, least=LEAST)


@contextmanager
def reader(
    folder: Path, arena: Arena, batch: int, threads: int, processes: int
) -> Iterator[Prefetcher]:
    """A reader of the pictures with so many threads, and processes that decode."""
    source = open_images(base_dir=folder, source=str(folder), new_height=STORED, new_width=STORED)
    memory = SharedMemory(
        lambda size: arena.empty((size,), np.uint8), *arena.range, arena.address.partition(" ")[0]
    )
    transform = Transform(crop=CROP, mirror=True, mean=(104.0, 117.0, 123.0))
    batches = Batches(source, transform, batch, shuffle=True, seed=1, train=True)
    with ExitStack() as stack:
        if processes:
            decoders = DecodingProcesses(processes, memory)
            stack.callback(decoders.close)
            source.decode_with(decoders)
            decoders.start()
            decoders.wait_until_started()
        yield stack.enter_context(Prefetcher(batches, threads=threads))


def read_next(side: Prefetcher, numbers: Iterator[int], batch: int) -> None:
    """Read one batch after the other."""
    number = next(numbers)
    side.get(number * batch, (number + 1) * batch)


def made_pictures(folder: Path) -> Path:
    """Make JPEG files with as many bytes as photographs of their size: smooth colours and a little
    noise."""
    import simplejpeg

    rng = np.random.default_rng(5)
    (folder / "class").mkdir()
    for at in range(PICTURES):
        coarse = rng.integers(0, 256, (16, 20, 3))
        pixels = coarse.repeat(25, 0).repeat(25, 1)[: SIDES[0], : SIDES[1]]
        pixels = np.clip(pixels + rng.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8)
        (folder / "class" / f"{at}.jpg").write_bytes(
            simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=90)
        )
    return folder


if __name__ == "__main__":
    sys.exit(main())
