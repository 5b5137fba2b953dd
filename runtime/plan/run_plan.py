"""The run plan: everything a role process needs to know, as one JSON file in the run directory.

Written by `up` after planning and placement; read by each process at its start. Plain data only.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from runtime.addresses import is_loopback
from runtime.messages.message import Lane
from runtime.plan.topology import Placement
from runtime.transport import Endpoints, Limits

FILE = "plan.json"


def key_file(socket_directory: str | Path, process: str) -> Path:
    """See RunPlan.key_file."""
    return Path(socket_directory) / f"{process}.keys"


@dataclass(frozen=True)
class RunPlan:
    """See the module docstring. `addresses`: machine -> address to listen on; `transport`, `scheme`: see Roads;
    `shared_memory`: processes of one host read one another's arrays in place; `record_service_times`: each process
    leaves how long its array work took; `namespaces`: machine -> the network namespace that stands for it."""

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

    def bind_addresses(self, process: str, lane: Lane) -> tuple[str, ...]:
        """The addresses that `process` listens on for one lane, the nearest first."""
        near = f"unix://{self.socket_directory}/{process}.{lane}"
        if self.transport == "ipc":
            return (near,)
        spec = next(spec for spec in self.placement.processes if spec.name == process)
        port, address = str(spec.port + (lane == "bulk")) if spec.port else "*", self.addresses[spec.machine]
        far = f"{'tcp' if is_loopback(address) else self.scheme}://{address}:{port}"
        return (far,) if self.transport == "tcp" else (near, far)

    def key_file(self, process: str) -> Path:
        """Where the Keys of a process lie on its host: in the private folder, never in the run directory."""
        return key_file(self.socket_directory, process)

    def write(self, directory: Path) -> None:
        """Write the plan into the run directory."""
        data = dataclasses.asdict(self)
        data["placement"] = json.loads(self.placement.to_json())
        (directory / FILE).write_text(json.dumps(data, indent=1))

    @staticmethod
    def read(directory: Path) -> RunPlan:
        """Read the plan of a run directory."""
        data = json.loads((directory / FILE).read_text())
        data["placement"] = Placement.from_json(json.dumps(data["placement"]))
        data["supervisor"] = Endpoints.of(data["supervisor"])
        data["limits"] = Limits(**data["limits"])
        data["import_path"] = tuple(data["import_path"])
        data["metrics_readers"] = tuple(data["metrics_readers"])
        return RunPlan(**data)
