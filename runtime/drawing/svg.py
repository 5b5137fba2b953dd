"""A placement in words, and as a self-contained SVG drawing. `layout_geometry` computes the
positions."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from runtime.counting import counted
from runtime.drawing.layout_geometry import Box, Point, Scene, bends, scene, text_width
from runtime.plan.forecast import HOST, Forecast, shown
from runtime.plan.topology import Link, Placement

NOTHING = Forecast()
MARGIN = 8.0  # px between a text and the edge of the drawing
FILLS = (
    "#dbeafe",
    "#dcfce7",
    "#fef3c7",
    "#fce7f3",
    "#ede9fe",
    "#cffafe",
    "#ffedd5",
    "#e2e8f0",
)  # one for each role, in turn
STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1e293b }
.role, .title { fill: #64748b; font-size: 11px }
.machine { fill: #f8fafc; stroke: #cbd5e1 }
.process { fill: #ffffff; stroke: #94a3b8; stroke-dasharray: 4 3 }
.actor { stroke: #475569 }
.link { fill: none; stroke: #cbd5e1; stroke-width: 1.2 }
.bulk { stroke: #2563eb; stroke-width: 1.8 }
.label { font-size: 11px; text-anchor: middle;
  paint-order: stroke; stroke: #f8fafc; stroke-width: 4px }
.middle { text-anchor: middle }
"""


def svg(placement: Placement, forecast: Forecast = NOTHING) -> str:
    """The drawing: actors as boxes within processes within machines, links as lines. Blue links
    carry arrays, and their labels show the bytes in each direction in one step. Every box and line
    has a tooltip."""
    labels = _labels(placement, forecast)
    drawn = scene(placement, labels)
    left, right = _sides(drawn)
    size = f'width="{right - left:.0f}" height="{drawn.height:.0f}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="{left:.0f} 0 {right - left:.0f} {drawn.height:.0f}">'
    )
    ground = f'<rect x="{left:.0f}" width="100%" height="100%" fill="#ffffff"/>'
    parts = [head, f"<style>{STYLE}</style>", ground]
    parts += _containers(drawn, placement)
    parts += _lines(drawn, forecast, labels)
    parts += _actors(drawn, placement, forecast)
    for link, box in drawn.labels.items():
        parts.append(_text(box.x + box.width / 2, box.bottom - 4, labels[link], "label"))
    return "\n".join([*parts, "</svg>\n"])


def _sides(drawn: Scene) -> tuple[float, float]:
    """The left and the right edge of the drawing. Labels of links and titles of boxes may reach
    further than the boxes."""
    ends = [box.x + 8 + text_width(f"machine {name}") for name, box in drawn.machines.items()]
    ends += [box.x + 6 + text_width(f"process {name}") for name, box in drawn.processes.items()]
    ends += [box.right for box in drawn.labels.values()]
    starts = [box.x for box in drawn.labels.values()]
    return min([0.0, *(x - MARGIN for x in starts)]), max(
        [drawn.width, *(x + MARGIN for x in ends)]
    )


def _labels(placement: Placement, forecast: Forecast) -> dict[Link, str]:
    """The label of each link: the bytes of each direction, with an arrow that points there. Drawn
    links lead from below to above."""
    drawn = scene(placement, {})
    found = {}
    for lower, upper in drawn.links:
        texts = [
            (
                f"{_arrow(drawn.actors[sender], drawn.actors[receiver])} "
                f"{shown(forecast.on_link((sender, receiver)))}"
            )
            for sender, receiver in ((lower, upper), (upper, lower))
            if (sender, receiver) in forecast.traffic
        ]
        if texts:
            found[lower, upper] = "  ".join(texts)
    return found


def _arrow(sender: Box, receiver: Box) -> str:
    if sender.y == receiver.y:
        return "▶" if sender.x < receiver.x else "◀"
    return "▲" if receiver.y < sender.y else "▼"


def _containers(drawn: Scene, placement: Placement) -> Iterator[str]:
    for name, box in drawn.machines.items():
        yield _rect(box, "machine", f"machine {name}")
        yield _text(box.x + 8, box.y + 14, f"machine {name}", "title")
    for spec in placement.processes:
        box = drawn.processes[spec.name]
        threads = f"{spec.threads_told} thread{'s'[: spec.threads != 1]}"
        yield _rect(box, "process", f"process {spec.name}: {', '.join(spec.actors)}; {threads}")
        if spec.actors != (spec.name,):
            yield _text(box.x + 6, box.y + 14, f"process {spec.name}", "title")


