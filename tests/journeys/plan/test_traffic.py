"""The predicted traffic of a topology equals its real traffic, to the byte, on every link."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import roles
from examples.chain import chain
from roles.base.role import RoleOptions
from roles.exchange.buckets import BUCKET_BYTES
from roles.exchange.chosen_exchange import Chosen
from roles.exchange.collective import CollectiveOptions
from roles.forecasting.traffic import traffic
from roles.workers.replica_options import ReplicaOptions
from runtime import Actor, ActorSpec, Topology
from runtime.actor_options import plain
from runtime.plan.forecast import Forecast
from runtime.plan.topology import Placement, ProcessSpec
from runtime.simulation.clock import run_virtual
from runtime.simulation.cluster import simulate

ITERATIONS = 4
PAYLOAD = re.compile(
    r'convoy_payload_bytes_received_total\{actor="(.*?)",kind="roles\.(\w+)",peer="(.*?)",role="\w*"\} '
    r""
    r""
    r"(\S+)"
)
OPTIONS = {
    "max_iter": ITERATIONS,
    # without a test, only training sends messages
    "data": {"train": {"format": "digits", "split": "train"}},
    "batch": 37,  # a batch that gives unequal shares
}
AT_THE_END = {"State", "CopiedArray"}  # messages about the checkpoint


def topology(preset: str, gradients: dict[str, Any] | None = None, **strategy: Any) -> Topology:
    """A topology of built-in roles."""
    options = {**OPTIONS, "gradients": gradients or {}, "strategy": {"preset": preset, **strategy}}
    return roles.training(options)


def measured(of: Topology, directory: Path) -> dict[tuple[str, str], dict[str, int]]:
    """(sender, receiver) -> kind -> bytes of arrays received in a run on virtual time, as the
    metrics count them."""
    pages = {}

    def look(actors: dict[str, Actor]) -> None:
        pages.update({name: actor._runtime.host.metrics for name, actor in actors.items()})

    placement = Placement(
        of, tuple(ProcessSpec(actor.name, "local", (actor.name,)) for actor in of.actors)
    )
    run_virtual(simulate(placement, roles.ROLES, directory=directory, prepared=look))
    found: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for metrics in pages.values():
        for receiver, kind, sender, size in PAYLOAD.findall(metrics.text()):
            if kind not in AT_THE_END:
                found[sender, receiver][kind] = int(float(size))
    return dict(found)


@pytest.mark.few(
    "[sync]",
    "[one-weird-trick]",
    "[tree]",
    "[firecaffe]",
    "[parameter-server]",
    "[host-accumulate]",
    "[chain]",
    "[one-bit]",
)
@pytest.mark.parametrize(
    "of",
    [
        topology("sync", workers=2),
        topology("sync", workers=5, fan_in=2),
        topology("sync", {"format": "one-bit", "block": 64}, workers=3),
        topology("sync", {"format": "float32", "links": {"conv-* -> *": "float16"}}, workers=2),
        topology("replicas", workers=2),
        topology("firecaffe", workers=5, fan_in=3),
        topology("host-accumulate", workers=3),
        topology("sparknet", workers=3, tau=1),
        topology("dl4j", workers=4, tau=1),
        topology("mxnet-sync", workers=3, servers=2),
        topology("parameter-server", workers=4),
        topology("sync", workers=4, reproducible=True),
        topology("sync", workers=3, live=True),
        topology("local-fc-shards", workers=2, servers=3),
        topology("one-weird-trick", workers=3, scheme="c"),
        roles.training({**OPTIONS, "strategy": {"workers": 3}}, strategy=chain),
    ],
    ids=[
        "sync",
        "tree",
        "one-bit",
        "float16 below",
        "replicas",
        "firecaffe",
        "host-accumulate",
        "sparknet",
        "dl4j",
        "mxnet-sync",
        "parameter-server",
        "micro-batches",
        "live",
        "local-fc-shards",
        "one-weird-trick",
        "chain",
    ],
)
def test_each_link_carries_the_predicted_bytes_in_every_iteration(
    of: Topology, tmp_path: Path
) -> None:
    said = traffic(of)
    assert said
    assert measured(of, tmp_path) == {
        link: {kind: ITERATIONS * (size or 0) for kind, size in kinds.items()}
        for link, kinds in said.items()
    }


@pytest.mark.few("[sync]", "[one-weird-trick]")
@pytest.mark.parametrize(
    "strategy",
    [
        {"preset": "sync", "workers": 5},
        # sums of 3.2 MB in float32, 6.4 MB in float64: members divide sums from 4 MB on
        {"preset": "replicas", "workers": 3},
        {"preset": "firecaffe", "workers": 3},
        {"preset": "host-accumulate", "workers": 3},
        {"preset": "dl4j", "workers": 3, "tau": 1},
        {"preset": "mxnet-sync", "workers": 2, "servers": 2},
        {"preset": "local-fc-shards", "workers": 2, "servers": 3},
        {"preset": "one-weird-trick", "workers": 3, "scheme": "c"},
    ],
    ids=lambda strategy: str(strategy["preset"]),
)
def test_in_double_precision_each_link_carries_the_predicted_bytes_twice_as_many(
    strategy: dict[str, Any], tmp_path: Path
) -> None:
    narrow, of = (
        roles.training({**OPTIONS, "precision": p, "strategy": strategy})
        for p in ("exact", "double")
    )
    said, half = (traffic(topology, shared_memory=False) for topology in (of, narrow))
    assert measured(of, tmp_path) == {
        link: {kind: ITERATIONS * (size or 0) for kind, size in kinds.items()}
        for link, kinds in said.items()
    }
    if strategy["preset"] != "replicas":  # its larger sums are made in another way
        assert said == {
            link: {kind: 2 * (size or 0) for kind, size in kinds.items()}
            for link, kinds in half.items()
        }


@pytest.mark.parametrize("preset", ["omnivore", "singa", "adam"])
def test_with_several_groups_each_link_carries_the_bytes_in_the_iterations_of_its_group(
    preset: str, tmp_path: Path
) -> None:
    of = topology(preset, workers=5, groups=2)
    said = traffic(of)
    found = measured(of, tmp_path)
    assert found.keys() == said.keys()
    group = {
        actor.name: actor.name.split("-")[1] for actor in of.actors if actor.role == "conv_compute"
    }
    for below, above in [link for _ in range(3) for link in said if link[1].startswith("reducer")]:
        if below in group:
            group[above] = group[below]
    counts: defaultdict[str, set[float]] = defaultdict(set)
    for link, kinds in said.items():
        member = next(name for name in link if name in group)
        counts[group[member]] |= {found[link][kind] / (size or 0) for kind, size in kinds.items()}
    assert {name: len(times) for name, times in counts.items()} == {"0": 1, "1": 1}
    assert sum(times.pop() for times in counts.values()) == ITERATIONS


def with_three_adders(actor: ActorSpec) -> ActorSpec:
    """A replica whose exchange has three adders, whatever the number of cores of this host."""
    if not isinstance(actor.options, ReplicaOptions):
        return actor
    three = dataclasses.replace(actor.options.exchange.options, adders=3)
    return dataclasses.replace(
        actor, options=dataclasses.replace(actor.options, exchange=Chosen("collective", three))
    )


def test_a_large_sum_is_divided_and_its_shares_are_predicted_without_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # LeNet has a large bucket and a small one
    monkeypatch.setattr(CollectiveOptions, "bucket_bytes", BUCKET_BYTES)
    # four times 1.6 MB: too much for every member to add up alone
    of = topology("replicas", workers=5)
    of = dataclasses.replace(of, actors=tuple(map(with_three_adders, of.actors)))
    found = measured(of, tmp_path)
    said = traffic(of, shared_memory=False)
    assert found == {
        link: {kind: ITERATIONS * (size or 0) for kind, size in of_.items()}
        for link, of_ in said.items()
    }
    in_place = traffic(of)
    # bytes of the convolutions' gradients, which the first member adds up for all
    small = 4 * (520 + 25_050)
    for link, told in ((("replica-1", "replica-0"), 0), (("replica-0", "replica-1"), small)):
        assert in_place[link]["SharedSum"] == told
        assert (said[link]["SharedSum"] or 0) > told
        assert in_place[link]["Contribution"] == said[link]["Contribution"]


def test_bytes_that_depend_on_the_numbers_are_unknown() -> None:
    of = topology("sync", {"format": "threshold"}, workers=3)
    assert traffic(of)["conv-0-0", "reducer-0"] == {"LayerGradient": None}
    assert Forecast(traffic=traffic(of)).on_link(("conv-0-0", "reducer-0")) is None


def test_the_traffic_and_memory_of_a_role_without_declarations_are_unknown() -> None:
    of = topology("sync", workers=3)
    silent = dataclasses.replace(
        of,
        actors=tuple(
            dataclasses.replace(a, options=plain(a.options)) if a.name == "reducer-0" else a
            for a in of.actors
        ),
    )
    assert ("reducer-0", "conv_model") in traffic(of)
    assert ("reducer-0", "conv_model") not in traffic(silent)


def test_every_training_role_declares_the_arrays_that_it_sends_and_holds() -> None:
    says = {name: role.Options for name, role in roles.ROLES.items() if role.Options is not None}
    assert says.keys() == roles.ROLES.keys()
    assert {name for name, of in says.items() if of.sends is RoleOptions.sends} == {
        "coordinator",
        "single",
        "tuner",
    }
    assert {name for name, of in says.items() if of.holds is RoleOptions.holds} == {"coordinator"}
    for preset in (
        "single",
        "sync",
        "replicas",
        "host-accumulate",
        "singa",
        "local-fc-shards",
        "one-weird-trick",
    ):
        held = roles.forecast(topology(preset, workers=2)).memory
        assert {"coordinator", *held} == {
            actor.name for actor in topology(preset, workers=2).actors
        }
        assert all(size > 0 for parts in held.values() for size in parts.values())


def test_the_predicted_memory_is_the_memory_of_the_nets_parameters_and_plans() -> None:
    held = roles.forecast(topology("sync", workers=3)).memory
    conv = 25_570  # LeNet: 20 * 25 + 20 + 50 * 500 + 50; 500 * 800 + 500 + 10 * 500 + 10
    fc = 405_510
    assert held["conv_model"] == {"parameters": 4 * conv, "history": 4 * conv}
    assert held["fc_server"]["gradients"] == 4 * fc
    assert held["reducer-0"] == {"sums": 4 * conv}
    shard = roles.forecast(topology("local-fc-shards", workers=2, servers=2, scheme="b")).memory[
        "fc-1"
    ]
    assert (shard["parameters"], shard["gradients"]) == (4 * fc // 2, 2 * 4 * fc // 2)
    double = roles.training(
        {**OPTIONS, "precision": "double", "strategy": {"preset": "sync", "workers": 3}}
    )
    double = roles.forecast(double).memory
    for parts, half in ((double[name], held[name]) for name in ("conv_model", "reducer-0")):
        assert parts == {name: 2 * size for name, size in half.items()}
    assert double["fc_server"]["gradients"] == 8 * fc
    strategy = {"preset": "sync", "workers": 3}
    wider = roles.forecast(roles.training({**OPTIONS, "batch": 74, "strategy": strategy})).memory
    assert wider["conv-0-0"]["activations"] > 1.5 * held["conv-0-0"]["activations"]
