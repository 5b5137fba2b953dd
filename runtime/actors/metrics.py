"""Metrics of one process and the pages that show them. The only file that imports
prometheus_client.

Every metric is called `convoy_<name>` and carries the label `role`, those of an actor also `actor`.
Ask for a child once and keep it: a cached child costs 0.4 us per increment, looking it up three
times that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from runtime.errors import LaunchError
from runtime.reasons import reason
from runtime.serving.hosts import Hosts
from runtime.serving.http_server import Application, Server
from runtime.serving.readers import Readers
from runtime.serving.visits import Visits
from runtime.terminal_text import bounded, printable

Counter = prometheus.Counter
Gauge = prometheus.Gauge
Histogram = prometheus.Histogram
Summary = prometheus.Summary

# the most series of a role are these, once per phase
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # a series beside each counter that no board reads

STRANGE = (
    b"These pages are not called %s: call them by the machine's address or name, or "
    b"add that to metrics.hosts.\n"
)

# values of the labels -> what it is now
Samples = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


class _Kept:
    """What the registry asks."""

    def __init__(
        self, kind: Family, name: str, help_text: str, labels: tuple[str, ...], samples: Samples
    ) -> None:
        self._kind = kind
        self._named = (name, help_text)
        self._labels = labels
        self._samples = samples

    def describe(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """The name, for the registry to find it taken."""
        return [self._kind(*self._named, labels=self._labels)]

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """The values of this moment."""
        (family,) = self.describe()
        for values, count in self._samples():
            family.add_metric(values, count)
        return [family]


class _Unheard:
    """In place of any child where nobody observes (`run.observe`)."""

    def inc(self, amount: float = 1) -> None:
        """Nothing."""

    def set(self, value: float) -> None:
        """Nothing."""

    def observe(self, amount: float) -> None:
        """Nothing."""

    def set_function(self, function: Callable[[], float]) -> None:
        """Nothing."""


_UNHEARD = _Unheard()


class Metrics:
    """The metrics registry of one process; if it is not `observed`, nothing is counted in it."""

    def __init__(self, *, observed: bool = True) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._known: dict[str, Any] = {}
        self._observed = observed

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        """The child of counter `convoy_<name>_total` for these labels."""
        child: Counter = self._child(prometheus.Counter, name, help_text, labels)
        return child

    def tally(self, name: str, help_text: str, labels: tuple[str, ...], samples: Samples) -> None:
        """A counter `convoy_<name>_total` that is kept elsewhere and asked for when a page is made,
        in its thread."""
        if self._observed:
            self.registry.register(
                _Kept(CounterMetricFamily, f"convoy_{name}", help_text, labels, samples)
            )

    def reading(self, name: str, help_text: str, labels: tuple[str, ...], samples: Samples) -> None:
        """A gauge `convoy_<name>` of the same kind: series whose labels go are no longer shown."""
        if self._observed:
            self.registry.register(
                _Kept(GaugeMetricFamily, f"convoy_{name}", help_text, labels, samples)
            )

    def of_process(self) -> None:
        """The processor time, memory, descriptors and beginning of this process, as
        `convoy_process_...`. On Linux."""
        if self._observed:
            prometheus.ProcessCollector(namespace="convoy", registry=self.registry)

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        """The child of gauge `convoy_<name>` for these labels."""
        child: Gauge = self._child(prometheus.Gauge, name, help_text, labels)
        return child

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float] = SECONDS, **labels: str
    ) -> Histogram:
        """The child of histogram `convoy_<name>` for these labels."""
        child: Histogram = self._child(
            prometheus.Histogram, name, help_text, labels, buckets=tuple(buckets)
        )
        return child

    def summary(self, name: str, help_text: str, **labels: str) -> Summary:
        """The child of summary `convoy_<name>` for these labels: a count and a sum, where a
        histogram would have too many series."""
        child: Summary = self._child(prometheus.Summary, name, help_text, labels)
        return child

    def info(self, name: str, help_text: str, **facts: str) -> None:
        """A gauge `convoy_<name>_info` that is 1 and has facts as labels."""
        self.gauge(f"{name}_info", help_text, **facts).set(1)

    def text(self) -> str:
        """The whole registry in Prometheus' text format."""
        return prometheus.generate_latest(self.registry).decode()

    def _child(
        self, kind: Any, name: str, help_text: str, labels: dict[str, str], **options: Any
    ) -> Any:
        if not self._observed:
            return _UNHEARD
        metric = self._known.get(name)
        if metric is None:
            metric = kind(
                name,
                help_text,
                tuple(labels),
                namespace="convoy",
                registry=self.registry,
                **options,
            )
            self._known[name] = metric
        return metric.labels(**labels) if labels else metric


class Pages:
    """The pages of a process, for its user and these `readers`: `/metrics`, those of further
    `applications` (path -> application), and further JSON pages. `names`: by which they may be
    called, besides the machine's own. Close it before the process ends. `key` of cluster.toml says
    which port."""

    def __init__(
        self,
        metrics: Metrics,
        address: str,
        port: int,
        readers: Iterable[str] = (),
        names: Iterable[str] = (),
        key: str = "metrics.port",
        applications: Mapping[str, Application] = MappingProxyType({}),
        **json_pages: Callable[[], Any],
    ) -> None:
        exposition = prometheus.make_wsgi_app(metrics.registry)
        self.visits = Visits()
        hosts = Hosts(names)

        def answer(environ: dict[str, Any], start: Any) -> Any:
            if not hosts.admits(host := environ.get("HTTP_HOST", "")):
                start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
                return [STRANGE % printable(bounded(host, 80)).encode()]
            path = environ.get("PATH_INFO", "").strip("/")
            if path in applications:
                return applications[path](environ, start)
            self.visits.note(path, environ["REMOTE_ADDR"], asyncio.get_running_loop().time())
            page = json_pages.get(path)
            if page is None:
                return exposition(environ, start)
            start("200 OK", [("Content-Type", "application/json; charset=utf-8")])
            return [json.dumps(page()).encode()]

        try:
            self._server = Server(answer, address, port, Readers(readers))
        except OSError as error:
            raise LaunchError(
                f"metrics cannot listen on {address}:{port}: {reason(error)}; "
                f"choose another {key} in cluster.toml, or 0 for any free one"
            ) from None
        self.port = self._server.port

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.close()


def discovery(targets: Iterable[tuple[str, dict[str, str]]]) -> list[dict[str, Any]]:
    """Prometheus http_sd: the full list of (host:port, labels)."""
    return [{"targets": [target], "labels": labels} for target, labels in targets]
