"""Functions that the commands share: the job of a cluster.toml, files of weights, errors and output
as the command line has them."""

from __future__ import annotations

import dataclasses
import fnmatch
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nets import NetError, is_file, is_folder, load_net
from nets.data import FORMATS, Source, open_source
from nets.predict.net_data import data_of_net
from ops import OpsError
from roles.base.role import EMULATED
from roles.checkpoints.meant import files_meant, has_model
from roles.learning.job import Job
from roles.options import Options
from roles.planning.planner import job_of
from runtime.cli.arguments import runs_here
from runtime.config.file import load_with_program
from runtime.errors import ConfigError, ConvoyError
from runtime.reasons import reason
from runtime.records.runs import run_directory
from runtime.terminal_text import printable

# endings of files of weights
WEIGHTS = (".caffemodel", ".h5", ".hdf5", ".safetensors", ".pth", ".pt")
OF_NET = "format=net"  # --data: the data that the net's own layers name


def job_of_file(file: Path, settings: tuple[str, ...]) -> Job:
    """The job of a cluster.toml, on the device of a run with one worker. Raises ConfigError."""
    return job_and_options(file, settings)[0]


def job_and_options(file: Path, settings: tuple[str, ...]) -> tuple[Job, Options]:
    """The job as from `job_of_file`, and the sections that it was made from."""
    loaded = load_with_program(file, settings)
    if not isinstance(loaded.options, Options):
        raise ConfigError([f"{file}: program '{loaded.config.program}' does not train nets"])
    job = job_of(loaded.config, loaded.options)
    return dataclasses.replace(job, device=device_of(loaded.options.train.devices)), loaded.options


def device_of(devices: Mapping[str, str]) -> str:
    """The device that [train.devices] has for `single`, the actor of a run with one worker. If no
    pattern fits, the first device there."""
    fitting = (
        device for pattern, device in devices.items() if fnmatch.fnmatchcase("single", pattern)
    )
    device = next(fitting, next(iter(devices.values()), "cpu"))
    return EMULATED if device.partition(":")[0] == EMULATED else device


@contextmanager
def told() -> Iterator[None]:
    """Report mistakes of nets and files as mistakes of the command's input."""
    try:
        with np.errstate(over="ignore"):
            yield
    except NetError as error:
        raise ConfigError(error.problems) from None
    except BrokenPipeError:  # not a mistake of the input
        raise
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise ConfigError([f"{place}{reason(error)}"]) from None
    except OpsError as error:
        raise ConfigError([str(error)]) from None


def weights_meant(named: str, file: Path = Path("cluster.toml")) -> tuple[Path, ...]:
    """The files that together hold the weights of the net that the user named.

    The user names a file, several files of one net with commas, or a run, for which the checkpoint
    to use is chosen. A run is named by its directory, or by its name in the `run.directory` of this
    cluster.toml. The checkpoint that is used is reported on stderr. Raises NetError or ConfigError
    if a file is not found.
    """

    def absent(name: str) -> Path:
        if Path(name).suffix in WEIGHTS:
            return Path(name)
        raise NetError(
            f"{name}: found no such file, and no run of this name in {runs_here(file)}; expected "
            "a file of weights, a run directory, or the name of a run"
        )

    found = files_meant(named, lambda name: weights_at(name, file), absent)
    for line in found.told:
        told_beside("weights", line)
    return found.files


def weights_at(name: str, file: Path) -> Path | None:
    """The file or the folder with a model that the user calls `name`, or else the directory of the
    run with this name, or else a folder without a model. None if there is none of these."""
    path = Path(name)
    if is_file(path) or (is_folder(path) and has_model(path)):
        return path
    if path.suffix in WEIGHTS:
        return path if is_folder(path) else None
    return run_directory(path, runs_here(file))


def told_beside(key: str, line: str) -> None:
    """Write a line to stderr, since stdout has only results."""
    sys.stderr.write(f"{printable(f'{key:<10} {line}')}\n")


def say(line: str) -> None:
    """Print a line. Raises ConvoyError if stdout cannot be written, and BrokenPipeError if its
    reader has gone."""
    try:
        sys.stdout.write(f"{printable(line)}\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConvoyError(f"stdout: {reason(error)}") from None


def source_said(text: str, net: str | None = None) -> Source:
    """Open the data source of a text such as "format=idx,images=a,labels=b". The items of a list
    are joined by "+". "format=net" is the data of the tests of `net`. Files that are passed over
    are reported on stderr."""
    if text != OF_NET:
        return reported(open_source(_source_config(text), Path.cwd()))
    if net is None:
        raise ConfigError([f"--data {OF_NET}: found no net, expected one with data layers: --net"])
    return reported(data_of_net(load_net(net), Path.cwd()))


def named_samples(source: Source, batch: int) -> Iterator[tuple[list[str], NDArray[np.generic]]]:
    """Yield the samples of a source in batches: their names and their first array. A sample's name
    is its file, or else its number behind the name of the source."""
    for low in range(0, len(source), batch):
        numbers = np.arange(low, min(low + batch, len(source)))
        names = [source.sample_file(int(number)) or f"{source.name} {number}" for number in numbers]
        yield names, source.read(numbers)[0]


def reported(source: Source) -> Source:
    """Report on stderr the files and folders that a source passed over. Returns the source."""
    for line in source.told:
        told_beside("data", line)
    return source


def _source_config(text: str) -> dict[str, object]:
    """The configuration of a data source in the words of a text."""
    pairs = [item.partition("=") for item in text.split(",")]
    found: dict[str, object] = {key: value for key, _, value in pairs}
    kinds = FORMATS[str(found["format"])].options if found.get("format") in FORMATS else {}
    for key, kind in kinds.items():
        if key in found and kind is not str:
            words = str(found[key]).split("+")
            parts = [int(word) if kind is not tuple and word.isdigit() else word for word in words]
            found[key] = parts[0] if kind is int else parts  # open_source rejects other words
    return found
