"""Validating each section of the runtime by itself, as a typed object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from runtime.config.machines import Machine, tables
from runtime.config.problems import validated
from runtime.config.sections import (
    ClusterConfig,
    Launcher,
    Links,
    Metrics,
    Placement,
    Process,
    Simulation,
)
from runtime.config.toml_source import Problem, RawConfig
from runtime.config.value_types import Section

AnySection = TypeVar("AnySection", bound=Section)


@dataclass(frozen=True)
class Sections:
    """The sections that the rules use, with one `machine` or `process` for each entry that is
    written.

    A key with a mistake is None in them, so that the rules about all other keys can be checked.
    `config` is the whole configuration, or None if a section has a mistake.
    """

    config: ClusterConfig | None
    machine: tuple[Machine, ...]
    process: tuple[Process, ...]
    launcher: Launcher
    placement: Placement
    links: Links
    metrics: Metrics
    simulation: Simulation
    problems: tuple[Problem, ...]


def validate(raw: RawConfig) -> Sections:
    """Return the runtime's sections. `problems` has the mistakes in them."""
    config, problems = validated(ClusterConfig, raw.data, raw)
    return Sections(
        config,
        machine=tuple(_as_far_as_right(Machine, table) for table in tables(raw, "machine")),
        process=tuple(_as_far_as_right(Process, table) for table in tables(raw, "process")),
        launcher=_as_far_as_right(Launcher, raw.data.get("launcher")),
        placement=_as_far_as_right(Placement, raw.data.get("placement")),
        links=_as_far_as_right(Links, raw.data.get("links")),
        metrics=_as_far_as_right(Metrics, raw.data.get("metrics")),
        simulation=_as_far_as_right(Simulation, raw.data.get("simulation")),
        problems=tuple(problems),
    )


def _as_far_as_right(kind: type[AnySection], table: Any) -> AnySection:
    """Return a table as a section in which each key with a mistake is None. A value that is not a
    table counts as an empty one."""
    said: Mapping[str, Any] = table if isinstance(table, dict) else {}
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        wrong = {details["loc"][0] for details in error.errors(include_url=False)}
    right = {key: value for key, value in said.items() if key not in wrong}
    nothing = dict.fromkeys(key for key in kind.model_fields if key in wrong)
    try:
        return kind.model_validate(right).model_copy(update=nothing)
    except ValidationError:  # a key without a default is missing
        return kind.model_construct(**right, **nothing)
