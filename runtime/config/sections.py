"""What cluster.toml may say about the runtime: every section, key, default and limit.

Top-level keys that are not here belong to the program.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from runtime.config.engines import Kubernetes, Ray
from runtime.config.machines import LOCAL_NAME, Machine, listened_at
from runtime.config.problems import Expected
from runtime.config.toml_source import RawConfig
from runtime.config.value_types import (
    Bytes,
    Count,
    Name,
    Port,
    Seconds,
    Section,
    Text,
    Word,
    parse_bytes,
)
from runtime.defaults import CREDIT_BYTES, LIVENESS, MESSAGE_BYTES
from runtime.machine.addresses import is_loopback

__all__ = [
    "LOCAL",
    "Bytes",
    "ClusterConfig",
    "Count",
    "Machine",
    "Section",
    "Text",
    "parse_bytes",
]

LEAST_MESSAGE = 64 * 1024  # what a message without arrays may need
LOCAL = "local"  # the launcher that starts processes on this machine only


class Run(Section):
    """[run]: where the run directory is made. A relative `directory` is meant from the working
    directory of `up`. With `record_service_times` it holds how long each kind of array work took
    (`service_times`), with `tensorboard` the numbers of progress reports and tests as TensorBoard
    reads them, with `trace` what the actors did in so many iterations, from the first on
    (`tracing`). Without `observe` there are no pages and no metrics, and beside the journal no
    log.csv, no usage.jsonl and no comparison with the prediction."""

    directory: Text = "runs"
    name: Name | None = None
    record_service_times: bool = False
    trace: Annotated[int, Field(ge=0)] = 0
    tensorboard: bool = False
    observe: bool = True


class Launcher(Section):
    """[launcher]: what starts the processes: "local", "ssh", "slurm", "ray", "kubernetes",
    "manual", or what an installed package brings.

    Machines elsewhere reach `up` at `address` (default: its own on the way to each of them), at
    `port` and the two that follow (default: free ones). They have `start_seconds` to do so
    (default: the kind's own). `nodes`: how many a job of Slurm is asked for, where cluster.toml
    does not name them.
    """

    kind: Text = LOCAL
    address: Word | None = None
    port: Port | None = None
    start_seconds: Seconds | None = None
    nodes: Count = 1
    ray: Ray | None = None
    kubernetes: Kubernetes | None = None


class Placement(Section):
    """[placement]: how actors that no [[process]] names share processes, and the machines, names or
    patterns, that workers are spread over."""

    processes: Literal["one-per-actor", "one"] = "one-per-actor"
    spread: Text = "*"


class Process(Section):
    """[[process]]: actors that live in one process. `actors` are names or patterns ("conv-*") as in
    file names. `machine` may be several, "node[2-8]" or "node*": they share the actors out, a
    process each."""

    name: Name
    machine: str = LOCAL_NAME
    actors: tuple[Text, ...] = Field(min_length=1, strict=False)


class Links(Section):
    """[links]: the roads between processes. "auto": Unix sockets within a host and TCP between
    hosts, where the run has several. `encryption` is that of links that leave a host.
    `credit_bytes` may be on the way per link before the writer must wait; with `shared_memory`
    processes of one host read one another's large arrays in place. Between hosts a message takes
    `latency`, and a host's interface carries `bytes_per_second` each way: what is planned by."""

    transport: Literal["auto", "ipc", "tcp"] = "auto"
    encryption: Literal["curve", "none"] = "curve"
    shared_memory: bool = True
    credit_bytes: Bytes = CREDIT_BYTES
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = 0.0002
    bytes_per_second: Bytes = 1_250_000_000
    max_message_bytes: Annotated[
        int,
        BeforeValidator(parse_bytes),
        Field(ge=LEAST_MESSAGE, lt=2**63),
        Expected(f"a size of at least {LEAST_MESSAGE} bytes, such as '64MiB'"),
    ] = MESSAGE_BYTES


class Liveness(Section):
    """[liveness]: when a process counts as dead (`missed` heartbeats), stuck (no progress), or
    failed to start or to prepare (build its nets and compile their kernels); when a whole run
    stands still."""

    heartbeat_seconds: Seconds = LIVENESS.heartbeat_seconds
    missed: Count = LIVENESS.missed
    link_seconds: Seconds = LIVENESS.link_seconds
    progress_seconds: Seconds = LIVENESS.progress_seconds
    start_seconds: Seconds = LIVENESS.start_seconds
    prepare_seconds: Seconds = LIVENESS.prepare_seconds
    standstill_seconds: Seconds = LIVENESS.standstill_seconds


class Recovery(Section):
    """[recovery]: how often a run that lost a process or a machine begins anew, within
    `window_seconds`; 0: never. After one that does not begin the next waits for `backoff_seconds`,
    and twice as long each time. It waits for all `machines`, or goes on without those that are not
    "reachable"."""

    restarts: Annotated[int, Field(ge=0), Expected("a whole number >= 0")] = 0
    window_seconds: Seconds = 600.0
    backoff_seconds: Seconds = 1.0
    machines: Literal["all", "reachable"] = "all"


class Metrics(Section):
    """[metrics]: where the metrics are served; "machine": each process at the address of its
    machine. Port 0 takes any free one; `port` is that of `up`, process i of a machine takes
    `process_ports` + i. `readers`: users of this machine that may read them besides one's own and
    root; "*" is everybody who can connect. `hosts`: names by which the pages are called besides the
    machines' own; "*" is any. After its end a run waits up to `linger_seconds` for the last look of
    whoever comes regularly."""

    address: Text = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    process_ports: int = Field(default=0, ge=0, le=65535)
    linger_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = (
        30.0
    )
    readers: tuple[Text, ...] = Field(default=(), strict=False)
    hosts: tuple[Text, ...] = Field(default=(), strict=False)


class Operators(Section):
    """[operators]: where `--connect` reaches `up` from elsewhere; without an `address` nowhere.
    Port 0 takes any free one. Links are encrypted, and only who has the key of the run directory
    comes in."""

    address: Annotated[Text, AfterValidator(listened_at)] | None = None
    port: int = Field(default=0, ge=0, le=65535)


class SimulatedLink(Section):
    """What is different on some links of a simulated network."""

    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] | None = (
        None
    )
    bytes_per_second: Bytes | None = None


class Simulation(Section):
    """[simulation]: `clock` "virtual" runs everything on one event loop whose clock jumps, as a
    model of a cluster.

    `bytes_per_second` is the rate of every network interface in each direction, one per process or
    per machine, or of every link for itself; none: unlimited. `links` are exceptions: "SENDER ->
    RECEIVER", processes or patterns; the first that fits counts. `service_times` is the profile of
    array work that is really done there. `seed` is that of all service times, those of emulated
    devices on the real clock too.
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
    recovery: Recovery = Recovery()
    metrics: Metrics = Metrics()
    operators: Operators = Operators()
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

    def is_here(self, machine: Machine) -> bool:
        """Is it this machine, or does it count as it: one that is emulated, or a namespace?"""
        emulated = self.simulation.clock == "virtual" or self.launcher.kind == LOCAL
        return emulated or (machine.host is None and is_loopback(machine.address))

    @property
    def heals(self) -> bool:
        """Does a run that begins anew go on from what its living processes hold, if they hold all?
        Their memory can be read on this machine only."""
        real = self.recovery.restarts > 0 and self.simulation.clock == "real"
        return real and all(self.is_here(machine) for machine in self.machine)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterConfig) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # holds tables, and pydantic's hash would promise otherwise
