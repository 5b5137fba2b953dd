"""A key that has a value and no effect is refused: every preset, every key of [train.strategy]."""

from __future__ import annotations

from typing import Any

import pytest

from roles import training
from roles.options import Strategy
from roles.planning.strategies import PRESETS, WHY
from roles.presets.request import SHAPE
from runtime import ConfigError

# key -> (a value other than the default, further keys with which the key has an effect)
VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "workers": (3, {}),
    "groups": (3, {}),
    "servers": (3, {}),
    "fan_in": (3, {}),
    "tau": (3, {}),
    "shares": ("throughput", {}),
    "live": (True, {}),
    "pipeline": (2, {}),
    "scheme": ("b", {}),
    "variable_batch": (True, {"scheme": "b"}),
    "exchange": ("tree", {}),
}
# this key has an effect on several hosts only: tests/roles/test_host_layout.py
ON_SEVERAL_HOSTS = "between"
BROUGHT = {"firecaffe": "host", "dl4j": "host"}  # by themselves, these presets use the tree


def topology(preset: str, **strategy: Any) -> str:
    said: dict[str, Any] = {"preset": preset, **strategy}
    if preset != "single":
        said.setdefault("workers", 4)
    planned = training(
        {"kernels": "numpy", "data": {"train": {"format": "digits"}}, "strategy": said}
    )
    return repr(planned)


def test_every_key_has_a_value_here_and_a_reason_there() -> None:
    assert SHAPE == {*VALUES, ON_SEVERAL_HOSTS} == set(WHY)
    assert set(Strategy.model_fields) - SHAPE == {"preset", "options", "reproducible"}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_key_changes_the_topology_or_is_refused(preset: str) -> None:
    plain = topology(preset)
    for key, (value, more) in VALUES.items():
        value = BROUGHT.get(preset, value) if key == "exchange" else value
        try:
            changed = topology(preset, **more, **{key: value}) != plain
        except ConfigError as error:
            assert f"train.strategy.{key}: found" in str(error)
            assert key not in PRESETS[preset].uses or key == "fan_in", str(error)
        else:
            assert changed, (
                f"{key} = {value!r} has no effect on preset '{preset}', and is not refused"
            )
            assert key in PRESETS[preset].uses


@pytest.mark.parametrize("preset", ["async", "mxnet-async", "distbelief"])
def test_groups_of_one_divide_no_batch_until_they_can_be_changed(preset: str) -> None:
    with pytest.raises(ConfigError, match="which only live = true can change"):
        topology(preset, shares="throughput")
    assert topology(preset, shares="throughput", live=True) != topology(preset, live=True)


def test_the_number_of_workers_given_to_single_must_be_true() -> None:
    assert topology("single", workers=1) == topology("single")
    with pytest.raises(ConfigError, match="found 4, but preset 'single' has one worker"):
        topology("single", workers=4)
