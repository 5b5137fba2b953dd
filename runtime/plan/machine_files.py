"""The folders of a run's files on a machine: at the same paths as here, or where [[machine]] places
them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Files:
    """The folders on one machine. `base` is the folder of cluster.toml where the run was planned.
    `directory` is the folder that stands for it on this machine. `data` is the folder that relative
    sources of data start from. Both are "" if they are the same as on the planning machine."""

    base: str
    directory: str = ""
    data: str = ""

    def here(self, path: str) -> str:
        """Return the path on this machine of a file or folder that the plan names by its absolute
        path. Paths outside `base` are unchanged."""
        if self.directory and Path(path).is_relative_to(self.base):
            return str(Path(self.directory).expanduser() / Path(path).relative_to(self.base))
        return path

    @property
    def data_root(self) -> str:
        """The folder that relative sources of data start from."""
        return str(Path(self.data).expanduser()) if self.data else self.here(self.base)
