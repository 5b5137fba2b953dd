"""The table of docs/metrics.md, from the calls that make the metrics: kind, labels and help.

A metric is a call such as `actor.counter("images", "Images trained on.", split="train")`. A name or
text in a variable is looked up in the function around the call. If several calls make one metric,
their labels and texts are joined.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import prometheus_client

from runtime.machine.versions import build
from tests.house.pages import linked, table
from tests.house.source import files_of, nodes_of

# function that makes a metric -> the metric's kind, the ending of its name
KINDS = {
    "counter": ("counter", "_total"),
    "tally": ("counter", "_total"),
    "gauge": ("gauge", ""),
    "reading": ("gauge", ""),
    "info": ("gauge", "_info"),
    "histogram": ("histogram", ""),
    "summary": ("summary", ""),
}
# labels of nearly all metrics, and one argument that is not a label
USUAL = ("role", "actor", "buckets")
FACTS = {"build": build}  # functions that return labels with their values


@dataclass
class Metric:
    """A metric as the page shows it."""

    name: str
    kind: str
    labels: list[str] = field(default_factory=list)
    says: list[str] = field(default_factory=list)


def metrics() -> dict[str, Metric]:
    """The metrics by name, in the order of files and lines; the metrics of processes come last."""
    found: dict[str, Metric] = {}
    for name in files_of("roles", "runtime"):
        for function in nodes_of(name):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in _made_in(function, name):
                    known = found.setdefault(each.name, Metric(each.name, each.kind))
                    known.labels += [label for label in each.labels if label not in known.labels]
                    known.says += [text for text in each.says if text not in known.says]
    return found | _of_processes()


def markdown() -> str:
    """The text of the table."""
    rows = [
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            linked(" ".join(metric.says)),
        )
        for metric in metrics().values()
    ]
    return table(("metric", "kind", "further labels", "meaning"), rows)


def _made_in(function: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> Iterator[Metric]:
    held = {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        how = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        how = how or (node.func.id if isinstance(node.func, ast.Name) else "")
        how = how.lstrip("_")
        if how not in KINDS:
            continue
        name = _text(node.args[0], held)
        says = _text(_nearest(node, node.args[1], function), held)
        # such a call passes a metric on or has nothing to do with metrics
        if says is None or " " not in says:
            continue
        if name is None:
            raise LookupError(f"{file}:{node.lineno}: expected the name of a metric as a text")
        kind, ending = KINDS[how]
        labels = [*_labels(node, held)]
        yield Metric(f"convoy_{name}{ending}", kind, labels, [says])


def _nearest(
    call: ast.Call, said: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> ast.expr:
    """The expression of an argument; of a variable, its last assignment before the call."""
    if not isinstance(said, ast.Name):
        return said
    before = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == said.id
        and node.lineno < call.lineno
    ]
    return before[-1] if before else said


def _text(said: ast.expr, held: dict[str, ast.expr]) -> str | None:
    if isinstance(said, ast.Name):
        said = held.get(said.id, said)
    return said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else None


def _labels(call: ast.Call, held: dict[str, ast.expr]) -> Iterator[str]:
    for keyword in call.keywords:
        names = [keyword.arg] if keyword.arg else _keys(keyword.value, held)
        yield from (name for name in names if name not in USUAL)
    for argument in call.args[2:3]:
        yield from (name for name in _keys(argument, held) if name not in USUAL)


def _keys(said: ast.expr, held: dict[str, ast.expr]) -> list[str]:
    """The texts of a tuple or the keys of a dictionary, if they are literals in the code."""
    if isinstance(said, ast.Name):
        said = held.get(said.id, said)
    if isinstance(said, ast.Call) and isinstance(said.func, ast.Name) and said.func.id in FACTS:
        return [*FACTS[said.func.id]("roles")]
    items = said.keys if isinstance(said, ast.Dict) else said.elts if _is_tuple(said) else []  # type: ignore[attr-defined]
    return [item.value for item in items if isinstance(item, ast.Constant)]


def _is_tuple(said: ast.expr) -> bool:
    return isinstance(said, ast.Tuple)


def _of_processes() -> dict[str, Metric]:
    """The metrics that the Prometheus library keeps of a process (on Linux)."""
    collector = prometheus_client.ProcessCollector(namespace="convoy", registry=None)
    found = {}
    for family in collector.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        found[name] = Metric(name, family.type, [], [family.documentation])
    return found
