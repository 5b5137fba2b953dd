"""Metrics of one process and the pages that show them. The only file that imports prometheus_client.

Every metric is called `convoy_<name>` and carries the label `role`, those of an actor also `actor`. Ask for a
child once and keep it: a cached child costs 0.4 us per increment, looking it up three times that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily

from runtime.actors.pages import Application, Server
from runtime.actors.readers import Readers
from runtime.errors import LaunchError

Counter = prometheus.Counter
Gauge = prometheus.Gauge
Histogram = prometheus.Histogram

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


Samples = Callable[[], Iterable[tuple[tuple[str, ...], float]]]  # values of the labels -> count so far


class _Tally:
    """What the registry asks."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...], samples: Samples) -> None:
        self._named = name, help_text
        self._labels, self._samples = labels, samples

    def describe(self) -> list[CounterMetricFamily]:
        """The name, for the registry to find it taken."""
        return [CounterMetricFamily(*self._named, labels=self._labels)]

    def collect(self) -> list[CounterMetricFamily]:
        """The counts of this moment."""
        (family,) = self.describe()
        for values, count in self._samples():
            family.add_metric(values, count)
        return [family]


class Metrics:
    """The metrics registry of one process."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._known: dict[str, Any] = {}

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        """The child of counter `convoy_<name>_total` for these labels."""
        child: Counter = self._child(prometheus.Counter, name, help_text, labels)
        return child

    def tally(self, name: str, help_text: str, labels: tuple[str, ...], samples: Samples) -> None:
        """A counter `convoy_<name>_total` that is kept elsewhere and asked for when a page is made, in its thread."""
        self.registry.register(_Tally(f"convoy_{name}", help_text, labels, samples))

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        """The child of gauge `convoy_<name>` for these labels."""
        child: Gauge = self._child(prometheus.Gauge, name, help_text, labels)
        return child

    def histogram(self, name: str, help_text: str, buckets: Iterable[float] = SECONDS, **labels: str) -> Histogram:
        """The child of histogram `convoy_<name>` for these labels."""
        child: Histogram = self._child(prometheus.Histogram, name, help_text, labels, buckets=tuple(buckets))
        return child

    def text(self) -> str:
        """The whole registry in Prometheus' text format."""
        return prometheus.generate_latest(self.registry).decode()

    def _child(self, kind: Any, name: str, help_text: str, labels: dict[str, str], **options: Any) -> Any:
        metric = self._known.get(name)
        if metric is None:
            metric = kind(name, help_text, tuple(labels), namespace="convoy", registry=self.registry, **options)
            self._known[name] = metric
        return metric.labels(**labels) if labels else metric


class Pages:
    """The pages of a process, for its user and these `readers`: `/metrics`, those of further `applications` (path ->
    application), and further JSON pages. Close it before the process ends."""

    def __init__(
        self,
        metrics: Metrics,
        address: str,
        port: int,
        readers: Iterable[str] = (),
        applications: Mapping[str, Application] = MappingProxyType({}),
        **json_pages: Callable[[], Any],
    ) -> None:
        exposition = prometheus.make_wsgi_app(metrics.registry)

        def answer(environ: dict[str, Any], start: Any) -> Any:
            path = environ.get("PATH_INFO", "").strip("/")
            if path in applications:
                return applications[path](environ, start)
            page = json_pages.get(path)
            if page is None:
                return exposition(environ, start)
            start("200 OK", [("Content-Type", "application/json; charset=utf-8")])
            return [json.dumps(page()).encode()]

        try:
            self._server = Server(answer, address, port, Readers(readers))
        except OSError as error:
            raise LaunchError(
                f"metrics cannot listen on {address}:{port}: {error.strerror}; "
                "choose another metrics.port in cluster.toml, or 0 for any free one"
            ) from None
        self.port = self._server.port

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.close()


def discovery(targets: Iterable[tuple[str, dict[str, str]]]) -> list[dict[str, Any]]:
    """Prometheus http_sd: the full list of (host:port, labels)."""
    return [{"targets": [target], "labels": labels} for target, labels in targets]
