"""A process that decodes pictures for `decoding_processes`, until its input ends.

Started as `python -m nets.data.decoding_process FILE SIZE`. FILE is the descriptor of the shared
memory, SIZE its bytes. A request has several pictures: the sizes of its header and of its data, a
header in JSON, and the data, which are the bytes of the pictures one after the other. The header
has the place of the first image in the shared memory, the shape that is expected, the place of the
`Progress`, and for each picture the number of its bytes, null for a file, and its other fields. The
answer to a request is a line of JSON, a list with an object for each picture:

    {"notices": [[where, kind, detail], ...], "shape": [C, H, W]}    the shape that was found
    {"notices": [...], "problems": [...]}                            the lines of a DataError
    {"notices": [...]}                                               an error of another type
"""

from __future__ import annotations

import json
import math
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import Picture
from nets.data.decoding_processes import PROGRESS, READY, SIZES
from nets.data.pictures.notices import NOTICES
from nets.errors import DataError


def main(file: int, size: int) -> None:
    """Answer the requests of standard input on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends this
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the parent is gone, so no one reads an error
    memory = np.frombuffer(mmap.mmap(file, size), np.uint8)
    requests = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # words of a library would be taken for an answer
        answers.write(READY)
        answers.flush()
        while sizes := requests.read(SIZES.size):
            found = list(_answers(memory, requests, *SIZES.unpack(sizes)))
            answers.write(json.dumps(found).encode() + b"\n")
            answers.flush()


def _answers(
    memory: NDArray[np.uint8], requests: BinaryIO, head: int, data: int
) -> Iterator[dict[str, Any]]:
    offset, shape, progress, pictures = json.loads(requests.read(head))
    rest = memoryview(requests.read(data))
    done = memory[progress : progress + PROGRESS].view(np.int64)
    count = math.prod(shape)
    for length, where, color, orientation, size, remedy in pictures:
        own = None if length is None else bytes(rest[:length])
        rest = rest[length or 0 :]
        picture = Picture(own, where, color, orientation, size and tuple(size), remedy)
        yield _answer(picture, memory[offset : offset + count].reshape(shape))
        offset += count
        done += 1


def _answer(picture: Picture, into_CHW: NDArray[np.uint8]) -> dict[str, Any]:
    with NOTICES.collected() as notices:
        try:
            image_CHW = picture.image()
        except DataError as error:
            return {"notices": notices, "problems": error.problems}
        except Exception:  # noqa: BLE001  # the parent decodes the picture itself, and meets it again
            return {"notices": notices}
    if image_CHW.shape == into_CHW.shape:
        into_CHW[...] = image_CHW
    return {"notices": notices, "shape": image_CHW.shape}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
