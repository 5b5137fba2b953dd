"""Shows the live table of a made-up run of many actors, one step for each line on standard
input.
"""

from __future__ import annotations

import sys

from runtime.report.console import RunConsole
from tests.helpers.beats import beat, status

ACTORS = {
    f"conv-worker-{number:03}": f"process-of-conv-worker-{number:03}" for number in range(200)
}
ACTORS |= {"conv_model": "servers", "fc_server": "servers"}


def main() -> None:
    shown = RunConsole()
    shown.expect(ACTORS, lambda: 65.0)
    shown.say("run directory runs/20261124-120000-a-rather-long-name")
    for number, _ in enumerate(sys.stdin, 1):
        if number == 1:
            shown.event("supervisor", "began", {"processes": 201})
        fields = {
            "iteration": 10 * number,
            "max_iter": 400,
            "loss": 2.3 / number,
            "images_per_second": 5123.4,
        }
        shown.event("coordinator", "progress", fields | {"learning_rate": 0.01, "staleness": 3.0})
        shown.event("coordinator", "test", {"iteration": 10 * number, "accuracy": 1 - 0.9 / number})
        text = (
            "predicted 12.1 ms, measured 12.3 ms an iteration; busiest: fc_server 97%, "
            "behind everything else"
        )
        shown.event("supervisor", "prediction", {"text": text})
        for actor, process in ACTORS.items():
            busy = status(
                role=actor.split("-")[0],
                doing=("a label of array work that is far too long 图像"),
                inbox=7,
            )
            idle = status(
                role=actor.split("-")[0],
                waiting_for=("fc_server, whom everybody waits for [all] the time"),
            )
            shown.beat(
                process, beat(process, **{actor: busy if actor.endswith(("7", "r")) else idle})
            )
        shown.console.file.flush()
    shown.event("coordinator", "finished", {"iterations": 400})
    shown.close()
    shown.say("the end")


main()
