"""Characters of a text for Caffe's recurrent layers: sequences to be learnt, time first.

What lives here: how a text becomes sequences. What never: words, a vocabulary file.

A sample is a sequence of `length` characters: data, cont and target, each (length, n) for n samples, which is what
Caffe's LSTM takes, (T, N). `cont` is 0 at every sequence's first step, so sequences are independent of each other: any
order and any split over workers gives the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.source import Source
from nets.errors import DataError

MAX_BYTES = 1 << 30


def open_text(
    *, base_dir: Path, source: str, length: int = 32, alphabet: str = "", part: Sequence[str] = ()
) -> TextSource:
    """Open the UTF-8 text `source`; `alphabet`: its characters in the order of their numbers (default: all that occur,
    sorted); `part`: first and last share of the text as decimals, such as ["0", "0.9"].
    """
    path = base_dir / source
    text = _read(path)
    if length < 1:
        raise DataError(f"text: length: found {length}, expected an integer >= 1")
    first, last = _part(part)
    letters = alphabet or "".join(sorted(set(text)))
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    return TextSource(path.name, codes[int(first * len(codes)) : int(last * len(codes))], letters, length)


class TextSource(Source):
    """A text cut into sequences of `length`; what is left over at its end is not used."""

    def __init__(self, name: str, codes: NDArray[np.uint32], alphabet: str, length: int) -> None:
        wanted = np.frombuffer(alphabet.encode("utf-32-le"), "<u4")
        order = np.argsort(wanted)
        places = np.minimum(np.searchsorted(wanted, codes, sorter=order), len(wanted) - 1)
        self.numbers, self.alphabet, self.length = order[places], alphabet, length
        strange = np.flatnonzero(wanted[self.numbers] != codes)
        if len(strange):
            raise DataError(f"{name}: character {chr(codes[strange[0]])!r} is not in the alphabet")
        if len(codes) <= length:
            raise DataError(f"{name}: found {len(codes)} characters, expected more than the length {length}")
        super().__init__("text", (1, 1, length), num_classes=len(alphabet))

    def __len__(self) -> int:
        return (len(self.numbers) - 1) // self.length

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[np.float32], ...]:
        """Return data, cont and target, each (length, n) float32: numbers of characters; cont is 0 or 1."""
        places = np.arange(self.length)[:, None] + np.asarray(indices) * self.length
        cont = np.ones(places.shape, np.float32)
        cont[0] = 0
        return self.numbers[places].astype(np.float32), cont, self.numbers[places + 1].astype(np.float32)


def _part(part: Sequence[str]) -> tuple[float, float]:
    try:
        first, last = (float(share) for share in part or ("0", "1"))
    except ValueError:
        first, last = 1.0, 0.0
    if not 0 <= first < last <= 1:
        raise DataError(f"text: part: found {list(part)}, expected two rising shares from 0 to 1")
    return first, last


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path.name}: found {path.stat().st_size} bytes, expected at most {MAX_BYTES}")
        text = path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: byte {error.start}: not UTF-8 text") from None
    if not text:
        raise DataError(f"{path.name}: found an empty file, expected a text")
    return text
