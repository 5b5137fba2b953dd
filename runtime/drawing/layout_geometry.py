"""The positions of the boxes and lines in a drawing of a placement. Geometry only, in pixels, with
y downwards.

Actors stand in rows. The first actor of a link stands below the second where possible, so that
senders are below their receivers. Each machine has a band of columns, and so has each process with
several actors within its machine. So the boxes around them never meet. A link that passes a row has
its own slot there, so that no line runs behind a box.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime.plan.topology import Link, Placement, Topology

CHARACTER = 7.3  # width of a character, in px
LINE = 15.0
ACTOR_HEIGHT = 40.0
ACTOR_PAD = 12.0
SLOT = 14.0  # the width of a line that passes a row
BETWEEN = 32.0  # between the boxes of a row
PROCESS_PAD = 8.0
MACHINE_PAD = 14.0
TITLE = 18.0
GAPS = (64.0, 100.0, 150.0, 220.0, 320.0)  # between rows, until the labels fit
SWEEPS = 8  # sweeps that bring linked slots near each other
# a curve hangs three quarters of this below its row, which is less than the least gap
DEEPEST = 80.0
# positions of a label on its line, in the order of preference
ALONG = (0.5, 0.4, 0.6, 0.3, 0.7, 0.45, 0.55, 0.35, 0.65, 0.25, 0.75)

Slot = tuple[str, ...]  # (actor,), or (lower, upper, row) of a link that passes
Point = tuple[float, float]
Band = tuple[int, int]  # machine, and column within it


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height

    def meets(self, other: Box) -> bool:
        """Return whether the two boxes overlap."""
        return (
            self.x < other.right
            and other.x < self.right
            and self.y < other.bottom
            and other.y < self.bottom
        )

    def around(self, pad: float, title: float) -> Box:
        """A box around this one, with room for a title above."""
        return Box(
            self.x - pad, self.y - pad - title, self.width + 2 * pad, self.height + 2 * pad + title
        )


@dataclass(frozen=True)
class Scene:
    """The positions of everything. `links` holds the points of each line; a curve joins the points
    of each pair. `labels` holds the box of each text."""

    width: float
    height: float
    machines: dict[str, Box]
    processes: dict[str, Box]
    actors: dict[str, Box]
    links: dict[Link, list[Point]]
    labels: dict[Link, Box]


def text_width(text: str) -> float:
    """The width of a line of text in a fixed-width font, in px."""
    return CHARACTER * len(text)


def ranks(topology: Topology) -> dict[str, int]:
    """The row of each actor, 0 at the top. Links lead upwards. The actors of a role share a row if
    the links among them are at least as many as the actors. In each circle of links one link is
    ignored."""
    role = {actor.name: actor.role for actor in topology.actors}
    inside: defaultdict[str, int] = defaultdict(int)
    for a, b in topology.links:
        inside[role[a]] += role[a] == role[b]
    crowd = {
        name
        for name, count in inside.items()
        if count >= sum(of == name for of in role.values()) > 1
    }
    above: dict[str, list[str]] = {actor.name: [] for actor in topology.actors}
    for a, b in topology.links:
        if a != b and not (role[a] == role[b] and role[a] in crowd):
            above[a].append(b)
    found: dict[str, int] = {}

    def rank(name: str, below: tuple[str, ...]) -> int:
        if name not in found:
            higher = [
                rank(peer, (*below, name)) for peer in above[name] if peer not in (*below, name)
            ]
            found[name] = max(higher, default=-1) + 1
        return found[name]

    for actor in topology.actors:
        rank(actor.name, ())
    return found


def scene(placement: Placement, labels: Mapping[Link, str]) -> Scene:
    """Lay out a placement. `labels` holds the texts of some links, each on one line; the links are
    named as in `Scene.links`."""
    plan = _Plan(placement)
    for gap in GAPS:
        made = plan.scene(gap)
        placed = _labelled(made, labels)
        if len(placed) == len(labels):
            break
    return Scene(
        made.width, made.height, made.machines, made.processes, made.actors, made.links, placed
    )


class _Plan:
    """The rows, the bands and the order in each. Coordinates follow from these for any gap between
    rows."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        topology = placement.topology
        self.row = ranks(topology)
        self.width = {
            a.name: text_width(max(a.name, a.role, key=len)) + 2 * ACTOR_PAD
            for a in topology.actors
        }
        self.links = [
            (a, b) if self.row[a] >= self.row[b] else (b, a)
            for a, b in dict.fromkeys(topology.links)
        ]
        self.links = [link for link in dict.fromkeys(self.links) if link[0] != link[1]]
        self.band = self._bands()
        self.chains = {link: self._chain(link) for link in self.links}
        self.order = self._ordered()

    def _bands(self) -> dict[str, Band]:
        """The band of each actor: its machine, and a column. The column is 0, or for the actors of
        a process with several actors a column for that process."""
        machines = list(dict.fromkeys(spec.machine for spec in self.placement.processes))
        column = itertools.count(1)
        found = {}
        for spec in self.placement.processes:
            own = next(column) if len(spec.actors) > 1 else 0
            found.update({actor: (machines.index(spec.machine), own) for actor in spec.actors})
        return found

    def _chain(self, link: Link) -> list[Slot]:
        """The slots of a link from above to below: its upper actor, a slot in each row between, its
        lower actor."""
        lower, upper = link
        between = range(self.row[upper] + 1, self.row[lower])
        return [(upper,), *((lower, upper, str(row)) for row in between), (lower,)]

    def _ordered(self) -> dict[tuple[Band, int], list[Slot]]:
        """The slots of each band and row, from the left. Each slot is sorted to be near the slots
        it is linked with."""
        places: defaultdict[tuple[Band, int], list[Slot]] = defaultdict(list)
        near: defaultdict[Slot, list[Slot]] = defaultdict(list)
        for name, row in self.row.items():
            places[self.band[name], row].append((name,))
        for (lower, _), chain in self.chains.items():
            for slot in chain[1:-1]:
                places[self.band[lower], int(slot[2])].append(slot)
            for a, b in itertools.pairwise(chain):
                near[a].append(b)
                near[b].append(a)
        for _ in range(SWEEPS):
            position = self._positions(places)
            for slots in places.values():
                slots.sort(
                    key=lambda slot: _mean([position[peer] for peer in near[slot]], position[slot])
                )
        return dict(places)

    def _positions(self, places: Mapping[tuple[Band, int], Sequence[Slot]]) -> dict[Slot, float]:
        """The middle of each slot in this order."""
        left = self._lefts(places)
        found: dict[Slot, float] = {}
        for (band, _), slots in places.items():
            start, room = left[band]
            x = start + (room - self._extent(slots)) / 2
            for slot in slots:
                found[slot] = x + self._width(slot) / 2
                x += self._width(slot) + BETWEEN
        return found

    def _lefts(
        self, places: Mapping[tuple[Band, int], Sequence[Slot]]
    ) -> dict[Band, tuple[float, float]]:
        """The left edge and the width of each band."""
        room: defaultdict[Band, float] = defaultdict(float)
        for (band, _), slots in places.items():
            room[band] = max(room[band], self._extent(slots))
        found: dict[Band, tuple[float, float]] = {}
        x = 0.0
        last = -1
        for band in sorted(room):
            x += (
                (2 * (MACHINE_PAD + PROCESS_PAD) + BETWEEN)
                if band[0] != last
                else (2 * PROCESS_PAD + BETWEEN)
            )
            found[band] = (x, room[band])
            x = x + room[band]
            last = band[0]
        return found

    def _width(self, slot: Slot) -> float:
        return self.width[slot[0]] if len(slot) == 1 else SLOT

    def _extent(self, slots: Sequence[Slot]) -> float:
        return sum(self._width(slot) + BETWEEN for slot in slots) - BETWEEN

    def scene(self, gap: float) -> Scene:
        """The coordinates, with `gap` px between the rows."""
        middle = self._positions(self.order)
        pitch = ACTOR_HEIGHT + 2 * PROCESS_PAD + TITLE + gap
        top = MACHINE_PAD + 2 * TITLE + PROCESS_PAD + BETWEEN
        actors = {
            name: Box(
                middle[name,] - self.width[name] / 2,
                top + row * pitch,
                self.width[name],
                ACTOR_HEIGHT,
            )
            for name, row in self.row.items()
        }
        processes = {}
        machines = defaultdict(list)
        for spec in self.placement.processes:
            title = TITLE if (spec.name,) != spec.actors else 0.0
            processes[spec.name] = _bounds(actors[name] for name in spec.actors).around(
                PROCESS_PAD, title
            )
            machines[spec.machine].append(processes[spec.name])
            machines[spec.machine] += [
                Box(middle[slot] - SLOT / 2, actors[spec.actors[0]].y, SLOT, 0)
                for (lower, _), chain in self.chains.items()
                if lower in spec.actors
                for slot in chain[1:-1]
            ]
        around = {
            name: _bounds(boxes).around(MACHINE_PAD, TITLE) for name, boxes in machines.items()
        }
        whole = _bounds(around.values()).around(BETWEEN, 0)
        lines = self._lines(actors, middle)
        hanging = gap * any(self.row[a] == self.row[b] for a, b in self.links)
        return Scene(whole.right, whole.bottom + hanging, around, processes, actors, lines, {})

    def _lines(
        self, actors: Mapping[str, Box], middle: Mapping[Slot, float]
    ) -> dict[Link, list[Point]]:
        """The points of each line, from above to below, straight through the rows that it
        passes."""
        ends = self._ends(actors, middle)
        row_top = {row: actors[name].y for name, row in self.row.items()}
        found = {}
        for link, chain in self.chains.items():
            lower, upper = link
            points = [ends[link, upper]]
            for slot in chain[1:-1]:
                y = row_top[int(slot[2])]
                points += [
                    (middle[slot], y - PROCESS_PAD - TITLE),
                    (middle[slot], y + ACTOR_HEIGHT + PROCESS_PAD),
                ]
            found[link] = [*points, ends[link, lower]]
        return found

    def _ends(
        self, actors: Mapping[str, Box], middle: Mapping[Slot, float]
    ) -> dict[tuple[Link, str], Point]:
        """The points where each line meets its two actors. They are spread over the lower or upper
        edges of the actors, in the order in which the lines run."""
        edges: defaultdict[tuple[str, bool], list[tuple[float, Link]]] = defaultdict(list)
        for link, chain in self.chains.items():
            lower, upper = link
            same = self.row[lower] == self.row[upper]
            edges[upper, True].append((middle[chain[1]], link))
            edges[lower, same].append((middle[chain[-2]], link))
        found = {}
        for (name, below), ways in edges.items():
            box = actors[name]
            for number, (_, link) in enumerate(sorted(ways), 1):
                x = box.x + box.width * number / (len(ways) + 1)
                found[link, name] = (x, box.bottom if below else box.y)
        return found


