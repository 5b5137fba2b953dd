"""The tables of docs/layers.md: layer types by file, refused layer types of Caffe, and solvers.

A type's text is the first paragraph of its class's docstring.
"""

from __future__ import annotations

from nets.definition.solver_types import RULES
from nets.layers import KINDS, REFUSED, Layer
from tests.house.pages import table


def types() -> str:
    """The tables of the types that Convoy computes and of the types that it refuses."""
    of_caffe = {kind: cls for kind, cls in KINDS.items() if cls.of_caffe}
    ours = {kind: cls for kind, cls in KINDS.items() if not cls.of_caffe}
    tables = [table(("type", "result", "file"), _rows(of_caffe))]
    if ours:
        tables.append(table(("type that Caffe lacks", "result", "file"), _rows(ours)))
    refused = [(f"`{kind}`", reason) for kind, reason in sorted(REFUSED.items())]
    return "\n".join([*tables, table(("refused", "why"), refused)])


def solvers() -> str:
    """The table of the solver types: the number of arrays that each keeps for a parameter, and its
    settings.
    """
    rows = [
        (f"`{name}`", str(rule.histories), ", ".join(f"`{number}`" for number in rule.numbers))
        for name, rule in RULES.items()
    ]
    return table(("type", "histories per parameter", "settings"), rows)


def _rows(kinds: dict[str, type[Layer]]) -> list[tuple[str, ...]]:
    rows = sorted((cls.__module__.rpartition(".")[2], kind, cls) for kind, cls in kinds.items())
    return [(f"`{kind}`", _says(cls), f"`nets/layers/{file}.py`") for file, kind, cls in rows]


def _says(cls: type[Layer]) -> str:
    """The first paragraph of the class's docstring, on one line."""
    text = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    return text.replace("|", r"\|").replace("*", r"\*")
