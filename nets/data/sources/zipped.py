"""Opening of data files, plain or gzipped, with errors translated to DataError. The caller must
limit how much it reads: a gzipped file of a megabyte may hold a gigabyte."""

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
    """Open the file for reading, unzipped, and give its size in bytes (None if it is gzipped).
    Raises DataError for every fault of the file, also inside the `with` block."""
    try:
        size = size_of(path)
        with path.open("rb") as plain:
            # files in /proc have a size of 0, and reading them may block
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
        raise DataError(f"{path}: damaged gzip file: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}") from None
