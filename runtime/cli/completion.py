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
    """Write the script with which a shell completes the commands and options of `convoy`. In bash
    it also completes names of runs, and the keys of --set.

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
        sys.stdout.write(app.generate_completion(shell=found) + _words(found))
        return 0
    try:
        path = app.install_completion(shell=found)
        with path.open("a", encoding="utf-8") as script:
            script.write(_words(found))
    except OSError as error:
        raise ConfigError([f"{error.filename}: cannot be written: {reason(error)}"]) from None
    sys.stdout.write(f"wrote {path}; each new {found} uses it\n")
    return 0


def _words(shell: Shell) -> str:
    """The end of the script; "" for shells other than bash."""
    from runtime.cli.completed_words import bash_words

    return bash_words() if shell == "bash" else ""


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
