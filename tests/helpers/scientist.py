"""A run with an actor that holds, probes and releases it by a script of requests, and the
results.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nets.files.checkpoint import load as load_checkpoint
from roles import ROLES, Options, plan
from roles.messages import Held, Hold, Probe, Probed, Release, Released
from runtime import Actor, Message, Refused, Topology, WindDown
from runtime.config.file import load_with_program
from runtime.plan.placement import place
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate
from tests.helpers.support import Simulated, with_actor

ServiceTime = Callable[[str, str], float]  # actor, label -> seconds
SAYS: dict[str, tuple[Callable[..., Message], type[Message]]] = {
    "hold": (Hold, Held),
    "probe": (Probe, Probed),
    "release": (Release, Released),
}


class Scientist(Actor):
    """Asks the coordinator for one thing after the other and emits each answer. If `ends` is set,
    it winds the run down so many seconds after its last request.
    """

    def __init__(self, *, asks: list[dict[str, Any]], ends: float = 0.0) -> None:
        self._asks = asks
        self._ends = ends

    async def run(self) -> None:
        for number, given in enumerate(self._asks, 1):
            fields = {name: value for name, value in given.items() if name != "what"}
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ask(given["what"], fields))
                if self._ends and number == len(self._asks):
                    group.create_task(self._wind_down())

    async def _ask(self, what: str, fields: dict[str, Any]) -> None:
        message, answer = SAYS[what]
        try:
            said = await self.ask("coordinator", message(**fields), answer)
            self.emit(what, **dataclasses.asdict(said))
        except Refused as refused:
            self.emit("refused", reason=str(refused))

    async def _wind_down(self) -> None:
        await asyncio.sleep(self._ends)
        await self.tell("coordinator", WindDown(reason="somebody wants it"))


def ten_ms(actor: str, label: str) -> float:
    """Give every piece of work the same time."""
    return 0.01


def by_rank(actor: str, label: str) -> float:
    """Give workers of higher ranks longer times."""
    return 0.01 * (1 + int(actor[-1])) if actor.startswith("conv-0") else 0.01


def tried(
    cluster: Path,
    asks: list[dict[str, Any]],
    *settings: str,
    ends: float = 0.0,
    times: ServiceTime = ten_ms,
    change: Callable[[Topology], Topology] = lambda topology: topology,
) -> Simulated:
    """Run on virtual time with a scientist as an additional actor."""
    loaded = load_with_program(cluster, settings)
    assert isinstance(loaded.options, Options)
    made = change(plan(loaded.config, loaded.options))
    more = with_actor(made, "scientist", {"asks": asks, "ends": ends})
    journal = run_virtual(
        simulate(
            place(more, loaded.config),
            {**ROLES, "scientist": Scientist},
            directory=cluster.parent,
            service_time=times,
        )
    )
    arrays, _ = load_checkpoint(cluster.parent / journal.of("checkpoint")[-1]["file"])
    return Simulated(journal, arrays)


def same(one: Simulated, other: Simulated) -> None:
    """Check that two runs have the same losses, parameters and histories, to the last bit."""
    assert one.losses() == other.losses()
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


def asks(*probes: dict[str, Any], release: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [
        {"what": "hold"},
        *({"what": "probe", **one} for one in probes),
        {"what": "release", **(release or {})},
    ]
