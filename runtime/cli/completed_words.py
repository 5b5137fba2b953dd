"""The words that bash completes in addition to commands and options: the keys of --set, and the
names of runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

# commands whose argument is a run
OF_RUNS = "compare convert down events logs predict report save scale stack status test top trace"
SCRIPT = """
# Names of runs, and keys of --set. Run directories are looked for where cluster.toml says.
_convoy_words() {{
  _convoy
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
  if [[ $prev == --set ]]; then
    compopt -o nospace 2> /dev/null
    COMPREPLY=( $(compgen -S = -W "{keys}" -- "$cur") )
  elif [[ $prev == --resume || " {commands} " == *" ${{COMP_WORDS[1]}} "* && $cur != -* ]]; then
    local folder said='s/^directory *= *"\\(.*\\)".*/\\1/p'
    folder=$(sed -n "/^\\[run\\]/,/^\\[/$said" cluster.toml 2> /dev/null)
    local names="" run
    for run in "${{folder:-runs}}"/*/run.json; do
      [[ -f $run ]] && run=${{run%/run.json}} && names+=" ${{run##*/}}"
    done
    COMPREPLY+=( $(compgen -W "$names" -- "$cur") )
  fi
}}

complete -F _convoy_words convoy
"""


def bash_words() -> str:
    """The end of the script for bash."""
    from runtime.config.file import load_program
    from runtime.config.sections import ClusterConfig
    from runtime.config.toml_source import BUILT_IN

    options = load_program(BUILT_IN, Path()).options
    models: list[type[BaseModel]] = [ClusterConfig] if options is None else [ClusterConfig, options]
    keys = dict.fromkeys(key for model in models for key in keys_of(model))
    return SCRIPT.format(keys=" ".join(keys), commands=OF_RUNS)


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The keys of a section and of the sections in it, such as "train.strategy.workers". An entry
    of an array of tables is its first: "machine.0.name"."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = next(_models(field.annotation), None)
        if inner is None:
            yield key
        else:
            array = "0." if getattr(field.annotation, "__origin__", None) in (tuple, list) else ""
            yield from keys_of(inner, f"{key}.{array}")


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The sections in a type: itself, or members of a union or an array."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for member in get_args(kind):
        yield from _models(member)
