"""Convoy's boards for Grafana: `python docs/monitoring/boards.py` writes them into `boards/` in
this folder.

A query selects the run by `$run`, except on the board of all runs. Names of metrics in this file
leave out the prefix `convoy_`. Rates are over `$__rate_interval`, which Grafana takes from the
scrape interval. The legend of a line is the labels that it is summed by, unless the query gives
another.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # this folder is documentation, not a package

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
    """The present value of a metric."""
    return f"convoy_{name}{{{match}}}"


def rate(name: str, match: str = RUN) -> str:
    """The rate of a counter, per second."""
    return f"rate({value(name, match)}[$__rate_interval])"


def summed(name: str, labels: str, match: str = RUN) -> str:
    """The sum of a counter's rates, by label."""
    return f"sum by ({labels}) ({rate(name, match)})"


# -- queries


def now(name: str, legend: str = "") -> Query:
    """Query the present value."""
    return Query(value(name), legend)


def each(name: str, legend: str, match: str = RUN) -> Query:
    """Query the rate of each counter."""
    return Query(rate(name, match), legend)


def total(name: str, labels: str) -> Query:
    """Query the sum of values, by label."""
    return Query(f"sum by ({labels}) ({value(name)})", _called(labels))


def by(labels: str, name: str, legend: str = "") -> Query:
    """Query the sum of rates, by label."""
    return Query(summed(name, labels), legend or _called(labels))


def per(labels: str, what: str, count: str, match: str = RUN) -> Query:
    """Query a mean by label: the rate of `what` divided by the rate of `count`."""
    return Query(
        (f"{summed(what, labels, match)} / ({summed(count, labels, match)} > 0)"), _called(labels)
    )


def mean(labels: str, name: str) -> Query:
    """Query the mean of a histogram or summary, by label."""
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

# descriptions of panels
LOSS = "Loss of each iteration (train) and of each test net. A gap is a loss that is not a number."
PHASES = "Seconds of measured phases in an iteration of each worker, including waiting."
BUSY = "Share of time in which an actor's array work runs. At 100 % the actor is the bottleneck."
HANDLING = "Share of time in which a handler runs, including its waits."
EQUALS = "Lines of workers with equal work should coincide: a worker above the others is slow."
WAITING = "Share of time. An actor that asks several peers at once may exceed 100 %."
HIDDEN = "Seconds of an iteration in which no actor computes for the worker."
PIECE = "Mean seconds of a piece of array work."
ON_A_ROAD = "On any road. `plan` predicts the bytes of an iteration."
CREDITS = "A sender waits when it has reached `links.credit_bytes`."
HEALTHY = "Empty in a healthy run."
ABOVE = "Above 10 % for 5 s the run reports the reason, and predicts again."
PACE = "The station at the top sets the pace."
STALE = "Mean number of other groups' iterations between read and update; g groups have g - 1."
ASYNCHRONY = "Asynchrony adds momentum: the total should stay at the solver's value."
NOISE = "The batch whose gradient has as much noise as signal; empty until it is known."
LATE = "Other work blocks the loop, or the machine is overloaded."

DONE = f"({value('iterations_resumed')} + on (actor) {value('iterations_total', LEAD)})"
IMAGES = Lines("Images per second", each("images_total", "images/s", LEAD))
OVERVIEW = Board(
    "run",
    "run",
    "The state of a run: is it learning, how fast, how much time is left, how did it end?",
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
            ("Check the machines if there is more than one line of each version."),
            WIDTH,
        ),
    ),
)

BY_RUN = "{{run}}"


def of_each_run(name: str, match: str) -> Query:
    """Query the present value in each run."""
    return Query(f"max by (run) ({value(name, match)})", BY_RUN)


