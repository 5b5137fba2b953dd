"""The table of layer kinds in docs/layers.md, made from the classes themselves: `python -m
nets.layers.layer_table`.

A kind's line is the first paragraph of its class's docstring.
"""

from __future__ import annotations

import sys

from nets.layers import KINDS, REFUSED, Layer


def markdown() -> str:
    """Return both tables: the kinds that are computed, by file, and those that are refused."""
    rows = sorted((_file(cls), kind, cls) for kind, cls in KINDS.items())
    lines = ["| type | what it computes | where |", "| --- | --- | --- |"]
    lines += [f"| `{kind}` | {_says(cls)} | `nets/layers/{file}.py` |" for file, kind, cls in rows]
    lines += ["", "| refused | why |", "| --- | --- |"]
    lines += [f"| `{kind}` | {reason} |" for kind, reason in sorted(REFUSED.items())]
    return "\n".join(lines) + "\n"


def _file(cls: type[Layer]) -> str:
    return cls.__module__.rpartition(".")[2]


def _says(cls: type[Layer]) -> str:
    """The first paragraph of the class's docstring, on one line."""
    text = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    return text.replace("|", r"\|").replace("*", r"\*")


if __name__ == "__main__":
    sys.stdout.write(markdown())
