"""Caffe's LMDB data sets: Datum records, read by index from a mapped file.

`mdb` reads the pages of the file, `datum` the fields of a record. `writers` writes databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding.encoded import Decoder, Picture, decoded
from nets.data.lmdb import datum, mdb
from nets.data.sources.images import check_options
from nets.data.sources.located import located
from nets.data.sources.source import Images, Labels, Source, first_shape, stacked
from nets.errors import DataError
from nets.schema import caffe_pb2 as caffe


def open_lmdb(
    *,
    base_dir: Path,
    source: str,
    new_height: int = 0,
    new_width: int = 0,
    color: str = "stored",
    orientation: str = "exif",
) -> LmdbSource:
    """Open the database in the folder `source`, with the options of LmdbSource."""
    size = check_options("lmdb", new_height, new_width, color, orientation)
    return LmdbSource(located(base_dir, source), size, color, orientation)


class LmdbSource(Source):
    """The records of a database in key order. Encoded images are decoded, in OpenCV's channel order
    (BGR).

    `size`: (height, width) to resize to, or None. `color`: "stored", "color" or "gray".
    `orientation` of encoded images: "exif" or "stored".
    """

    def __init__(
        self,
        path: Path,
        size: tuple[int, int] | None = None,
        color: str = "stored",
        orientation: str = "exif",
    ) -> None:
        self._database = mdb.open_mdb(path)
        self._size = size
        self._color = color
        self._decoder: Decoder = decoded
        self.orientation = orientation
        if not len(self._database):
            raise DataError(f"{path}: found an empty database, expected images")
        shape = first_shape(self._first, len(self._database))
        super().__init__("lmdb", shape)

    def __len__(self) -> int:
        return len(self._database)

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[Images, Labels]:
        """Return images (n, C, H, W), uint8 or float32 as stored, and labels (n,)."""
        # pictures are small, so those of a batch may be in memory together
        if len(indices) and self._record(int(indices[0])).encoded:
            records = [(self.sample_name(index), self._record(int(index))) for index in indices]
            if all(record.encoded for _, record in records):
                pictures = (self._picture(record, name) for name, record in records)
                labels = np.array([record.label for _, record in records], np.int64)
                return self._decoder(pictures, len(records), self.shape), labels
        names = [self.sample_name(index) for index in indices]
        labels = np.empty(len(indices), np.int64)

        def images() -> Iterator[NDArray[Any]]:
            for at, index in enumerate(indices):
                image, labels[at] = self._one(int(index))
                yield image

        return stacked(images(), names, self.shape), labels

    def sample_name(self, index: int) -> str:
        """Return the database and the number of the record."""
        return f"{self._database.name}: record {index}"

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield the sizes of all records, then the given records."""
        yield self._database.sizes.tobytes()
        for index in indices:
            yield bytes(self._database.record(int(index)))

    def decode_with(self, decoder: Decoder) -> bool:
        self._decoder = decoder
        with suppress(DataError):
            return self._record(0).encoded
        return True  # a damaged record

    def _one(self, index: int) -> tuple[Any, int]:
        record = self._record(index)
        where = self.sample_name(index)
        image = datum.to_image(record, where, self._color, self.orientation, self._size)
        return image, record.label

    def _first(self, index: int) -> NDArray[Any]:
        image, _ = self._one(index)
        self.of_bytes = image.dtype == np.uint8
        return np.asarray(image)

    def _record(self, index: int) -> caffe.Datum:
        return datum.parse(self._database.record(index), self.sample_name(index))

    def _picture(self, record: caffe.Datum, where: str) -> Picture:
        return Picture(record.data, where, self._color, self.orientation, self._size)
