"""The folders in which `up` will make the run directory and the private folder: checked before a
run, without leaving anything there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from runtime.config.sections import ClusterConfig
from runtime.machine.private import PrivateFolder
from runtime.reasons import no_run_directory


def check_places(config: ClusterConfig) -> None:
    """Raise LaunchError, as `up` would, if this user cannot make a folder where a run needs one."""
    below = Path(config.run.directory)
    if number := _refusal(below):
        raise no_run_directory(below, OSError(number, os.strerror(number)))
    if config.simulation.clock == "real":
        PrivateFolder.make().remove()


def _refusal(folder: Path) -> int:
    """The system's error number for making a folder in `folder`, which is made if it is missing. 0
    if nothing speaks against it."""
    for there in (folder, *folder.parents):
        try:
            mode = there.stat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            return error.errno or errno.EIO
        if not stat.S_ISDIR(mode):
            return errno.ENOTDIR
        if os.statvfs(there).f_flag & os.ST_RDONLY:
            return errno.EROFS
        return 0 if os.access(there, os.W_OK | os.X_OK, effective_ids=True) else errno.EACCES
    return 0
