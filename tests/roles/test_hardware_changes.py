"""A cluster that changes in mid-run: the search that follows tells of it, names a slow machine, and
makes the right choice of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tuning.runs import SPREAD, Clock
from benchmarks.tuning.virtual import learn
from roles.tuning.choices import Chosen, Setting
from roles.tuning.record import FILE, write
from runtime import Topology
from runtime.simulation.cluster import Simulation
from runtime.transport.inproc import InprocNetwork
from tests.roles.test_hardware import LATENCY, RATE, TIMES, Events, of, planned

# the search comes after 40 iterations, and has too little budget to repeat a tie
SEARCHES = {"epoch_iterations": 40, "probe_iterations": 10, "momenta": [0.6]}


def searched(
    topology: Topology,
    *,
    work: float = 1.0,
    spread: float = SPREAD,
    slower: float = 1.0,
    slow: float = 1.0,
) -> Events:
    """The events of a run up to its second choice. Work of conv layers takes `work` times as long as in
    TIMES, with this `spread`.
    After the first choice links are `slower` times as slow, and conv-0-1 is `slow` times as slow."""
    events: Events = []
    times = {name: (work * mean, spread) for name, (mean, _) in TIMES.items()}
    times["fc_server/fc TRAIN"] = TIMES["fc_server/fc TRAIN"]
    clock = Clock(times, 64, seed=1)
    network = InprocNetwork()
    later = False

    def seconds(actor: str, role: str, label: str) -> float:
        longer = slow if later and actor == "conv-0-1" else 1.0
        return longer * clock.seconds(actor, role, label)

    def watch(simulation: Simulation, event: str, fields: dict[str, Any]) -> None:
        nonlocal later
        events.append((event, fields))
        if event == "tuning" and "groups" in fields:
            if later:
                simulation.end()
            later = True
            network.change_rate(RATE / slower)

    learn(
        topology,
        seconds,
        watch,
        latency=LATENCY,
        rate=RATE,
        prepared=clock.watch,
        network=network,
    )
    return events


def choices_of(events: Events) -> list[int]:
    return [fields["groups"] for fields in of(events, "tuning") if "groups" in fields]


def told(events: Events) -> list[str]:
    return [fields["why"] for fields in of(events, "tuning") if "groups" not in fields]


def with_groups(tmp_path: Path, groups: int) -> Topology:
    """A run that begins with the choice of an earlier run, and searches again after an epoch."""
    choice = Chosen(Setting(groups, 0.6, 0.03), "", saturated=groups, next_groups=groups)
    write(tmp_path / FILE, choice, [])
    tuning = {**SEARCHES, "start": str(tmp_path / FILE)}
    return planned(tmp_path, base_lr=None, max_iter=600, tuning=tuning)


def test_after_a_link_becomes_ten_times_slower_the_next_choice_has_more_groups(
    tmp_path: Path,
) -> None:
    """Work takes so long that one group is as fast as several while the links are fast."""
    events = searched(with_groups(tmp_path, 1), work=30.0, spread=0.001, slower=10.0)
    assert choices_of(events) == [1, 4], told(events)
    missed = [why for why in told(events) if why.startswith("an iteration takes")]
    assert any("predicted" in why and "messages" in why for why in missed), told(events)


def test_after_a_machine_becomes_half_as_fast_the_search_names_it_and_groups_do_not_wait_for_it(
    tmp_path: Path,
) -> None:
    events = searched(with_groups(tmp_path, 4), slow=2.0)
    assert choices_of(events) == [4, 4]
    assert any("conv-0-1 works" in why and "predicted" in why for why in told(events)), told(events)
