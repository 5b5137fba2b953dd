"""`python -m benchmarks.islands`: what islands learn, how long their periods take, and what happens
if they come and go, on the virtual clock and in network namespaces.

    lenet       whether unequal machines on a slow link learn sooner together than the fastest of them alone
    periods     the seconds of a period on several clusters, next to those that `plan` predicts
    grid        islands next to other presets at several speeds and links, and what their parts bring
    homes       whether machines of drawn homes are never later than the fastest of them alone
    real        islands on emulated machines in network namespaces, next to the virtual clock
    events      islands that are killed, stopped, leave and come back in network namespaces, in real time
    attendance  what is in the outer model, and how long others wait, if islands and the server die and come back

A missed bar is reported in a line, and the command ends with 1. The load of the machine changes no
number on the virtual clock.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, machine, write
from benchmarks.islands import attendance, events, grid, homes, learning, periods, real_time

PARTS = {
    "lenet": learning,
    "grid": grid,
    "homes": homes,
    "real": real_time,
    "periods": periods,
    "attendance": attendance,
    "events": events,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed."""
    parser = parser_of("islands", __doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    for part in PARTS.values():
        part.add_options(parser)
    given = parser.parse_args(arguments)
    records = {name: PARTS[name].measured(given) for name in given.parts}
    print("results:", *write(given.results, "islands", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))
