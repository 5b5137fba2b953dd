"""`python -m benchmarks.encryption`: the cost of encrypted links between two hosts, compared with
the same links without encryption.

The hosts are network namespaces with a cable of 1 Gbit/s between them. Both sides are up at once
and take turns, round by round; a loss is the median of the ratios of the rounds. The bar is for 1
Gbit/s. A second part has a cable without a rate: there the processors are the limit, and both hosts
share those of this machine. The third part is a run whose ports strangers try to enter
(`strangers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.encryption.strangers import beside_strangers
from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.machines import Refused, machines
from benchmarks.helpers.report import ROOT, Record, machine, ratio, write
from benchmarks.messages.pair import ADDRESSES, NAMESPACES, Lost, Pair, namespaces
from runtime.transport.keys import Keys
from runtime.transport.zeromq import key_pair

MB = 1 << 20
RATE = 10**9  # bits per second
STREAMS = {"1 MB": (MB, 50), "30 MB": (30 * MB, 3)}  # bytes of an array, arrays per round
LAYERS = [139776, 1229824, 3540480, 2655744, 1770496]  # bytes of CaffeNet's convolutions, float32
ACTIVATIONS = 4718592  # bytes of 128 images
LEAST = 0.95  # of the speed without encryption
OPEN = "in the open"
SEALED = "encrypted"


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed or a part failed."""
    parser = parser_of("encryption", __doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    given = parser.parse_args(arguments)
    records = {name: Record(PARTS[name][0]) for name in given.parts}
    for name, record in records.items():
        print(record.title, flush=True)
        try:
            PARTS[name][1](record, given.rounds)
        except Refused as why:
            record.note(f"no network namespaces here: {why}")
            record.status = "skipped"
        except Lost as error:
            record.fail(str(error))
        record.status = "passed" if record.status == "running" else record.status
    print("results:", *write(given.results, "encryption", machine(), records))
    return int(any(record.status == "failed" for record in records.values()))


def over_a_gigabit(record: Record, rounds: int) -> None:
    """Measure over cables of 1 Gbit/s each, and judge by the bar."""
    with machines(2, RATE) as made:
        measured(
            record,
            [each.namespace for each in made],
            [each.address for each in made],
            rounds,
            LEAST,
        )


def without_a_rate(record: Record, rounds: int) -> None:
    """Measure over a cable that is as fast as the machine's processors."""
    with namespaces() as refused:
        if refused:
            raise Refused(refused)
        measured(record, NAMESPACES, ADDRESSES, rounds, 0.0)


def measured(
    record: Record, inside: Sequence[str], addresses: Sequence[str], rounds: int, least: float
) -> None:
    """Measure both sides in turns: streams of arrays, and iterations. The record fails if less than
    `least` of the speed is left."""
    pairs = {name: key_pair() for name in "ab"}
    keys = {
        name: Keys("", *pairs[name], {peer: pairs[peer][0]}).blob().decode()
        for name, peer in ("ab", "ba")
    }
    with ExitStack() as up:
        sides = {
            side: up.enter_context(
                Pair("convoy", namespaces=inside, bind=bound(scheme, addresses), keys=keys)
            )
            for side, scheme in ((OPEN, "tcp"), (SEALED, "curve"))
        }
        for label, (size, count) in STREAMS.items():
            taken = turns(sides, "stream", rounds, size=size, count=count)
            record.table(f"Arrays of {label}, MB per second", "links", "median", "least", "most")
            shown(
                record, {side: [speed / 1e6 for speed in speeds] for side, speeds in taken.items()}
            )
            judged(record, f"arrays of {label}", ratio(taken[SEALED], taken[OPEN]), least)
        taken = turns(sides, "iteration", rounds, layers=LAYERS, activations=ACTIVATIONS)
        record.table(
            ("What a worker of CaffeNet exchanges in an iteration, ms"),
            "links",
            "median",
            "least",
            "most",
        )
        shown(
            record, {side: [1000 * seconds for seconds in found] for side, found in taken.items()}
        )
        judged(record, "an iteration of CaffeNet", ratio(taken[OPEN], taken[SEALED]), least)


def bound(scheme: str, addresses: Sequence[str]) -> dict[str, str]:
    """The address at which each end listens."""
    return {name: f"{scheme}://{address}:*" for name, address in zip("ab", addresses, strict=True)}


def turns(
    sides: dict[str, Pair], what: str, rounds: int, **options: object
) -> dict[str, list[float]]:
    """The measurements of each side, round by round. The first round does not count."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side, pair in sides.items():
            found = pair.ask(what, **options)
            if number:
                taken[side].append(found)
    return taken


def shown(record: Record, taken: dict[str, list[float]]) -> None:
    """Record a row for each side."""
    for side, found in taken.items():
        record.row(side, median(found), min(found), max(found))


def judged(record: Record, what: str, left: float, least: float) -> None:
    """Record how much of the speed is left, and judge it."""
    text = f"{what}: {left:.3f} of the speed in the open"
    if left >= least:
        record.note(f"{text}, at least {least:g}" if least else text)
    else:
        record.fail(f"MISSED {text}, at least {least:g}")


PARTS: dict[str, tuple[str, Callable[[Record, int], None]]] = {
    "gigabit": ("Encrypted links over 1 Gbit/s", over_a_gigabit),
    "unlimited": ("Encrypted links over a cable without a rate", without_a_rate),
    "strangers": ("Training while strangers knock at encrypted links", beside_strangers),
}
