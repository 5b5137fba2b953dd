"""Reasons for which the system refuses something, in words for the user. The only module of the
runtime that interprets an OSError.

`nets.reasons` does the same for the files of nets.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

from runtime.errors import ConvoyError, LaunchError


def reason_of(number: int) -> str:
    """Return the system's text for an error number. If the file is not the cause, the text includes
    the remedy."""
    if number == errno.EMFILE:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"{os.strerror(number)}: this process has reached its limit of {most}; raise "
            "it with `ulimit -n`"
        )
    if number == errno.ENFILE:
        return (
            f"{os.strerror(number)}: this machine has reached its limit; end something, "
            "or raise fs.file-max"
        )
    return os.strerror(number)


def reason(error: OSError) -> str:
    """Return the reason of an error: the error's own words, or the words for its number."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return reason_of(error.errno)
    return error.strerror or str(error)


def in_words(error: ConvoyError | OSError, directory: Path) -> ConvoyError:
    """Return an error that keeps a run from starting, or its last files from being written, as a
    ConvoyError."""
    if isinstance(error, ConvoyError):
        return error
    return LaunchError(f"{error.filename or directory}: {reason(error)}")


def no_run_directory(below: Path, error: OSError) -> LaunchError:
    """Return the error of a run whose directory cannot be made in the folder `below`. If a file is
    in the place of a folder, the error names the file."""
    text = f"run.directory {below}: no run directory can be made there: "
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        for place in (below, *below.parents):
            if os.path.lexists(place) and not place.is_dir():
                what = f"found {place}, which is not a folder"
                return LaunchError(f"{text}{what}: rename it, or choose another folder")
    return LaunchError(f"{text}{reason(error)}{f' ({error.filename})' if error.filename else ''}")
