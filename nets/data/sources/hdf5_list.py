"""Caffe's HDF5Data source: a text file that lists HDF5 files, each with one dataset per top."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nets.data.sources.located import located
from nets.data.sources.source import Source
from nets.errors import DataError
from nets.files import hdf5
from nets.regular import read_text

MAX_LIST = 1 << 20  # bytes of a list file
LOOKED_AT = 256  # rows; h5py takes 0.1 ms for each
MAX_BYTES = 1 << 31  # of one dataset in memory; Caffe also holds a whole file


def open_list(
    *, base_dir: Path, source: str, tops: Sequence[str] = ("data", "label")
) -> Hdf5Source:
    """Open the list file (or one .h5 file) `source`. Paths in the list are relative to its folder.
    `tops` are the names of datasets."""
    path = located(base_dir, source)
    if path.suffix in (".h5", ".hdf5"):
        return Hdf5Source([path], tops)
    lines = read_text(path, MAX_LIST, "a list of HDF5 files").split()
    if not lines:
        raise DataError(f"{path}: found no line, expected paths of HDF5 files")
    return Hdf5Source([located(path.parent, line) for line in lines], tops)


class Hdf5Source(Source):
    """The rows of all files, in order. The file that was read last stays in memory, as float32."""

    divisible = False  # two threads could hold a file each

    def __init__(self, paths: Sequence[Path], tops: Sequence[str]) -> None:
        if not tops:
            raise DataError("hdf5: tops: found none, expected the names of datasets")
        self._paths = list(paths)
        self._tops = tuple(tops)
        shapes = [self._shapes(path) for path in self._paths]
        for path, mine in zip(self._paths, shapes, strict=True):
            if [shape[1:] for shape in mine] != [shape[1:] for shape in shapes[0]]:
                raise DataError(
                    f"{path}: found shapes {mine}, expected {shapes[0]} except "
                    "for the number of rows"
                )
        self._ends = np.cumsum([mine[0][0] for mine in shapes])
        self._kept: tuple[int, tuple[NDArray[np.float32], ...]] = (-1, ())
        sample = shapes[0][0][1:]
        if not sample or not self._ends[-1]:
            raise DataError(
                f"{self._paths[0]}: found shape {shapes[0][0]}, expected rows of two axes or more"
            )
        # Caffe's HDF5Data takes samples with any number of axes; other sources have images
        super().__init__("hdf5", cast(tuple[int, int, int], sample))
        self.shapes = tuple(() if shape[1:] == (1,) else shape[1:] for shape in shapes[0])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[np.float32], ...]:
        """Return the rows of every top as float32, in the shapes of the datasets. Labels (N, 1)
        become (N,)."""
        return self._gathered(
            indices, lambda file, rows: [array[rows] for array in self._load(file)]
        )

    def sample_name(self, index: int) -> str:
        """Return the file and the number of the row in it."""
        file = int(np.searchsorted(self._ends, index, side="right"))
        return f"{self._paths[file]}: row {index - (self._ends[file - 1] if file else 0)}"

    def look(self, indices: NDArray[np.integer[Any]]) -> tuple[NDArray[np.float32], ...]:
        """Return all samples, or some hundreds of the given ones, without holding a whole file:
        each row is read singly."""
        few = indices if len(indices) == len(self) else indices[:: -(-len(indices) // LOOKED_AT)]
        return self._gathered(few, self._rows)

    def stored(self, indices: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """Yield the bytes of the rows that `look` returns, without holding a whole file."""
        yield from (array.tobytes() for array in self.look(indices))

    def _gathered(
        self,
        indices: NDArray[np.integer[Any]],
        rows_of: Callable[[int, NDArray[Any]], list[NDArray[Any]]],
    ) -> tuple[NDArray[np.float32], ...]:
        files = np.searchsorted(self._ends, indices, side="right")
        result: list[NDArray[np.float32]] = []
        for file in np.unique(files):
            mine = files == file
            for at, array in enumerate(
                rows_of(int(file), indices[mine] - (self._ends[file - 1] if file else 0))
            ):
                if at == len(result):
                    result.append(np.empty((len(files), *array.shape[1:]), np.float32))
                result[at][mine] = array
        return tuple(array[:, 0] if array.shape[1:] == (1,) else array for array in result)

    def _rows(self, file: int, rows: NDArray[Any]) -> list[NDArray[Any]]:
        path = self._paths[file]
        with hdf5.opened(path, DataError) as opened:
            found = [hdf5.dataset(opened, top, path) for top in self._tops]
            if rows[-1] - rows[0] + 1 == len(rows):
                return [np.asarray(one[rows[0] : rows[-1] + 1], np.float32) for one in found]
            return [np.stack([np.asarray(one[row], np.float32) for row in rows]) for one in found]

    def _shapes(self, path: Path) -> list[tuple[int, ...]]:
        with hdf5.opened(path, DataError) as file:
            found = hdf5.datasets(((file, top) for top in self._tops), path)
            shapes = [tuple(one.shape) for one in found]
            for one in found:
                if one.size * 4 > MAX_BYTES:
                    raise DataError(
                        f"{path}: {one.name}: found {one.shape}, expected at most 2 GiB in float32"
                    )
        if len({shape[:1] for shape in shapes}) > 1 or not all(shapes):
            raise DataError(
                f"{path}: found shapes {shapes}, expected the same "
                f"number of rows in each of {self._tops}"
            )
        return shapes

    def _load(self, file: int) -> tuple[NDArray[np.float32], ...]:
        # one tuple, replaced in one step: another thread sees either the old file or the new one
        kept = self._kept
        if kept[0] != file:
            path = self._paths[file]
            with hdf5.opened(path, DataError) as opened:
                tops = hdf5.datasets(((opened, top) for top in self._tops), path)
                found = tuple(np.asarray(one[()], np.float32) for one in tops)
                kept = self._kept = (file, found)
        return kept[1]
