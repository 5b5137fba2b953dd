"""`python -m benchmarks.messages`: the cost of a message between two processes, compared with other
systems and with its bars.

Every measurement has two processes. All sides of a comparison are up at once and take turns, round
by round; a ratio is the median of the ratios of the rounds. A missed bar is reported in a line, and
the command ends with 1. `--against CHECKOUT` compares with another commit instead. How each side
sends is in `convoy` and `peers`, how it starts in `pair`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.helpers.command_line import parser_of
from benchmarks.helpers.report import ROOT, Record, commit_of, machine, missing, ratio, write
from benchmarks.messages.pair import ADDRESSES, NAMESPACES, Lost, Pair, namespaces

KB = 1 << 10
MB = 1 << 20
ARRAYS = {"64 KB": 64 * KB, "1 MB": MB, "30 MB": 30 * MB, "200 MB": 200 * MB}
# bytes of an array, arrays per round
STREAMS = {"1 MB": (MB, 200), "30 MB": (30 * MB, 12), "200 MB": (200 * MB, 3)}
ACTORS = {
    "ray": {"ray": "ray"},
    "xoscar": {"xoscar": "xoscar"},
}  # peer -> the packages that it needs
READY = 60_000

# The bars. Ratios are Convoy's figure divided by the figure of the other side.
ASK_MOST = 1.3  # of raw zmq.asyncio's round trip
RAY_LEAST = 3.0  # times faster
XOSCAR_LEAST = 1.0
TELL_LEAST = 0.6  # of raw zmq.asyncio's messages per second
ARRAY_MOST = 6.0  # times the smallest array's time, whatever the size: nothing is copied
READ_LEAST = 0.9  # of one memory pass; a smaller array is read in less time than a message takes
READ_FROM = 30 * MB
TCP_LEAST = 0.9  # of pyzmq without copies
GAP_MOST = 50.0  # milliseconds
TELL_KEPT = 1.02  # of the time of another commit
ASK_KEPT = 1.02
LIVES = 5  # how often processes start in a comparison with another commit


def main(arguments: list[str] | None = None) -> int:
    """Run the parts and write the results. Returns 1 if a bar is missed or a part failed."""
    parser = parser_of("messages", __doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for the messages of a round"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="CHECKOUT",
        help=("compare with the tree of another commit, instead of the parts"),
    )
    given = parser.parse_args(arguments)
    parts = {name: PARTS[name] for name in given.parts}
    if given.against:
        parts = {"against": ("Beside an earlier commit", partial(against, given.against.resolve()))}
    records = {name: Record(title) for name, (title, _) in parts.items()}
    for name, record in records.items():
        print(record.title, flush=True)
        with tempfile.TemporaryDirectory(prefix="convoy-benchmark-") as folder:
            run(record, parts[name][1], Plan(Path(folder), given.rounds, given.scale))
    paths = write(given.results, "messages", machine(), records)
    print("results:", *paths)
    return int(any(record.status not in ("passed", "skipped") for record in records.values()))


class Plan:
    """The amount of work, and the folder of the sockets' files."""

    def __init__(self, folder: Path, rounds: int, scale: float) -> None:
        self.folder = folder
        self.rounds = rounds
        self.scale = scale
        self.unix, self.ipc = (  # Convoy's road on one host, and ZeroMQ's
            {name: f"{scheme}://{folder}/{name}.{{lane}}" for name in "ab"}
            for scheme in ("unix", "ipc")
        )

    def count(self, whole: int) -> int:
        """The number of messages of a round."""
        return max(1, round(whole * self.scale))


def run(record: Record, part: Callable[[Record, Plan], None], plan: Plan) -> None:
    """Run one part. The record has everything that is missing, missed or failed."""
    try:
        part(record, plan)
    except Lost as error:
        record.fail(str(error))
    if record.status == "running":
        record.status = "passed"


def small(record: Record, plan: Plan) -> None:
    """Measure small messages: there and back, and one way."""
    with ExitStack() as up:
        convoy = up.enter_context(Pair("convoy", bind=plan.unix))
        payload = convoy.ask("payload")
        raw = up.enter_context(Pair("zmq.asyncio", bind=plan.ipc, payload=payload))
        sides = {"convoy": convoy, "zmq.asyncio": raw}
        asks = turns(sides, "round_trips", plan.rounds, count=plan.count(1000))
        tells = turns(sides, "one_way", plan.rounds, count=plan.count(20_000))
        record.facts["bytes of a message"] = payload
    record.table(
        ("Ask and answer between two processes, microseconds"),
        "side",
        "median",
        "least",
        "most",
        "ratio",
    )
    show(record, asks, 1e6)
    record.judge(
        "ask, compared with zmq.asyncio", ratio(asks["convoy"], asks["zmq.asyncio"]), most=ASK_MOST
    )
    record.table("One-way messages per second", "side", "median", "least", "most", "ratio")
    show(record, tells, 1.0)
    record.judge(
        "tells, compared with zmq.asyncio",
        ratio(tells["convoy"], tells["zmq.asyncio"]),
        least=TELL_LEAST,
    )


