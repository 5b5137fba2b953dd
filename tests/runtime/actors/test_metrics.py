"""Metrics: their names, their pages, a port that is taken, and the check of the format by
Prometheus' own tool.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from runtime.actors.metrics import Metrics, Pages, discovery
from runtime.errors import LaunchError


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.counter("images", "Images trained on.", role="worker", actor="w-0").inc(3)
    made.counter("images", "Images trained on.", role="worker", actor="w-1").inc(4)
    made.gauge(
        "loss", "Training loss of the last iteration.", role="lead", actor="c", split="train"
    ).set(0.25)
    made.histogram(
        "wait_duration_seconds", "Seconds waited.", (0.1, 1), role="worker", actor="w-0"
    ).observe(0.5)
    return made


@pytest.fixture
def pages(metrics: Metrics) -> Iterator[Pages]:
    made = Pages(
        metrics, "127.0.0.1", 0, targets=lambda: discovery([("127.0.0.1:1", {"process": "p"})])
    )
    yield made
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "metrics"]


def get(pages: Pages, path: str) -> tuple[str, str]:
    """The content type and the body of a page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{pages.port}{path}", timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_metrics_are_called_convoy_and_counters_total(metrics: Metrics) -> None:
    lines = metrics.text().splitlines()
    assert 'convoy_images_total{actor="w-0",role="worker"} 3.0' in lines
    assert 'convoy_images_total{actor="w-1",role="worker"} 4.0' in lines
    assert 'convoy_loss{actor="c",role="lead",split="train"} 0.25' in lines
    assert 'convoy_wait_duration_seconds_bucket{actor="w-0",le="1.0",role="worker"} 1.0' in lines


def test_the_same_labels_give_the_same_child(metrics: Metrics) -> None:
    again = metrics.counter("images", "Images trained on.", role="worker", actor="w-0")
    again.inc()
    assert 'convoy_images_total{actor="w-0",role="worker"} 4.0' in metrics.text().splitlines()


def test_a_tally_is_asked_for_its_counts_each_time_a_page_is_made_and_its_name_is_taken(
    metrics: Metrics,
) -> None:
    counts = {("worker", "w-0"): 2.0}
    metrics.tally("letters", "Letters.", ("role", "actor"), counts.items)
    assert 'convoy_letters_total{actor="w-0",role="worker"} 2.0' in metrics.text().splitlines()
    counts["worker", "w-0"], counts["worker", "w-1"] = 5.0, 1.0
    lines = metrics.text().splitlines()
    assert 'convoy_letters_total{actor="w-0",role="worker"} 5.0' in lines
    assert 'convoy_letters_total{actor="w-1",role="worker"} 1.0' in lines
    with pytest.raises(ValueError, match="Duplicated"):
        metrics.tally("letters", "Letters.", (), dict)


def test_the_page_shows_the_registry_at_the_moment_of_the_scrape(
    pages: Pages, metrics: Metrics
) -> None:
    kind, _ = get(pages, "/metrics")
    assert kind.startswith("text/plain")
    metrics.gauge("loss", "", role="lead", actor="c", split="train").set(0.125)
    assert 'convoy_loss{actor="c",role="lead",split="train"} 0.125' in get(pages, "/metrics")[1]


def test_the_list_of_targets_has_the_shape_that_http_sd_wants(pages: Pages) -> None:
    kind, body = get(pages, "/targets")
    assert kind.startswith("application/json")
    assert json.loads(body) == [{"targets": ["127.0.0.1:1"], "labels": {"process": "p"}}]


def test_two_processes_have_two_pages(pages: Pages) -> None:
    other = Metrics()
    other.gauge("other", "Other.", role="r", actor="a").set(1)
    second = Pages(other, "127.0.0.1", 0)
    assert second.port != pages.port
    assert "convoy_loss" not in get(second, "/metrics")[1]
    second.close()


def test_a_port_in_use_is_an_error_that_says_what_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(
            LaunchError,
            match=(rf"listen on 127\.0\.0\.1:{port}: .*in use; choose another " rf"metrics\.port"),
        ):
            Pages(Metrics(), "127.0.0.1", port)


def test_an_address_of_another_machine_is_an_error_too() -> None:
    with pytest.raises(LaunchError, match=r"listen on 192\.0\.2\.1:0") as caught:
        Pages(Metrics(), "192.0.2.1", 0)
    assert "choose another" not in str(caught.value)
    assert "give metrics.address, or the address of the [[machine]], one" in str(caught.value)


def test_without_descriptors_no_other_port_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*arguments: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("runtime.actors.metrics.Server", none_left)
    with pytest.raises(LaunchError, match="ulimit -n") as caught:
        Pages(Metrics(), "127.0.0.1", 9464)
    assert "choose another" not in str(caught.value)


def test_a_closed_page_frees_its_port() -> None:
    first = Pages(Metrics(), "127.0.0.1", 0)
    first.close()
    second = Pages(Metrics(), "127.0.0.1", first.port)
    assert second.port == first.port
    second.close()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, which is not on PATH")
def test_prometheus_own_tool_finds_no_mistake(metrics: Metrics) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=metrics.text(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
