"""[[machine]]: its keys, and the machines that each entry stands for: one machine, or one for each
host that the entry lists."""

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
from runtime.config.value_types import (
    NAME,
    NAMED,
    PLAIN,
    Count,
    Name,
    Port,
    Section,
    Text,
    Word,
)
from runtime.machine.addresses import AUTO, NOT_IPV6, is_ipv6, mistake
from runtime.reasons import reason
from runtime.regular import decoded, read_bytes
from runtime.terminal_text import is_plain

LOCAL_NAME = "local"  # the name of a machine that gives none
LOOPBACK = "127.0.0.1"
MOST_BYTES = 1 << 24  # of a hostfile


def listened_at(value: str) -> str:
    """Return `value` if it is an address that a machine may listen at (see `machine.addresses`).
    Raises ValueError."""
    if wrong := mistake(value):
        raise ValueError(wrong)
    return value


def served_at(value: str) -> str:
    """Return `value` if it can be an address at which others reach this machine. Raises
    ValueError."""
    if not value or not is_plain(value):
        raise ValueError(f"expected {PLAIN}")
    if is_ipv6(value):
        raise ValueError(f"{NOT_IPV6}: expected an IPv4 address or a host name")
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
                f"found the name {show_text(repr(name))}, expected the name of a variable"
            )
        if "\0" in value[name]:
            raise ValueError(f"{name}: found a NUL character, which no variable can have")
    return value


Elsewhere = Annotated[str, AfterValidator(_absolute)]  # a path on another machine


