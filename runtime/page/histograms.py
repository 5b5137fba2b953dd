"""The histograms of a run's parameters and gradients, from histograms.jsonl, as data for the page.

    [{"layer": "conv1", "name": "weight", "of": "values", "x": [0, 10], "low": [-0.2, -0.3],
      "high": [0.2, 0.3], "mean": [0, 0.01], "deviation": [0.1, 0.1], "zeros": [0, 0],
      "bins": [[0, 12, 255, 30], [2, 40, 255, 9]]}]

`of` is "values" or "gradients", `x` are iterations. `bins` have the counts of equal parts of the
range from `low` to `high`, where 255 stands for the greatest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.records.journal_reading import is_number
from runtime.records.run_files import LeftOut, Lines, Missing
from runtime.report.rundir import HISTOGRAMS_FILE

KINDS = ("values", "gradients")
NUMBERS = ("low", "high", "mean", "deviation", "zeros")
MOST_BINS = 200
MOST = 6000  # histograms of a page: about 1 MB
MOST_OF_ONE = 150  # histograms of one array: one for each two pixels of a drawing
LEAST_OF_ONE = 8
FULL = 255

Key = tuple[str, str, str, str]  # actor, layer, name of the array, kind


@dataclass
class Heat:
    """The histograms of one array in the order of their iterations."""

    iterations: list[int] = field(default_factory=list)
    found: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, iteration: int, histogram: Mapping[str, Any]) -> None:
        """Add a histogram. Those of this iteration and of later ones are removed first: the run
        has gone back and undone them."""
        while self.iterations and self.iterations[-1] >= iteration:
            self.iterations.pop()
            self.found.pop()
        self.iterations.append(iteration)
        self.found.append(histogram)


def read_histograms(directory: Path) -> tuple[dict[Key, Heat], list[str]]:
    """The histograms in a run directory, and notes about damaged lines. Raises Damaged if the file
    cannot be read."""
    path = directory / HISTOGRAMS_FILE
    damaged = LeftOut(path)
    heats: dict[Key, Heat] = {}
    try:
        for line in Lines(path).whole():
            try:
                for key, iteration, histogram in _histograms(json.loads(line)):
                    heats.setdefault(key, Heat()).add(iteration, histogram)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                damaged(line.decode(errors="replace").rstrip("\n"))
    except Missing:  # the run made none
        pass
    return heats, damaged.notes


def _histograms(line: Mapping[str, Any]) -> Iterator[tuple[Key, int, Mapping[str, Any]]]:
    """The histograms of a line. Raises ValueError, or another error if parts are missing."""
    for one in line["arrays"]:
        counts = one["counts"]
        numbers = [line["iteration"], *(one[name] for name in NUMBERS), *counts]
        texts = [line["actor"], line["layer"], one["name"], one["of"]]
        if not (
            all(map(is_number, numbers))
            and all(isinstance(text, str) for text in texts)
            and one["of"] in KINDS
            and 0 < len(counts) <= MOST_BINS
            and min(counts) >= 0
        ):
            raise ValueError  # handled like invalid JSON
        actor, layer, name, kind = texts
        yield (actor, layer, name, kind), int(line["iteration"]), one


def joined(earlier: dict[Key, Heat], later: dict[Key, Heat], begun: int) -> dict[Key, Heat]:
    """The histograms of a run after those of the run that it resumed at iteration `begun`."""
    found: dict[Key, Heat] = {}
    for key in dict.fromkeys((*earlier, *later)):
        heat = found[key] = Heat()
        for part, most in ((earlier, begun), (later, None)):
            of = part.get(key, Heat())
            for iteration, histogram in zip(of.iterations, of.found, strict=True):
                if most is None or iteration <= most:
                    heat.add(iteration, histogram)
    return found


def heat_maps(heats: Mapping[Key, Heat], room: int) -> list[dict[str, Any]]:
    """The data of one run for the page, at most about `room` histograms: evenly chosen ones, with
    the first and the last. Where several actors have parts of a layer, its title names the
    actor."""
    most = max(LEAST_OF_ONE, min(MOST_OF_ONE, room // max(1, len(heats))))
    actors = Counter(layer for _, layer in {(actor, layer) for actor, layer, _, _ in heats})
    return [
        _heat_map(f"{layer} of {actor}" if actors[layer] > 1 else layer, name, kind, heat, most)
        for (actor, layer, name, kind), heat in heats.items()
    ]


def _heat_map(layer: str, name: str, kind: str, heat: Heat, most: int) -> dict[str, Any]:
    last = len(heat.found) - 1
    count = min(most, last + 1)
    kept = sorted({round(at * last / max(1, count - 1)) for at in range(count)})
    chosen = [heat.found[at] for at in kept]
    numbers = {key: [float(f"{one[key]:.4g}") for one in chosen] for key in NUMBERS}
    return {
        "layer": layer,
        "name": name,
        "of": kind,
        "x": [heat.iterations[at] for at in kept],
        **numbers,
        "bins": [_shades(one["counts"]) for one in chosen],
    }


def _shades(counts: Sequence[float]) -> list[int]:
    greatest = max(counts) or 1
    return [-int(-FULL * count // greatest) for count in counts]
