"""Reader of an LMDB database file (`data.mdb`) that works without the LMDB library. It finds every
record, in key order.

Every number in the B+tree's pages is checked against the file before it is used. A damaged file
therefore raises an error and never causes a crash. The reader takes no lock, so the file must not
change meanwhile.

Layout of LMDB 0.9 (64-bit, little-endian): The file has pages of `psize` bytes. Pages 0 and 1 have
the two meta records; the record with the higher transaction number is valid. A page has a header of
16 bytes, then 2-byte offsets of its nodes, then the nodes.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nets.errors import DataError
from nets.reasons import reason
from nets.regular import is_folder, size_of

MAGIC = 0xBEEFC0DE
VERSION = 1
HEADER = 16  # bytes of a page's header; META is the bytes of a meta record
META = 136
BRANCH = 0x01
LEAF = 0x02
OVERFLOW = 0x04
LEAF2 = 0x20
BIG = 0x01
SUB = 0x02
DUPLICATES = 0x04
NO_PAGE = 2**64 - 1
# size low, size high, flags, key length; in a branch, the first three are the child's page number
_NODE = struct.Struct("<HHHH")


@dataclass(frozen=True, eq=False)
class Mdb:
    """An open database: `record(i)` is the value of the i-th key."""

    name: str
    data: mmap.mmap
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def record(self, index: int) -> bytes:
        """Return a copy of the record's bytes (0 <= index < len)."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]


def open_mdb(path: Path) -> Mdb:
    """Open `path`, the database's folder or its file. Raises DataError if it is missing or
    damaged."""
    file = path / "data.mdb" if is_folder(path) else path
    try:
        if (size := size_of(file)) < 2 * HEADER + META:
            raise DataError(f"{path}: found {size} bytes, expected an LMDB file")
        with file.open("rb") as handle:
            data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise DataError(f"{file}: no such file, expected an LMDB database") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}") from None
    return Mdb(str(path), data, *_Walk(data, str(path)).records())


class _Walk:
    """One walk over the tree, from left to right. It visits every page at most once, so it always
    ends, even for a damaged file."""

    def __init__(self, data: mmap.mmap, name: str) -> None:
        self.data = data
        self.name = name
        self.root, self.entries, self.psize = self._meta()
        self.pages = len(data) // self.psize
        self.seen = np.zeros(self.pages, bool)

    def records(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found = array("q")  # start, size, start, size, ...
        todo = [self.root] if self.root != NO_PAGE else []
        while todo:
            page = todo.pop()
            flags, nodes = self._page(page)
            if flags & BRANCH:
                todo += [self._child(node) for node in reversed(nodes)]
            else:
                for node in nodes:
                    found.extend(self._value(node))
        if len(found) != 2 * self.entries:
            raise self._damaged(f"found {len(found) // 2} records, expected {self.entries}")
        pairs = np.array(found, np.int64).reshape(-1, 2)
        if (claimed := int(pairs[:, 1].sum())) > len(self.data):
            raise self._damaged(
                f"its records have {claimed} bytes in total, but the file has {len(self.data)}"
            )
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def _damaged(self, text: str) -> DataError:
        return DataError(f"{self.name}: damaged LMDB file: {text}")

    def _meta(self) -> tuple[int, int, int]:
        """Return (root page, number of records, page size) of the newer meta record."""
        psize = self._read("<I", HEADER + 24)[0]
        if not 512 <= psize <= 65536 or psize & (psize - 1):
            raise self._damaged(
                f"found pages of {psize} bytes, expected a power of two from 512 to 65536"
            )
        best: tuple[int, int, int] | None = None
        for start in (HEADER, psize + HEADER):
            magic, version = self._read("<II", start)
            if magic != MAGIC or version != VERSION:
                raise self._damaged(
                    f"found magic {magic:#x} version {version}, expected "
                    f"{MAGIC:#x} version {VERSION}"
                )
            flags, entries, root, transaction = (
                self._read(kind, start + at)[0]
                for kind, at in (("<H", 76), ("<Q", 104), ("<Q", 112), ("<Q", 128))
            )
            if flags & DUPLICATES:
                raise self._damaged("its keys have several values, expected one Datum per key")
            if best is None or transaction > best[2]:
                best = (root, entries, transaction)
        assert best is not None
        return best[0], best[1], psize

    def _page(self, number: int) -> tuple[int, list[int]]:
        """Return a page's flags and the places of its nodes in the file."""
        if not 2 <= number < self.pages:
            raise self._damaged(f"found page {number}, expected 2 to {self.pages - 1}")
        if self.seen[number]:
            raise self._damaged(f"page {number} is reached twice")
        self.seen[number] = True
        start = number * self.psize
        own, _, flags, lower, upper = self._read("<QHHHH", start)
        if own != number or flags & (BRANCH | LEAF | OVERFLOW | LEAF2) not in (BRANCH, LEAF):
            raise self._damaged(
                f"page {number}: found number {own} and flags {flags:#x}, "
                "expected a branch or a leaf"
            )
        if not HEADER <= lower <= upper <= self.psize or lower % 2:
            raise self._damaged(
                f"page {number}: its free space is from {lower} to {upper} of {self.psize}"
            )
        offsets = struct.unpack_from(f"<{(lower - HEADER) // 2}H", self.data, start + HEADER)
        if offsets and not (min(offsets) >= upper and max(offsets) + _NODE.size <= self.psize):
            raise self._damaged(f"page {number}: a node lies outside it")
        return flags, [start + offset for offset in offsets]

    def _child(self, node: int) -> int:
        low, high, top, _ = _NODE.unpack_from(self.data, node)
        return int(low | high << 16 | top << 32)

    def _value(self, node: int) -> tuple[int, int]:
        """Return the place of a leaf node's value in the file and the value's size."""
        low, high, flags, key_size = _NODE.unpack_from(self.data, node)
        start = node + _NODE.size + key_size
        size = low | high << 16
        if flags & (SUB | DUPLICATES):
            raise self._damaged("it holds several databases, expected one")
        end = (node // self.psize + 1) * self.psize
        if flags & BIG:
            if start + 8 > end:
                raise self._damaged("a node lies outside its page")
            first = self._read("<Q", start)[0]
            pages = -(-(HEADER + size) // self.psize)
            if not (first >= 2 and first + pages <= self.pages):
                raise self._damaged(
                    f"found a value on pages {first} to {first + pages - 1} of {self.pages}"
                )
            if not self._read("<QHH", first * self.psize)[2] & OVERFLOW:
                raise self._damaged(f"page {first}: expected a value's first page")
            return first * self.psize + HEADER, size
        if start + size > end:
            raise self._damaged("a node lies outside its page")
        return start, size

    def _read(self, kind: str, at: int) -> tuple[int, ...]:
        if at + struct.calcsize(kind) > len(self.data):
            raise self._damaged(f"the file ends at byte {len(self.data)}, expected more at {at}")
        return struct.unpack_from(kind, self.data, at)
