"""Loading cluster.toml: from its text to a configuration that the runtime and the program accept.
One call either returns it or raises ConfigError with every mistake, in the order of the lines.

    text --parse--> RawConfig --validate--> Sections --judge--> Judged --with_program--> Loaded

Only the process that starts a run imports this file, because pydantic is slow to import. Role
processes read plan.json instead.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from runtime.config import slurm_environment
from runtime.config.machines import entries_of
from runtime.config.problems import Model, key_names, unknown_key, validated
from runtime.config.program_import import imported
from runtime.config.recorded import unreadable
from runtime.config.rules import broken_rules
from runtime.config.sections import ClusterConfig, Section
from runtime.config.toml_source import Problem, RawConfig, from_python, in_order, read
from runtime.config.unused import unused
from runtime.config.validation import validate
from runtime.errors import ConfigError
from runtime.own_packages import shadowed
from runtime.program_interface import Program

__all__ = [
    "ClusterConfig",
    "Loaded",
    "Section",
    "load",
    "load_program",
    "load_with_program",
    "of_script",
    "program_options",
]


@dataclass(frozen=True)
class Judged:
    """The runtime's sections after all rules have been applied. `config` is None if a section has a
    mistake."""

    raw: RawConfig
    config: ClusterConfig | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Loaded:
    """A configuration that the runtime and the program both accept. `options` is None if the
    program has no options. `unused` has a line for each key that has no effect where it stands."""

    config: ClusterConfig
    program: Program
    options: BaseModel | None
    unused: tuple[str, ...] = ()


def load(path: Path, overrides: Sequence[str] = ()) -> ClusterConfig:
    """Return the runtime's sections of `path`, with overrides ("a.b=value") applied. The program's
    sections are not checked.

    Raises ConfigError with all mistakes in the file's syntax, the overrides and the runtime's
    sections.
    """
    judged = judge(parse(path, overrides))
    return _accepted(judged.config, judged.problems)


def of_script(source: str, tables: Mapping[str, Any], directory: Path) -> ClusterConfig:
    """Return the runtime's sections of the tables that a script passes instead of a file. `source`
    and `directory` are explained at `from_python`. Raises ConfigError as `load` does."""
    judged = judge(slurm_environment.as_meant(from_python(source, tables, directory)))
    return _accepted(judged.config, judged.problems)


def load_with_program(
    path: Path,
    overrides: Sequence[str] = (),
    search_dir: Path | None = None,
) -> Loaded:
    """Load the runtime's sections as `load` does, import the program, and check its sections too.
    Raises ConfigError with the mistakes of both at once.

    The program is searched for on Python's path, then in `search_dir` (default: the folder that
    relative paths in the file start from).
    """
    judged = judge(parse(path, overrides))
    return with_program(judged, search_dir or judged.raw.base)


def parse(path: Path, overrides: Sequence[str] = ()) -> RawConfig:
    """Return the text of `path` with the overrides, as plain data that knows the line of each key.
    If Slurm starts the processes, the machines that Slurm gives are added. Raises ConfigError as
    `read` does."""
    return slurm_environment.as_meant(read(path, overrides))


def judge(raw: RawConfig) -> Judged:
    """Validate the runtime's sections one by one, then check them against each other."""
    sections = validate(raw)
    environ = slurm_environment.environment(raw, os.environ)
    entries = entries_of(raw, sections.machine, environ)
    problems = [*raw.problems, *sections.problems, *entries.problems]
    problems += broken_rules(raw, sections, entries)
    config = sections.config
    if config is not None:
        machines = entries.machines(config.machine)
        try:
            machines = slurm_environment.with_cores(raw, machines, os.environ)
        except ValueError as error:
            problems.append(raw.problem(("launcher", "kind"), str(error)))
        config = config.model_copy(update={"machine": machines})
        config._raw = raw
    return Judged(raw, config, tuple(problems))


def with_program(judged: Judged, search_dir: Path) -> Loaded:
    """Return the whole configuration, with the program's sections as the program's own `Options`.
    Raises ConfigError with every mistake found so far."""
    raw = judged.raw
    wrong = unreadable(raw)
    # a program that is no string is already in `problems`; without it nothing checks the rest
    if raw.program is None or wrong:
        raise ConfigError(in_order([*judged.problems, *wrong]))
    program = imported(raw.program, search_dir)
    if isinstance(program, str):
        told = (program, *shadowed(search_dir))
        wrong = [raw.problem(("program",), text) for text in told]
        raise ConfigError(in_order([*judged.problems, *wrong]))
    options, problems = _options(raw, _program_data(raw), program.options)
    config = _accepted(judged.config, [*judged.problems, *problems])
    return Loaded(config, program, options, (*unused(config), *shadowed(search_dir)))


def load_program(name: str, search_dir: Path, raw: RawConfig | None = None) -> Program:
    """Import the program: a module with `plan()`, and with `Options` if it has its own sections in
    cluster.toml.

    `search_dir` is added at the end of sys.path and stays there, since the program may import
    further modules later. Raises ConfigError, placed at the `program` key of `raw`, if the module
    cannot be imported, has no plan, or defines something of a wrong kind.
    """
    program = imported(name, search_dir)
    if isinstance(program, Program):
        return program
    raise ConfigError([raw.problem(("program",), program).text if raw else f"program: {program}"])


def program_options(config: ClusterConfig, model: type[Model]) -> Model:
    """Return the program's sections as the program's own model. Raises ConfigError with all
    mistakes, each at its line."""
    return _accepted(*_options(config.raw, config.program_section, model))


def _program_data(raw: RawConfig) -> dict[str, Any]:
    return {key: value for key, value in raw.data.items() if key not in ClusterConfig.model_fields}


def _options(
    raw: RawConfig, data: Mapping[str, Any], model: type[Model] | None
) -> tuple[Model | None, list[Problem]]:
    """Validate the program's sections with its model. Without a model, or with a model that allows
    extra keys, an unknown top-level key is still a mistake: a misspelt section must not be
    ignored."""
    runtime_keys = key_names(ClusterConfig)
    known = key_names(model) if model else []
    options, problems = validated(model, data, raw, ClusterConfig) if model else (None, [])
    if model is None or model.model_config.get("extra", "ignore") == "ignore":
        unknown = [key for key in data if key not in known]
        problems += [raw.problem((key,), unknown_key(key, runtime_keys + known)) for key in unknown]
    return options, problems


def _accepted(value: Model | None, problems: Sequence[Problem]) -> Model:
    if value is None or problems:
        raise ConfigError(in_order(problems))
    return value
