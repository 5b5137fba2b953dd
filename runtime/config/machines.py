"""[[machine]]: what it may say, and which machines each entry stands for: one, or one for each host
that it lists."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from runtime.config.hostfile import Host, expanded, of_file
from runtime.config.problems import Expected, found
from runtime.config.toml_source import Problem, RawConfig, show_text
from runtime.config.value_types import NAME, NAMED, Count, Name, Port, Section, Text, Word
from runtime.machine.addresses import AUTO, mistake
from runtime.reasons import reason
from runtime.regular import read_bytes
from runtime.terminal_text import is_plain

LOCAL_NAME = "local"  # of a machine that says nothing
LOOPBACK = "127.0.0.1"
MOST_BYTES = 1 << 24  # of a file of hosts


def listened_at(value: str) -> str:
    """An address that a machine may listen at, see `machine.addresses`. ValueError."""
    if wrong := mistake(value):
        raise ValueError(wrong)
    return value


def _lists(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _absolute(value: str) -> str:
    if not value.startswith(("/", "~/")) and value != "~":
        raise ValueError("expected an absolute path, or one that begins with '~/'")
    if not is_plain(value):
        raise ValueError("expected a path without control characters")
    return value


def _variables(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(
                f"found the name {show_text(repr(name))}, expected one that a variable can have"
            )
        if "\0" in value[name]:
            raise ValueError(f"{name}: found a byte 0, which no variable can have")
    return value


Elsewhere = Annotated[str, AfterValidator(_absolute)]  # a path on another machine


class Machine(Section):
    """[[machine]]: a place for processes, or several, one for each of its `hosts`."""

    name: Name = LOCAL_NAME
    """What `[[process]]` and reports call it; machines of `hosts` are called by their hosts."""
    host: Word | None = None
    """Default: the name. What a launcher connects to, such as `"me@node7"`."""
    hosts: Annotated[
        tuple[Word, ...],
        BeforeValidator(_lists),
        Expected("hosts such as 'node[1-8]', '$SLURM_NODELIST', or an array of them"),
    ] = Field(default=(), strict=False)
    """`"node[1-8]"`, an array, `"$SLURM_NODELIST"`: each host is a machine of its own, with all
    other keys of the entry."""
    hostfile: Word | None = None
    """A file with one host a line; likewise."""
    address: Annotated[str, AfterValidator(listened_at)] = LOOPBACK
    """Where its processes listen: a loopback address where the launcher is `"local"`; a network, an
    interface or `"auto"` elsewhere (docs/cluster.md)."""
    cores: Count | None = None
    """Default: all. What `threads = "auto"` shares among the machine's processes, and workers are
    spread by."""
    threads: Count | Literal["auto"] = "auto"
    """BLAS threads of each process."""
    port: Port | None = None
    """Default: free ports. The first TCP port; each process that listens on TCP takes two."""
    namespace: Name | None = None
    """A network namespace of this machine that stands for the machine (docs/simulation.md)."""
    pin: tuple[Text, ...] = Field(default=(), strict=False)
    """Names or patterns of actors; each process with one of them has `threads` cores to itself
    (Linux)."""
    devices: tuple[Text, ...] = Field(default=(), strict=False)
    """What the machine's workers compute on, each the next by rank: `["cuda:0", "cuda:1"]`
    (docs/cluster.md)."""
    python: Word | None = None
    """Default: the launcher's. The Python that starts the agent there."""
    directory: Elsewhere | None = None
    """Default: the launcher's. The folder there that stands for that of cluster.toml."""
    data: Elsewhere | None = None
    """Default: `directory`. The folder there below which relative sources of data lie."""
    environment: Annotated[dict[str, str], AfterValidator(_variables)] = Field(default={})
    """Variables of its processes."""
    price_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """What `plan` multiplies with the time that it predicts, in any currency (docs/tuning.md)."""

    _entry: int = PrivateAttr(default=0)

    @property
    def entry(self) -> int:
        """Which [[machine]] of the file it comes from."""
        return self._entry

    @property
    def lists_hosts(self) -> bool:
        """Does the entry stand for a machine for each host of a list or a file?"""
        return bool(self.model_fields_set & {"hosts", "hostfile"})

    @property
    def listens_at(self) -> str:
        """The address of the machines that the entry stands for: "auto" where they have hosts and
        nothing is said."""
        if "address" not in self.model_fields_set and (
            self.lists_hosts or "host" in self.model_fields_set
        ):
            return AUTO
        return self.address

    def called(self, host: Host, entry: int) -> "Machine":
        """The machine that one of the hosts is; the entry itself where it lists none (`host.name`
        is then "")."""
        update: dict[str, Any] = {}
        if host.name:
            update = {
                "name": machine_name(host.name),
                "host": host.name,
                "hosts": (),
                "hostfile": None,
            }
            update |= {"cores": host.slots} if host.slots and self.cores is None else {}
        if (host.name or self.host) and "address" not in self.model_fields_set:
            update["address"] = AUTO
        made = self.model_copy(update=update)
        made._entry = entry
        return made


