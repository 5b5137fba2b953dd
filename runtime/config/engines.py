"""[launcher.ray], [launcher.kubernetes]: what a kind of launcher wants to know besides what all
do."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from runtime.config.value_types import Seconds, Section, Word

RAY = "ray"
KUBERNETES = "kubernetes"
KINDS = (RAY, KUBERNETES)
WEEK = 7 * 24 * 3600.0


def _amounts(value: dict[str, float]) -> dict[str, float]:
    for name, amount in value.items():
        if not name or name == "CPU" or not 0 < amount < float("inf"):
            raise ValueError("expected names of resources and amounts > 0; CPU is machine.cores")
    return value


class Ray(Section):
    """[launcher.ray]: `address` of the cluster, "HOST:PORT" where this host is one of its nodes,
    "ray://HOST:PORT" elsewhere; by default what RAY_ADDRESS says, else the cluster that this host
    is a node of. `resources` are asked for each machine, besides its cores."""

    address: Word | None = None
    resources: Annotated[dict[str, float], AfterValidator(_amounts)] = Field(default={})

    @property
    def host(self) -> str:
        """That of `address`; "" if it names none."""
        return (self.address or "").rpartition("://")[2].rpartition(":")[0]


def _asked(value: dict[str, Any]) -> dict[str, Any]:
    for name, amount in value.items():
        whole = type(amount) is int and amount > 0
        if not name or name == "cpu" or not (whole or (isinstance(amount, str) and amount)):
            raise ValueError(
                "expected names of resources and amounts, such as '8Gi' or 1; cpu is machine.cores"
            )
    return value


def _mounted(value: dict[str, Any]) -> dict[str, Any]:
    for path, source in value.items():
        if not path.startswith("/") or not isinstance(source, str | dict) or not source:
            raise ValueError(
                "expected absolute paths, each with a claim's name or a source of Kubernetes"
            )
    return value


class Kubernetes(Section):
    """[launcher.kubernetes]: machines are pods with `image`, in the `namespace` and `context` that
    kubectl takes if nothing is said. `resources` are asked for each machine, besides its cores and
    cards. `volumes`: where -> the name of a claim, or any source that a pod's volume has. No pod
    lives longer than `most_seconds`."""

    image: Word
    namespace: Word | None = None
    context: Word | None = None
    service_account: Word | None = None
    node_selector: dict[str, str] = Field(default={})
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    resources: Annotated[dict[str, Any], AfterValidator(_asked)] = Field(default={})
    volumes: Annotated[dict[str, Any], AfterValidator(_mounted)] = Field(default={})
    most_seconds: Annotated[Seconds, Field(ge=1)] = WEEK