class Machine(Section):
    """[[machine]]: a machine that runs processes, or several machines, one for each of its
    `hosts`."""

    name: Name = LOCAL_NAME
    """The name of the machine in `[[process]]` and reports. Machines of `hosts` are named after
    their hosts."""
    host: Word | None = None
    """Default: the name. The host that a launcher connects to, such as `"me@node7"`."""
    hosts: Annotated[
        tuple[Word, ...],
        BeforeValidator(_lists),
        Expected("hosts such as 'node[1-8]', '$SLURM_NODELIST', or an array of them"),
    ] = Field(default=(), strict=False)
    """`"node[1-8]"`, an array, or `"$SLURM_NODELIST"`: each host becomes a separate machine, with
    all other keys of the entry."""
    hostfile: Word | None = None
    """A file with one host on each line; each host becomes a separate machine."""
    address: Annotated[str, AfterValidator(listened_at)] = LOOPBACK
    """The address at which its processes listen: a loopback address if the launcher is `"local"`,
    or else a network, an interface or `"auto"` (docs/cluster.md)."""
    cores: Count | None = None
    """Default: all. The cores that `threads = "auto"` shares among the machine's processes
    (docs/cluster.md#threads-and-cores). Workers are spread in proportion to `cores` if all of their
    machines give it."""
    threads: Count | Literal["auto"] = "auto"
    """BLAS threads of each process."""
    port: Port | None = None
    """Default: free ports. The first TCP port; each process that listens on TCP takes two."""
    namespace: Name | None = None
    """A network namespace on the host of `up` that stands for this machine (docs/simulation.md)."""
    pin: tuple[Text, ...] = Field(default=(), strict=False)
    """Names or patterns of actors; each process with one of them has `threads` cores to itself
    (Linux)."""
    devices: tuple[Text, ...] = Field(default=(), strict=False)
    """The devices that the machine's workers compute on, assigned in the order of ranks:
    `["cuda:0", "cuda:1"]` (docs/cluster.md)."""
    python: Word | None = None
    """Default: the launcher's. The Python that starts the agent on the machine."""
    directory: Elsewhere | None = None
    """Default: the launcher's. The folder on the machine that stands for the folder of
    cluster.toml."""
    data: Elsewhere | None = None
    """Default: `directory`. The folder on the machine that relative sources of data start from."""
    environment: Annotated[dict[str, str], AfterValidator(_variables)] = Field(default={})
    """Environment variables of its processes."""
    kind: Text | None = None
    """A kind of machine in the catalogue, such as `"c4.4xlarge"`: `plan` takes its speed, network
    and price from there. Groups and shares of batches follow the speeds (docs/cluster.md)."""
    price_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The price that `plan` multiplies with the predicted time, in any currency
    (docs/tuning.md)."""

    _entry: int = PrivateAttr(default=0)

    @property
    def entry(self) -> int:
        """The index of the [[machine]] entry that this machine comes from."""
        return self._entry

    @property
    def lists_hosts(self) -> bool:
        """Whether the entry stands for one machine for each host of a list or file."""
        return bool(self.model_fields_set & {"hosts", "hostfile"})

    @property
    def listens_at(self) -> str:
        """The address of the machines that the entry stands for. It is "auto" if they have hosts
        and no address is given."""
        if "address" not in self.model_fields_set and (
            self.lists_hosts or "host" in self.model_fields_set
        ):
            return AUTO
        return self.address

    def called(self, host: Host, entry: int) -> "Machine":
        """Return the machine for one host of the entry. If the entry lists no hosts, `host.name` is
        "", and the entry itself is the machine."""
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
    """Return the host without the user name for the login."""
    return host.rpartition("@")[2]


@dataclass(frozen=True)
class Entries:
    """The hosts and names of the [[machine]] tables, and the mistakes in them.

    `hosts` has the hosts of each entry: one without a name if the entry lists no hosts, and none if
    the hosts cannot be determined.
    """

    hosts: tuple[tuple[Host, ...], ...]
    names: tuple[str, ...]
    problems: tuple[Problem, ...]
    all_known: bool  # the machines of all entries could be determined

    def machines(self, entries: tuple[Machine, ...]) -> tuple[Machine, ...]:
        """Return all machines, in the order of the file."""
        if len(entries) != len(self.hosts):  # the file has no [[machine]]: the default entry
            return entries
        return tuple(
            entry.called(host, index)
            for index, (entry, hosts) in enumerate(zip(entries, self.hosts, strict=True))
            for host in hosts
        )


def entries_of(
    raw: RawConfig, written: Sequence[Machine], environ: Mapping[str, str] | None = None
) -> Entries:
    """Return the machines that each [[machine]] in `written` stands for.

    `environ` is the environment in which "$NAME" is looked up, by default that of this process.
    `raw` knows the line of each key.
    """
    problems: list[Problem] = []
    hosts: list[tuple[Host, ...]] = []
    first: dict[str, str] = {}  # name -> the place where it is given first
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
    """Return the key that lists the hosts of an entry: "hosts" or "hostfile"."""
    return "hosts" if "hosts" in machine.model_fields_set else "hostfile"


def _hosts(
    raw: RawConfig,
    index: int,
    machine: Machine,
    environ: Mapping[str, str],
    problems: list[Problem],
) -> Iterator[Host]:
    """Yield the hosts of one entry. Nothing is yielded after a mistake."""
    if not machine.lists_hosts:
        yield Host("")
        return
    key = _listing(machine)
    said = machine.model_fields_set
    for other in ("name", "host", "hostfile"):
        if other in said and other != key:
            text = f"cannot be given with {key}, whose machines are named after their hosts"
            problems.append(raw.problem(("machine", index, other), text))
    try:
        if key == "hosts":
            yield from _listed(machine.hosts, environ)
        elif machine.hostfile is not None:
            yield from _in_file(raw.base / _variable(machine.hostfile, environ))
    except ValueError as error:
        problems.append(raw.problem(("machine", index, key), str(error)))


def _listed(texts: tuple[str, ...] | None, environ: Mapping[str, str]) -> list[Host]:
    """Return the hosts of `hosts`. The result is empty if the key has a mistake, which the section
    reports."""
    if texts is None:
        return []
    if not texts:
        raise ValueError(f"found {found([])} without a host, expected at least one")
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
    """Return the text, or the variable of the environment if the text is "$NAME". Raises ValueError
    if the variable is not set."""
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
        hosts = of_file(decoded(read_bytes(path, MOST_BYTES)))
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
    """Return the [[name]] tables. An entry that is not a table is returned as an empty one, so that
    the others keep their indexes. Another check reports it."""
    found = raw.data.get(name)
    return (
        [table if isinstance(table, dict) else {} for table in found]
        if isinstance(found, list)
        else []
    )