def machine_name(host: str) -> str:
    """Without the user that a launcher logs in as."""
    return host.rpartition("@")[2]


@dataclass(frozen=True)
class Entries:
    """The [[machine]] tables, as far as hosts and names go: `hosts` of each entry (one without a
    name if it lists none, none if that cannot be known), and what is wrong."""

    hosts: tuple[tuple[Host, ...], ...]
    names: tuple[str, ...]
    problems: tuple[Problem, ...]
    all_known: bool  # do all entries say which machines they are?

    def machines(self, entries: tuple[Machine, ...]) -> tuple[Machine, ...]:
        """All machines, in the order of the file."""
        if len(entries) != len(self.hosts):  # none was written: the default
            return entries
        return tuple(
            entry.called(host, index)
            for index, (entry, hosts) in enumerate(zip(entries, self.hosts, strict=True))
            for host in hosts
        )


def entries_of(
    raw: RawConfig, written: Sequence[Machine], environ: Mapping[str, str] | None = None
) -> Entries:
    """Which machines each [[machine]] that is `written` stands for. `environ`: the environment that
    "$NAME" looks in, by default this process's. `raw` knows the line of each key."""
    problems: list[Problem] = []
    hosts: list[tuple[Host, ...]] = []
    first: dict[str, str] = {}  # name -> where it is said
    for index, machine in enumerate(written):
        mine = tuple(
            _hosts(raw, index, machine, os.environ if environ is None else environ, problems)
        )
        hosts.append(mine)
        key = "name" if not machine.lists_hosts else _listing(machine)
        keys = ("machine", index, key)
        for host in mine:
            name = machine_name(host.name) or machine.name
            if host.name and not re.fullmatch(NAME, name):
                text = f"found the host '{show_text(name)}', expected {NAMED}"
                problems.append(raw.problem(keys, text))
            elif name in first:
                text = f"a machine named {name!r} exists already ({first[name]})"
                problems.append(raw.problem(keys, text))
            elif name is not None:
                first[name] = raw.origin(keys).where
    named = all(machine.name is not None for machine in written)
    return Entries(
        tuple(hosts), tuple(first) or (LOCAL_NAME,), tuple(problems), named and all(hosts)
    )


def _listing(machine: Machine) -> str:
    """The key that says the hosts of an entry that lists some."""
    return "hosts" if "hosts" in machine.model_fields_set else "hostfile"


def _hosts(
    raw: RawConfig,
    index: int,
    machine: Machine,
    environ: Mapping[str, str],
    problems: list[Problem],
) -> Iterator[Host]:
    """Those of one entry; nothing after a problem."""
    if not machine.lists_hosts:
        yield Host("")
        return
    key = _listing(machine)
    said = machine.model_fields_set
    for other in ("name", "host", "hostfile"):
        if other in said and other != key:
            text = f"says nothing beside {key}, whose machines are called by their hosts"
            problems.append(raw.problem(("machine", index, other), text))
    try:
        if key == "hosts":
            yield from _listed(machine.hosts, environ)
        elif machine.hostfile is not None:
            yield from _in_file(raw.path.parent / _variable(machine.hostfile, environ))
    except ValueError as error:
        problems.append(raw.problem(("machine", index, key), str(error)))


def _listed(texts: tuple[str, ...] | None, environ: Mapping[str, str]) -> list[Host]:
    """Of `hosts`; none where it has a mistake, which the section reports."""
    if texts is None:
        return []
    if not texts:
        raise ValueError(f"found {found([])} without a host, expected one at least")
    names = [name for text in texts for name in expanded(_variable(text, environ))]
    twice = (
        next((name for name in names if names.count(name) > 1), None)
        if len({*names}) < len(names)
        else None
    )
    if twice is not None:
        raise ValueError(f"found '{twice}' twice, expected each host once")
    return [Host(name) for name in names]


def _variable(text: str, environ: Mapping[str, str]) -> str:
    """ "$NAME" as the environment has it."""
    if not text.startswith("$"):
        return text
    name = text[1:].strip("{}")
    if not environ.get(name):
        raise ValueError(
            f"found '{text}', but the environment has no {name}: start this inside the allocation"
        )
    return environ[name]


def _in_file(path: Path) -> list[Host]:
    try:
        hosts = of_file(read_bytes(path, MOST_BYTES).decode())
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {reason(error)}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text, expected one host a line") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not hosts:
        raise ValueError(f"{path}: found no host, expected one a line")
    return hosts


def tables(raw: RawConfig, name: str) -> list[dict[str, Any]]:
    """The [[name]] tables; whatever else stands there is another check's business (its place stays
    taken)."""
    found = raw.data.get(name)
    return (
        [table if isinstance(table, dict) else {} for table in found]
        if isinstance(found, list)
        else []
    )
