"""Convoy's boards for Grafana: `python docs/monitoring/boards.py` writes them into `boards/` beside this file.

A query names the run by `$run`. Rates are over `$__rate_interval`, which Grafana takes from the scrape interval.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # this folder is no package: it is documentation

from panels import WIDTH, Board, Lines, Number, Query, Rows

FOLDER = Path(__file__).with_name("boards")
RUN = 'run=~"$run"'
LEAD = f'{RUN}, role="coordinator"'
WORKERS = f'{RUN}, role!="coordinator"'
MEASURED, PREDICTED = (f'{RUN}, kind="{kind}"' for kind in ("measured", "predicted"))
ACTOR = "{{actor}}"


def per(value: str, count: str, labels: str, match: str = RUN) -> str:
    """The mean of something by label: a rate of seconds by a rate of how many."""
    above, below = (f"sum by ({labels}) ({rate(name, match)})" for name in (value, count))
    return f"{above} / ({below} > 0)"


def rate(name: str, match: str = RUN) -> str:
    """Of a counter, per second."""
    return f"rate({name}{{{match}}}[$__rate_interval])"


def summed(name: str, labels: str, match: str = RUN) -> str:
    """Rates, summed by label."""
    return f"sum by ({labels}) ({rate(name, match)})"


def gauge(name: str, match: str = RUN) -> str:
    """As it is."""
    return f"{name}{{{match}}}"


DONE = f"({gauge('convoy_iterations_resumed')} + on (actor) {gauge('convoy_iterations_total', LEAD)})"

OVERVIEW = Board(
    "run",
    "run",
    "How a run stands: is it learning, how fast, how long still, how did it end?",
    (
        (
            "Now",
            (
                Number("State", Query(f"{gauge('convoy_run_state')} == 1", "{{state}}"), named=True),
                Number(
                    "Outcome",
                    Query(gauge("convoy_run_outcome_info"), "{{outcome}} ({{cause}}) by {{by}}"),
                    about="Empty while the run goes on.",
                    width=8,
                    named=True,
                ),
                Number("Iterations done", Query(DONE)),
                Number("Done", Query(f"{DONE} / on (actor) {gauge('convoy_iterations_planned')}"), "percentunit"),
                Number("Time left", Query(gauge("convoy_eta_seconds")), "s", "By the mean of all iterations so far."),
            ),
        ),
        (
            "Learning",
            (
                Lines(
                    "Loss",
                    (Query(gauge("convoy_loss"), "{{split}}"),),
                    about="Of each iteration (train), of each test net. A gap is a loss that is no number.",
                    logarithmic=True,
                ),
                Lines("Accuracy", (Query(gauge("convoy_accuracy_ratio"), "{{split}}"),), "percentunit"),
                Lines("Learning rate", (Query(gauge("convoy_learning_rate"), "rate"),), logarithmic=True),
            ),
        ),
        (
            "Speed",
            (
                Lines("Images per second", (Query(rate("convoy_images_total", LEAD), "images/s"),)),
                Lines("Iterations per second", (Query(rate("convoy_iterations_total"), ACTOR),)),
                Lines(
                    "Where an iteration's time goes",
                    (Query(per("convoy_phase_duration_seconds_sum", "convoy_iterations_total", "actor"), ACTOR),),
                    "s",
                    "Seconds of measured phases in an iteration of each worker; waiting counts.",
                ),
            ),
        ),
        (
            "Safety",
            (
                Number("Age of the checkpoint", Query(gauge("convoy_checkpoint_age_seconds")), "s"),
                Number("Checkpoints", Query(f"sum by (result) ({gauge('convoy_checkpoints_total')})", "{{result}}")),
                Number("Warnings", Query(gauge("convoy_warnings_total"))),
                Number("Disk errors", Query(gauge("convoy_disk_errors_total"))),
                Number("Restarts", Query(gauge("convoy_run_restarts"))),
                Number("Processes running", Query(gauge("convoy_run_processes", f'{RUN}, stage="running"'))),
            ),
        ),
        (
            "What runs",
            (
                Rows("Run", Query(gauge("convoy_run_info"))),
                Rows("Training", Query(gauge("convoy_training_info"))),
                Rows(
                    "Builds",
                    Query(gauge("convoy_build_info")),
                    "More than one line of each version is worth a look.",
                    WIDTH,
                ),
            ),
        ),
    ),
)

ACTORS = Board(
    "actors",
    "actors",
    "Each actor as a station of a queueing network: who is busy, who waits for whom, what waits.",
    (
        (
            "Who is busy",
            (
                Lines(
                    "Computing",
                    (Query(summed("convoy_compute_seconds_total", "actor"), ACTOR),),
                    "percentunit",
                    "Share of time in which an actor's array work goes on. 100 %: it is the bottleneck.",
                ),
                Lines(
                    "Handling messages",
                    (Query(summed("convoy_handler_seconds_total", "actor"), ACTOR),),
                    "percentunit",
                    "Share of time in which a handler is at work, with what it waits for.",
                ),
                Lines(
                    "Computing in an iteration",
                    (
                        Query(
                            f"{summed('convoy_compute_seconds_total', 'actor', WORKERS)} / "
                            f"({summed('convoy_iterations_total', 'actor', WORKERS)} > 0)",
                            ACTOR,
                        ),
                    ),
                    "s",
                    "Workers that have as much to do should lie on one another: one above the others is slow.",
                ),
            ),
        ),
        (
            "Who waits for whom",
            (
                Lines(
                    "Waiting for answers",
                    (Query(rate("convoy_wait_seconds_total"), "{{actor}} for {{peer}}"),),
                    "percentunit",
                    "Share of time; an actor that asks several at once may exceed 100 %.",
                ),
                Lines(
                    "Mean of each phase",
                    (
                        Query(
                            per(
                                "convoy_phase_duration_seconds_sum",
                                "convoy_phase_duration_seconds_count",
                                "role, phase",
                            ),
                            "{{role}} {{phase}}",
                        ),
                    ),
                    "s",
                ),
                Lines(
                    "Not hidden by computing",
                    (Query(per("convoy_exposed_seconds_sum", "convoy_exposed_seconds_count", "actor"), ACTOR),),
                    "s",
                    "Of an iteration: seconds in which nobody computes for the worker.",
                ),
                Rows(
                    "Groups", Query(f"{gauge('convoy_worker_group_info')} == 1"), "Which group a worker is in.", WIDTH
                ),
            ),
        ),
        (
            "Inboxes",
            (
                Lines("Waiting messages", (Query(gauge("convoy_inbox_messages"), ACTOR),)),
                Lines(
                    "Time in the inbox",
                    (
                        Query(
                            per("convoy_inbox_seconds_total", "convoy_messages_handled_total", "actor, kind"),
                            "{{actor}} {{kind}}",
                        ),
                    ),
                    "s",
                ),
                Lines(
                    "Service time",
                    (
                        Query(
                            per("convoy_handler_seconds_total", "convoy_messages_handled_total", "actor, kind"),
                            "{{actor}} {{kind}}",
                        ),
                    ),
                    "s",
                ),
                Lines("Arrivals", (Query(summed("convoy_messages_received_total", "actor"), ACTOR),), "mps"),
                Lines(
                    "A piece of array work",
                    (Query(per("convoy_compute_seconds_total", "convoy_compute_items_total", "actor"), ACTOR),),
                    "s",
                    "Mean seconds of a piece of array work.",
                ),
                Lines(
                    "Phases, 95 of 100",
                    (
                        Query(
                            "histogram_quantile(0.95, "
                            f"{summed('convoy_phase_duration_seconds_bucket', 'role, phase, le')})",
                            "{{role}} {{phase}}",
                        ),
                    ),
                    "s",
                ),
            ),
        ),
    ),
)

LINKS = Board(
    "links",
    "links and messages",
    "What travels: messages and bytes by kind and by peer, what waits for credits, what was refused.",
    (
        (
            "Messages",
            (
                Lines("Sent", (Query(summed("convoy_messages_sent_total", "kind"), "{{kind}}"),), "mps"),
                Lines("Received", (Query(summed("convoy_messages_received_total", "kind"), "{{kind}}"),), "mps"),
                Lines("Handled", (Query(summed("convoy_messages_handled_total", "kind"), "{{kind}}"),), "mps"),
            ),
        ),
        (
            "Bytes",
            (
                Lines(
                    "Received by kind",
                    (Query(summed("convoy_message_bytes_received_total", "kind"), "{{kind}}"),),
                    "Bps",
                    stacked=True,
                ),
                Lines(
                    "Arrays by link",
                    (Query(summed("convoy_payload_bytes_received_total", "peer, actor"), "{{peer}} to {{actor}}"),),
                    "Bps",
                    "On whatever road; `plan` foretells the bytes of an iteration.",
                    stacked=True,
                ),
                Lines(
                    "Mean message",
                    (
                        Query(
                            per("convoy_message_bytes_received_total", "convoy_messages_received_total", "kind"),
                            "{{kind}}",
                        ),
                    ),
                    "bytes",
                ),
            ),
        ),
        (
            "What holds up",
            (
                Lines(
                    "Sent and not yet granted back",
                    (Query(gauge("convoy_queue_bytes"), "{{process}}"),),
                    "bytes",
                    "At `links.credit_bytes` a sender waits.",
                ),
                Lines(
                    "Rejected messages",
                    (
                        Query(
                            f"sum by (process, reason) ({gauge('convoy_messages_rejected_total')})",
                            "{{process}} {{reason}}",
                        ),
                    ),
                    about="Empty in a healthy run.",
                ),
                Lines("Events not reported", (Query(gauge("convoy_events_dropped_total"), "{{process}}"),)),
                Lines("Layer gradients summed", (Query(rate("convoy_reductions_total"), ACTOR),), "ops"),
            ),
        ),
    ),
)

EFFICIENCY = Board(
    "efficiency",
    "efficiency and tuning",
    "Hardware efficiency (seconds an iteration) against statistical efficiency (what an iteration teaches).",
    (
        (
            "Hardware efficiency: predicted and measured",
            (
                Lines("Seconds an iteration", (Query(gauge("convoy_iteration_seconds"), "{{kind}}"),), "s"),
                Lines(
                    "Error of the prediction",
                    (
                        Query(
                            f"abs({gauge('convoy_iteration_seconds', MEASURED)} / ignoring (kind) "
                            f"{gauge('convoy_iteration_seconds', PREDICTED)} - 1)",
                            "error",
                        ),
                    ),
                    "percentunit",
                    "Above 10 % for 5 s the run tells why, and predicts anew.",
                ),
                Lines(
                    "Use of stations",
                    (Query(gauge("convoy_station_use_ratio"), "{{station}} {{kind}}"),),
                    "percentunit",
                    "The one at the top sets the pace.",
                ),
            ),
        ),
        (
            "Statistical efficiency: what asynchrony costs",
            (
                Lines(
                    "Staleness",
                    (
                        Query(
                            per(
                                "convoy_gradient_staleness_updates_sum",
                                "convoy_gradient_staleness_updates_count",
                                "actor",
                            ),
                            ACTOR,
                        ),
                    ),
                    about="Mean iterations of others between read and update; g groups have g - 1.",
                ),
                Lines(
                    "Staleness by layer",
                    (
                        Query(
                            per("convoy_layer_staleness_updates_sum", "convoy_layer_staleness_updates_count", "layer"),
                            "{{layer}}",
                        ),
                    ),
                ),
                Lines(
                    "Momentum",
                    (
                        Query(gauge("convoy_implicit_momentum_ratio"), "implicit, by {{by}}"),
                        Query(gauge("convoy_total_momentum_ratio"), "total"),
                    ),
                    about="Asynchrony brings momentum along: the total should stay what the solver means.",
                ),
            ),
        ),
        (
            "Together",
            (
                Lines("Images per second", (Query(rate("convoy_images_total", LEAD), "images/s"),)),
                Lines(
                    "Loss falls per million images",
                    (
                        Query(
                            f"-1e6 * deriv(convoy_loss{{{RUN}, split='train'}}[$__rate_interval]) / on (run) "
                            f"({rate('convoy_images_total', LEAD)} > 0)",
                            "loss",
                        ),
                    ),
                ),
                Lines(
                    "Noise of gradients",
                    (Query(gauge("convoy_gradient_noise_images"), "images"),),
                    about="The batch whose gradient has as much noise as signal; empty until it is known.",
                ),
            ),
        ),
    ),
)

MACHINE = Board(
    "machine",
    "machines",
    "What processes use of their machines, as Linux counts it.",
    (
        (
            "Processors",
            (
                Lines(
                    "By process",
                    (Query(rate("convoy_process_cpu_seconds_total"), "{{process}}"),),
                    "cores",
                    stacked=True,
                ),
                Lines(
                    "By machine",
                    (Query(summed("convoy_process_cpu_seconds_total", "machine"), "{{machine}}"),),
                    "cores",
                ),
                Lines(
                    "How late event loops are",
                    (Query(gauge("convoy_loop_lag_seconds"), "{{process}}"),),
                    "s",
                    "Something keeps a loop from its work, or the machine is overloaded.",
                ),
            ),
        ),
        (
            "Memory and descriptors",
            (
                Lines(
                    "Resident",
                    (Query(gauge("convoy_process_resident_memory_bytes"), "{{process}}"),),
                    "bytes",
                    stacked=True,
                ),
                Lines("Virtual", (Query(gauge("convoy_process_virtual_memory_bytes"), "{{process}}"),), "bytes"),
                Lines(
                    "Open descriptors",
                    (Query(f"{gauge('convoy_process_open_fds')} / {gauge('convoy_process_max_fds')}", "{{process}}"),),
                    "percentunit",
                ),
            ),
        ),
        (
            "Processes",
            (
                Lines("Answers Prometheus", (Query(f"up{{job='convoy', {RUN}}}", "{{process}}"),)),
                Lines("Age", (Query(f"time() - {gauge('convoy_process_start_time_seconds')}", "{{process}}"),), "s"),
                Lines(
                    "Seconds of a scrape",
                    (Query(f"scrape_duration_seconds{{job='convoy', {RUN}}}", "{{process}}"),),
                    "s",
                ),
            ),
        ),
    ),
)

BOARDS = (OVERVIEW, ACTORS, LINKS, EFFICIENCY, MACHINE)

if __name__ == "__main__":
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(board.json())
