"""A process that decodes pictures for `processes`, until its input ends.

Started as `python -m nets.data.decoding.process FILE SIZE`. FILE is the descriptor of the shared
memory, SIZE its bytes. A request has several pictures: the sizes of its header and of its data, a
header in JSON, and the data, which are the bytes of the pictures one after the other. The header
has the place of the first image in the shared memory, the shape that is expected, the place of the
`Progress`, and for each picture the number of its bytes, null for a file, and its other fields. The
answer to a request is a short line of JSON, a list with an object for each picture:

    {"shape": [C, H, W], "notices": [[kind, detail], ...]}    the shape that was found
    {}                                                        the picture has an error

Answers must be short: the pipe of a user may have room for 8 KB only, and both sides would wait for
each other if the answers that the parent has not read filled it.
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

from nets.data.decoding.encoded import Picture
from nets.data.decoding.processes import PROGRESS, READY, SIZES
from nets.data.pictures.notices import NOTICES
from nets.parent import go_on_without_parent


def main(file: int, size: int) -> None:
    """Answer the requests of standard input on standard output."""
    go_on_without_parent()
    # Ctrl-C and the end of a batch job reach all processes; the parent decides when this one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the parent is gone, so no one reads an error
    memory = np.frombuffer(mmap.mmap(file, size), np.uint8)
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # words of a library would be taken for an answer
        answers.write(READY)
        answers.flush()
        for head, data in _requests(sys.stdin.buffer):
            answers.write(json.dumps(list(_answers(memory, head, data))).encode() + b"\n")
            answers.flush()


def _requests(stream: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield the header and the data of each request, until the stream ends. A request that ends
    early is left out: its parent was killed."""
    while len(sizes := stream.read(SIZES.size)) == SIZES.size:
        head, data = map(stream.read, lengths := SIZES.unpack(sizes))
        if (len(head), len(data)) != lengths:
            return
        yield head, data


def _answers(memory: NDArray[np.uint8], head: bytes, data: bytes) -> Iterator[dict[str, Any]]:
    offset, shape, progress, pictures = json.loads(head)
    rest = memoryview(data)
    done = memory[progress : progress + PROGRESS].view(np.int64)
    count = math.prod(shape)
    for length, where, color, orientation, size in pictures:
        own = None if length is None else bytes(rest[:length])
        rest = rest[length or 0 :]
        picture = Picture(own, where, color, orientation, size and tuple(size))
        yield _answer(picture, memory[offset : offset + count].reshape(shape))
        offset += count
        done += 1


def _answer(picture: Picture, into_CHW: NDArray[np.uint8]) -> dict[str, Any]:
    with NOTICES.collected() as notices:
        try:
            image_CHW = picture.image()
        except Exception:  # noqa: BLE001  # the parent decodes the picture itself, and meets it again
            return {}
    if image_CHW.shape == into_CHW.shape:
        into_CHW[...] = image_CHW
    return {"shape": image_CHW.shape, "notices": [(kind, detail) for _, kind, detail in notices]}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
