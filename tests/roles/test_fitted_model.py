"""A model fitted to a run: the time of messages is learnt once, other numbers of groups are
predicted with it, and processors are a bound."""

from __future__ import annotations

from typing import Any

import pytest

from roles import training
from roles.forecasting.fitted_model import PROCESSORS, Fitted, network_of, processors_of
from roles.forecasting.prediction import Network
from roles.learning.job import Job
from runtime.config.sections import ClusterConfig, Simulation
from runtime.plan.topology import Placement, ProcessSpec

CONV = {"forward conv1": (10.0, 0.1, 0.001), "backward conv1": (10.0, 0.2, 0.004)}
WORK = {"conv-0-0": CONV, "conv-1-0": CONV, "fc_server": {"fc TRAIN": (20.0, 0.1, 0.0005)}}
BATCH = 64
ALONE = {"single": {"train": (10.0, 0.2, 0.004)}}


def placement(**strategy: Any) -> Placement:
    data = {"train": {"format": "digits", "split": "train"}}
    topology = training(
        {"net": "lenet", "solver": "lenet_digits_solver", "data": data, "strategy": strategy}
    )
    return Placement(
        topology, tuple(ProcessSpec(actor.name, "here", (actor.name,)) for actor in topology.actors)
    )


def live(**strategy: Any) -> Fitted:
    return Fitted(
        placement(preset="omnivore", workers=2, live=True, **strategy), Network(), learns=True
    )


def test_time_without_work_is_assigned_to_messages_and_the_prediction_equals_the_measurement() -> (
    None
):
    fit = live(groups=2).fit(WORK, 0.030)
    assert fit.work < 0.020
    assert fit.seconds == pytest.approx(0.030, rel=0.02)
    assert 0.0005 < fit.message < 0.02
    assert fit.rest == 0.0
    assert fit.use["fc_server"] == pytest.approx(0.005 / 0.030, rel=0.05)


def test_the_time_of_messages_is_kept_until_it_is_forgotten() -> None:
    model = live(groups=2)
    first = model.fit(WORK, 0.030)
    assert model.fit(WORK, 0.040) == first
    model.forget()
    assert model.fit(WORK, 0.040).message > 1.2 * first.message
    model.forget()
    assert model.fit(WORK, 0.001).message == 0.0  # never negative


def test_a_run_that_waits_for_no_message_keeps_the_unexplained_time() -> None:
    model = Fitted(placement(preset="single"), Network(), learns=True)
    fit = model.fit(ALONE, 0.025)
    assert (fit.message, fit.rest) == (0.0, pytest.approx(0.005))
    assert fit.seconds == pytest.approx(0.025)
    assert fit.use["single"] == pytest.approx(0.8)


def test_other_numbers_of_groups_are_predicted_with_the_times_and_messages_already_known() -> None:
    model = live(groups=1)
    assert model.unmeasured() is None
    before = model.fit(WORK, 0.050)
    assert not model.regroup(2, 1, BATCH)
    assert model.regroup(2, 2, BATCH)
    after = model.unmeasured()
    assert after is not None
    assert after.message == before.message
    assert 0.4 < after.seconds / before.seconds < 0.9


def test_no_prediction_of_a_run_opens_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Fitted(placement(preset="replicas", workers=2), Network(), learns=True)
    monkeypatch.setattr(Job, "source", lambda job, phase: pytest.fail(f"{phase} is opened"))
    work = {name: {"forward": (10.0, 0.1, 0.001)} for name in ("replica-0", "replica-1")}
    assert model.fit(work, 0.050).seconds == pytest.approx(0.050, rel=0.02)


def test_a_larger_batch_is_predicted_from_the_times_of_the_smaller_batch() -> None:
    model = live(groups=1)
    before = model.fit(WORK, 0.045)
    assert before.message
    assert model.regroup(2, 1, 2 * BATCH)
    after = model.unmeasured()
    assert after is not None
    assert after.work == pytest.approx(2 * before.work, rel=0.02)  # twice the rows
    assert after.message == before.message
    assert not model.regroup(2, 1, 2 * BATCH)


def on_two_processors(busy: float) -> Fitted:
    """A model fitted to two workers in one group. An iteration has 65 ms of array work (the FC
    phase is merged) and takes 50 ms."""
    model = Fitted(
        placement(preset="omnivore", workers=2, live=True), Network(), learns=True, processors=2
    )
    before = model.fit(WORK, 0.050, busy)
    assert before.use[PROCESSORS] == pytest.approx(busy, rel=0.02)
    return model


def test_no_iteration_takes_less_than_the_processor_time_of_all_divided_by_the_processors() -> None:
    model = on_two_processors(busy=1.0)
    model.regroup(2, 2, BATCH)
    after = model.unmeasured()
    assert after is not None
    assert after.seconds == pytest.approx(after.processor)
    assert after.use[PROCESSORS] == 1.0
    assert max(use for name, use in after.use.items() if name != PROCESSORS) < 1.0


@pytest.mark.parametrize(
    ("busy", "groups", "batch", "processor"),
    [
        (0.9, 2, BATCH, (0.065 + 0.025 / 2) / 2),  # a group of one sends half as many messages
        # twice the array work, and the same number of messages
        (0.9, 1, 2 * BATCH, (0.130 + 0.025) / 2),
        # work that waits for a processor explains the time, and nothing is left for messages
        (0.5, 2, BATCH, 0.050 / 2),
        (0.5, 1, 2 * BATCH, 0.100 / 2),
    ],
)
def test_processor_time_grows_with_array_work_and_its_rest_with_the_number_of_messages(
    busy: float, groups: int, batch: int, processor: float
) -> None:
    model = on_two_processors(busy)
    assert model.regroup(2, groups, batch)
    after = model.unmeasured()
    assert after is not None
    assert after.processor == pytest.approx(processor, rel=0.01)


def test_without_messages_all_processor_time_grows_with_array_work() -> None:
    model = Fitted(placement(preset="single"), Network(), learns=True, processors=2)
    assert model.fit(ALONE, 0.025, 0.6).processor == pytest.approx(0.015)
    assert model.regroup(1, 1, 2 * BATCH)
    after = model.unmeasured()
    assert after is not None
    assert after.processor == pytest.approx(0.030)


def test_a_known_network_is_taken_as_it_is() -> None:
    config = ClusterConfig(
        simulation=Simulation(clock="virtual", latency=0.002, interfaces="machine")
    )
    placed = placement(preset="omnivore", workers=2, groups=2)
    network, unknown = network_of(placed, config)
    assert (network.latency, network.bytes_per_second, set(network.interfaces.values())) == (
        0.002,
        None,
        {"here"},
    )
    assert (unknown, processors_of(config)) == ([], 0)
    fit = Fitted(placed, Network(latency=0.002), learns=False).fit(WORK, 0.5)
    assert fit.message == 0.002
    assert fit.seconds < 0.05


def test_on_real_time_this_machines_processors_count_unless_another_launcher_starts_processes() -> (
    None
):
    assert processors_of(ClusterConfig()) >= 1
    assert network_of(placement(preset="single"), ClusterConfig()) == (Network(), [])
