"""The config.toml of a run directory: the resolved configuration of the run. Every command reads it
where it lies as it reads a cluster.toml.

`run.base` leads from the run directory to the folder that relative paths start from. `run.script`
names the script that made the topology, if no configuration describes it.
"""

import os
from pathlib import Path

from pydantic import BaseModel

from runtime.config.sections import ClusterConfig
from runtime.config.toml_source import Problem, RawConfig, show_text
from runtime.config.toml_write import dumps
from runtime.errors import ConfigError
from runtime.regular import is_folder

BASE = ("run", "base")
SCRIPT = ("run", "script")
CONFIG = "config.toml"
LONGEST = 300  # characters of a path in a message


def dump(
    config: ClusterConfig, options: BaseModel | None = None, folder: Path | None = None
) -> str:
    """Return the resolved configuration as TOML, with every default written out. Reading the text
    gives an equal configuration.

    With `options`, the program's sections are written resolved too. `folder` is the folder where
    the text will lie: the text then has `run.base`.
    """
    # resolved: each host has become a separate [[machine]]
    several = {"machine": {"__all__": {"hosts", "hostfile"}}}
    sections = config.model_dump(
        exclude_none=True, exclude={**dict.fromkeys(config.program_section, True), **several}
    )
    if folder is not None:
        # relative, so that a copy of the whole project means the files of the copy
        sections["run"]["base"] = os.path.relpath(config.raw.base, folder.resolve())
    if options is None:
        return dumps(sections | config.program_section)
    return dumps(sections | options.model_dump(mode="json", exclude_none=True, by_alias=True))


def recorded(config: ClusterConfig, options: BaseModel | None, folder: Path) -> tuple[str, str]:
    """Return the config.toml of the run directory `folder`, and a warning or "".

    Bytes of file names that are not UTF-8 cannot be in TOML: each is written as U+FFFD, so that a
    command that reads the file finds no such file, and says so.
    """
    text = dump(config, options, folder)
    written = os.fsencode(text).decode("utf-8", "replace")
    if written == text:
        return text, ""
    pairs = zip(text.splitlines(), written.splitlines(), strict=True)
    lines = ", ".join(show_text(before) for before, after in pairs if before != after)
    why = "bytes that are not UTF-8, which the file cannot hold"
    mend = "commands will not find these files by it: rename the files or folders"
    return written, f"{folder / CONFIG}: {lines}: has {why}; {mend}"


def unreadable(raw: RawConfig) -> list[Problem]:
    """Return the reason why a file does not describe a run: its `run.base` is gone, or a script
    made the run without a configuration. The list is empty if it does."""
    if not is_folder(raw.base):
        where = f"{show_text(raw.of_run('base'))!r}, which is {show_text(str(raw.base), LONGEST)}"
        text = f"found {where}, expected the folder that relative paths in this file start from"
        return [raw.problem(BASE, f"{text}: move the run directory back, or correct this key")]
    described = any(
        keys[0] not in ClusterConfig.model_fields and origin.where.startswith(f"{raw.path}:")
        for keys, origin in raw.origins.items()  # `--set` describes no run
    )
    if raw.of_run("script") and not described:
        text = "made this run, and gave no configuration to record: run that script instead"
        return [raw.problem(SCRIPT, f"{_script(raw)} {text}")]
    return []


def check_plannable(raw: RawConfig) -> None:
    """Raise ConfigError if a script made the topology of this run. A plan would be for another
    topology."""
    if raw.of_run("script"):
        text = "made the topology of this run, so no command can plan or start it"
        mend = "run that script instead (`test` and `predict` accept this file)"
        raise ConfigError([raw.problem(SCRIPT, f"{_script(raw)} {text}: {mend}").text])


def _script(raw: RawConfig) -> str:
    return show_text(raw.of_run("script"), LONGEST)
