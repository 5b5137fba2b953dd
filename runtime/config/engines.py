"""[launcher.ray], [launcher.kubernetes]: the keys that only one kind of launcher has."""

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
    """[launcher.ray]: the Ray cluster (docs/cluster.md)."""

    address: Word | None = None
    """Default: the value of RAY_ADDRESS, else the cluster of which this host is a node.
    `"HOST:PORT"` if this host is one of its nodes, `"ray://HOST:PORT"` elsewhere."""
    resources: Annotated[dict[str, float], AfterValidator(_amounts)] = Field(default={})
    """Resources that each machine needs from the Ray cluster in addition to its cores."""

    @property
    def host(self) -> str:
        """The host of `address`, or "" if `address` names none."""
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
    """[launcher.kubernetes]: machines that are pods (docs/cluster.md)."""

    image: Word
    """The image of the pods."""
    namespace: Word | None = None
    """Default: kubectl's own. The namespace in which the pods are made."""
    context: Word | None = None
    """Default: kubectl's own. The context of kubectl, which selects the cluster."""
    service_account: Word | None = None
    """The service account of the pods."""
    node_selector: dict[str, str] = Field(default={})
    """Labels of the nodes that the pods may run on."""
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    """Tolerations of the pods, in Kubernetes' format."""
    resources: Annotated[dict[str, Any], AfterValidator(_asked)] = Field(default={})
    """Resources that each pod is given in addition to cores and GPUs."""
    volumes: Annotated[dict[str, Any], AfterValidator(_mounted)] = Field(default={})
    """Path -> the name of a claim, or the source of a volume in Kubernetes' format."""
    most_seconds: Annotated[Seconds, Field(ge=1)] = WEEK
    """The longest lifetime of a pod."""
