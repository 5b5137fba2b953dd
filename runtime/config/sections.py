"""The runtime's sections of cluster.toml: every section, key, default and limit.

Top-level keys that are not listed here belong to the program.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from runtime.config.engines import Kubernetes, Ray
from runtime.config.machines import LOCAL_NAME, Machine, listened_at, served_at
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

LEAST_MESSAGE = 64 * 1024  # bytes that a message without arrays may need
LOCAL = "local"  # the launcher that starts processes on this machine only
BY_HAND = "manual"  # the launcher whose agents a person starts


class Run(Section):
    """[run]: the run directory, and the records in it."""

    directory: Text = "runs"
    """The folder of run directories, relative to the working directory of `up`."""
    name: Name | None = None
    """Default: the name of the net, or of its folder if the net's file has a common name such as
    train_val.prototxt; for another program, its name. The name of the run, with which the name of
    its run directory ends."""
    base: Text | None = None
    """Default: the folder of this file. The folder that relative paths in this file start from.
    `up` and scripts write it into the run's config.toml, relative to the run directory
    (docs/configuration.md)."""
    script: Text | None = None
    """Written into config.toml: the script that made the topology of the run, if no configuration
    describes this topology. No command plans or starts such a run."""
    record_service_times: bool = False
    """Record how long array work takes, as a profile for emulated devices: docs/simulation.md."""
    trace: Annotated[int, Field(ge=0)] = 0
    """The number of iterations, from the first on, that are traced into trace.json:
    docs/watch.md."""
    histograms: Annotated[int, Field(ge=0)] = 0
    """The iterations between two histograms of each layer's parameters and gradients; 0: none. The
    report shows them (docs/report.md)."""
    tensorboard: bool = False
    """Write the numbers of progress reports and tests for TensorBoard too. This needs `pip install
    -e '.[tensorboard]'` (docs/report.md)."""
    trackers: tuple[Literal["wandb"], ...] = Field(default=(), strict=False)
    """Trackers of experiments that get the numbers too: `["wandb"]`, which needs `pip install -e
    '.[wandb]'` (docs/report.md#weights-and-biases)."""
    observe: bool = True
    """With `false` the run has no pages, no metrics, no log.csv, no usage.jsonl and no comparison
    with the prediction. The journal, the logs and all commands stay (docs/metrics.md)."""


class Launcher(Section):
    """[launcher]: how the processes are started."""

    kind: Text = LOCAL
    """`"local"`, `"ssh"`, `"slurm"`, `"ray"`, `"kubernetes"`, `"manual"` (docs/cluster.md), or the
    name of a launcher that an installed package brings (docs/extending.md)."""
    address: Annotated[str, AfterValidator(served_at)] | None = None
    """Default: the address of this machine on the route to each of the others. The address at which
    other machines reach `up`."""
    port: Port | None = None
    """Default: free ones. The first of three ports at which other machines reach `up`."""
    start_seconds: Seconds | None = None
    """Default: 30; for `"manual"` 600, for `"kubernetes"` 300, for `"ray"` 120. The time within
    which another machine must be ready."""
    nodes: Count = 1
    """With `"slurm"`: the number of nodes of the job that `up --sbatch` asks for, if no
    `[[machine]]` names them."""
    ray: Ray | None = None
    kubernetes: Kubernetes | None = None


class Placement(Section):
    """[placement]: which actors share a process, and on which machines workers run."""

    processes: Literal["one-per-actor", "per-device", "one"] = "one-per-actor"
    """`"per-device"`: all actors of a machine that compute on the same GPU run in one process, and
    hand arrays over there without copies (docs/gpu.md). `"one"`: all actors run in one process.
    Actors that a `[[process]]` names run in that process."""
    spread: Text = "*"
    """The machines that workers are spread over: names, a list or patterns."""
    servers: Text = "*"
    """The machines of servers, such as the FC server and the conv model: names, a list or patterns.
    Each server gets the machine with the fewest servers (docs/cluster.md)."""
    kinds: Text | None = None
    """Default: the catalogue of Convoy. A file with kinds of your own for `machine.kind`, relative
    to this file (docs/tuning.md)."""


class Process(Section):
    """[[process]]: actors that run in one process."""

    name: Name
    """The name of the process."""
    machine: Text = LOCAL_NAME
    """Its machine. If the text selects several machines (`"node[2-8]"`, `"node*"`), each of them
    has a process with its share of the actors."""
    actors: tuple[Text, ...] = Field(min_length=1, strict=False)
    """Names of actors, or patterns such as `"conv-*"`."""


class Links(Section):
    """[links]: the connections between processes."""

    transport: Literal["auto", "ipc", "tcp"] = "auto"
    """`"auto"`: Unix sockets within a host and TCP between hosts, if the run has several; `"ipc"`:
    Unix sockets only; `"tcp"`: ZeroMQ only."""
    encryption: Literal["curve", "none"] = "curve"
    """`"curve"`: links that leave a host are encrypted with keys of the run. `"none"` is explained
    in docs/cluster.md."""
    shared_memory: bool = True
    """Processes of one host read each other's arrays in place (Linux; elsewhere arrays are
    sent)."""
    device_memory: bool = True
    """Processes that compute on one GPU read each other's arrays there in place (docs/gpu.md).
    Needs `shared_memory`."""
    credit_bytes: Bytes = CREDIT_BYTES
    """Bytes in transit on each link before the sender waits."""
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = 0.0002
    """Seconds that a message between hosts takes, for predictions and for the choice of an exchange
    (docs/cluster.md)."""
    bytes_per_second: Bytes = 1_250_000_000
    """Bytes per second of a host's interface in each direction, for the same purposes."""
    max_message_bytes: Annotated[
        int,
        BeforeValidator(parse_bytes),
        Field(ge=LEAST_MESSAGE, lt=2**63),
        Expected(f"a size of at least {LEAST_MESSAGE} bytes, such as '64MiB'"),
    ] = MESSAGE_BYTES
    """A message with a larger array is refused, and a run that would send one is not started. At
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
    """A TCP link without a sign of life for this time is lost. A link that is cut for a third of it
    survives."""
    progress_seconds: Seconds = LIVENESS.progress_seconds
    """Shortest time after which a piece of array work counts as stuck."""
    start_seconds: Seconds = LIVENESS.start_seconds
    """The time within which a process must report, and then begin to prepare."""
    prepare_seconds: Seconds = LIVENESS.prepare_seconds
    """The time within which it must then build its nets and compile their kernels."""
    standstill_seconds: Seconds = LIVENESS.standstill_seconds
    """The run stands still after this time without a new iteration, if no array work goes on
    meanwhile. The time of 20 usual iterations counts instead if it is longer."""


class Recovery(Section):
    """[recovery]: runs that follow a run in which a process or a machine died."""

    restarts: Annotated[int, Field(ge=0), Expected("a whole number >= 0")] = 0
    """How often such a run is restarted, from the memory of a worker that lives or from its newest
    checkpoint: docs/recovery.md."""
    window_seconds: Seconds = 600.0
    """The time within which restarts are counted."""
    backoff_seconds: Seconds = 1.0
    """The wait before a run that could not begin is tried again. It doubles each time."""
    machines: Literal["all", "reachable"] = "all"
    """`"all"`: the next run waits for all machines. `"reachable"`: it leaves out the machines that
    cannot be reached, fell silent for `liveness.link_seconds`, or were told to go (SIGTERM to their
    agent)."""


class Metrics(Section):
    """[metrics]: where the pages of metrics are served, and to which users."""

    address: Annotated[str, AfterValidator(served_at)] = "127.0.0.1"
    """The address where `up` serves `/sd` and `/metrics`. `"machine"`: every process serves its
    page at the address of its machine (docs/metrics.md)."""
    port: int = Field(default=0, ge=0, le=65535)
    """The port of `up`; 0 takes any free port."""
    process_ports: int = Field(default=0, ge=0, le=65535)
    """Process i of a machine serves its page at this port + i; 0 takes any free port."""
    linger_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = (
        30.0
    )
    """The longest time that `up` stays after the end of the run for readers that poll its page, so
    that they can read it once more."""
    targets: str | None = None
    """Default: `convoy/targets/HOST` in `$XDG_STATE_HOME` or `~/.local/state`. The folder in which
    each run lists its pages in a file for Prometheus
    (docs/metrics.md#one-configuration-for-all-runs). `""`: no such file."""
    readers: tuple[Text, ...] = Field(default=(), strict=False)
    """Users of this machine, other than you and root, that may read the pages, such as
    `["prometheus"]`. `["*"]`: every user that can connect."""
    hosts: tuple[Text, ...] = Field(default=(), strict=False)
    """Further host names under which the pages may be requested, in addition to addresses and the
    machines' own names (docs/metrics.md). `["*"]`: any name."""


class Operators(Section):
    """[operators]: where `--connect` reaches `up` from other machines. The connection is encrypted
    and needs the key in the run directory."""

    address: Annotated[str, AfterValidator(listened_at)] | None = None
    """An address in the format of `[[machine]]`. Without it `up` does not listen
    (docs/operate.md)."""
    port: int = Field(default=0, ge=0, le=65535)
    """0 takes any free port."""


class SimulatedLink(Section):
    """[simulation.links]: settings of single links of a simulated network."""

    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] | None = (
        None
    )
    """Default: as all links. Seconds of a message on this link."""
    bytes_per_second: Bytes | None = None
    """Default: as all links. The rate of this link, in addition to the rates of its interfaces."""


class Simulation(Section):
    """[simulation]: a cluster on one event loop whose time jumps (docs/simulation.md)."""

    clock: Literal["real", "virtual"] = "real"
    """`"virtual"`: one process and one event loop, whose time jumps to the next event."""
    latency: Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("seconds >= 0")] = 0.0
    """Seconds that a message from one machine to another takes."""
    bytes_per_second: Bytes | None = None
    """Default: unlimited. The rate of each network interface, in each direction; sizes as
    `"125MB"`."""
    interfaces: Literal["process", "machine", "link"] = "process"
    """`"process"`: every process is a machine with a network interface. `"machine"`: the processes
    of one `[[machine]]` share an interface, and messages between them take no time. `"link"`: every
    link has the rate for itself."""
    links: dict[str, SimulatedLink] = Field(default={})
    """Exceptions, by processes or patterns; the first that matches counts: `{ "worker-* -> far" = {
    latency = 0.02, bytes_per_second = "10MB" } }`."""
    service_times: Text | None = None
    """The profile of devices that are not emulated. Without it their work takes no time."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """The seed of all service times, also those of emulated devices on the real clock."""


class ClusterConfig(BaseModel):
    """A whole cluster.toml. Two configurations are equal if their values are, wherever they were
    read from."""

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
        """The plain data and the place where each key was written."""
        return self._raw

    @property
    def program_section(self) -> dict[str, Any]:
        """The top-level keys that do not belong to the runtime, as TOML gave them."""
        return dict(self.model_extra or {})

    def is_here(self, machine: Machine) -> bool:
        """Whether `machine` is this machine or counts as it, as emulated machines and namespaces
        do."""
        emulated = self.simulation.clock == "virtual" or self.launcher.kind == LOCAL
        return emulated or (machine.host is None and is_loopback(machine.address))

    @property
    def heals(self) -> bool:
        """Whether a restarted run resumes from the memory of living processes, if they hold the
        whole state. That memory can be read on this machine only."""
        real = self.recovery.restarts > 0 and self.simulation.clock == "real"
        return real and all(self.is_here(machine) for machine in self.machine)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterConfig) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]  # holds tables, so pydantic's hash would fail
