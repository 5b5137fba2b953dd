"""Predictions and measurements in every run: the time of an iteration, the use of each station, and
the station whose work differs."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import runtime
from roles import training
from roles.messages import Done, Held, Hold, Probe, Probed, Regroup, Release, Released
from runtime import Event
from runtime.compute.service_times import ServiceTimes
from tests.helpers.support import get

TIMES = {
    "conv_compute/test*": {"mean": 2.0},
    "fc_server/fc TEST": {"mean": 3.0},
    "conv_compute/*": {"mean": 0.2, "cv": 0.1, "law": "gamma", "rows": 32},
    "fc_server/fc TRAIN": {"mean": 0.3, "cv": 0.1},
    "single/train": {"mean": 0.5, "cv": 0.1},
    "*replica/*": {"mean": 0.2, "cv": 0.1},
    "fc_shard/*": {"mean": 0.05},
    "host_accumulator/*": {"mean": 0.05},
    "conv_model/*": {"mean": 0.01},
    "reducer*/*": {"mean": 0.01},
    "*/*": {"mean": 0.0},
}
VIRTUAL = {"clock": "virtual", "latency": 0.001, "bytes_per_second": 12_500_000}


def emulated(
    tmp_path: Path,
    iterations: int,
    *,
    faster: float = 1.0,
    test: bool = False,
    clip: bool = False,
    **strategy: Any,
) -> runtime.Topology:
    """LeNet on devices whose work takes the times of TIMES."""
    times = {key: {**entry, "mean": entry["mean"] / faster} for key, entry in TIMES.items()}
    (tmp_path / "times.json").write_text(json.dumps(times))
    options = {
        "net": "lenet",
        "solver": "lenet_digits_solver",
        "data": {
            split: {"format": "digits", "split": split} for split in ("train", "test")[: 1 + test]
        },
        "max_iter": iterations,
        "devices": {"*": "emulated:times.json"},
        "strategy": strategy,
        **({"optimizer": {"clip_norm": 1.0}} if clip else {}),
    }
    return training(options, directory=tmp_path)


def events_of(topology: runtime.Topology, tmp_path: Path) -> list[Event]:
    found: list[Event] = []
    runtime.run(topology, on_event=found.append, directory=tmp_path, simulation=VIRTUAL)
    return found


def predictions(events: list[Event]) -> list[Event]:
    return [event for event in events if event.name == "prediction"]


@pytest.mark.few("omnivore-4-2")
@pytest.mark.parametrize(
    "strategy",
    [
        {"preset": "omnivore", "workers": 4, "groups": 2},
        {"preset": "omnivore", "workers": 4, "groups": 4},
        {"preset": "sync", "workers": 3},
        {"preset": "async", "workers": 3},
        {"preset": "single"},
        {"preset": "replicas", "workers": 3},
        {"preset": "parameter-server", "workers": 3},
        {"preset": "firecaffe", "workers": 4},
        {"preset": "mxnet-async", "workers": 3},
        {"preset": "one-weird-trick", "workers": 2},
        {"preset": "host-accumulate", "workers": 3},
        {"preset": "sparknet", "workers": 2},
        {"preset": "dl4j", "workers": 2},
        {"preset": "local-fc-shards", "workers": 2, "servers": 2},
        {"preset": "adam", "workers": 2, "groups": 2},
    ],
    ids=lambda strategy: "-".join(map(str, strategy.values())),
)
def test_a_run_takes_the_time_that_is_predicted_from_its_service_times(
    tmp_path: Path, strategy: Any
) -> None:
    events = events_of(emulated(tmp_path, 120, **strategy), tmp_path)
    assert [event for event in events if event.name in ("warning", "misprediction")] == []
    last = predictions(events)[-1]
    (finished,) = [event for event in events if event.name == "finished"]
    assert last["predicted_seconds"] == pytest.approx(64 / finished["images_per_second"], rel=0.1)
    assert last["measured_seconds"] == pytest.approx(64 / finished["images_per_second"], rel=0.05)
    assert last["measured_use"]
    for station, use in last["measured_use"].items():
        assert last["predicted_use"][station] == pytest.approx(use, abs=0.1), station
    busiest = last["busiest"]
    assert last["measured_use"][busiest] >= max(last["measured_use"].values()) - 0.03
    assert re.fullmatch(
        (rf"predicted .* m?s, measured .* an iteration; busiest: {busiest} " rf"\d+%"), last["text"]
    )
    assert last["message_seconds"] == VIRTUAL["latency"]


@pytest.mark.few("omnivore-2-1", "one-weird-trick")
@pytest.mark.parametrize(
    "strategy",
    [
        {"preset": "omnivore", "workers": 2, "groups": 1},
        {"preset": "omnivore", "workers": 4, "groups": 4},
        {"preset": "mxnet-async", "workers": 3, "servers": 2},
        {"preset": "parameter-server", "workers": 3},
        {"preset": "one-weird-trick", "workers": 2},
        {"preset": "local-fc-shards", "workers": 2, "servers": 2},
        {"preset": "adam", "workers": 2, "groups": 2},
    ],
    ids=lambda strategy: "-".join(map(str, strategy.values())),
)
def test_the_wait_for_the_norm_of_clipped_gradients_is_predicted(
    tmp_path: Path, strategy: Any
) -> None:
    events = events_of(emulated(tmp_path, 80, clip=True, **strategy), tmp_path)
    assert [event for event in events if event.name in ("warning", "misprediction")] == []
    (finished,) = [event for event in events if event.name == "finished"]
    seconds = 64 / finished["images_per_second"]
    assert predictions(events)[-1]["predicted_seconds"] == pytest.approx(seconds, rel=0.1)


def test_tests_and_their_work_change_neither_predictions_nor_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ServiceTimes.seconds
    labels = Counter[str]()

    def seconds(self: ServiceTimes, actor: str, role: str, label: str, rows: int = 0) -> float:
        labels[label] += actor == "conv-0-0"
        return original(self, actor, role, label, rows)

    monkeypatch.setattr(ServiceTimes, "seconds", seconds)
    events = events_of(emulated(tmp_path, 80, test=True, preset="omnivore", workers=2), tmp_path)
    assert (labels["forward conv1"], labels["read"]) == (80, 80)
    assert labels["test conv1"] == labels["test read"] > 0
    (finished,) = [event for event in events if event.name == "finished"]
    tests = [event.time for event in events if event.name == "test"]
    # the tests take long
    assert tests[-1] - tests[0] > 1.5 * 50 * 64 / finished["images_per_second"]
    assert [event for event in events if event.name == "misprediction"] == []
    assert len(predictions(events)) <= 4
    for event in predictions(events):
        assert event["predicted_seconds"] == pytest.approx(
            64 / finished["images_per_second"], rel=0.05
        )
        assert event["measured_seconds"] == pytest.approx(
            64 / finished["images_per_second"], rel=0.05
        )
        assert event["measured_use"]["fc_server"] == pytest.approx(
            event["predicted_use"]["fc_server"], abs=0.05
        )


def test_other_groups_are_predicted_before_they_are_measured(tmp_path: Path) -> None:
    topology = emulated(tmp_path, 150, preset="omnivore", workers=4, groups=1, live=True)
    run = runtime.launch(topology, directory=tmp_path, simulation=VIRTUAL)

    async def regrouped() -> list[Event]:
        found = []
        async with run:
            async for event in run.events():
                found.append(event)
                if len(predictions(found)) == 1 and event.name == "prediction":
                    await run.ask("coordinator", Regroup(groups=4), Done)
        return found

    with asyncio.Runner(loop_factory=run.loop_factory) as runner:
        events = runner.run(regrouped())
    (at,) = [index for index, event in enumerate(events) if event.name == "regrouped"]
    before = predictions(events[:at])
    after = predictions(events[at:])
    assert after[0]["measured_seconds"] == 0.0
    assert "not measured yet" in after[0]["text"]
    assert after[-1]["measured_seconds"] < 0.8 * before[-1]["measured_seconds"]
    assert after[0]["predicted_seconds"] == pytest.approx(after[-1]["measured_seconds"], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [1, 2])
def test_probes_do_not_count_as_work_and_later_predictions_are_for_the_chosen_groups(
    tmp_path: Path, chosen: int
) -> None:
    topology = emulated(tmp_path, 120, preset="omnivore", workers=4, groups=1, live=True)
    run = runtime.launch(topology, directory=tmp_path, simulation=VIRTUAL)

    async def tried() -> list[Event]:
        found = []
        async with run:
            async for event in run.events():
                found.append(event)
                if len(predictions(found)) == 1 and event.name == "prediction":
                    await run.ask("coordinator", Hold(), Held)
                    for groups in (4, 1, 4):
                        await run.ask("coordinator", Probe(iterations=40, groups=groups), Probed)
                    await run.ask("coordinator", Release(groups=chosen), Released)
        return found

    with asyncio.Runner(loop_factory=run.loop_factory) as runner:
        events = runner.run(tried())
    names = [event.name for event in events]
    assert names.count("held") == names.count("released") == 1
    assert "misprediction" not in names
    before = predictions(events[: names.index("held")])
    after = predictions(events[names.index("held") :])
    assert [event["measured_seconds"] == 0.0 for event in after] == [chosen != 1] + [False] * (
        len(after) - 1
    )
    assert after[-1]["predicted_seconds"] == pytest.approx(after[-1]["measured_seconds"], rel=0.1)
    if chosen == 1:
        assert after[-1]["predicted_seconds"] == pytest.approx(
            before[-1]["predicted_seconds"], rel=0.02
        )
    for event in [event for event in after if event["measured_seconds"]]:
        for station, use in event["measured_use"].items():
            assert event["predicted_use"][station] == pytest.approx(use, abs=0.1), (
                station,
                event["text"],
            )


def test_a_station_that_becomes_slow_is_named_once_and_predicted_with_its_new_speed_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ServiceTimes.seconds
    counted = []

    def seconds(self: ServiceTimes, actor: str, role: str, label: str, rows: int = 0) -> float:
        counted.extend([1] * (label == "fc TRAIN"))
        slower = 4.0 if label == "fc TRAIN" and len(counted) > 60 else 1.0
        return slower * original(self, actor, role, label, rows)

    monkeypatch.setattr(ServiceTimes, "seconds", seconds)
    events = events_of(emulated(tmp_path, 200, preset="sync", workers=2), tmp_path)
    (told,) = [event for event in events if event.name == "misprediction"]
    assert told["station"] == "fc_server"
    words = (
        r"an iteration takes .* m?s, predicted .* s: fc_server works .* m?s of it, "
        r"predicted [23]\d\d ms"
    )
    assert re.fullmatch(words, told["why"])
    last = predictions(events)[-1]
    assert last["predicted_seconds"] == pytest.approx(last["measured_seconds"], rel=0.1)
    assert last["busiest"] == "fc_server"


@pytest.mark.slow  # 5 s
async def test_in_processes_time_without_work_is_learnt_and_all_figures_are_on_the_metrics_page(
    tmp_path: Path,
) -> None:
    topology = emulated(tmp_path, 100_000, faster=20.0, preset="sync", workers=2)
    async with runtime.launch(topology, directory=tmp_path) as run:
        async for event in run.events():
            if event.name == "prediction" and event["measured_seconds"]:
                break
        page = await asyncio.to_thread(get, run.metrics_url.replace("/sd", "/metrics"))
        await run.end_now()
    assert event["predicted_seconds"] == pytest.approx(event["measured_seconds"], rel=0.15)
    assert 0 < event["work_seconds"] <= event["predicted_seconds"]
    stations = {"conv-0-0", "conv-0-1", "fc_server", "conv_model", "processors"}
    assert set(event["predicted_use"]) == stations == set(event["measured_use"])
    seconds = dict(
        re.findall(
            (r'^convoy_iteration_seconds\{.*kind="(\w+)".*\} ' r"(\S+)$"), page, re.MULTILINE
        )
    )
    assert seconds.keys() == {"predicted", "measured"}
    assert float(seconds["measured"]) > 0
    used = set(
        re.findall(
            r'^convoy_station_use_ratio\{.*kind="(\w+)".*station="([\w-]+)".*\}', page, re.MULTILINE
        )
    )
    assert used == {(kind, station) for kind in ("predicted", "measured") for station in stations}
