"""Characters of a text for Caffe's recurrent layers: time first, `streams` texts in parallel.

A sample is one time step: data (streams,), cont (streams,), target (streams,). A batch of T samples
then has the shape that Caffe's LSTM takes, (T, N). `cont` is 0 at the first step of every sequence
of `length` steps, so sequences are independent. A batch may be cut between two sequences. Shuffling
keeps each sequence whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.sources.located import located
from nets.data.sources.source import Source
from nets.errors import DataError
from nets.regular import read_text

MAX_BYTES = 1 << 28  # two and a half times enwik8; a character takes 16 bytes in memory


def open_text(
    *,
    base_dir: Path,
    source: str,
    streams: int = 64,
    length: int = 32,
    alphabet: str = "",
    part: Sequence[str] = (),
) -> TextSource:
    """Open the UTF-8 text `source`.

    `alphabet`: the characters in the order of their numbers (default: all characters of the text,
    sorted). `part`: where the part to read begins and ends, as decimal fractions of the text, such
    as ["0", "0.9"].
    """
    path = located(base_dir, source)
    for name, value in (("streams", streams), ("length", length)):
        if value < 1:
            raise DataError(f"text: {name}: found {value}, expected an integer >= 1")
    first, last = _part(part)
    text = _read(path)
    letters = alphabet or "".join(sorted(set(text)))
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    return TextSource(
        str(path), codes[int(first * len(codes)) : int(last * len(codes))], letters, streams, length
    )


class TextSource(Source):
    """The steps of `streams` equally long pieces of a text. The steps left over at the end are not
    used."""

    def __init__(
        self, name: str, codes: NDArray[np.uint32], alphabet: str, streams: int, length: int
    ) -> None:
        wanted = np.frombuffer(alphabet.encode("utf-32-le"), "<u4")
        order = np.argsort(wanted)
        places = np.minimum(np.searchsorted(wanted, codes, sorter=order), len(wanted) - 1)
        numbers = order[places]
        strange = np.flatnonzero(wanted[numbers] != codes)
        if len(strange):
            raise DataError(f"{name}: character {chr(codes[strange[0]])!r} is not in the alphabet")
        sequences = (len(codes) - 1) // (streams * length)
        if sequences < 1:
            raise DataError(
                f"{name}: found {len(codes)} characters, expected more than {streams} x {length}, "
                "streams times length"
            )
        steps = sequences * length
        pieces = [numbers[at : at + steps * streams].reshape(streams, steps).T for at in (0, 1)]
        self.data, self.target = (np.ascontiguousarray(piece) for piece in pieces)
        self.alphabet = alphabet
        self.streams = streams
        super().__init__("text", (1, 1, streams), num_classes=len(alphabet), unit=length)
        self.shapes = ((streams,),) * 3

    def __len__(self) -> int:
        return len(self.data)

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        """Return data, cont and target, each (n, streams) float32. Data and target are numbers of
        characters; cont is 0 or 1."""
        steps = np.asarray(indices)
        cont = np.broadcast_to((steps % self.unit != 0)[:, None], (len(steps), self.streams))
        return tuple(
            array.astype(np.float32) for array in (self.data[steps], cont, self.target[steps])
        )

    def look(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[Any], ...]:
        """Return all data and targets, and 1 for cont."""
        return self.data, np.ones((1, 1)), self.target


def _part(part: Sequence[str]) -> tuple[float, float]:
    try:
        first, last = (float(share) for share in part or ("0", "1"))
    except ValueError:
        first = 1.0
        last = 0.0
    if not 0 <= first < last <= 1:
        raise DataError(f"text: part: found {list(part)}, expected two rising numbers from 0 to 1")
    return first, last


def _read(path: Path) -> str:
    text = read_text(path, MAX_BYTES, "a text")
    if not text:
        raise DataError(f"{path}: found an empty file, expected a text")
    return text
