"""`up --sbatch FILE`: write the script with which Slurm starts a run, instead of starting it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cli.arguments import Settings
from runtime.config.sections import LOCAL
from runtime.config.slurm_environment import KIND, asked
from runtime.config.value_types import NAME, NAMED
from runtime.errors import ConfigError
from runtime.plan.run_names import names_of
from runtime.reasons import reason
from runtime.terminal_text import one_line

if TYPE_CHECKING:
    from runtime.config.sections import ClusterConfig
    from runtime.runs.checking import Checked

STDOUT = Path("-")
SAVE_SECONDS = 60  # before the time limit `up` gets the signal to save and end
SCRIPT = """\
#!/bin/sh
# Starts {file} as a job. Options on the command line of sbatch override those below. Give there
# the options that your site needs: sbatch --partition=... --account=... --time=...
# --gpus-per-node=...
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
{more}\
#SBATCH --ntasks-per-node=1
#SBATCH --output=%x-%j.out
# {seconds} s before the time limit the run saves a checkpoint and ends
#SBATCH --signal=B:TERM@{seconds}
cd {folder} || exit 3
{path}exec {command}
"""


def write(file: Path, settings: Settings, target: Path) -> int:
    """Check cluster.toml as `check` does, write the script, and print the command to type. Raises
    ConfigError, also if `target` exists already, since a script may have been edited."""
    from rich.console import Console

    from runtime.report.console import RunConsole
    from runtime.runs.checking import check

    checked = check(file, settings, starts=False)
    text = script(checked, file, settings)
    aside = target == STDOUT  # the script goes to stdout, so messages go to stderr
    console = RunConsole(Console(highlight=False, soft_wrap=True, stderr=aside), live=False)
    for warning in checked.warnings:
        console.warn(warning)
    if aside:
        sys.stdout.buffer.write(os.fsencode(text))
        sys.stdout.buffer.flush()
        return 0
    try:
        with target.open("x", encoding="utf-8", errors="surrogateescape") as opened:
            opened.write(text)
    except FileExistsError:
        raise ConfigError(
            [(f"{target}: exists already: remove it, or name another file")]
        ) from None
    except OSError as error:
        raise ConfigError([f"{target}: cannot be written: {reason(error)}"]) from None
    count, _ = asked(checked.loaded.config)
    console.say(f"{target}: a job of {count} {'node' if count == 1 else 'nodes'}; type")
    console.say(f"    sbatch {shlex.quote(str(target))}")
    return 0


def script(checked: Checked, file: Path, settings: Settings) -> str:
    """The text of the script. Raises ConfigError if no job can start such a run."""
    config = checked.loaded.config
    kind = config.launcher.kind
    if kind not in (KIND, LOCAL):
        where = config.raw.place(("launcher", "kind"))
        text = (
            f"found '{kind}', expected '{KIND}' for a job of Slurm, or '{LOCAL}' for a job "
            "of one node"
        )
        raise ConfigError([f"{where}: {text}"])
    count, named = asked(config)
    path = os.environ.get("PYTHONPATH")
    words = [sys.executable, "-u", "-m", "runtime", "up", str(file.absolute())]
    words += [word for setting in settings for word in ("--set", setting)]
    return SCRIPT.format(
        file=one_line(str(file.absolute())),
        name=names_of(config, checked.placement.topology)[0],
        nodes=count,
        more="".join(f"#SBATCH {option}\n" for option in (*_named(named), *_room(config))),
        seconds=SAVE_SECONDS,
        folder=shlex.quote(str(Path.cwd())),
        path=f"export PYTHONPATH={shlex.quote(path)}\n" if path else "",
        command=shlex.join(words),
    )


def _named(nodes: tuple[str, ...]) -> list[str]:
    """The option for the named nodes. Raises ConfigError for a host name that is not a single word,
    since sbatch would read options from it."""
    for node in nodes:
        if not re.fullmatch(NAME, node):
            raise ConfigError(
                [(f"machine '{one_line(node)}' is not a name of a Slurm node, expected {NAMED}")]
            )
    return [f"--nodelist={','.join(nodes)}"] if nodes else []


def _room(config: ClusterConfig) -> list[str]:
    """The options for cores: as many as the largest entry asks for, else whole nodes."""
    written = [machine.get("cores") for machine in config.raw.data.get("machine", [{}])]
    return [f"--cpus-per-task={max(written)}"] if all(written) else ["--exclusive", "--mem=0"]
