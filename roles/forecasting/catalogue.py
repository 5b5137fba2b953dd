"""Kinds of machines: their speed, network and price. `machines.toml` has the known kinds, and
`placement.kinds` names another file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from runtime.config.problems import Expected, validated
from runtime.config.sections import Bytes, ClusterConfig, Section
from runtime.config.toml_source import in_order, read
from runtime.errors import ConfigError
from runtime.regular import is_file
from runtime.suggest import hint

OURS = Path(__file__).with_name("machines.toml")


class Kind(Section):
    """A kind of machine: a table of `machines.toml`, which explains each key."""

    flops: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    share: Annotated[float, Field(gt=0, le=1), Expected("a number > 0 and <= 1")]
    bytes_per_second: Bytes | None = None
    devices: Annotated[int, Field(gt=0, le=1000)] = 1
    device_bytes_per_second: Bytes | None = None
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] | None = (
        None
    )
    price_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    cpu_flops: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    cpu_share: Annotated[float, Field(gt=0, le=1), Expected("a number > 0 and <= 1")] | None = None

    @property
    def cpu_achieved(self) -> float | None:
        """The FLOP/s that whole layers reach on the processors next to the devices. None: not
        known."""
        return None if self.cpu_flops is None else self.cpu_flops * (self.cpu_share or self.share)

    @property
    def achieved(self) -> float:
        """The FLOP/s that whole layers reach on one device."""
        return self.flops * self.share

    def of_each(self, processes: int) -> float:
        """The FLOP/s of each of so many processes with work, which share the devices."""
        return self.achieved * min(1.0, self.devices / processes)


class Catalogue(Section):
    """The table [machine.NAME] of each kind."""

    machine: Annotated[dict[str, Kind], Field(min_length=1)]


def kinds(file: Path | None = None) -> dict[str, Kind]:
    """The kinds in a file, by default `machines.toml`. Raises ConfigError with every mistake in it,
    by line."""
    raw = read(file or OURS)
    found, problems = validated(Catalogue, raw.data, raw)
    if found is None or problems:
        raise ConfigError(in_order(problems))
    return found.machine


def kind_called(name: str, file: Path | None = None) -> Kind:
    """The kind of this name. Raises ConfigError as `kinds` does, or if there is no such kind."""
    known = kinds(file)
    if name not in known:
        raise ConfigError([f"--machine {name}: no such kind{_where(name, known, file)}"])
    return known[name]


def kinds_of(config: ClusterConfig) -> dict[str, Kind]:
    """Machine -> its kind, as cluster.toml gives it. Empty if no machine has one. Raises
    ConfigError with every unknown kind, and if only some machines have one."""
    machines = config.machine
    if not any(machine.kind for machine in machines):
        return {}
    file = file_of(config)
    try:
        known = kinds(file)
    except ConfigError as error:
        if file is None or is_file(file):
            raise  # mistakes in the file have its lines
        key = ("placement", "kinds")
        raise ConfigError([config.raw.problem(key, text).text for text in error.problems]) from None
    wrong: dict[str, None] = {}
    for machine in machines:
        if machine.kind is None:
            text = f"missing for machine '{machine.name}', but other machines have one"
        elif machine.kind not in known:
            text = f"found '{machine.kind}', no such kind{_where(machine.kind, known, file)}"
        else:
            continue
        wrong[config.raw.problem(("machine", machine.entry, "kind"), text).text] = None
    if wrong:
        raise ConfigError(list(wrong))
    return {machine.name: known[machine.kind] for machine in machines if machine.kind}


def file_of(config: ClusterConfig) -> Path | None:
    """The user's catalogue, if `placement.kinds` names one."""
    said = config.placement.kinds
    return None if said is None else config.raw.base / said


def _where(name: str, known: Mapping[str, Kind], file: Path | None) -> str:
    return f" in {file or 'the catalogue'}{hint(name, known)}"