def actors(record: Record, plan: Plan) -> None:
    """Compare an ask with calls of other actor systems."""
    absent = {name: lacks for name, needs in ACTORS.items() if (lacks := missing(needs))}
    for name, lacks in absent.items():
        record.note(
            f"{name} is left out: missing {', '.join(lacks)}; install with: python -m "
            f"pip install {lacks[0]}"
        )
    for name in ACTORS.keys() - absent.keys():
        with Pair("convoy", bind=plan.unix) as convoy, Pair(name, alone=True) as peer:
            taken = turns(
                {"convoy": convoy, name: peer}, "round_trips", plan.rounds, count=plan.count(500)
            )
        record.table(
            (f"Ask and answer beside {name}, microseconds"),
            "side",
            "median",
            "least",
            "most",
            "ratio",
        )
        show(record, taken, 1e6)
        least = {"ray": RAY_LEAST, "xoscar": XOSCAR_LEAST}[name]
        record.judge(f"times faster than {name}", ratio(taken[name], taken["convoy"]), least=least)
    if len(absent) == len(ACTORS):
        record.status = "skipped"


def arrays(record: Record, plan: Plan) -> None:
    """Measure arrays in shared memory, from complete until the handler has them, and until it has
    read them.

    After writing 200 MB, the caches no longer hold the program, and the reader's core sleeps. So
    large arrays take a few times as long as small ones, although no copy is made.
    """
    arrive: dict[str, list[float]] = {label: [] for label in ARRAYS}
    share: dict[str, list[float]] = {label: [] for label in ARRAYS}
    others: dict[str, dict[str, list[float]]] = {
        label: {"zmq.asyncio": [], "bare": []} for label in ARRAYS
    }
    with ExitStack() as up:
        convoy = up.enter_context(Pair("convoy", bind=plan.unix, shared=True))
        peers = {
            "zmq.asyncio": up.enter_context(
                Pair("zmq.asyncio", bind=plan.ipc, payload=convoy.ask("payload"))
            ),
            "bare": up.enter_context(Pair("bare", bind=plan.ipc)),
        }
        for _ in range(plan.rounds + 1):  # the first one touches pages that do not exist yet
            for label, size in ARRAYS.items():
                count = plan.count(7 if size > MB else 50)
                arrive[label].append(
                    convoy.ask("arrays", size=size, count=count, read=False)["arrive"]
                )
                took = convoy.ask("arrays", size=size, count=count, read=True)
                share[label].append(took["once"] / took["read"])
                for name, peer in peers.items():
                    others[label][name].append(peer.ask("arrays", size=size, count=count))
    record.table(
        ("Arrays in shared memory, microseconds from written until the handler has them"),
        "size",
        "median",
        "least",
        "most",
        "small message of zmq.asyncio",
        "a byte over a bare socket",
        ("share of a memory pass with a full read"),
    )
    for label in ARRAYS:
        times = [seconds * 1e6 for seconds in arrive[label][1:]]
        beside = [median(found[1:]) * 1e6 for found in others[label].values()]
        record.row(label, median(times), min(times), max(times), *beside, median(share[label][1:]))
    for label, size in ARRAYS.items():
        record.judge(
            f"{label}, compared with 64 KB",
            ratio(arrive[label][1:], arrive["64 KB"][1:]),
            most=ARRAY_MOST,
        )
        if size >= READ_FROM:
            record.judge(
                f"{label} read, of one memory pass", median(share[label][1:]), least=READ_LEAST
            )


def tcp(record: Record, plan: Plan) -> None:
    """Measure arrays over TCP, between two network namespaces or, if that is refused, over
    loopback."""
    with namespaces() as refused, ExitStack() as up:
        if refused:
            record.note(f"no network namespaces here ({refused}): measured over loopback")
        bind = {
            name: f"tcp://{'127.0.0.1' if refused else ADDRESSES['ab'.index(name)]}:*"
            for name in "ab"
        }
        sides = {
            "convoy": up.enter_context(
                Pair("convoy", namespaces=() if refused else NAMESPACES, bind=bind)
            ),
            "pyzmq": up.enter_context(
                Pair("pyzmq", namespaces=() if refused else NAMESPACES, bind=bind)
            ),
        }
        where = "loopback" if refused else "network namespaces"
        for label, (size, count) in STREAMS.items():
            taken = turns(sides, "stream", plan.rounds, size=size, count=plan.count(count))
            record.table(
                (f"{label} over TCP, {where}, bytes per second"),
                "side",
                "median",
                "least",
                "most",
                "ratio",
            )
            show(record, taken, 1.0)
            record.judge(
                f"{label}, compared with pyzmq",
                ratio(taken["convoy"], taken["pyzmq"]),
                least=TCP_LEAST,
            )


