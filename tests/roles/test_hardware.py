"""The tuner's model of a cluster: it predicts numbers of groups from the work of a few iterations,
believes a probe that contradicts it, and names the station."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import roles
from benchmarks.tuning.runs import SPREAD, Clock, Times
from benchmarks.tuning.virtual import learn
from roles import Options
from roles.tuning.hardware import Hardware, Known, Stretch, fewest
from runtime import Topology
from runtime.config.file import of_script, program_options
from runtime.simulation.cluster import Simulation

LATENCY = 0.0001
RATE = 125_000_000  # bytes per second, as declared
# seconds of a pass over a batch; other work takes no time
TIMES: Times = {
    "conv_compute/forward conv1": (0.004, SPREAD),
    "conv_compute/backward conv1": (0.008, SPREAD),
    "fc_server/fc TRAIN": (0.0005, SPREAD),
}
Events = list[tuple[str, dict[str, Any]]]


def planned(tmp_path: Path, **train: Any) -> Topology:
    """LeNet on digits that chooses its groups, momentum and rate."""
    data = {"train": {"format": "digits", "split": "train"}}
    auto = {"momentum": "auto", "base_lr": "auto"}
    strategy = {"preset": "omnivore", "workers": 4, "groups": "auto"}
    said = {
        "train": {
            "net": "lenet",
            "solver": "lenet_digits_solver",
            "data": data,
            "strategy": strategy,
            "max_iter": 4000,
            **auto,
            **train,
        },
        "simulation": {"clock": "virtual", "latency": LATENCY, "bytes_per_second": RATE},
    }
    config = of_script("test", said, tmp_path)
    return roles.plan(config, program_options(config, Options), tell=False)


def tuned(
    topology: Topology, *, rate: float = RATE, slow: str = "", times: Times = TIMES
) -> Events:
    """The events up to the first choice of a run over links of this real rate; the actor `slow` takes twice as long."""
    events: Events = []
    clock = Clock(times, 64, seed=1)

    def seconds(actor: str, role: str, label: str) -> float:
        return (2.0 if actor == slow else 1.0) * clock.seconds(actor, role, label)

    def watch(simulation: Simulation, event: str, fields: dict[str, Any]) -> None:
        events.append((event, fields))
        if event == "tuning" and "groups" in fields:
            simulation.end()

    learn(topology, seconds, watch, latency=LATENCY, rate=rate, prepared=clock.watch)
    return events


def known(pieces: Iterable[Known]) -> Mapping[int, float]:
    """Groups -> the seconds that the model predicts after all pieces of its work."""
    *_, last = pieces
    return last.seconds


def of(events: Events, name: str) -> list[dict[str, Any]]:
    return [fields for event, fields in events if event == name]


def test_probes_show_the_predicted_beside_the_measured_seconds_and_agree(tmp_path: Path) -> None:
    events = tuned(planned(tmp_path))
    compared = [probe for probe in of(events, "probe") if "predicted_seconds" in probe]
    assert compared
    assert "predicted_seconds" not in of(events, "probe")[0]  # nothing is predicted yet
    for probe in compared:
        assert probe["predicted_seconds"] == pytest.approx(probe["iteration_seconds"], rel=0.15)
    assert not any("predicted" in fields["why"] for fields in of(events, "tuning"))
    choice = next(fields for fields in of(events, "tuning") if "groups" in fields)
    assert choice["predicted_seconds"] > 0.0


def test_a_link_that_is_slower_than_declared_is_learnt_from_the_first_probe(
    tmp_path: Path,
) -> None:
    events = tuned(planned(tmp_path), rate=RATE / 10)
    told = next(fields["why"] for fields in of(events, "tuning") if "an iteration" in fields["why"])
    measured = of(events, "probe")[0]["iteration_seconds"]
    assert f"an iteration takes {1000 * measured:.3g}"[:22] in told
    choice = next(fields for fields in of(events, "tuning") if "groups" in fields)
    assert choice["groups"] == 4


def test_a_probe_that_contradicts_the_model_is_believed_and_the_station_is_named(
    tmp_path: Path,
) -> None:
    """One machine is half as fast. With one group it gets fewer rows, which hides that."""
    events = tuned(planned(tmp_path), slow="conv-0-1")
    told = [fields["why"] for fields in of(events, "tuning")]
    assert any("conv-0-1 works" in why and "predicted" in why for why in told), told
    assert 4 in {probe["groups"] for probe in of(events, "probe")}  # three are as fast as before


def test_the_fewest_groups_within_five_percent_of_the_fastest_are_as_fast_as_any() -> None:
    assert fewest({1: 1.0, 2: 0.52, 4: 0.5, 8: 0.499}) == 2
    assert fewest({1: 1.0}) == 1
    assert fewest({}) == 0


def test_a_link_that_slows_down_in_mid_run_changes_every_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training since the last search is what the model of the next search is fitted to."""
    stretches: list[Stretch] = []
    models: list[Hardware] = []
    compared = Hardware.compared

    def noted(self: Hardware, stretch: Stretch) -> Iterator[Known]:
        models.append(self)
        stretches.append(stretch)
        return compared(self, stretch)

    monkeypatch.setattr(Hardware, "compared", noted)
    tuned(planned(tmp_path))
    fast = models[0]
    before = known(fast.fit(stretches[0]))
    stretches.clear()
    tuned(planned(tmp_path), rate=RATE / 10)
    slow = {stretch.groups: stretch for stretch in stretches}
    since = dataclasses.replace(slow[1], begun=False)
    pieces = list(fast.fit(since))
    assert len(pieces) > len(before)  # a piece of work for each number of groups
    after = known(pieces)
    assert after[1] == pytest.approx(slow[1].seconds, rel=0.05)
    assert after[4] == pytest.approx(slow[4].seconds, rel=0.35)  # of a probe
    assert after[4] > 4 * before[4]
