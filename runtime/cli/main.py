"""The command line: it collects the commands, runs one and prints its errors. Exit codes: 0 done, 1
the program failed, 2 bad configuration, 3 could not place or launch, 4 a role died, 130/143 ended
by a signal, 141 the reader of the output has gone.

A command is a function with type hints in its own file, which is imported when the command is
called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cyclopts import App

from runtime import own_packages
from runtime.config.toml_source import BUILT_IN, read
from runtime.errors import ConfigError, ConvoyError
from runtime.reasons import reason
from runtime.terminal_text import printable
from runtime.typed_name import SCRIPT, typed_name

HELP = "Train convolutional networks as a convoy of role processes."
VERSION = "--version"
NOBODY_READS = 141  # the exit code of a process that SIGPIPE ended
COMMANDS = {
    "up": "runtime.cli.up:up",
    "check": "runtime.cli.check:check",
    "plan": "runtime.cli.plan:plan",
    "ps": "runtime.cli.ps:ps",
    "runs": "runtime.cli.runs:runs",
    "compare": "runtime.cli.compare:compare",
    "status": "runtime.cli.status:status",
    "events": "runtime.cli.watch.events:events",
    "report": "runtime.cli.report:report",
    "top": "runtime.cli.watch.top:top",
    "stack": "runtime.cli.watch.stack:stack",
    "logs": "runtime.cli.watch.logs:logs",
    "trace": "runtime.cli.watch.trace:trace",
    "save": "runtime.cli.save:save",
    "scale": "runtime.cli.scale:scale",
    "down": "runtime.cli.down:down",
    "join": "runtime.cli.join:join",
    "completion": "runtime.cli.completion:completion",
    "docs": "runtime.cli.docs:docs",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Errors for people go to stderr without a traceback."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        own_packages.put_first()
        if words[:1] != [VERSION]:
            _check_working_folder()
        result = application(words, typed_name())(
            words, exit_on_error=False, print_error=True, result_action="return_value"
        )
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        _output_fails("\n")
        return NOBODY_READS
    except ConvoyError as error:
        _output_fails()
        print(printable(str(error)), file=sys.stderr)  # noqa: T201
        return error.exit_code
    except OSError as error:
        if error.filename is not None or not _output_fails("\n"):
            raise
        print(f"stdout: {reason(error)}", file=sys.stderr)  # noqa: T201
        return ConvoyError.exit_code
    except Exception as error:  # cyclopts has reported the mistake in the command line
        if type(error).__module__.partition(".")[0] != "cyclopts":
            raise
        command = " ".join([typed_name(), *(getattr(error, "command_chain", None) or ())])
        print(f"see `{command} --help`", file=sys.stderr)  # noqa: T201
        return 2
    return result if isinstance(result, int) else 0


def _output_fails(probe: str = "") -> bool:
    """Whether stdout cannot be written, neither the output that waits nor `probe`. Further output
    then goes to the null device: otherwise Python would write a traceback when it exits."""
    try:
        sys.stdout.write(probe)
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _check_working_folder() -> None:
    """Raise ConfigError if the working folder was removed: paths cannot be looked up from there."""
    try:
        Path.cwd()
    except OSError as error:
        text = f"the working folder: {reason(error)}: start the command from another folder"
        raise ConfigError([text]) from None


def application(words: Sequence[str], name: str) -> App:
    """The application with the command that these words call, or with all commands. Raises
    ConfigError if a command cannot be imported."""
    app = App(name=name, help=HELP, version_flags=[VERSION], version=_version)
    for command, place in _meant(words).items():
        app.command(function_of(command, place), name=command)
    return app


def _version() -> str:
    from importlib.metadata import version

    return f"{SCRIPT} {version('convoy-runtime')}"


def _meant(words: Sequence[str]) -> dict[str, str]:
    """name -> "module:function" of the command that is called. For help and after a mistake: all
    commands.

    The commands are the runtime's, the built-in program's, and those of the program that
    cluster.toml names. Raises ConfigError if that program cannot be imported and neither of the
    others has the called command.
    """
    called = words[0] if words else "--help"
    if called in COMMANDS:
        return {called: COMMANDS[called]}
    if called == VERSION:  # takes 0.1 s; importing all commands takes five times as long
        return {}
    found = {**COMMANDS, **import_module(BUILT_IN).COMMANDS}
    try:
        found = {**found, **_commands_of(_file(words)), **COMMANDS}
    except ConfigError:
        if called not in found and not called.startswith("-"):
            raise
    return {called: found[called]} if called in found else found


def function_of(name: str, place: str) -> Callable[..., Any]:
    """The function of a command, at "module:function". Raises ConfigError if it cannot be
    imported."""
    module, _, function = place.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), function)
    except Exception as error:
        text = f"command {name!r} ({place}) cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError([text]) from error
    return found


def _file(words: Sequence[str]) -> Path:
    """The cluster.toml that the words name, else the one in this folder."""
    named = [word.rpartition("=")[2] for word in words[1:] if word.endswith(".toml")]
    return Path(named[0] if named else "cluster.toml")


def _commands_of(file: Path) -> Mapping[str, str]:
    """The commands of the program that a cluster.toml names. Empty if the file is faulty; the
    called command reports that."""
    try:
        raw = read(file)
    except ConfigError:
        return {}
    if raw.program is None or raw.program == BUILT_IN:
        return {}
    from runtime.config.file import load_program

    return load_program(raw.program, raw.base).commands
