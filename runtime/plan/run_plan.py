"""The run plan: all data that a role process needs, as one JSON file in the run directory.

`up` writes the file after planning and placement, and each process reads it at its start. It
contains plain data only.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

import msgspec

from runtime.actor_options import plain
from runtime.errors import LaunchError
from runtime.machine.addresses import is_loopback, own
from runtime.machine.private_files import replace
from runtime.messages.message import Lane
from runtime.plan.machine_files import Files
from runtime.plan.topology import Placement
from runtime.records import run_files
from runtime.transport import Endpoints, Limits

FILE = "plan.json"
# the errors of reading a file that is not a plan
WRONG = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)
SAID = "said.toml"  # in the same folder, for a scaled run: cluster.toml as it was before
MACHINE = "machine"  # a value of metrics_address: the address of the process's machine
_TCP = re.compile(r"(?:tcp|curve)://(.+):\d+")


def key_file(socket_directory: str | Path, process: str) -> Path:
    """Return the file with the keys of a process, as `RunPlan.key_file` does."""
    return Path(socket_directory) / f"{process}.keys"


@dataclass(frozen=True)
class RunPlan:
    """The content of the run plan.

    `addresses`: machine -> the address that it will listen at. `transport`, `scheme` and
    `shared_memory` are explained at `Roads`. `record_service_times`: each process records the
    duration of its array work. `namespaces`: machine -> the network namespace that stands for it.
    `metrics_ports` is the first port, see `metrics_port`. `metrics_names` are the host names under
    which pages may be requested, see `serving.hosts`. `files`: machine -> where its files are, if
    not where they are here. `devices`: actor -> the GPU of its machine, if it shares memory there
    with other processes. `trace`: trace from the start of the process. `observe`: count and serve
    metrics.
    """

    placement: Placement
    import_path: tuple[str, ...]
    supervisor: Endpoints
    limits: Limits
    heartbeat_seconds: float
    transport: str
    socket_directory: str
    addresses: dict[str, str]
    metrics_address: str
    shared_memory: bool
    scheme: str = "curve"
    record_service_times: bool = False
    namespaces: dict[str, str] = dataclasses.field(default_factory=dict)
    metrics_readers: tuple[str, ...] = ()
    metrics_names: tuple[str, ...] = ()
    metrics_ports: int = 0
    files: dict[str, Files] = dataclasses.field(default_factory=dict)
    devices: dict[str, str] = dataclasses.field(default_factory=dict)
    trace: bool = False
    observe: bool = True

    def bind_addresses(self, process: str, lane: Lane) -> tuple[str, ...]:
        """Return the addresses that `process` listens on for one lane, the nearest first."""
        near = f"unix://{self.socket_directory}/{process}.{lane}"
        if self.transport == "ipc":
            return (near,)
        spec = next(spec for spec in self.placement.processes if spec.name == process)
        port = str(spec.port + (lane == "bulk")) if spec.port else "*"
        address = self.address(spec.machine)
        far = f"{'tcp' if is_loopback(address) else self.scheme}://{address}:{port}"
        return (far,) if self.transport == "tcp" else (near, far)

    def address(self, machine: str) -> str:
        """Return the numeric address that this machine's processes listen at, picked on the machine
        itself. Raises LaunchError with the names of machine and host."""
        up = next((found[1] for at in self.supervisor.control if (found := _TCP.match(at))), "")
        try:
            return own(self.addresses[machine], up)
        except LaunchError as error:
            raise LaunchError(f"machine '{machine}' (host {platform.node()}): {error}") from None

    def metrics_port(self, process: str) -> int:
        """Return the port where a process serves its metrics; 0 means any free port.

        The ports of the planned processes of one machine count up from `metrics_ports`, in the
        order of the plan. Machines with a loopback address count as one machine.
        """
        planned = [spec for spec in self.placement.processes if not spec.number]
        if not self.metrics_ports or process not in {spec.name for spec in planned}:
            return 0
        homes = {spec.name: self._loopback_of(spec.machine) for spec in planned}
        return self.metrics_ports + [name for name in homes if homes[name] == homes[process]].index(
            process
        )

    def _loopback_of(self, machine: str) -> str:
        """Return a name that is equal for machines that share a loopback interface."""
        own_stack = machine in self.namespaces or not is_loopback(self.addresses[machine])
        return machine if own_stack else ""

    def near(self, process: str) -> tuple[str, ...]:
        """Return the actors of other processes that share memory of a device with this process."""
        specs = {spec.name: spec for spec in self.placement.processes}
        if not self.shared_memory or process not in specs:
            return ()
        mine = specs[process]
        devices = {self.devices[actor] for actor in mine.actors if actor in self.devices}
        return tuple(
            actor
            for spec in specs.values()
            if spec.machine == mine.machine and spec is not mine
            for actor in spec.actors
            if self.devices.get(actor) in devices
        )

    def key_file(self, process: str) -> Path:
        """Return the file with the keys of a process on its host. It is in the private folder,
        never in the run directory."""
        return key_file(self.socket_directory, process)

    def write(self, directory: Path) -> None:
        """Write the plan into the run directory."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "placement"]
        data = {
            "placement": self.placement.to_data(),
            **{name: plain(getattr(self, name)) for name in names},
        }
        replace(directory / FILE, json.dumps(data, indent=1).encode())

    @staticmethod
    def read(directory: Path) -> RunPlan:
        """Read the plan of a run whose actors run in processes. Raises Damaged or Missing."""
        path = directory / FILE
        data = run_files.read_json(path)
        if data.get("clock") == "virtual":
            raise run_files.Damaged(
                path, ("found the plan of a run on the virtual clock, which has no processes")
            )
        try:
            kinds = get_type_hints(RunPlan)
            if unknown := sorted(data.keys() - kinds):
                raise ValueError(f"unknown {', '.join(unknown)}")
            told = {
                name: msgspec.convert(said, kinds[name])
                for name, said in data.items()
                if name != "placement"
            }
            plan = RunPlan(Placement.from_data(data["placement"]), **told)
            if not plan.supervisor.control or not plan.supervisor.bulk:
                raise ValueError("the addresses of `up` are missing")
        except WRONG as error:
            raise run_files.damaged(path, error) from None
        return plan


def placement_in(directory: Path) -> Placement | None:
    """Return the actors of the run in this directory and their processes. Returns None for a run
    whose actors run on the event loop of a script. Raises Damaged."""
    path = directory / FILE
    try:
        return Placement.from_data(run_files.read_json(path)["placement"])
    except run_files.Missing:
        return None
    except WRONG as error:
        raise run_files.damaged(path, error) from None