def _lines(drawn: Scene, forecast: Forecast, labels: dict[Link, str]) -> Iterator[str]:
    for (lower, upper), points in drawn.links.items():
        said = [
            f"{sender} → {receiver}: {kind} {shown(size)}"
            for sender, receiver in ((lower, upper), (upper, lower))
            for kind, size in forecast.traffic.get((sender, receiver), {}).items()
        ]
        about = "\n".join(said) or f"{lower} – {upper}"
        kind = "link bulk" if (lower, upper) in labels else "link"
        yield f'<path class="{kind}" d="{_path(points)}"><title>{escape(about)}</title></path>'


def _actors(drawn: Scene, placement: Placement, forecast: Forecast) -> Iterator[str]:
    roles = list(dict.fromkeys(actor.role for actor in placement.topology.actors))
    for actor in placement.topology.actors:
        box = drawn.actors[actor.name]
        fill = FILLS[roles.index(actor.role) % len(FILLS)]
        memory = "".join(
            f"\n{what} {shown(size)}" for what, size in forecast.memory.get(actor.name, {}).items()
        )
        lead = ", leads" if actor.name == placement.topology.lead else ""
        yield _rect(
            box, "actor", (f"{actor.name} ({actor.role}{lead}){memory}"), f' fill="{fill}" rx="4"'
        )
        middle = box.x + box.width / 2
        yield _text(middle, box.y + 17, actor.name, "middle")
        yield _text(middle, box.y + 32, actor.role, "role middle")


def _path(points: Sequence[Point]) -> str:
    """The SVG path: a curve between the points of a pair, a straight line from one pair to the
    next."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for number, (start, end) in enumerate(itertools.pairwise(points)):
        (x0, _), (x1, y1), (first, second) = start, end, bends(start, end)
        curve = f"C{x0:.1f} {first:.1f} {x1:.1f} {second:.1f} {x1:.1f} {y1:.1f}"
        parts.append(curve if number % 2 == 0 else f"L{x1:.1f} {y1:.1f}")
    return "".join(parts)


def _rect(box: Box, kind: str, about: str, more: str = "") -> str:
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
    return f'<rect class="{kind}" {place}{more}><title>{escape(about)}</title></rect>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def outline(placement: Placement, forecast: Forecast = NOTHING) -> str:
    """The placement in words: the actors in each process, the memory of each actor, and the bytes
    on each link."""
    rows = [("process", "machine", "threads", "actor", "role", "memory")]
    roles = {actor.name: actor.role for actor in placement.topology.actors}
    for spec in placement.processes:
        for number, actor in enumerate(spec.actors):
            mine = (spec.name, spec.machine, spec.threads_told) if number == 0 else ("", "", "")
            rows.append((*mine, actor, roles[actor], _memory(forecast, actor)))
    text = columns(rows)
    if gpus := list(_gpus(placement, forecast)):
        text += "\n\n" + "\n".join(gpus)
    if forecast.traffic:
        links = [("from", "to", f"bytes of arrays per {forecast.step}", "", "")]
        for (sender, receiver), kinds in forecast.traffic.items():
            shared = placement.topology.device_links.get((sender, receiver))
            stay = f"stays on {shared.gpu}" if shared else ""
            links += [(sender, receiver, kind, shown(size), stay) for kind, size in kinds.items()]
        text += "\n\n" + columns(links)
    quiet = [
        link
        for link in placement.topology.links
        if not {link, link[::-1]} & forecast.traffic.keys()
    ]
    if quiet:
        text += f"\n\n{'links without arrays' if forecast.traffic else 'links'}\n"
        text += "\n".join(f"  {a} – {b}" for a, b in quiet)
    return text


def _gpus(placement: Placement, forecast: Forecast) -> Iterator[str]:
    """A line for each GPU: the bytes that actors hold there, and its processes."""
    gpus = placement.topology.gpus
    held = defaultdict[tuple[str, str], list[int]](list)  # (machine, GPU) -> bytes of each process
    for spec in placement.processes:
        here = [actor for actor in spec.actors if actor in gpus]
        for gpu in {gpus[actor]: None for actor in here}:
            held[spec.machine, gpu].append(sum(_on_gpu(forecast, actor) for actor in here))
    for (machine, gpu), sizes in held.items():
        count = counted(len(sizes), "process")
        each = "each has" if len(sizes) > 1 else "it has"
        yield (
            f"{gpu} of {machine}: {shown(sum(sizes))} of {count}; {each} a context of CUDA "
            "besides, some hundred MB"
        )


def _on_gpu(forecast: Forecast, actor: str) -> int:
    parts = forecast.memory.get(actor, {})
    return sum(size for what, size in parts.items() if not what.endswith(HOST))


def _memory(forecast: Forecast, actor: str) -> str:
    parts = forecast.memory.get(actor, {})
    if not parts:
        return ""
    return f"{shown(sum(parts.values()))}: " + ", ".join(
        f"{what} {shown(size)}" for what, size in parts.items()
    )


def columns(rows: Sequence[Sequence[str]]) -> str:
    """The rows as lines. Each column is as wide as its widest cell."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