EVERY_RUN = Board(
    "runs",
    "all runs",
    "All runs that Prometheus finds: their states, and whether they learn and how fast.",
    (
        Row("Runs"),
        Rows(
            "Live",
            Query("max by (run, state) (convoy_run_state) == 1"),
            "A run in each line, with its state.",
        ),
        Rows(
            "Ended in the last day",
            Query("max by (run, outcome, cause, by) (last_over_time(convoy_run_outcome_info[1d]))"),
            "`cause` and `by` tell a good end from a death.",
        ),
        Row("Learning"),
        Lines("Loss", of_each_run("loss", 'split="train"'), about=LOSS, logarithmic=True),
        Lines("Loss of tests", of_each_run("loss", 'split="test"'), logarithmic=True),
        Lines("Accuracy of tests", of_each_run("accuracy_ratio", 'split="test"'), "percentunit"),
        Row("Speed"),
        Lines("Images per second", Query("convoy:images:rate1m", BY_RUN)),
        Lines("Iterations per second", Query("convoy:iterations:rate1m", BY_RUN)),
        Lines("Time left", Query("max by (run) (convoy_eta_seconds)", BY_RUN), "s"),
        Row("Health"),
        Lines(
            "Processes that do not answer",
            Query('sum by (run) (up{job="convoy"} == bool 0)', BY_RUN),
            about="Above 0 for longer than 30 s, ConvoyProcessDown fires.",
        ),
        Lines("Warnings", Query("max by (run) (convoy_warnings_total)", BY_RUN)),
        Lines(
            "Age of the checkpoint",
            Query("max by (run) (convoy_checkpoint_age_seconds)", BY_RUN),
            "s",
        ),
    ),
    of_all=True,
)

OF_A_WORKER = per("actor", "compute_seconds_total", "iterations_total", WORKERS)
SLOWEST = f"histogram_quantile(0.95, {summed(f'{PHASE}_bucket', 'role, phase, le')})"
ACTORS = Board(
    "actors",
    "actors",
    "Each actor as a station of a queueing network: which actors are busy, and which actors and "
    "messages wait.",
    (
        Row("Busy actors"),
        Lines("Computing", by("actor", "compute_seconds_total"), "percentunit", BUSY),
        Lines("Handling messages", by("actor", "handler_seconds_total"), "percentunit", HANDLING),
        Lines("Computing in an iteration", OF_A_WORKER, "s", EQUALS),
        Row("Waiting actors"),
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
            "The group of each worker.",
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
    ("Messages and bytes by kind and by peer, bytes that wait for credits, and refused messages."),
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
        Row("Delays and refusals"),
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
    now("momentum_ratio", "explicit"),
    now("implicit_momentum_ratio", "implicit, by {{by}}"),
    now("total_momentum_ratio", "total"),
)
EFFICIENCY = Board(
    "efficiency",
    "efficiency and tuning",
    (
        "Hardware efficiency (seconds of an iteration) and statistical efficiency (the learning "
        "progress of an iteration)."
    ),
    (
        Row("Hardware efficiency: predicted and measured"),
        Lines("Seconds an iteration", now(SECONDS, "{{kind}}"), "s"),
        Lines("Error of the prediction", Query(ERROR, "error"), "percentunit", ABOVE),
        Lines(
            "Use of stations", now("station_use_ratio", "{{station}} {{kind}}"), "percentunit", PACE
        ),
        Row("Statistical efficiency: the cost of asynchrony"),
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
    "The resources that processes use, as counted by Linux.",
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

KNOWN = (EVERY_RUN, OVERVIEW, ACTORS, LINKS, EFFICIENCY, MACHINE)
RULES = Path(__file__).with_name("rules.yml")
PAGE = Path(__file__).parents[1] / "metrics.md"
ROW = re.compile(r"^\| `convoy_(\w+)` \| (\w+) \|.*\| ([^|]+) \|$", re.MULTILINE)


def remaining() -> tuple[Board, ...]:
    """A board with the metrics that no other board and no rule shows; empty if there are none."""
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
    """The usual panel for a metric of this kind."""
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
