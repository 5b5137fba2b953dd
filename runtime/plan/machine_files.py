"""Where the files of a run lie on a machine: beside cluster.toml as here, or where [[machine]]
says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Files:
    """`base`: the folder of cluster.toml where the run was planned; `directory`: the one that
    stands for it on this machine, `data`: the one that relative sources of data begin at; "" where
    they are the same."""

    base: str
    directory: str = ""
    data: str = ""

    def here(self, path: str) -> str:
        """A file or folder that the plan names by its whole path; what does not lie in `base` is
        where it was."""
        if self.directory and Path(path).is_relative_to(self.base):
            return str(Path(self.directory).expanduser() / Path(path).relative_to(self.base))
        return path

    @property
    def data_root(self) -> str:
        """Where relative sources of data begin."""
        return str(Path(self.data).expanduser()) if self.data else self.here(self.base)
