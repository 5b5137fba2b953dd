"""A process that decodes pictures for `decoding_processes`, until its input ends.

Started as `python -m nets.data.decoding_process FILE SIZE`. FILE is the descriptor of the shared
memory, SIZE its bytes. Each request is the size of its header and of the picture, a header in JSON,
and the bytes of the picture. Each answer is a line of JSON:

    {"notices": [[where, kind, detail], ...], "shape": [C, H, W]}    the shape that was found
    {"notices": [...], "problems": [...]}                            the lines of a DataError
    {"notices": [...]}                                               an error of another type
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import Picture
from nets.data.decoding_processes import READY, SIZES
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
            answers.write(json.dumps(_answer(memory, requests, *SIZES.unpack(sizes))).encode())
            answers.write(b"\n")
            answers.flush()


def _answer(memory: NDArray[np.uint8], requests: BinaryIO, head: int, data: int) -> dict[str, Any]:
    where, color, orientation, size, remedy, shape, offset = json.loads(requests.read(head))
    pixels = size and tuple(size)
    picture = Picture(requests.read(data), where, color, orientation, pixels, remedy)
    with NOTICES.collected() as notices:
        try:
            image_CHW = picture.image()
        except DataError as error:
            return {"notices": notices, "problems": error.problems}
        except Exception:  # noqa: BLE001  # the parent decodes the picture itself, and meets it again
            return {"notices": notices}
    if list(image_CHW.shape) == shape:
        memory[offset : offset + image_CHW.nbytes].reshape(shape)[...] = image_CHW
    return {"notices": notices, "shape": image_CHW.shape}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
