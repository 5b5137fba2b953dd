"""The array work that roles declare: it covers the whole net once, with the labels and rows of the
real work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roles
from nets import Net
from nets.tools.volumes import volumes
from roles import registry
from roles.base.loads import Load
from roles.base.shapes import Shapes
from roles.forecasting.costs import ByFlops, Timed, loads_of, profile
from roles.forecasting.layer_times import UNTIMED
from roles.forecasting.prediction import rows_of
from runtime.plan.topology import Topology
from tests.helpers.support import configure, train

DATA = {"train": {"format": "digits", "split": "train"}}
FEW = ("[sync]", "[replicas]", "[local-fc-shards]", "[adam]")


def planned(preset: str, **strategy: Any) -> Topology:
    shape = {} if preset == "single" else {"workers": 4}
    return roles.training(
        {"kernels": "numpy", "data": DATA, "strategy": {"preset": preset, **shape, **strategy}}
    )


def whole_net(shapes: Shapes) -> Net:
    return shapes.net(next(options.job for options in shapes.having("job").values()), "all")


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_an_iteration_of_every_group_is_the_whole_net_there_and_back_on_all_rows(
    preset: str,
) -> None:
    shapes = Shapes(planned(preset))
    net = whole_net(shapes)
    flops = ByFlops(net, achieved=1.0)
    computed: dict[str, float] = {
        name: sum(map(flops.seconds, loads))
        for name, loads in loads_of(shapes).items()
        if name != "fc_server"
    }
    shared = sum(map(flops.seconds, loads_of(shapes).get("fc_server", ())))  # it serves every group
    counted = volumes(net)
    groups = len(shapes.groups)
    assert sum(computed.values()) + groups * shared == pytest.approx(
        groups * (counted.forward + counted.backward)
    )


@pytest.mark.parametrize("preset", ["single", "replicas", "mxnet-sync", "dl4j"])
def test_the_same_holds_if_a_batch_is_computed_in_several_passes(
    tmp_path: Path, preset: str
) -> None:
    solver = tmp_path / "solver.prototxt"
    solver.write_text('base_lr: 0.01 lr_policy: "fixed" max_iter: 4 iter_size: 3')
    shape = {} if preset == "single" else {"workers": 2}
    topology = roles.training(
        {
            "kernels": "numpy",
            "data": DATA,
            "solver": str(solver),
            "strategy": {"preset": preset, **shape},
        }
    )
    shapes = Shapes(topology)
    net = whole_net(shapes)
    flops = ByFlops(net, achieved=1.0)
    counted = volumes(net)
    loads = loads_of(shapes)
    total = sum(flops.seconds(load) for of in loads.values() for load in of)
    assert counted.batch == 3 * 64
    assert total == pytest.approx(counted.forward + counted.backward)
    said = {(name, load.label): load.rows for name, of in loads.items() for load in of}
    asked = {key: rows for key, rows in rows_of(topology).items() if key[1] != "read"}
    assert {key: said.get(key) for key in asked} == asked


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_every_parameter_is_updated_as_often_as_it_is_held(preset: str) -> None:
    shapes = Shapes(planned(preset))
    held: dict[str, float] = {}
    for loads in loads_of(shapes).values():
        for load in loads:
            for layer in load.updated:
                held[layer] = held.get(layer, 0.0) + load.share
    copies = {round(count, 6) for count in held.values()}
    assert set(held) == set(whole_net(shapes).params)
    assert copies <= {1.0, 4.0}, "a parameter is held once on a server, or on each of four replicas"


@pytest.mark.parametrize(
    ("preset", "copies"),
    [
        ("single", {"single": 0}),
        ("replicas", {"replica-0": 2, "replica-3": 2}),
        ("firecaffe", {"replica-0": 2}),
        ("host-accumulate", {"replica-0": 2, "accumulator": 0}),
        ("parameter-server", {"conv-0-0": 2, "model-0": 2}),
        ("sparknet", {"replica-0": 2}),
    ],
)
def test_each_model_is_copied_to_its_device_and_back_once_in_an_iteration(
    preset: str, copies: dict[str, int]
) -> None:
    shapes = Shapes(planned(preset))
    model = sum(
        shapes.size({layer: [(p.shape, True) for p in params]})
        for layer, params in whole_net(shapes).params.items()
    )
    loads = loads_of(shapes)
    found = {name: sum(load.copied for load in loads[name]) / model for name in copies}
    assert found == pytest.approx(copies)


@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_a_prediction_asks_for_the_declared_work_and_rows(preset: str) -> None:
    topology = planned(preset)
    said = {
        (name, load.label): load.rows
        for name, loads in loads_of(Shapes(topology)).items()
        for load in loads
    }
    asked = {key: rows for key, rows in rows_of(topology).items() if key[1] != "read"}
    assert {key: said.get(key) for key in asked} == asked


@pytest.mark.few(*FEW)
@pytest.mark.parametrize("preset", registry.PRESETS.known)
def test_the_profile_that_follows_is_enough_for_emulated_devices(
    tmp_path: Path, preset: str
) -> None:
    cluster = configure(
        tmp_path,
        preset,
        workers=3,
        groups=2,
        iterations=2,
        more=('[train.devices]\n"*" = "emulated:times.json"\n'),
    )
    shapes = Shapes(planned(preset, **({} if preset == "single" else {"workers": 3})))
    table = profile(shapes, ByFlops(whole_net(shapes), 1e9).seconds)
    # other numbers of groups have other trees
    table |= {f"*/{label}": 0 for label in (*UNTIMED, "pack", "unpack", "reduce")}
    (tmp_path / "times.json").write_text(json.dumps(table))
    assert len(train(cluster, checkpoint=False).journal.of("progress")) == 2


def test_rows_that_were_not_timed_take_the_time_of_the_nearest_in_proportion() -> None:
    timed = Timed({8: {"a": (1.0, 2.0)}, 64: {"a": (4.0, 6.0)}}, {"a": 0.5}, adding=0.25)
    assert timed.seconds(Load("x", 8, forward=("a",), backward=("a",))) == 3.0
    assert timed.seconds(Load("x", 4, forward=("a",))) == 0.5
    assert timed.seconds(Load("x", 128, backward=("a",))) == 12.0
    assert timed.seconds(Load("x", 64, forward=("a",), updated=("a",), share=0.5)) == 2.25
    assert timed.seconds(Load("x", added=8)) == 2.0


def test_actors_of_one_role_with_different_work_have_separate_entries() -> None:
    # worker 0 adds up 1 and 2, then 3; worker 3 adds up 4
    shapes = Shapes(planned("firecaffe", workers=5, fan_in=3))
    table = profile(shapes, lambda load: load.added + load.rows)
    assert table["replica/forward"]["rows"] == 13
    assert "replica/reduce" not in table
    assert table["replica-0/reduce"]["mean"] == 1.5 * table["replica-3/reduce"]["mean"]
