"""Predictions compared with runs: the work, the bytes, and, on the virtual clock, the time of an
iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import roles
from benchmarks.scaling.runs import GIGABIT, VIRTUAL, Wanted, simulated
from examples.chain import chain
from roles.base.shapes import Shapes
from roles.base.steps import Sending, Steps, Turn, Work
from roles.forecasting.prediction import Network, Prediction, Times, predict, rows_of
from roles.forecasting.traffic import traffic
from roles.servers.tree_reducer import ReducerOptions
from runtime.compute.service_times import Recorder
from runtime.plan.topology import Placement
from runtime.runs.checking import check

LATENCY = 1e-4  # in seconds; PERIOD below is the `tau` of presets that average
PERIOD = 3
ITERATIONS = 6 * PERIOD
AROUND = ("build", "sweep")  # labels of work that belongs to no iteration
TIMES = {
    "*/train": {"mean": 0.02, "cv": 0.06, "rows": 64},
    "replica/forward": {"mean": 0.01, "cv": 0.06, "rows": 64},
    "*/forward *": {"mean": 0.002, "cv": 0.06, "rows": 64},
    "*/backward*": {"mean": 0.004, "cv": 0.06, "rows": 64},
    "fc_server/fc *": {"mean": 0.003, "cv": 0.06, "rows": 64},
    "*/fc *": {"mean": 0.001, "cv": 0.06, "rows": 64},
    "*/update*": 0.0002,
    "*/*": 0.0001,
}
GROUPS_3 = "groups = 2\n"
STRATEGIES = {
    "single": ("single", 1, ""),
    "sync": ("sync", 3, ""),
    "async": ("async", 3, ""),
    "omnivore": ("omnivore", 5, GROUPS_3),
    "pipeline": ("omnivore", 2, "pipeline = 2\n"),
    "adam": ("adam", 3, GROUPS_3),
    "mxnet-sync": ("mxnet-sync", 3, "servers = 2\n"),
    "mxnet-async": ("mxnet-async", 2, ""),
    "singa": ("singa", 4, GROUPS_3 + "servers = 2\n"),
    "distbelief": ("distbelief", 2, ""),
    "parameter-server": ("parameter-server", 3, ""),
    "replicas": ("replicas", 4, ""),
    "replicas-few": ("replicas", 2, ""),
    "firecaffe": ("firecaffe", 5, "fan_in = 3\n"),
    "host-accumulate": ("host-accumulate", 3, ""),
    "sparknet": ("sparknet", 3, f"tau = {PERIOD}\n"),
    "dl4j": ("dl4j", 4, f"tau = {PERIOD}\n"),
    "local-fc-shards": ("local-fc-shards", 4, GROUPS_3 + 'servers = 3\nscheme = "b"\n'),
    "one-weird-trick": ("one-weird-trick", 3, ""),
    "one-weird-trick-b": ("one-weird-trick", 4, 'scheme = "b"\n'),
    "one-weird-trick-hybrid": ("one-weird-trick", 4, 'scheme = "c2"\n'),
    "one-weird-trick-c": ("one-weird-trick", 3, 'scheme = "c"\nvariable_batch = true\n'),
}


def written(name: str, folder: Path, **more: Any) -> Path:
    preset, workers, strategy = STRATEGIES[name]
    wanted = {
        "iterations": ITERATIONS,
        "times": TIMES,
        "more": VIRTUAL.format(rate=GIGABIT, latency=LATENCY),
        **more,
    }
    return Wanted(preset, workers, strategy=strategy, **wanted).write(folder)


def predicted(placement: Placement, network: Network, times: dict[str, Any]) -> Prediction:
    return predict(placement.topology, Times.of_profile(times), network, placement.process_of())


@pytest.mark.few(
    "[omnivore]",
    "[singa]",
    "[firecaffe]",
    "[dl4j]",
    "[local-fc-shards]",
    "[replicas]",
    "[mxnet-async]",
    "[one-weird-trick-b]",
)
@pytest.mark.parametrize("name", STRATEGIES)
def test_an_iteration_takes_as_long_as_predicted_within_a_tenth(name: str, tmp_path: Path) -> None:
    cluster = written(name, tmp_path)
    told = predicted(check(cluster).placement, Network(LATENCY, GIGABIT), TIMES)
    assert told.notes == ()
    assert told.seconds == pytest.approx(measured(cluster, PERIOD), rel=0.1)


def measured(cluster: Path, warm: int) -> float:
    """Seconds of an iteration on the virtual clock, after `warm` iterations that are not
    measured."""
    ends = [
        time for time, _, event, _ in simulated(cluster).journal.entries if event == "progress"
    ][warm - 1 :]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


@pytest.mark.parametrize("quorum", ["grace", "all"])
@pytest.mark.parametrize("rate", [GIGABIT, 10 * GIGABIT])
def test_islands_take_as_long_as_predicted(quorum: str, rate: int, tmp_path: Path) -> None:
    """At 1 Gbit/s the link is the bottleneck, at 10 Gbit/s the islands are."""
    keys = f'quorum = "{quorum}", period = {PERIOD}, steps = "equal"'
    keys += ", grace = 0.0" if quorum == "grace" else ""
    cluster = Wanted(
        "islands",
        3,
        strategy=f"options = {{ {keys} }}\n",
        iterations=30 * PERIOD,
        times=TIMES,
        more=VIRTUAL.format(rate=rate, latency=LATENCY),
    ).write(tmp_path)
    told = predicted(check(cluster).placement, Network(LATENCY, rate), TIMES)
    assert told.notes == ()
    assert told.seconds == pytest.approx(measured(cluster, 3 * PERIOD), rel=0.1)


def test_a_sender_waits_for_credits_as_predicted(tmp_path: Path) -> None:
    more = f"[links]\ncredit_bytes = 100000\n{VIRTUAL.format(rate=GIGABIT, latency=0.02)}"
    cluster = written("firecaffe", tmp_path, more=more)
    placement = check(cluster).placement
    told = predicted(placement, Network(0.02, GIGABIT, credit_bytes=100_000), TIMES)
    assert told.seconds == pytest.approx(measured(cluster, PERIOD), rel=0.01)
    assert told.seconds > 1.02 * predicted(placement, Network(0.02, GIGABIT), TIMES).seconds


def test_a_pull_that_waited_for_an_update_is_answered_before_the_inbox_as_predicted(
    tmp_path: Path,
) -> None:
    """If the pull waited behind the whole inbox, it would be answered so much later that groups
    would take another order."""
    times = {**TIMES, "*/update*": {"mean": 0.0005, "cv": 0.06}}
    cluster = Wanted(
        "mxnet-async",
        4,
        iterations=4 * 24,
        times=times,
        more=VIRTUAL.format(rate=8 * GIGABIT, latency=LATENCY),
    ).write(tmp_path)
    told = predicted(check(cluster).placement, Network(LATENCY, 8 * GIGABIT), times)
    assert told.seconds == pytest.approx(measured(cluster, 4 * 12), rel=0.03)


def test_a_layer_is_pulled_while_the_one_below_is_computed_as_predicted(tmp_path: Path) -> None:
    rate = GIGABIT // 4
    times = {"*/forward *": 0.02, "*/backward *": 0.01, "*/*": 0}
    more = VIRTUAL.format(rate=rate, latency=LATENCY)
    cluster = Wanted("mxnet-sync", 2, iterations=6, times=times, more=more).write(tmp_path)
    told = predicted(check(cluster).placement, Network(LATENCY, rate), times)
    assert told.seconds == pytest.approx(measured(cluster, 2), rel=0.01)


def test_each_slice_of_an_answer_is_added_in_the_time_of_its_rows_as_predicted(
    tmp_path: Path,
) -> None:
    """Scheme c: each of two workers adds up two slices of 16 of its 32 rows, one after the
    other."""
    times = {"*/add": {"mean": 0.08, "rows": 64}, "*/*": 0}
    cluster = Wanted(
        "local-fc-shards", 2, iterations=6, times=times, strategy='servers = 2\nscheme = "c"\n',
        more=VIRTUAL.format(rate=GIGABIT, latency=LATENCY),
    ).write(tmp_path)  # fmt: skip
    told = predicted(check(cluster).placement, Network(LATENCY, GIGABIT), times)
    assert told.seconds == pytest.approx(measured(cluster, 2), rel=0.02)
    assert told.seconds == pytest.approx(2 * 0.02, rel=0.3)  # plus the time of the messages


@pytest.mark.few("[sync]", "[adam]", "[one-weird-trick-c]", "[sparknet]")
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_piece_of_work_and_every_byte_of_a_run_is_predicted(
    name: str, tmp_path: Path
) -> None:
    cluster = written(name, tmp_path)
    placement = check(cluster).placement
    topology = placement.topology
    home = placement.process_of()
    messages = 0
    period = max(actor.options.period for actor in topology.actors)
    shapes = Shapes(topology, shared_memory=False)
    works = Counter[str]()
    sent = Counter[tuple[str, str]]()
    roles_of = {actor.name: actor.role for actor in topology.actors}
    for members in shapes.groups:
        here = Counter[tuple[str, str]]()
        for number in range(period):
            for name_, options in shapes.options.items():
                for step in options.steps(name_, shapes, Turn(tuple(members), number, period)):
                    if isinstance(step.does, Work) and step.does.label:
                        works[f"{roles_of[name_]}/{step.does.label}"] += 1
                    if isinstance(step.does, Sending):
                        here.update({(name_, to): step.does.size or 0 for to in step.does.to})
                        messages += sum(home[to] != home[step.name[0]] for to in step.does.to)
        sent |= here  # messages of an iteration, of any group
    foretold = predicted(placement, Network(LATENCY, GIGABIT), TIMES).messages
    assert foretold == pytest.approx(messages / period / len(shapes.groups))
    recorder = Recorder()
    simulated(cluster, recorder=recorder)
    done = {key: len(taken) for key, taken in recorder.table().items() if not key.endswith(AROUND)}
    rounds = ITERATIONS // period / len(shapes.groups)
    assert done.keys() == works.keys()
    assert {key: count / rounds for key, count in done.items()} == pytest.approx(
        dict(works), rel=0.3
    )
    bytes_ = {
        link: sum(size or 0 for size in kinds.values())
        for link, kinds in traffic(topology, shared_memory=False).items()
    }
    told = {link: size for link, size in sent.items() if size}
    # shards of unequal width are predicted as if their widths were equal
    assert told == pytest.approx({link: size for link, size in bytes_.items() if size}, rel=0.01)


def test_unknown_times_are_named(tmp_path: Path) -> None:
    placement = check(written("sync", tmp_path)).placement
    told = predicted(placement, Network(), {"*/forward *": 0.1})
    assert "no time is known of 'fc TRAIN' (fc_server): counted as 0" in told.notes
    assert told.seconds == pytest.approx(0.2)  # two stages; all other work takes no time
    assert told.bottleneck.startswith("conv-0-")


@dataclass(frozen=True, kw_only=True)
class Silent(ReducerOptions):
    """Options of a role that declares the bytes it sends, but not when it sends them."""

    def steps(self, name: str, shapes: Shapes, turn: Turn) -> Steps:
        return ()


def test_a_role_that_does_not_declare_when_it_sends_is_named(tmp_path: Path) -> None:
    topology = check(written("sync", tmp_path)).placement.topology
    silent = {
        actor.name: replace(actor, options=Silent(**vars(actor.options)))
        for actor in topology.actors
        if actor.role == "tree_reducer"
    }
    changed = replace(
        topology, actors=tuple(silent.get(actor.name, actor) for actor in topology.actors)
    )
    told = predict(changed, Times.of_profile(TIMES), Network(LATENCY, GIGABIT), {})
    assert (
        "the time at which reducer-0 sends LayerGradient to conv_model is not declared: counted as 0"
    ) in told.notes
    assert any(
        "conv_model update" in note and "which no role declares" in note for note in told.notes
    )


def test_a_topology_of_the_user_is_predicted_from_the_declarations_of_its_roles() -> None:
    options = {
        "data": {"train": {"format": "digits", "split": "train"}},
        "strategy": {"workers": 3},
    }
    told = predict(
        roles.training(options, strategy=chain), Times.of_profile({"*/*": 0.01}), Network(), {}
    )
    assert told.notes == ()
    assert set(told.use) == {
        "conv_model",
        "fc_server",
        "sum-1",
        "sum-2",
        "conv-0",
        "conv-1",
        "conv-2",
    }


def test_stations_are_as_busy_as_their_work_and_bytes_require(tmp_path: Path) -> None:
    placement = check(written("sync", tmp_path)).placement
    times = {**TIMES, "fc_server/fc *": 0.05}
    told = predicted(placement, Network(LATENCY, GIGABIT), times)
    carried = sum(
        sum(kinds.values())
        for (_, to), kinds in traffic(placement.topology).items()
        if to == "fc_server"
    )
    assert told.use["fc_server"] == pytest.approx(0.05 / told.seconds, rel=0.02)
    assert told.use["fc_server in"] == pytest.approx(carried / GIGABIT / told.seconds, rel=0.02)
    assert told.bottleneck == "fc_server"
    assert all(0 <= part <= 1 for part in told.use.values())


def test_processes_behind_one_interface_do_not_wait_for_it(tmp_path: Path) -> None:
    placement = check(written("parameter-server", tmp_path)).placement
    apart = predicted(placement, Network(0.0, GIGABIT), TIMES)
    together = {process.name: "one" for process in placement.processes}
    assert (
        predicted(placement, Network(0.0, GIGABIT, together), TIMES).seconds < 0.7 * apart.seconds
    )
    assert predicted(placement, Network(), TIMES).seconds < 0.7 * apart.seconds


@pytest.mark.parametrize("emulated", [True, False])
def test_actors_of_one_process_share_its_device_whether_it_is_emulated_or_not(
    tmp_path: Path, emulated: bool
) -> None:
    topology = check(written("async", tmp_path)).placement.topology
    times = Times.of_profile({"conv_compute/*ward *": 0.01, "*/*": 0})
    home = {actor.name: "one" for actor in topology.actors}
    if not emulated:
        plain = tuple(replace(actor, emulated=None) for actor in topology.actors)
        topology = replace(topology, actors=plain)
    apart = predict(topology, times, Network(), {})
    assert predict(topology, times, Network(), home).seconds == pytest.approx(
        3 * apart.seconds, rel=0.02
    )


def test_times_of_a_profile_are_means_and_scale_with_rows_if_it_has_rows() -> None:
    table = {"a/x": [1.0, 3.0], "a/y": {"mean": 2.0, "cv": 0.5, "rows": 64}, "*/z": 4}
    times = Times.of_profile(table)
    assert (times.mean("n", "a", "x"), times.variation("n", "a", "x")) == (2.0, 0.25)
    assert (times.mean("n", "a", "y", 32), times.variation("n", "a", "y")) == (1.0, 0.25)
    assert times.mean("n", "b", "z", 32) == 4.0
    assert times.moments("n", "b", "x") is None


def test_times_measured_in_a_run_hold_for_other_groups_of_it(tmp_path: Path) -> None:
    topology = check(written("sync", tmp_path)).placement.topology
    rows = rows_of(topology)
    assert rows["conv-0-0", "forward conv1"] == 22
    assert rows["fc_server", "fc TRAIN"] == 64
    work = {
        "conv-0-0": {"forward conv1": (10, 22.0, 50.0)},
        "conv-0-1": {"forward conv1": (10, 44.0, 195.0)},
        "conv_model": {"update conv1": (4, 8.0, 16.0)},
    }
    times = Times.measured(work, {"conv-0-0": "conv_compute", "conv-0-1": "conv_compute"}, rows)
    assert times.mean("conv-0-0", "conv_compute", "forward conv1", 22) == pytest.approx(2.2)
    assert times.mean("conv-0-0", "conv_compute", "forward conv1", 44) == pytest.approx(4.4)
    assert times.mean("conv-0-2", "conv_compute", "forward conv1", 22) == pytest.approx(
        3.3, rel=0.05
    )
    assert times.mean("conv_model", "conv_model", "update conv1") == 2.0
    assert times.variation("conv-0-0", "conv_compute", "forward conv1") == pytest.approx(
        (5.0 - 2.2**2) / 2.2**2
    )
