"""`completion`: let the shell complete the commands and options of `convoy`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from runtime.cli.arguments import Switch
from runtime.errors import ConfigError
from runtime.reasons import reason
from runtime.typed_name import SCRIPT

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell | None = None, *, install: Switch = False) -> int:
    """Write the script with which a shell completes the commands and options of `convoy`, the names
    of runs and nets, and the keys of --set with their values.

    `eval "$(convoy completion bash)"` turns completion on in this shell; --install in every new
    one.

    Parameters
    ----------
    shell
        The shell; by default the one in $SHELL.
    install
        Put the script where the shell looks for it, and print its path. A line in ~/.bashrc or
        ~/.zshrc loads it.
    """
    from runtime.cli.main import application

    app = application(["--help"], SCRIPT)
    found = shell or _own()
    if not install:
        sys.stdout.write(app.generate_completion(shell=found) + _end(found))
        return 0
    try:
        path = app.install_completion(shell=found)
        with path.open("a", encoding="utf-8") as script:
            script.write(_end(found))
    except OSError as error:
        raise ConfigError([f"{error.filename}: cannot be written: {reason(error)}"]) from None
    sys.stdout.write(f"wrote {path}; each new {found} uses it\n")
    return 0


def _end(shell: Shell) -> str:
    """The end of the script: the words that are not commands and options."""
    from runtime.cli.completed_words import words_of_keys
    from runtime.cli.completion_scripts import script_end

    return script_end(shell, words_of_keys())


def _own() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    if name in ("bash", "zsh", "fish"):
        return name  # type: ignore[return-value]  # one of the three
    raise ConfigError(
        [
            (
                f"completion: found the shell '{name}' in $SHELL, expected bash, zsh "
                "or fish as the argument"
            )
        ]
    )
