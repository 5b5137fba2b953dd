"""`run.observe = false`: metrics and observers are off, and the training is the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from runtime.actors.metrics import Metrics
from runtime.compute.compute import InlineCompute
from runtime.config.sections import ClusterConfig
from runtime.config.sections import Run as RunSection
from runtime.runs.observation import Observation
from tests.helpers.support import configure, environment, events, run_directory, runtime_command


def test_a_run_that_is_not_observed_serves_and_writes_nothing_for_operators(tmp_path: Path) -> None:
    cluster = configure(tmp_path, "sync", workers=1, iterations=30, more="[run]\nobserve = false\n")
    done = subprocess.run(
        runtime_command("up", str(cluster)),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "http://" not in done.stdout
    directory = run_directory(cluster)
    assert not {"log.csv", "usage.jsonl"} & {path.name for path in directory.iterdir()}
    assert [event["iterations"] for event in events(directory, "finished")] == [30]
    assert {event["metrics_port"] for event in events(directory, "process")} == {0}


async def test_a_run_that_is_not_observed_has_no_observer() -> None:
    for observe in (True, False):
        site: Any = SimpleNamespace(config=ClusterConfig(run=RunSection(observe=observe)))
        observation = Observation(site, Metrics().gauge, InlineCompute(), lambda *told: None)
        observation.worked({})
        assert f" {int(observe)} reports not yet passed on" in repr(observation)
        await observation.close()


def test_a_metric_of_a_process_that_is_not_observed_takes_everything_and_shows_nothing() -> None:
    metrics = Metrics(observed=False)
    metrics.counter("a", "", role="x").inc(2)
    metrics.gauge("b", "", role="x").set(1)
    metrics.gauge("b", "", role="x").set_function(lambda: 1.0)
    metrics.histogram("c", "", role="x").observe(1)
    metrics.summary("d", "", role="x").observe(1)
    metrics.info("e", "", role="x")
    metrics.tally("f", "", (), list)
    metrics.reading("g", "", (), list)
    metrics.of_process()
    assert metrics.text() == ""
