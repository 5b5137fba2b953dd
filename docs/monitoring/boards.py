"""Convoy's boards for Grafana: `python docs/monitoring/boards.py` writes them into `boards/` beside
this file.

A query names the run by `$run`, a metric stands here without its `convoy_`. Rates are over
`$__rate_interval`, which Grafana takes from the scrape interval. A line is called by the labels
that it is summed by, unless it says how.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # this folder is no package: it is documentation

from panels import WIDTH, Board, Lines, Number, Query, Row, Rows

FOLDER = Path(__file__).with_name("boards")
RUN = 'run=~"$run"'
LEAD = f'{RUN}, role="coordinator"'
WORKERS = f'{RUN}, role!="coordinator"'
MEASURED, PREDICTED = (f'{RUN}, kind="{kind}"' for kind in ("measured", "predicted"))
ACTOR = "{{actor}}"
PROCESS = "{{process}}"
SPLIT = "{{split}}"


# -- expressions


def value(name: str, match: str = RUN) -> str:
    """As it is."""
    return f"convoy_{name}{{{match}}}"


def rate(name: str, match: str = RUN) -> str:
    """Of a counter, per second."""
    return f"rate({value(name, match)}[$__rate_interval])"


def summed(name: str, labels: str, match: str = RUN) -> str:
    """Rates, summed by label."""
    return f"sum by ({labels}) ({rate(name, match)})"


# -- queries


def now(name: str, legend: str = "") -> Query:
    """A value as it is."""
    return Query(value(name), legend)


def each(name: str, legend: str, match: str = RUN) -> Query:
    """The rate of each counter."""
    return Query(rate(name, match), legend)


def total(name: str, labels: str) -> Query:
    """Values, summed by label."""
    return Query(f"sum by ({labels}) ({value(name)})", _called(labels))


def by(labels: str, name: str, legend: str = "") -> Query:
    """Rates, summed by label."""
    return Query(summed(name, labels), legend or _called(labels))


def per(labels: str, what: str, count: str, match: str = RUN) -> Query:
    """The mean of something by label: a rate of seconds by a rate of how many."""
    return Query(
        (f"{summed(what, labels, match)} / ({summed(count, labels, match)} > 0)"), _called(labels)
    )


def mean(labels: str, name: str) -> Query:
    """Of a histogram or summary, by label."""
    return per(labels, f"{name}_sum", f"{name}_count")


def _called(labels: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels.split(", "))


# -- boards

PHASE = "phase_duration_seconds"
HANDLED = "messages_handled_total"
SECONDS = "iteration_seconds"
BYTES = "message_bytes_received_total"
ARRAYS = "payload_bytes_received_total"
OUTCOME = now("run_outcome_info", "{{outcome}} ({{cause}}) by {{by}}")

# what to look for in a panel
LOSS = "Of each iteration (train), of each test net. A gap is a loss that is no number."
PHASES = "Seconds of measured phases in an iteration of each worker; waiting counts."
BUSY = "Share of time in which an actor's array work goes on. 100 %: it is the bottleneck."
HANDLING = "Share of time in which a handler is at work, with what it waits for."
EQUALS = "Workers that have as much to do should lie on one another: one above the others is slow."
WAITING = "Share of time; an actor that asks several at once may exceed 100 %."
HIDDEN = "Of an iteration: seconds in which nobody computes for the worker."
PIECE = "Mean seconds of a piece of array work."
ON_A_ROAD = "On whatever road; `plan` foretells the bytes of an iteration."
CREDITS = "At `links.credit_bytes` a sender waits."
HEALTHY = "Empty in a healthy run."
ABOVE = "Above 10 % for 5 s the run tells why, and predicts anew."
PACE = "The one at the top sets the pace."
STALE = "Mean iterations of others between read and update; g groups have g - 1."
ASYNCHRONY = "Asynchrony brings momentum along: the total should stay what the solver means."
NOISE = "The batch whose gradient has as much noise as signal; empty until it is known."
LATE = "Something keeps a loop from its work, or the machine is overloaded."

DONE = f"({value('iterations_resumed')} + on (actor) {value('iterations_total', LEAD)})"
IMAGES = Lines("Images per second", each("images_total", "images/s", LEAD))
OVERVIEW = Board(
    "run",
    "run",
    "How a run stands: is it learning, how fast, how long still, how did it end?",
    (
        Row("Now"),
        Number("State", Query(f"{value('run_state')} == 1", "{{state}}"), named=True),
        Number("Outcome", OUTCOME, about="Empty while the run goes on.", width=8, named=True),
        Number("Iterations done", Query(DONE)),
        Number("Done", Query(f"{DONE} / on (actor) {value('iterations_planned')}"), "percentunit"),
        Number("Time left", now("eta_seconds"), "s", "By the mean of all iterations so far."),
        Row("Learning"),
        Lines("Loss", now("loss", SPLIT), about=LOSS, logarithmic=True),
        Lines("Accuracy", now("accuracy_ratio", SPLIT), "percentunit"),
        Lines("Learning rate", now("learning_rate", "rate"), logarithmic=True),
        Row("Speed"),
        IMAGES,
        Lines("Iterations per second", each("iterations_total", ACTOR)),
        Lines(
            "Where an iteration's time goes",
            per("actor", f"{PHASE}_sum", "iterations_total"),
            "s",
            PHASES,
        ),
        Row("Safety"),
        Number("Age of the checkpoint", now("checkpoint_age_seconds"), "s"),
        Number("Checkpoints", total("checkpoints_total", "result")),
        Number("Warnings", now("warnings_total")),
        Number("Disk errors", now("disk_errors_total")),
        Number("Restarts", now("run_restarts")),
        Number("Processes running", Query(value("run_processes", f'{RUN}, stage="running"'))),
        Row("What runs"),
        Rows("Run", now("run_info")),
        Rows("Training", now("training_info")),
        Rows(
            "Builds",
            now("build_info"),
            ("More than one line of each version is worth a look."),
            WIDTH,
        ),
    ),
)

OF_A_WORKER = per("actor", "compute_seconds_total", "iterations_total", WORKERS)
SLOWEST = f"histogram_quantile(0.95, {summed(f'{PHASE}_bucket', 'role, phase, le')})"
ACTORS = Board(
    "actors",
    "actors",
    "Each actor as a station of a queueing network: who is busy, who waits for whom, what waits.",
    (
        Row("Who is busy"),
        Lines("Computing", by("actor", "compute_seconds_total"), "percentunit", BUSY),
        Lines("Handling messages", by("actor", "handler_seconds_total"), "percentunit", HANDLING),
        Lines("Computing in an iteration", OF_A_WORKER, "s", EQUALS),
        Row("Who waits for whom"),
        Lines(
            "Waiting for answers",
            each("wait_seconds_total", "{{actor}} for {{peer}}"),
            "percentunit",
            WAITING,
        ),
        Lines("Mean of each phase", mean("role, phase", PHASE), "s"),
        Lines("Not hidden by computing", mean("actor", "exposed_seconds"), "s", HIDDEN),
        Rows(
            "Groups",
            Query(f"{value('worker_group_info')} == 1"),
            "Which group a worker is in.",
            WIDTH,
        ),
        Row("Inboxes"),
        Lines("Waiting messages", now("inbox_messages", ACTOR)),
        Lines("Time in the inbox", per("actor, kind", "inbox_seconds_total", HANDLED), "s"),
        Lines("Service time", per("actor, kind", "handler_seconds_total", HANDLED), "s"),
        Lines("Arrivals", by("actor", "messages_received_total"), "mps"),
        Lines(
            "A piece of array work",
            per("actor", "compute_seconds_total", "compute_items_total"),
            "s",
            PIECE,
        ),
        Lines("Phases, 95 of 100", Query(SLOWEST, "{{role}} {{phase}}"), "s"),
    ),
)

LINKS = Board(
    "links",
    "links and messages",
    (
        "What travels: messages and bytes by kind and by peer, what waits for credits, what was "
        "refused."
    ),
    (
        Row("Messages"),
        Lines("Sent", by("kind", "messages_sent_total"), "mps"),
        Lines("Received", by("kind", "messages_received_total"), "mps"),
        Lines("Handled", by("kind", HANDLED), "mps"),
        Row("Bytes"),
        Lines("Received by kind", by("kind", BYTES), "Bps", stacked=True),
        Lines(
            "Arrays by link",
            by("peer, actor", ARRAYS, "{{peer}} to {{actor}}"),
            "Bps",
            ON_A_ROAD,
            stacked=True,
        ),
        Lines("Mean message", per("kind", BYTES, "messages_received_total"), "bytes"),
        Row("What holds up"),
        Lines("Sent and not yet granted back", now("queue_bytes", PROCESS), "bytes", CREDITS),
        Lines(
            "Rejected messages", total("messages_rejected_total", "process, reason"), about=HEALTHY
        ),
        Lines("Events not reported", now("events_dropped_total", PROCESS)),
        Lines("Layer gradients summed", each("reductions_total", ACTOR), "ops"),
    ),
)

ERROR = f"abs({value(SECONDS, MEASURED)} / ignoring (kind) {value(SECONDS, PREDICTED)} - 1)"
LEARNT = f"-1e6 * deriv(convoy_loss{{{RUN}, split='train'}}[$__rate_interval])"
LEARNT += f" / on (run) ({rate('images_total', LEAD)} > 0)"
MOMENTUM = (
    now("implicit_momentum_ratio", "implicit, by {{by}}"),
    now("total_momentum_ratio", "total"),
)
EFFICIENCY = Board(
    "efficiency",
    "efficiency and tuning",
    (
        "Hardware efficiency (seconds an iteration) against statistical efficiency (what an "
        "iteration teaches)."
    ),
    (
        Row("Hardware efficiency: predicted and measured"),
        Lines("Seconds an iteration", now(SECONDS, "{{kind}}"), "s"),
        Lines("Error of the prediction", Query(ERROR, "error"), "percentunit", ABOVE),
        Lines(
            "Use of stations", now("station_use_ratio", "{{station}} {{kind}}"), "percentunit", PACE
        ),
        Row("Statistical efficiency: what asynchrony costs"),
        Lines("Staleness", mean("actor", "gradient_staleness_updates"), about=STALE),
        Lines("Staleness by layer", mean("layer", "layer_staleness_updates")),
        Lines("Momentum", MOMENTUM, about=ASYNCHRONY),
        Row("Together"),
        IMAGES,
        Lines("Loss falls per million images", Query(LEARNT, "loss")),
        Lines("Noise of gradients", now("gradient_noise_images", "images"), about=NOISE),
    ),
)

CPU = "process_cpu_seconds_total"
MEMORY = "process_resident_memory_bytes"
SCRAPED = f"{{job='convoy', {RUN}}}"
OPEN = Query(f"{value('process_open_fds')} / {value('process_max_fds')}", PROCESS)
AGE = Query(f"time() - {value('process_start_time_seconds')}", PROCESS)
MACHINE = Board(
    "machine",
    "machines",
    "What processes use of their machines, as Linux counts it.",
    (
        Row("Processors"),
        Lines("By process", each(CPU, PROCESS), "cores", stacked=True),
        Lines("By machine", by("machine", CPU), "cores"),
        Lines("How late event loops are", now("loop_lag_seconds", PROCESS), "s", LATE),
        Row("Memory and descriptors"),
        Lines("Resident", now(MEMORY, PROCESS), "bytes", stacked=True),
        Lines("Virtual", now("process_virtual_memory_bytes", PROCESS), "bytes"),
        Lines("Open descriptors", OPEN, "percentunit"),
        Row("Processes"),
        Lines("Answers Prometheus", Query(f"up{SCRAPED}", PROCESS)),
        Lines("Age", AGE, "s"),
        Lines("Seconds of a scrape", Query(f"scrape_duration_seconds{SCRAPED}", PROCESS), "s"),
    ),
)

KNOWN = (OVERVIEW, ACTORS, LINKS, EFFICIENCY, MACHINE)
RULES = Path(__file__).with_name("rules.yml")
PAGE = Path(__file__).parents[1] / "metrics.md"
ROW = re.compile(r"^\| `convoy_(\w+)` \| (\w+) \|.*\| ([^|]+) \|$", re.MULTILINE)


def remaining() -> tuple[Board, ...]:
    """A board of the metrics on the page that no other board and no rule has. None without any."""
    shown = [
        query.expression for board in KNOWN for panel in board.panels for query in panel.queries
    ]
    used = "\n".join([RULES.read_text("utf-8"), *shown])
    parts = tuple(
        _usual(name, kind, meaning)
        for name, kind, meaning in ROW.findall(PAGE.read_text("utf-8"))
        if not re.search(rf"\bconvoy_{name}(_sum|_count|_bucket)?\b", used)
    )
    if not parts:
        return ()
    return (Board("more", "more", "Metrics that no other board shows.", (Row("More"), *parts)),)


def _usual(name: str, kind: str, meaning: str) -> Lines:
    """What is usually asked of a metric of this kind."""
    title = name.replace("_", " ").capitalize()
    if kind == "counter":
        return Lines(title, by("actor", name), about=meaning)
    if kind == "gauge":
        return Lines(title, now(name), about=meaning)
    return Lines(title, mean("actor", name), about=meaning)


BOARDS = (*KNOWN, *remaining())

if __name__ == "__main__":
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(board.json())
