"""Data files, plain or gzipped: one way to open them, their errors translated. Who reads sets a
limit to what it takes: a gzipped file of a megabyte may hold a gigabyte."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from nets.errors import DataError
from nets.reasons import reason
from nets.regular import size_of


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], int | None]]:
    """Give the file, unzipped while it is read, and its bytes; None: it is zipped. DataError for
    whatever is wrong with it, also while it is read."""
    try:
        size = size_of(path)
        with path.open("rb") as plain:
            # what /proc shows has a size of 0, and may wait
            zipped = size > 0 and plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            if not zipped:
                yield plain if size else io.BytesIO(), size
                return
            with gzip.open(plain) as file:
                yield cast(IO[bytes], file), None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}: damaged gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read: {reason(error)}") from None