def bends(start: Point, end: Point) -> tuple[float, float]:
    """The heights of the two control points of the curve from `start` to `end`. The curve leaves
    and arrives upright. Between points of one row it hangs below them, the deeper the longer it
    is."""
    if start[1] == end[1]:
        deep = start[1] + min(DEEPEST, DEEPEST / 3 + abs(end[0] - start[0]) / 8)
        return deep, deep
    half = (start[1] + end[1]) / 2
    return half, half


def at(start: Point, end: Point, t: float) -> Point:
    """The point at `t` (0 to 1) of that curve."""
    first, second = bends(start, end)
    a = (1 - t) ** 3
    b = 3 * (1 - t) ** 2 * t
    c = 3 * (1 - t) * t**2
    d = t**3
    return (a + b) * start[0] + (c + d) * end[0], a * start[1] + b * first + c * second + d * end[1]


def _labelled(made: Scene, labels: Mapping[Link, str]) -> dict[Link, Box]:
    """A box for each text on its line, where it overlaps no other text, no actor and no title.
    Texts without such a place are left out."""
    taken = [box.around(PROCESS_PAD, 0) for box in made.actors.values()]
    taken += [
        Box(box.x, box.y, box.width, TITLE)
        for box in (*made.machines.values(), *made.processes.values())
    ]
    found: dict[Link, Box] = {}
    for link, text in sorted(labels.items(), key=lambda item: -len(item[1])):
        points = made.links[link]
        width = text_width(text)
        for piece, t in itertools.product(range(0, len(points) - 1, 2), ALONG):
            x, y = at(points[piece], points[piece + 1], t)
            box = Box(x - width / 2, y - LINE / 2, width, LINE)
            if not any(box.meets(other) for other in taken):
                found[link] = box
                taken.append(box)
                break
    return found


def _bounds(boxes: Iterable[Box]) -> Box:
    every = list(boxes)
    x = min(box.x for box in every)
    y = min(box.y for box in every)
    return Box(x, y, max(box.right for box in every) - x, max(box.bottom for box in every) - y)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
