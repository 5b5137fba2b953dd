"""What cluster.toml may say about the runtime: every section, key, default and limit, and the rules between sections.

Top-level keys that are not here belong to the program.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from runtime.addresses import is_loopback
from runtime.config.problems import Expected
from runtime.config.source import Problem, RawConfig, show_text
from runtime.suggest import hint

LEAST_MESSAGE = 64 * 1024  # what a message without arrays may need
NOT_OVER_IPC = "is another host, which links.transport = 'ipc' does not reach: leave that out"
LOCAL = "local"  # the launcher that starts processes on this machine only

_UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]{0,2})B")


def parse_bytes(value: Any) -> Any:
    """ "64MiB", "1.5 GB", "100B" as an integer of bytes; anything that is no string passes as it is.
    ValueError.
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None or match[2] not in _UNITS:
        raise ValueError("not a size")
    return int(float(match[1]) * _UNITS[match[2]])


Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    Field(ge=1, lt=2**63),
    Expected("a size in bytes >= 1, such as 1048576 or '64MiB'"),
]
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
    Expected("a name of up to 64 letters, digits, '.', '_', '-' that begins with a letter or digit"),
]
Text = Annotated[str, Field(min_length=1), Expected("a non-empty string")]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Section(BaseModel):
    """Base of every section, for programs too: no unknown keys, no silent conversion, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Run(Section):
    """[run]: where the run directory is made. A relative `directory` is meant from the working directory of `up`.
    With `record_service_times` it holds how long each kind of array work took (`service_times`)."""

    directory: Text = "runs"
    name: Name | None = None
    record_service_times: bool = False


class Machine(Section):
    """[[machine]]: a place for processes. Missing `cores` means: as many as the machine has.

    `threads` are BLAS threads of each process; "auto" shares the cores among the machine's processes. `port`
    is the first of the machine's TCP ports; without it free ports are taken. `namespace`: its processes live in this
    network namespace of this machine, where `address` is, as if it were another one. `host` is what a launcher connects
    to (default: the name), `python` what it starts there (default: python3), in `directory` and with `environment`
    beside what is set there. `pin`: names or patterns of actors; each process with one of them has `threads` cores to
    itself and stays on them. `price_per_hour` is what `plan` multiplies with the time that it predicts.
    """

    name: Name = "local"
    address: str = "127.0.0.1"
    cores: Count | None = None
    threads: Count | Literal["auto"] = "auto"
    port: Port | None = None
    namespace: Name | None = None
    host: Text | None = None
    python: Text | None = None
    directory: Text | None = None
    environment: dict[str, str] = Field(default={})
    pin: tuple[Text, ...] = Field(default=(), strict=False)
    price_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Launcher(Section):
    """[launcher]: what starts the processes: "local", "ssh", "manual", or what an installed package brings.

    Machines elsewhere reach `up` at `address` (default: its own on the way to each of them), at `port` and the two that
    follow (default: free ones). They have `start_seconds` to do so (default: the kind's own).
    """

    kind: Text = LOCAL
    address: Text | None = None
    port: Port | None = None
    start_seconds: Seconds | None = None


class Placement(Section):
    """[placement]: how actors that no [[process]] names share processes."""

    processes: Literal["one-per-actor", "one"] = "one-per-actor"


class Process(Section):
    """[[process]]: actors that live in one process. `actors` are names or patterns ("conv-*") as in file names."""

    name: Name
    machine: str = "local"
    actors: tuple[Text, ...] = Field(min_length=1, strict=False)


class Links(Section):
    """[links]: the roads between processes. "auto": Unix sockets within a host and TCP between hosts, where the run has
    several. `encryption` is that of links that leave a host. `credit_bytes` may be on the way per link before the
    writer must wait; with `shared_memory` processes of one host read one another's large arrays in place."""

    transport: Literal["auto", "ipc", "tcp"] = "auto"
    encryption: Literal["curve", "none"] = "curve"
    shared_memory: bool = True
    credit_bytes: Bytes = 64 * 2**20
    max_message_bytes: Annotated[
        int,
        BeforeValidator(parse_bytes),
        Field(ge=LEAST_MESSAGE, lt=2**63),
        Expected(f"a size of at least {LEAST_MESSAGE} bytes, such as '64MiB'"),
    ] = 2**30


class Liveness(Section):
    """[liveness]: when a process counts as dead (`missed` heartbeats), stuck (no progress), or failed to start or to
    prepare (build its nets and compile their kernels); when a whole run stands still."""

    heartbeat_seconds: Seconds = 0.25
    missed: Count = 9
    link_seconds: Seconds = 6.0
    progress_seconds: Seconds = 10.0
    start_seconds: Seconds = 30.0
    prepare_seconds: Seconds = 300.0
    standstill_seconds: Seconds = 30.0


class Metrics(Section):
    """[metrics]: where the metrics are served. Port 0 takes any free one. `readers`: users of this machine that may
    read them besides one's own and root; "*" is everybody who can connect."""

    address: Text = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    readers: tuple[Text, ...] = Field(default=(), strict=False)


class SimulatedLink(Section):
    """What is different on some links of a simulated network."""

    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] | None = None
    bytes_per_second: Bytes | None = None