def loop(record: Record, plan: Plan) -> None:
    """Measure the loop of a process whose socket has many ready messages."""
    count = plan.count(READY)
    record.table(
        (f"Largest gap of a 5 ms heartbeat, {count} ready messages, milliseconds"),
        "side",
        "worst round",
    )
    found = {}
    for kind, more in (
        ("convoy", {"bind": plan.unix}),
        ("zmq.asyncio", {"bind": plan.ipc, "payload": 64}),
    ):
        with Pair(kind, ready=count, **more) as pair:
            found[kind] = max(held(pair, count) for _ in range(3)) * 1e3
            record.row(kind, found[kind])
    record.judge("largest gap, milliseconds", found["convoy"], most=GAP_MOST)


def against(other: Path, record: Record, plan: Plan) -> None:
    """Compare small messages and small arrays with another commit, with both trees up at once. A
    ratio depends on the life of the processes, so the result is the median of LIVES."""
    before = f"commit {commit_of(other)}"
    headers = ("what", before, "this tree", "ratio", "least of a life", "most of a life")
    record.table(f"Beside {before}, in {plan.rounds} turns of each of {LIVES} lives", *headers)
    lives = [_life(other, plan, turned=bool(life % 2)) for life in range(LIVES)]
    for what, *_, bar in orders(plan):
        if any(what not in life for life in lives):
            record.note(f"{what}: not measured: {before} does not know this order")
            continue
        then, now = (median(life[what][side] for life in lives) for side in (0, 1))
        ratios = [life[what][2] for life in lives]
        record.row(what, then * 1e6, now * 1e6, median(ratios), min(ratios), max(ratios))
        if bar:
            record.judge(f"{what.partition(',')[0]}, of {before}", median(ratios), most=bar)


def orders(plan: Plan) -> list[tuple[str, str, dict[str, Any], float | None]]:
    """The measurements in a comparison with another commit: name, order, options, bar."""
    arrays = {f"an array of {label}, microseconds": ARRAYS[label] for label in ("64 KB", "1 MB")}
    return [
        ("a tell, microseconds", "one_way", {"count": plan.count(2000)}, TELL_KEPT),
        ("an ask, microseconds", "round_trips", {"count": plan.count(100)}, ASK_KEPT),
        *(
            (what, "arrays", {"size": size, "count": plan.count(10), "read": False}, None)
            for what, size in arrays.items()
        ),
    ]


def _life(other: Path, plan: Plan, *, turned: bool) -> dict[str, tuple[float, float, float]]:
    """Seconds of the other commit, seconds of this one and their ratio, for each order that the
    other commit knows. `turned`: this tree's processes are started first."""
    found = {}
    trees = {"there": other, "here": ROOT}
    with ExitStack() as up:
        sides: dict[str, Pair] = {}
        for side in list(trees)[:: -1 if turned else 1]:
            bind = {name: f"unix://{plan.folder}/{side}-{name}.{{lane}}" for name in "ab"}
            sides[side] = up.enter_context(Pair("convoy", tree=trees[side], bind=bind, shared=True))
        for what, order, options, _ in orders(plan):
            try:
                taken = turns(sides, order, plan.rounds, **options)
            except Lost:
                break
            then, now = (list(map(seconds_in, taken[side])) for side in trees)
            found[what] = median(then), median(now), ratio(now, then)
    return found


def seconds_in(found: float | dict[str, float]) -> float:
    """Seconds from a measurement: it is messages per second, seconds, or an array's seconds until
    it arrives."""
    if isinstance(found, dict):
        return found["arrive"]
    return found if found < 1 else 1 / found


def held(pair: Pair, count: int) -> float:
    """The largest gap after one flood, at a loop that was held."""
    pair.order("b", "expect", count=count)()
    gap = pair.order("b", "hold")
    pair.ask("flood", count=count)
    pair.ends["b"].say("go on")
    found: float = gap()
    return found


def turns(sides: dict[str, Pair], what: str, rounds: int, **options: Any) -> dict[str, list[float]]:
    """The measurements of each side, round by round. The sides take turns in alternating order; the
    first round does not count."""
    taken: dict[str, list[float]] = {label: [] for label in sides}
    for number in range(rounds + 1):
        for label in list(sides)[:: -1 if number % 2 else 1]:
            found = sides[label].ask(what, **options)
            if number:
                taken[label].append(found)
    return taken


def show(record: Record, taken: dict[str, list[float]], unit: float) -> None:
    """Record a row per side: its figures, and Convoy's figure divided by its own."""
    for label, found in taken.items():
        figures = [figure * unit for figure in (median(found), min(found), max(found))]
        record.row(label, *figures, 1.0 if label == "convoy" else ratio(taken["convoy"], found))


PARTS: dict[str, tuple[str, Callable[[Record, Plan], None]]] = {
    "small": ("Small messages beside raw zmq.asyncio", small),
    "actors": ("An ask beside other actors", actors),
    "arrays": ("Arrays in shared memory", arrays),
    "tcp": ("Arrays over TCP", tcp),
    "loop": ("A busy socket", loop),
}
