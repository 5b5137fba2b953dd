"""[launcher.ray]: what a kind of launcher wants to know besides what all do."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from runtime.config.kinds import Section, Text
from runtime.config.source import Problem, RawConfig

RAY = "ray"
KINDS = (RAY,)


def _amounts(value: dict[str, float]) -> dict[str, float]:
    for name, amount in value.items():
        if not name or name == "CPU" or not 0 < amount < float("inf"):
            raise ValueError("expected names of resources and amounts > 0; CPU is machine.cores")
    return value


class Ray(Section):
    """[launcher.ray]: `address` of the cluster, "HOST:PORT" where this host is one of its nodes, "ray://HOST:PORT"
    elsewhere; by default what RAY_ADDRESS says, else the cluster that this host is a node of. `resources` are asked
    for each machine, besides its cores."""

    address: Text | None = None
    resources: Annotated[dict[str, float], AfterValidator(_amounts)] = Field(default={})

    @property
    def host(self) -> str:
        """That of `address`; "" if it names none."""
        return (self.address or "").rpartition("://")[2].rpartition(":")[0]


def of_another_kind(raw: RawConfig) -> Iterator[Problem]:
    """Tables of a kind that is not the one that starts the machines."""
    launcher = raw.data.get("launcher")
    if not isinstance(launcher, dict):
        return
    for kind in KINDS:
        if kind in launcher and launcher.get("kind", "local") != kind:
            yield raw.problem(("launcher", kind), f"has a meaning with launcher.kind = '{kind}' only")
