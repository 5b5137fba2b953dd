"""Validating each section of the runtime by itself, as a typed object."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from runtime.config.machines import tables
from runtime.config.problems import validated
from runtime.config.sections import ClusterConfig
from runtime.config.toml_source import Problem, RawConfig
from runtime.config.value_types import Section

AnySection = TypeVar("AnySection", bound=Section)


class Sections(ClusterConfig):
    """Every section of cluster.toml for the rules, with one `machine` or `process` for each entry
    that is written.

    A key with a mistake is None in them, so that the rules about all other keys can be checked.
    `config` is the whole configuration, or None if a section has a mistake.
    """

    config: ClusterConfig | None
    problems: tuple[Problem, ...]


def validate(raw: RawConfig) -> Sections:
    """Return the runtime's sections. `problems` has the mistakes in them."""
    config, problems = validated(ClusterConfig, raw.data, raw)
    sections: dict[str, Any] = {}
    for name, field in ClusterConfig.model_fields.items():
        of_entries = get_args(field.annotation)
        kind = of_entries[0] if of_entries else field.annotation
        if not (isinstance(kind, type) and issubclass(kind, Section)):
            # `program`, which is not a section
            said = raw.data.get(name, field.default)
            sections[name] = said if isinstance(said, str) else None
        elif of_entries:
            sections[name] = tuple(_as_far_as_right(kind, table) for table in tables(raw, name))
        else:
            sections[name] = _as_far_as_right(kind, raw.data.get(name))
    return Sections.model_construct(**sections, config=config, problems=tuple(problems))


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