class Simulation(Section):
    """[simulation]: `clock` "virtual" runs everything on one event loop whose clock jumps, as a model of a cluster.

    `bytes_per_second` is the rate of every network interface in each direction, one per process or per machine, or of
    every link for itself; none: unlimited. `links` are exceptions: "SENDER -> RECEIVER", processes or patterns; the
    first that fits counts. `service_times` is the profile of array work that is really done there.
    `seed` is that of all service times, those of emulated devices on the real clock too.
    """

    clock: Literal["real", "virtual"] = "real"
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = 0.0
    bytes_per_second: Bytes | None = None
    interfaces: Literal["process", "machine", "link"] = "process"
    links: dict[str, SimulatedLink] = Field(default={})
    service_times: Text | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1


class ClusterConfig(BaseModel):
    """A whole cluster.toml. Equal if it says the same, wherever it was read from."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    program: Text = "roles"
    run: Run = Run()
    machine: tuple[Machine, ...] = Field(default=(Machine(),), min_length=1, strict=False)
    launcher: Launcher = Launcher()
    placement: Placement = Placement()
    process: tuple[Process, ...] = Field(default=(), strict=False)
    links: Links = Links()
    liveness: Liveness = Liveness()
    metrics: Metrics = Metrics()
    simulation: Simulation = Simulation()

    _raw: RawConfig = PrivateAttr(default_factory=lambda: RawConfig(Path("cluster.toml")))

    @property
    def raw(self) -> RawConfig:
        """Where each key was written."""
        return self._raw

    @property
    def program_section(self) -> dict[str, Any]:
        """The top-level keys that are not the runtime's, as TOML gave them."""
        return dict(self.model_extra or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterConfig) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # holds tables, and pydantic's hash would promise otherwise


def rules_between_sections(raw: RawConfig) -> Iterator[Problem]:
    """Mistakes that no single section shows. Works on raw data, so that they show beside the mistakes in sections."""
    machines, processes = _tables(raw, "machine"), _tables(raw, "process")
    yield from _duplicates(raw, "machine", machines)
    yield from _duplicates(raw, "process", processes)
    yield from _only_virtual(raw)
    names = [table.get("name", "local") for table in machines] or ["local"]
    for index, table in enumerate(processes):
        wanted = table.get("machine", "local")
        if isinstance(wanted, str) and wanted not in names:
            known = [name for name in names if isinstance(name, str)]
            text = f"no machine is named {show_text(wanted)!r}{hint(wanted, known)}"
            yield raw.problem(("process", index, "machine"), text)
    for index, table in enumerate(machines):
        address = table.get("address", "127.0.0.1")
        if table.get("namespace") is not None:
            yield from _in_namespace(raw, index, address)
        elif _starts_here(raw) and isinstance(address, str) and not is_loopback(address):
            text = f"machine {table.get('name', 'local')!r} has address {address!r}: "
            text += f"launcher '{LOCAL}' starts processes on this machine only (loopback address)"
            yield raw.problem(("machine", index, "address"), show_text(text, 200))
        elif isinstance(address, str) and not is_loopback(address) and _over_ipc(raw):
            yield raw.problem(("machine", index, "address"), NOT_OVER_IPC)


def _starts_here(raw: RawConfig) -> bool:
    launcher = raw.data.get("launcher")
    return not isinstance(launcher, dict) or launcher.get("kind", LOCAL) == LOCAL


def _in_namespace(raw: RawConfig, index: int, address: Any) -> Iterator[Problem]:
    """A machine that is a network namespace needs an address there and a road that leads out of it."""
    if isinstance(address, str) and is_loopback(address):
        text = f"found {address!r}, expected an address of the machine's network namespace: its loopback is its own"
        yield raw.problem(("machine", index, "address"), text)
    if _over_ipc(raw):
        yield raw.problem(("machine", index, "namespace"), NOT_OVER_IPC)


def _over_ipc(raw: RawConfig) -> bool:
    links = raw.data.get("links")
    return isinstance(links, dict) and links.get("transport") == "ipc"


def _only_virtual(raw: RawConfig) -> Iterator[Problem]:
    """Keys that say something, and nothing on the real clock."""
    table = raw.data.get("simulation")
    if not isinstance(table, dict) or table.get("clock", "real") != "real":
        return
    for key in ("latency", "bytes_per_second", "interfaces", "links", "service_times"):
        if table.get(key, Simulation.model_fields[key].default) != Simulation.model_fields[key].default:
            yield raw.problem(("simulation", key), "has a meaning with simulation.clock = 'virtual' only")


def _tables(raw: RawConfig, name: str) -> list[dict[str, Any]]:
    """The [[name]] tables; whatever else stands there is another check's business (its place stays taken)."""
    tables = raw.data.get(name)
    return [table if isinstance(table, dict) else {} for table in tables] if isinstance(tables, list) else []


def _duplicates(raw: RawConfig, kind: str, tables: list[dict[str, Any]]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, table in enumerate(tables):
        name = table.get("name", "local" if kind == "machine" else None)
        if not isinstance(name, str):
            continue
        if name in first:
            where = raw.origin((kind, first[name], "name")).where
            yield raw.problem((kind, index, "name"), f"a {kind} named {name!r} exists already ({where})")
        first.setdefault(name, index)
