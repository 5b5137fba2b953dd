"""The settings that the grid of islands tries: each preset with its rates and momenta, and islands
without one of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.islands.runs import BATCH


@dataclass(frozen=True)
class Setting:
    """A preset with its settings. An iteration has `batches` batches of 32 images. `rate`: a factor
    of the rate of one process, for momentum 0.9; with another `momentum` the rate is such that
    the steps are as long in the end."""

    preset: str
    name: str
    strategy: Mapping[str, Any] = field(hash=False, compare=False)
    rate: float = 1.0
    momentum: float | None = None
    batches: int = 1
    form: str = "float32"

    def __str__(self) -> str:
        momentum = "" if self.momentum is None else f", momentum {self.momentum:g}"
        form = "" if self.form == "float32" else f", {self.form}"
        return f"{self.name}{form}{momentum}, rate {self.rate:g}"

    @property
    def train(self) -> dict[str, Any]:
        """Its keys of [train]."""
        said: dict[str, Any] = {"strategy": dict(self.strategy), "batch": BATCH * self.batches}
        said["gradients"] = {"format": self.form}
        return said if self.momentum is None else said | {"momentum": self.momentum}

    @property
    def factor(self) -> float:
        """The factor of the learning rate."""
        return self.rate if self.momentum is None else self.rate * (1 - self.momentum) / 0.1


def islands(name: str = "", rate: float = 1.0, form: str = "int4", **keys: Any) -> Setting:
    """Four islands with these keys of the preset, which are in the name unless one is given. Their
    outer momentum is the one that the preset chooses, unless it is given."""
    said = {"outer_momentum": "chosen", **keys}
    words = (
        f"{key.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in said.items()
    )
    name = name or ", ".join(["islands", *words])
    strategy = {"preset": "islands", "workers": 4, "options": {"leave_out": False, **keys}}
    return Setting("islands", name, strategy, rate, form=form)


def alone(rate: float) -> Setting:
    return Setting("alone", "fastest alone", {"preset": "single", "workers": 1}, rate)


def sparknet(tau: int, rate: float) -> Setting:
    strategy = {"preset": "sparknet", "workers": 4, "tau": tau}
    return Setting("sparknet", f"sparknet, tau {tau}", strategy, rate, batches=4)


def omnivore(momentum: float, rate: float) -> Setting:
    strategy = {"preset": "omnivore", "workers": 4, "groups": 4}
    return Setting("omnivore", "omnivore", strategy, rate, momentum)


def mxnet(momentum: float, rate: float) -> Setting:
    strategy = {"preset": "mxnet-async", "workers": 4}
    return Setting("mxnet-async", "mxnet-async", strategy, rate, momentum)


def diloco(rate: float) -> Setting:
    keys = {"quorum": "all", "steps": "equal", "outer_rate": 0.7, "outer_momentum": 0.9}
    made = islands("plain DiLoCo", rate, "float32", overlap=False, period=16, **keys)
    return replace(made, preset="plain DiLoCo")


REPLICAS = Setting(
    "replicas",
    "replicas, ring",
    {"preset": "replicas", "workers": 4, "exchange": "ring", "shares": "throughput"},
)
PLAIN = {"outer_momentum": 0.0}
# Rates and outer momenta for an inner momentum of 0.6. With 0.9 the inner momentum remembers 10
# local steps, and the slowest machines take 4 in a period.
SHORT_MEMORY = ((3, 0.6), (2, 0.7))
FIRST = {
    "alone": [alone(rate) for rate in (4, 2, 1, 8)],
    "islands": [
        *(islands(rate=rate) for rate in (4, 2, 1)),
        islands(rate=2, **PLAIN),
        islands(rate=2, **PLAIN, outer_rate=1.5),
        islands(rate=2, **PLAIN, period=8),
        islands(rate=2, outer_momentum=0.2, period=12, grace=0.05),
        islands(rate=1.5, period=12, grace=0.05),
        *(replace(islands(rate=r, outer_momentum=m), momentum=0.6) for r, m in SHORT_MEMORY),
    ],
}
# Half of its seconds are those of machines with twice the speed of the fastest that never wait
TWICE = replace(alone(2), name="fastest alone, batch 64", batches=2)
ON_FAST_LINKS = [islands(rate=1), islands(rate=2, form="float32", **PLAIN, period=4)]
OTHERS = {
    "omnivore": [omnivore(momentum, rate) for rate in (2, 1) for momentum in (0.6, 0.0)],
    "sparknet": [sparknet(tau, 4) for tau in (16, 64, 4)],
    "plain DiLoCo": [diloco(rate) for rate in (1, 2)],
    "mxnet-async": [mxnet(momentum, rate) for rate in (2, 1) for momentum in (0.6, 0.0)],
}
ALL = FIRST | OTHERS
PRESETS = (*ALL, REPLICAS.preset)
LESIONS: tuple[dict[str, Any], ...] = (
    {"grace": 0.0},
    {"steps": "equal"},
    {"outer_momentum": 0.0},
    {"outer_momentum": 0.5},
)
FORMS = ("float32", "int8")
