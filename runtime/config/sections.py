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
    """[run]: the run directory and what stands in it."""

    directory: Text = "runs"
    """The folder of run directories, from the working directory of `up`."""
    name: Name | None = None
    """Default: the program's name. The end of the run directory's name."""
    record_service_times: bool = False
    """Write down how long array work took, as a profile for emulated devices:
    docs/simulation.md."""
    trace: Annotated[int, Field(ge=0)] = 0
    """So many iterations, from the first on, are traced into trace.json: docs/watch.md."""
    tensorboard: bool = False
    """Write the numbers of progress reports and tests for TensorBoard, too; needs `pip install -e
    '.[tensorboard]'` (docs/report.md)."""
    observe: bool = True
    """With `false` there are no pages, no metrics, no log.csv, no usage.jsonl and no comparison
    with the prediction; the journal, logs and all commands stay (docs/metrics.md)."""


class Launcher(Section):
    """[launcher]: what starts the processes."""

    kind: Text = LOCAL
    """`"local"`, `"ssh"`, `"slurm"`, `"ray"`, `"kubernetes"`, `"manual"` (docs/cluster.md), or the
    name of a launcher that an installed package brings (docs/extending.md)."""
    address: Word | None = None
    """Default: the address of this machine on the way to each of them. Where machines elsewhere
    reach `up`."""
    port: Port | None = None
    """Default: free ones. The first of three ports at which machines elsewhere reach `up`."""
    start_seconds: Seconds | None = None
    """Default: 30; for `"manual"` 600, for `"kubernetes"` 300, for `"ray"` 120. How long a machine
    elsewhere may take to be ready."""
    nodes: Count = 1
    """With `"slurm"`: the nodes of the job that `up --sbatch` asks for, where no `[[machine]]`
    names them."""
    ray: Ray | None = None
    kubernetes: Kubernetes | None = None


class Placement(Section):
    """[placement]: which actors share a process, and on which machines workers live."""

    processes: Literal["one-per-actor", "one"] = "one-per-actor"
    """Or `"one"`: all actors that no `[[process]]` names live in one process."""
    spread: Text = "*"
    """The machines that workers are spread over: names, a list or patterns. The other actors live
    on the first machine."""


class Process(Section):
    """[[process]]: actors that live in one process."""

    name: Name
    """The name of the process."""
    machine: str = LOCAL_NAME
    """Its machine. Of several (`"node[2-8]"`, `"node*"`) each has a process with its share of the
    actors."""
    actors: tuple[Text, ...] = Field(min_length=1, strict=False)
    """Names of actors, or patterns such as `"conv-*"`."""


class Links(Section):
    """[links]: the roads between processes."""

    transport: Literal["auto", "ipc", "tcp"] = "auto"
    """`"auto"`: Unix sockets within a host and TCP between hosts, where the run has several;
    `"ipc"`: Unix sockets only; `"tcp"`: ZeroMQ only."""
    encryption: Literal["curve", "none"] = "curve"
    """Links that leave a host are encrypted with keys of the run; or `"none"`, see
    docs/cluster.md."""
    shared_memory: bool = True
    """Processes of one host read one another's arrays in place (Linux; elsewhere they are sent)."""
    credit_bytes: Bytes = CREDIT_BYTES
    """Bytes under way per link before the sender waits."""
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = 0.0002
    """Seconds of a message between hosts, for predictions and the choice of how sums travel
    (docs/cluster.md)."""
    bytes_per_second: Bytes = 1_250_000_000
    """Bytes per second of a host's interface, each way, for the same."""
    max_message_bytes: Annotated[
        int,
        BeforeValidator(parse_bytes),
        Field(ge=LEAST_MESSAGE, lt=2**63),
        Expected(f"a size of at least {LEAST_MESSAGE} bytes, such as '64MiB'"),
    ] = MESSAGE_BYTES
    """A message with a larger array is refused, and a run that would send one is not started; at
    least 64 KiB."""


