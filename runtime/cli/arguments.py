"""Arguments that several commands take."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from runtime.errors import ConfigError
from runtime.regular import is_there

if TYPE_CHECKING:
    from runtime.attached.observed_run import ObservedRun
    from runtime.cluster.operators.operator_key import OperatorKey

KEY = Path("operator.key")
Switch = Annotated[bool, Parameter(negative=())]  # off unless it is given

Settings = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        help="Override a value: --set train.strategy.groups=4; or unset it: --set train.momentum=",
        negative=(),
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Connection:
    """The address of a run that is not on this machine.

    Parameters
    ----------
    connect
        A run on another machine: a copy of operator.key of its run directory, or the HOST:PORT of a
        tunnel to it.
    key
        With HOST:PORT: the copy of operator.key.
    """

    connect: str | None = None
    key: Path = KEY


HERE = Connection()


def seen(
    run: Path | str | None, connection: Connection = HERE
) -> AbstractAsyncContextManager[ObservedRun]:
    """The run that the arguments name, as a context manager. Raises ConfigError if the arguments
    are wrong, and ConvoyError if the run cannot be found or reached."""
    from runtime.attached.observed_run import run_here, run_there

    if connection.connect is None:
        return run_here(None if run is None else Path(run), runs_here())
    if run is not None:
        raise ConfigError(
            [
                (
                    f"{run}: found a run in addition to --connect, which names a run itself: "
                    "give only one of them"
                )
            ]
        )
    return run_there(_card(connection.connect, connection.key))


def _card(said: str, key: Path) -> OperatorKey:
    from runtime.cluster.operators.operator_key import OperatorKey, is_address
    from runtime.errors import ConfigError
    from runtime.machine.addresses import NOT_IPV6, is_ipv6

    if is_there(Path(said)) or not is_address(said):
        host = said.rpartition(":")[0]
        if not is_there(Path(said)) and (is_ipv6(said) or is_ipv6(host)):
            raise ConfigError([f"--connect {said}: {NOT_IPV6}: expected IPv4 or a host name"])
        return OperatorKey.read(Path(said))
    return OperatorKey.read(key).at(said)


def runs_here(file: Path = Path("cluster.toml")) -> Path:
    """The folder of run directories: `run.directory` of the cluster.toml, or "runs" without such a
    file. Raises ConfigError if the file cannot be read."""
    from runtime.config.toml_source import read

    said = read(file).data.get("run", {}) if is_there(file) else {}
    named = said.get("directory") if isinstance(said, dict) else None
    return Path(named if isinstance(named, str) else "runs")
