"""Writer of LMDB databases: Datum records under the keys that Caffe's tools use.

Records are written in transactions of bounded size. The database's folder gets its name when it is
complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nets.data.decoding import decode
from nets.data.decoding.encoded import read_file
from nets.data.lmdb import datum
from nets.data.sources.images import name_bytes
from nets.data.sources.source import Source
from nets.errors import DataError
from nets.files.extras import need
from nets.regular import is_there
from nets.schema import caffe_pb2 as caffe

COMMIT = 1000  # records per transaction, as in Caffe's convert_imageset
MAP_SIZE = 1 << 40  # address space, not memory or disk: Caffe's choice
Record = tuple[bytes, bytes]  # key, Datum


def write_lmdb(path: Path, records: Iterable[Record]) -> int:
    """Write a new database folder `path` and return the number of its records.

    Raises DataError if `path` exists or a key comes twice. The folder is called `.NAME.tmp` until
    it is complete.
    """
    lmdb = need("lmdb", f"{path}: writing LMDB")
    if is_there(path):
        raise DataError(f"{path}: exists already, expected the name of a new folder")
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        where = os.fsencode(temporary)  # a name that is not UTF-8 too
        with lmdb.open(where, map_size=MAP_SIZE, lock=False, meminit=False) as database:
            count = sum(_commit(database, chunk, str(path)) for chunk in _chunks(records))
            database.sync(True)
        temporary.replace(path)
    except lmdb.Error as error:
        raise DataError(f"{path}: cannot be written: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


def records_of(images: Iterable[tuple[NDArray[Any], int]]) -> Iterator[Record]:
    """Yield one record per (image (C, H, W), label), under the keys 00000000, 00000001, ..."""
    for index, (image, label) in enumerate(images):
        yield b"%08d" % index, datum.from_image(image, label).SerializeToString()


def records_of_source(source: Source, chunk: int = 256) -> Iterator[Record]:
    """Yield one record per sample of a source of labelled images, reading `chunk` samples at a
    time."""

    def pairs() -> Iterator[tuple[NDArray[Any], int]]:
        for start in range(0, len(source), chunk):
            images, labels, *_ = source.read(np.arange(start, min(start + chunk, len(source))))
            yield from zip(images, (int(label) for label in labels), strict=True)

    return records_of(pairs())


def records_of_files(
    paths: Iterable[Path],
    labels: Iterable[int],
    size: tuple[int, int] | None,
    color: str = "color",
    orientation: str = "exif",
    encoded: bool = False,
) -> Iterator[Record]:
    """Yield one record per image file. Keys have number and name, as convert_imageset's.

    With `encoded` the record has the bytes of the file, unchanged by the other options.
    """
    for index, (path, label) in enumerate(zip(paths, labels, strict=True)):
        data = read_file(path)
        # an encoded picture gets its size when it is read; here it is only tried
        wanted = (1, 1) if encoded else size
        image = decode.image(data, str(path), color, orientation, wanted)
        if encoded:
            record = caffe.Datum(data=data, encoded=True, label=label)
        else:
            record = datum.from_image(image, label)
        yield b"%08d_%s" % (index, name_bytes(path)[:400]), record.SerializeToString()


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    rest = iter(records)
    while chunk := list(islice(rest, COMMIT)):
        yield chunk


def _commit(database: Any, chunk: list[Record], name: str) -> int:
    with database.begin(write=True) as transaction:
        for key, value in chunk:
            if not transaction.put(key, value, overwrite=False):
                raise DataError(f"{name}: key {key!r} comes twice, expected each once")
    return len(chunk)