class Liveness(Section):
    """[liveness]: when a process counts as dead, stuck or failed to start, and when a run stands
    still."""

    heartbeat_seconds: Seconds = LIVENESS.heartbeat_seconds
    """Time between two heartbeats of a process."""
    missed: Count = LIVENESS.missed
    """A process is dead after (`missed` + 1) heartbeats of silence, 2.5 s; on another host
    `link_seconds` later."""
    link_seconds: Seconds = LIVENESS.link_seconds
    """A TCP link without a sign of life for so long is lost; one that is cut for a third of it is
    not."""
    progress_seconds: Seconds = LIVENESS.progress_seconds
    """Shortest time after which a piece of array work counts as stuck."""
    start_seconds: Seconds = LIVENESS.start_seconds
    """How long a process may take to report, and then to begin to prepare."""
    prepare_seconds: Seconds = LIVENESS.prepare_seconds
    """How long it may then take to build its nets and compile their kernels."""
    standstill_seconds: Seconds = LIVENESS.standstill_seconds
    """Shortest time without a new iteration, while nothing is computed, after which the run stands
    still; 20 usual iterations if that is longer."""


class Recovery(Section):
    """[recovery]: runs that follow one that lost a process or a machine."""

    restarts: Annotated[int, Field(ge=0), Expected("a whole number >= 0")] = 0
    """How often such a run restarts, from the memory of a worker that lives or from its newest
    checkpoint: docs/recovery.md."""
    window_seconds: Seconds = 600.0
    """Restarts are counted within this time."""
    backoff_seconds: Seconds = 1.0
    """Wait before a run that could not begin is tried again; twice as long each time."""
    machines: Literal["all", "reachable"] = "all"
    """The next run waits for all machines; with `"reachable"` it does without those that are not
    reachable, fell silent for `liveness.link_seconds`, or are told to go (SIGTERM to their
    agent)."""


class Metrics(Section):
    """[metrics]: where the pages of metrics are served, and to whom."""

    address: Text = "127.0.0.1"
    """Where `up` serves `/sd` and `/metrics`; `"machine"`: every page at its machine's address
    (docs/metrics.md)."""
    port: int = Field(default=0, ge=0, le=65535)
    """The port of `up`; 0 is any free one."""
    process_ports: int = Field(default=0, ge=0, le=65535)
    """Process i of a machine serves its page at this port + i; 0: at any free one."""
    linger_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = (
        30.0
    )
    """After its end `up` stays at most so long for the last look of those that read its page
    regularly."""
    readers: tuple[Text, ...] = Field(default=(), strict=False)
    """Users of this machine who may read the pages besides yours and root, such as
    `["prometheus"]`; `["*"]`: everybody who can connect."""
    hosts: tuple[Text, ...] = Field(default=(), strict=False)
    """Names by which the pages may be called besides addresses and the machines' own names
    (docs/metrics.md); `["*"]`: any."""


class Operators(Section):
    """[operators]: where `--connect` reaches `up` from elsewhere, encrypted and only with the key
    in the run directory."""

    address: Annotated[Text, AfterValidator(listened_at)] | None = None
    """An address as `[[machine]]` has it; without one `up` listens nowhere (docs/operate.md)."""
    port: int = Field(default=0, ge=0, le=65535)
    """0 is any free one."""


class SimulatedLink(Section):
    """[simulation.links]: what is different on some links of a simulated network."""

    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] | None = (
        None
    )
    """Default: as all links. Seconds."""
    bytes_per_second: Bytes | None = None
    """Default: as all links. The link's own rate, besides those of its interfaces."""


class Simulation(Section):
    """[simulation]: a cluster on one event loop whose time jumps, see docs/simulation.md."""

    clock: Literal["real", "virtual"] = "real"
    """`"virtual"`: one process, one event loop, time that jumps."""
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = 0.0
    """Seconds from one machine to another."""
    bytes_per_second: Bytes | None = None
    """Default: unlimited. The rate of each network interface, in each direction; sizes as
    `"125MB"`."""
    interfaces: Literal["process", "machine", "link"] = "process"
    """Every process is a machine with a network interface; `"machine"`: the processes of one
    `[[machine]]` share one, and reach one another at once; `"link"`: every link has the rate for
    itself."""
    links: dict[str, SimulatedLink] = Field(default={})
    """Exceptions, by processes or patterns; the first that fits counts: `{ "worker-* -> far" = {
    latency = 0.02, bytes_per_second = "10MB" } }`."""
    service_times: Text | None = None
    """The profile of devices that are not emulated; without it their work takes no time."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Of all service times, also those of emulated devices on the real clock."""


class ClusterConfig(BaseModel):
    """A whole cluster.toml. Equal if it says the same, wherever it was read from."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    program: Text = "roles"
    """An importable module with `plan` and `ROLES`, also one next to the file."""
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
