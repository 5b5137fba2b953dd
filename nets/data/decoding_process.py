"""A process that decodes pictures for `decoding_processes`, until its input ends.

Started as `python -m nets.data.decoding_process FILE SIZE`. FILE is the descriptor of the shared
memory, SIZE its bytes. Each request is the size of its header and of the picture, a header in JSON,
and the bytes of the picture. Each answer is a short line of JSON:

    {"shape": [C, H, W], "notices": [[kind, detail], ...]}    the shape that was found
    {}                                                        the picture has an error

Answers must be short: the pipe of a user may have room for 8 KB only, and both sides would wait for
each other if the answers that the parent has not read filled it.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import Picture
from nets.data.decoding_processes import READY, SIZES
from nets.data.pictures.notices import NOTICES


def main(file: int, size: int) -> None:
    """Answer the requests of standard input on standard output."""
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
            answers.write(json.dumps(_answer(memory, head, data)).encode())
            answers.write(b"\n")
            answers.flush()


def _requests(stream: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Yield the header and the picture of each request, until the stream ends. A request that ends
    early is left out: its parent was killed."""
    while len(sizes := stream.read(SIZES.size)) == SIZES.size:
        head, data = map(stream.read, lengths := SIZES.unpack(sizes))
        if (len(head), len(data)) != lengths:
            return
        yield head, data


def _answer(memory: NDArray[np.uint8], head: bytes, data: bytes) -> dict[str, Any]:
    where, color, orientation, size, shape, offset = json.loads(head)
    picture = Picture(data, where, color, orientation, size and tuple(size))
    with NOTICES.collected() as notices:
        try:
            image_CHW = picture.image()
        except Exception:  # noqa: BLE001  # the parent decodes the picture itself, and meets it again
            return {}
    if list(image_CHW.shape) == shape:
        memory[offset : offset + image_CHW.nbytes].reshape(shape)[...] = image_CHW
    return {"shape": image_CHW.shape, "notices": [(kind, detail) for _, kind, detail in notices]}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
