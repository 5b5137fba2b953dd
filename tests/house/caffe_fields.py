"""The tables of docs/caffe.md: how every field of Caffe's files is treated."""

from __future__ import annotations

from nets.schema.fields import FIELDS


def markdown() -> str:
    """The tables of the fields that are honoured, warned of and refused."""
    lines = ["| message | honoured |", "| --- | --- |"]
    lines += [
        f"| `{name}` | {_quoted(of.honoured.split())} |"
        for name, of in FIELDS.items()
        if of.honoured
    ]
    for title, chosen in (("warned of", "warned"), ("refused", "refused")):
        lines += ["", f"| {title} | why |", "| --- | --- |"]
        for name, of in FIELDS.items():
            reasons: dict[str, list[str]] = {}
            for key, why in getattr(of, chosen).items():
                reasons.setdefault(why, []).append(key)
            lines += [f"| `{name}`: {_quoted(keys)} | {why} |" for why, keys in reasons.items()]
    return "\n".join(lines) + "\n"


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
